"""The names of the axes of variables: how they change with an axis, and the shardings they mean.

When a transformation adds an axis to the value of a variable, `add_axis` and `remove_axis` change
the names as a box does, and run the hooks of the variable. `take_entry` and `put_entry` change the
names alone. `get_partition_spec` and `get_named_sharding` translate the names of all variables in a
tree.

>>> import jax
>>> from scutch_reference import nnx
>>> weight = nnx.Param(jax.numpy.ones((3, 2)), out_sharding=("data", None))
>>> add_axis(weight, 0, {PARTITION_NAME: "layers"})
>>> weight.get_metadata("out_sharding")
('layers', 'data', None)
"""

import functools
from collections.abc import Hashable
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..meta import PARTITION_NAME, Params, Partitioned
from ..placement import partition_spec
from ..types import Tree
from .metadata import sharding_in, spec_of
from .variables import Variable, is_variable


def _axis_names(variable: Variable[Any]) -> list[Any] | None:
    """Return the names of the axes of a variable in a new list, or None if it has none."""
    names = sharding_in(variable.raw_metadata.get("out_sharding"))
    return None if not names or isinstance(names, NamedSharding) else list(names)


def take_entry(variable: Variable[Any], index: int) -> Any:
    """Take the name of an axis off a variable, and return it; `put_entry` is the inverse.

    Args:
      variable: Names change if its metadata has any.
      index: The axis, which may be negative.

    Returns:
      The name, or None where the variable names no such axis.
    """
    names = _axis_names(variable)
    if names is None or not -len(names) <= index < len(names):
        return None
    name = names.pop(index)
    variable.set_metadata(out_sharding=tuple(names))
    return name


def put_entry(variable: Variable[Any], index: int, name: Hashable) -> None:
    """Insert the name of a new axis into the names of a variable; inverse of `take_entry`.

    Args:
      variable: Names change if its metadata has any.
      index: The place of the axis in the new value; negative ones count from its end.
      name: The name, or None.
    """
    names = _axis_names(variable)
    if names is None:
        return
    names.insert(index if index >= 0 else len(names) + 1 + index, name)
    variable.set_metadata(out_sharding=tuple(names))


def _change_axis(change: str, variable: Variable[Any], index: int, params: Params) -> None:
    """Change the names as a box does, then run the hooks; `change` is the method of both."""
    names = sharding_in(variable.get_metadata("out_sharding", None))
    if names and not isinstance(names, NamedSharding):
        box = Partitioned(None, tuple(names))
        variable.set_metadata(out_sharding=getattr(box, change)(index, params).names)
    for key, entry in params.items():  # Further metadata with an entry for each axis (OBJ-5w).
        held = variable.get_metadata(key, None)
        if held and isinstance(held, tuple) and key != PARTITION_NAME:
            entries = getattr(Partitioned(None, held), change)(index, {PARTITION_NAME: entry}).names
            variable.set_metadata(key, entries)
    getattr(variable, change)(index, params.get(PARTITION_NAME))


def add_axis(variable: Variable[Any], index: int, params: Params) -> None:
    """Name a new axis of a variable, as `Partitioned.add_axis` does, and run its hooks (OBJ-5p).

    Args:
      variable: Names change if its metadata has any.
      index: Where the new axis is.
      params: Holds the name of the axis under `PARTITION_NAME`; None there means unsharded.
    """
    _change_axis("add_axis", variable, index, params)


def remove_axis(variable: Variable[Any], index: int, params: Params) -> None:
    """Take an axis off the names of a variable, and run its hooks; inverse of `add_axis` (OBJ-5p).

    Args:
      variable: Names change if its metadata has any.
      index: Where the axis was.
      params: Holds the name of the axis under `PARTITION_NAME`.

    Raises:
      AxisNameError: The axis has another name.
    """
    _change_axis("remove_axis", variable, index, params)


def get_partition_spec(tree: Tree) -> Tree:
    """Return a tree with the partition spec of each variable in its place (OBJ-5, LOG-7).

    Args:
      tree: A tree with variables and arrays.

    Returns:
      The tree. Variables hold their specs as values. An array, or a variable whose metadata name no
      axes, has `PartitionSpec()`; a value without a shape has None.
    """

    def spec(value: Tree) -> Tree:
        if isinstance(value, Variable):
            return value.replace(spec_of(value.raw_metadata) or spec(value.get_raw_value()))
        return partition_spec(()) if hasattr(value, "shape") else None

    return jax.tree.map(spec, tree, is_leaf=is_variable)


def get_named_sharding(tree: Tree, mesh: Mesh) -> Tree:
    """Return a tree with the sharding of each variable on a mesh in its place (OBJ-5).

    Args:
      tree: A tree with variables and arrays; see `get_partition_spec`.
      mesh: The mesh of the shardings.
    """
    on_mesh, specs = functools.partial(NamedSharding, mesh), get_partition_spec(tree)
    return jax.tree.map(on_mesh, specs, is_leaf=lambda x: isinstance(x, PartitionSpec))
