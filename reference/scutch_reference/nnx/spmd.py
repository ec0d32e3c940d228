"""Sharding metadata of variables: from initializers, read as specs (LOG-7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..errors import AxisNameError, PartitioningUnspecifiedError
from ..placement import partition_spec
from .annotations import spec_of
from .variables import Variable, with_metadata

F = TypeVar("F", bound=Callable[..., Any])
PARTITION_NAME = "partition_name"


def with_partitioning(
    initializer: F, sharding: Any, mesh: Mesh | None = None, **metadata: Any
) -> F:
    """An initializer whose variables know the names of their axes."""
    given = {"mesh": mesh} if mesh is not None else {}
    return with_metadata(initializer, out_sharding=sharding, **given, **metadata)


def _is_variable(value: Any) -> bool:
    return isinstance(value, Variable)


def _spec(value: Any) -> PartitionSpec | None:
    if isinstance(value, Variable):
        names = value.get_metadata("out_sharding", None)
        if names:
            return spec_of(names, value.get_metadata("sharding_rules", None))
        value = value.get_raw_value()
    return partition_spec(()) if hasattr(value, "shape") else None


def get_partition_spec(tree: Any) -> Any:
    """The partition spec of each variable, in its place; of unnamed arrays, `PartitionSpec()`."""
    return jax.tree.map(
        lambda x: x.replace(_spec(x)) if isinstance(x, Variable) else _spec(x),
        tree,
        is_leaf=_is_variable,
    )


def get_named_sharding(tree: Any, mesh: Mesh) -> Any:
    """The sharding of each variable on a mesh, in its place."""

    def sharding(spec: Any) -> Any:
        return spec if spec is None else NamedSharding(mesh, spec)

    return jax.tree.map(
        sharding, get_partition_spec(tree), is_leaf=lambda x: isinstance(x, PartitionSpec)
    )


def add_axis(variable: Variable[Any], index: int, params: Mapping[Any, Any]) -> None:
    """Name a new axis of a variable, in place; `remove_axis` is the inverse (BOX-5).

    Args:
      variable: One with names, or without: then only its hooks run.
      index: Place of the new axis; a negative one counts in the array that has it.
      params: Holds the axis name under `PARTITION_NAME`.

    Raises:
      PartitioningUnspecifiedError: The variable has names, and `params` has none (BOX-8).
    """
    names = variable.get_metadata("out_sharding", None)
    if names and not isinstance(names, NamedSharding):
        if PARTITION_NAME not in params:
            raise PartitioningUnspecifiedError(variable, params)
        longer = list(names)
        at = index if index >= 0 else max(index + len(longer) + 1, 0)
        longer += [None] * (at - len(longer))
        longer.insert(at, params[PARTITION_NAME])
        variable.set_metadata(out_sharding=tuple(longer))
    variable.add_axis(index, params.get(PARTITION_NAME))


def remove_axis(variable: Variable[Any], index: int, params: Mapping[Any, Any]) -> None:
    """Forget the name of an axis that goes away, in place; the inverse of `add_axis`.

    Raises:
      PartitioningUnspecifiedError: The variable has names, and `params` has none (BOX-8).
      AxisNameError: The axis is called something else (BOX-9).
    """
    names = variable.get_metadata("out_sharding", None)
    if names and not isinstance(names, NamedSharding):
        if PARTITION_NAME not in params:
            raise PartitioningUnspecifiedError(variable, params)
        shorter = list(names)
        found = shorter.pop(index) if -len(shorter) <= index < len(shorter) else None
        if found != params[PARTITION_NAME]:
            raise AxisNameError(variable, index, found, params[PARTITION_NAME])
        variable.set_metadata(out_sharding=tuple(shorter))
    variable.remove_axis(index, params.get(PARTITION_NAME))
