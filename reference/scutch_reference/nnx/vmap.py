"""Lifted `jax.vmap`: functions of objects whose variables have one more axis outside.

Words: a variable is *mapped* if each lane gets a slice of its value along an axis, and *shared* if
all lanes get all of it (its axis is None). A mapped variable with names of axes has one more name
outside: the name in `transform_metadata`. If there is none, the axis keeps its name, and a new
variable gets the name None. A function of `transform_metadata` changes the names itself.

>>> import jax.numpy as jnp
>>> from scutch_reference import nnx
>>> @vmap(transform_metadata={nnx.PARTITION_NAME: "layers"})
... def create(x):
...     return nnx.Param(x, out_sharding=("in",), eager_sharding=False)
>>> stacked = create(jnp.ones((3, 2)))
>>> stacked.shape, stacked.out_sharding
((3, 2), ('layers', 'in'))
"""

import functools
from collections.abc import Callable, Hashable, Mapping
from typing import Any, overload

import jax

from ..meta import PARTITION_NAME
from ..types import Prefix, Tree
from .axes import add_axis, put_entry, remove_axis, take_entry
from .flatten import flatten
from .frames import Frame, PrefixRules, Transformed
from .lifting import Lifted, P, R, lift


class Mapped(Lifted[P, R]):
    """The base of `vmap` and `scan`, inside which variables lack an axis that they have outside.

    Args:
      *args: Arguments of `Lifted`.
      transform_metadata: Holds the name of the axis under `PARTITION_NAME`.
      **options: Options of `Lifted`.
    """

    rules = PrefixRules(what="axes")

    def __init__(self, *args: Any, transform_metadata: Any = None, **options: Any):
        super().__init__(*args, **options)
        if PARTITION_NAME in (transform_metadata or {}):
            self.inside = functools.partial(call_without_axis, transform_metadata)
        elif not isinstance(self.function, Renamed):  # That one changes the names itself.
            self.inside = call_without_entry


def call_without_axis(
    metadata: Mapping[Any, Any], frame: Frame, nodes: list[Any], function: Callable[[], Any]
) -> Any:
    """Call a function on copies whose names lack the mapped axis; new ones get it, too (OBJ-5p).

    Args:
      metadata: Holds the name of the axis under `PARTITION_NAME`.
      frame: The frame of the call.
      nodes: The copies by number.
      function: The call.

    Returns:
      The output of the user's function.

    Raises:
      AxisNameError: The mapped axis of a variable has another name.
    """
    mapped = _known_variables(frame, nodes)
    for variable, axis in mapped:
        remove_axis(variable, axis, metadata)
    out = function()
    for variable, axis in mapped + _new_variables(frame, nodes, out):
        add_axis(variable, axis, metadata)
    return out


def call_without_entry(frame: Frame, nodes: list[Any], function: Callable[[], Any]) -> Any:
    """Call a function on copies whose names lack the entry of the mapped axis (OBJ-5p).

    The user has given no name for the axis. So each variable keeps the name that it has, and a new
    variable gets None: there are as many names as axes, inside and outside. No hook runs.

    Args:
      frame: The frame of the call.
      nodes: The copies by number.
      function: The call.

    Returns:
      The output of the user's function.
    """
    mapped = _known_variables(frame, nodes)
    taken = [take_entry(variable, axis) for variable, axis in mapped]
    out = function()
    for (variable, axis), entry in zip(mapped, taken, strict=True):
        put_entry(variable, axis, entry)
    for variable, axis in _new_variables(frame, nodes, out):
        put_entry(variable, axis, None)
    return out


def _known_variables(frame: Frame, nodes: list[Any]) -> list[tuple[Any, int]]:
    """Mapped variables of the arguments, and their axes."""
    pairs = zip(frame.definition.leaves, frame.leaf_prefixes, strict=True)
    found = [(nodes[owner], axis) for (_, owner), axis in pairs if owner is not None]
    return [pair for pair in found if isinstance(pair[1], int)]


