"""Metadata of variables: names of axes, hooks, and entries that the user adds.

An initializer returns a value with metadata, a `VariableMetadata`; the variable that starts with it
keeps both. From the metadata follow the partition spec and the mesh that the variable is sharded
by.

Words: a *hook* is a function that runs on an event: the variable is made, read or assigned to, or a
transformation adds an axis to its value or takes one off. `HOOKS` lists their names in the
metadata.

>>> import jax.numpy as jnp
>>> initial = with_partitioning(lambda: jnp.ones((2, 3)), (None, "model"))()
>>> spec_of(initial.metadata) == PartitionSpec(None, "model")
True
"""

import abc
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..boxes import A, boxing
from ..errors import DataError
from ..logical import (
    checked_rules,
    composed_rules,
    get_logical_axis_rules,
    logical_to_mesh_axes,
)
from ..placement import partition_spec
from .static import Static, copied

F = TypeVar("F", bound=Callable[..., Any])

HOOKS = ("on_get_value", "on_set_value", "on_create_value", "on_add_axis", "on_remove_axis")
# Arguments of a variable that say how Flax stores it; they are no metadata here.
_STORAGE = ("hijax", "ref", "eager_sharding")
# Old names of metadata, with those of today.
_TODAY = {"sharding": "out_sharding", "sharding_names": "out_sharding"}


@dataclass(frozen=True)
class VariableMetadata(Generic[A], abc.ABC):
    """A value and metadata for a new variable; an initializer may return one.

    Other classes with these attributes may be registered as subclasses.

    Args:
      raw_value: The value, an array or a tree of arrays.
      metadata: The metadata by name.
    """

    raw_value: A
    metadata: Mapping[str, Any] = field(default_factory=dict)


jax.tree_util.register_dataclass(VariableMetadata, ["raw_value"], ["metadata"])
NO_METADATA = Static({}, "metadata")


def tidied(metadata: Mapping[str, Any]) -> Static:
    """Return metadata under today's names, in containers of their own.

    Args:
      metadata: Values by name, also by old names; arguments that say how Flax stores a variable are
        left out.
    """
    if not metadata:
        return NO_METADATA
    kept = {_TODAY.get(k, k): copied(v) for k, v in metadata.items() if k not in _STORAGE}
    return Static(kept, "metadata")


def with_metadata(initializer: F, **metadata: object) -> F:
    """Return an initializer whose results bring metadata to the variables that they start (OBJ-5).

    Args:
      initializer: A function that returns an array.
      **metadata: The metadata of the variable.

    Returns:
      A function of the same arguments that returns a `VariableMetadata`.
    """
    return cast(F, boxing(initializer, functools.partial(VariableMetadata[Any], metadata=metadata)))


def with_partitioning(initializer: F, sharding: Any, mesh: Mesh | None = None, **more: object) -> F:
    """Return an initializer whose variables know the names of their axes (OBJ-5).

    Args:
      initializer: A function that returns an array.
      sharding: One name of an axis for each dimension of the array, or None for an unsharded one.
      mesh: The mesh that the variable is sharded on; without it, the mesh in context.
      **more: Further metadata of the variable.

    Returns:
      A function of the same arguments that returns a `VariableMetadata`.
    """
    more |= {"mesh": mesh} if mesh is not None else {}
    return with_metadata(initializer, out_sharding=sharding, **more)


def sharding_in(given: Any) -> Any:
    """Return the sharding in a `Format`; return any other `out_sharding` itself."""
    return getattr(given, "sharding", given)


def spec_of(metadata: Mapping[str, Any]) -> PartitionSpec | None:
    """Return the partition spec that the metadata of a variable ask for, if they do (LOG-7).

    Args:
      metadata: The metadata by name. `out_sharding` are names of axes, a
        `NamedSharding`, or JAX's `Format` of one. Names are translated by the `sharding_rules` in
        the metadata, and by the axis rules in context, if there are any.

    Raises:
      AxisRulesError: The variable's rules contradict those in context (LOG-10e).
    """
    names = sharding_in(metadata.get("out_sharding"))
    if not names or isinstance(names, NamedSharding):
        return names.spec if names else None
    rules = get_logical_axis_rules()
    if own := metadata.get("sharding_rules"):
        rules = composed_rules(checked_rules(own), rules)
    spec = logical_to_mesh_axes(tuple(names), rules) if rules else tuple(names)
    return partition_spec(tuple(spec or ()))


def mesh_of(metadata: Mapping[str, Any]) -> Mesh | None:
    """Return the mesh in the metadata of a variable, if there is one (OBJ-9).

    Args:
      metadata: The metadata by name. `out_sharding` may have a mesh of its own; else `mesh` counts.

    Raises:
      DataError: There are both, and they are not equal.
    """
    given, own = sharding_in(metadata.get("out_sharding")), metadata.get("mesh")
    mesh: Mesh | None = getattr(given, "mesh", own)
    if own is not None and own != mesh:
        raise DataError(
            place="the mesh of `out_sharding`",
            given=mesh,
            expected=f"the `mesh` {own} of the metadata",
        )
    return mesh
