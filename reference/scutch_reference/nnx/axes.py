"""The names of the axes of variables, when a transformation adds an axis to their values.

`add_axis` and `remove_axis` change the names as a box does, and run the hooks of the variable.
`take_entry` and `put_entry` change the names alone.

>>> import jax
>>> from scutch_reference import nnx
>>> weight = nnx.Param(jax.numpy.ones((3, 2)), out_sharding=("data", None))
>>> add_axis(weight, 0, {PARTITION_NAME: "layers"})
>>> weight.get_metadata("out_sharding")
('layers', 'data', None)
"""

from collections.abc import Hashable
from typing import Any

from jax.sharding import NamedSharding

from ..meta import PARTITION_NAME, Params, Partitioned
from .variables import Variable, sharding_in


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
