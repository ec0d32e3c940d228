"""Sharding metadata of variables: from initializers, read as specs, changed by lifts (LOG-7)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..meta import PARTITION_NAME as PARTITION_NAME
from ..meta import Partitioned
from ..placement import partition_spec
from .variables import Variable, spec_of, with_metadata

F = TypeVar("F", bound=Callable[..., Any])


def with_partitioning(
    initializer: F, sharding: Any, mesh: Mesh | None = None, **metadata: Any
) -> F:
    """An initializer whose variables know the names of their axes."""
    given = {"mesh": mesh} if mesh is not None else {}
    return with_metadata(initializer, out_sharding=sharding, **given, **metadata)


def get_partition_spec(tree: Any) -> Any:
    """The partition spec of each variable, in its place; of unnamed arrays, `PartitionSpec()`."""

    def spec(value: Any) -> Any:
        if isinstance(value, Variable):
            found = spec_of(value)
            return value.replace(spec(value.get_raw_value()) if found is None else found)
        return partition_spec(()) if hasattr(value, "shape") else None

    return jax.tree.map(spec, tree, is_leaf=lambda x: isinstance(x, Variable))


def get_named_sharding(tree: Any, mesh: Mesh) -> Any:
    """The sharding of each variable on a mesh, in its place."""
    on_mesh, specs = functools.partial(NamedSharding, mesh), get_partition_spec(tree)
    return jax.tree.map(on_mesh, specs, is_leaf=lambda x: isinstance(x, PartitionSpec))


def _change(how: str, variable: Variable[Any], index: int, params: Mapping[Any, Any]) -> None:
    names = variable.get_metadata("out_sharding", None)
    if names and not isinstance(names, NamedSharding):
        box = getattr(Partitioned(None, tuple(names)), how)(index, params)
        variable.set_metadata(out_sharding=box.names)
    getattr(variable, how)(index, params.get(PARTITION_NAME))


# A variable in place of a box: its names change as those of `Partitioned` do, and its hooks run.
add_axis = functools.partial(_change, "add_axis")
remove_axis = functools.partial(_change, "remove_axis")