def _new_variables(frame: Frame, nodes: list[Any], out: Tree) -> list[tuple[Any, int]]:
    """Mapped variables that a function has made, and their axes."""
    definition, found, _, _ = flatten([*nodes[0], out])
    known = set(map(id, nodes))
    leaves = [(path, found[i]) for path, i in definition.leaves if i is not None]
    new = [(each, frame.prefix_at(path, each)) for path, each in leaves if id(each) not in known]
    return [pair for pair in new if isinstance(pair[1], int)]


class Vmapped(Mapped[P, R]):
    """A vectorized function of objects; see `vmap`."""

    lifts = staticmethod(jax.vmap)
    for_keywords = 0  # They are mapped over their first axis, as in JAX.

    def transform(self, frame: Frame, run: Callable[..., Any]) -> Transformed:
        """Return `jax.vmap` of a function of leaves.

        Args:
          frame: The frame of a call.
          run: The function.
        """
        return Transformed(frame, jax.vmap(run, frame.inside, frame.outside, **self.options))


@overload
def vmap(
    f: Callable[P, R],
    *,
    in_axes: Prefix = 0,
    out_axes: Prefix = 0,
    axis_name: Hashable = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
    transform_metadata: Mapping[Any, Any] | None = None,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Vmapped[P, R]:
    """With the function: the transformed one."""


@overload
def vmap(
    *,
    in_axes: Prefix = 0,
    out_axes: Prefix = 0,
    axis_name: Hashable = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
    transform_metadata: Mapping[Any, Any] | None = None,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Callable[[Callable[P, R]], Vmapped[P, R]]:
    """Without the function: a decorator."""


def vmap(f: Any = None, *, in_axes: Prefix = 0, out_axes: Prefix = 0, **options: Any) -> Any:
    """Vectorize a function of objects (OBJ-7).

    Args:
      f: A function of objects and arrays, as for `jit`. Without it, this returns a decorator.
      in_axes: A prefix of the positional arguments: an axis, None where all lanes share the
        argument, or `StateAxes` for objects. Keyword arguments are mapped over their first axis.
      out_axes: A prefix of the output; it also gives the axes of new objects in the output.
      **options: `transform_metadata` holds the name of the axis under `PARTITION_NAME`; without it,
        variables keep the name that the axis has, and new ones have None there. The others are
        those of `jax.vmap`, and `graph` and `graph_updates` of `jit`.

    Returns:
      A function with the parameters of `f`.

    Raises:
      TypeError: `jax.vmap` has no such option.
      AliasingError: When called: one variable has two different axes (JIT-2).
    """
    return lift(Vmapped, f, in_axes, out_axes, **options)


class Renamed(Vmapped[P, R]):
    """A function inside of which variables lack the name of an axis; see `transform_metadata`."""

    def transform(self, frame: Frame, run: Callable[..., Any]) -> Transformed:
        """Return the function of leaves, as it is.

        Args:
          frame: The frame of a call.
          run: The function.
        """
        return Transformed(frame, run)


def transform_metadata(
    f: Any = None,
    *,
    in_axes: Prefix = 0,
    out_axes: Prefix = 0,
    partition: str | None,
    graph: bool | None = None,
) -> Any:
    """Take the name of an axis off variables for the time of a call, and do nothing else (OBJ-5p).

    It is the half of `vmap` that is about names, for functions that JAX maps itself.

    Args:
      f: The function; see `vmap`. Without it, this returns a decorator.
      in_axes: See `vmap`: the place of the name in variables of the arguments.
      out_axes: See `vmap`: the place of the name in new variables of the output.
      partition: The name of the axis; None for an unsharded one.
      graph: Accepted and not needed: sharing is always kept.

    Returns:
      A function with the parameters of `f`. Variables that it is given and that it returns have the
      name, and inside `f` they do not.

    Raises:
      AxisNameError: When called: the axis of a variable has another name.
    """
    return lift(Renamed, f, in_axes, out_axes, transform_metadata={PARTITION_NAME: partition})
