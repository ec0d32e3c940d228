"""Lifted `jax.lax.scan`: loops over functions of objects.

The words are those of `carries`. The outputs of all steps are *stacked* along an axis.

>>> import jax.numpy as jnp
>>> from scutch_reference import nnx
>>> total = nnx.Dict(n=nnx.Variable(jnp.array(0)))
>>> @scan(in_axes=(Carry, 0), out_axes=(Carry, 0))
... def add(total, x):
...     total.n.value += x
...     return total, total.n.value
>>> last, sums = add(total, jnp.arange(4))
>>> last is total, sums.tolist()
(True, [0, 1, 3, 6])
"""

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any, overload

import jax

from ..types import Prefix, Tree
from .carries import (
    Axis,
    Carry,
    Output,
    carried_part,
    carried_sources,
    check_axis,
    map_axes,
    moved_axis,
    sliced_part,
    step,
)
from .effects import Effects
from .frames import Frame, Groups, Transformed
from .lifting import P, R, lift
from .vmap import Mapped


class Scanned(Mapped[P, R]):
    """A loop over a function of objects; see `scan`."""

    lifts = staticmethod(jax.lax.scan)

    def transform(self, frame: Frame, run: Callable[..., Any]) -> Transformed:
        """Return `jax.lax.scan` of a function of leaves, which are carried, sliced or shared.

        Args:
          frame: The frame of a call.
          run: The function.

        Raises:
          LiftingError: The axes carry more than one plain argument.
        """
        output = Output(frame, self.out_prefix)
        run_step = step(frame, run, output)

        def transformed(*arguments: Tree) -> Tree:
            start = map_axes(carried_part, frame.inside, arguments)
            slices = map_axes(sliced_part, frame.inside, arguments)
            carry, (effects, groups, parts) = jax.lax.scan(
                functools.partial(run_step, arguments), start, slices, **self.options
            )
            first, last = (-1, 0) if self.options.get("reverse") else (0, -1)
            outside = functools.partial(_outside, last)
            _keep_first_of_replaced(frame, effects, groups, first, output.carried)
            groups = [[outside(axis, x) for x in groups[i]] for i, axis in enumerate(frame.groups)]
            sources = carried_sources(frame, effects, output.carried)
            for number, (group, index) in sources.items():  # The steps output None there.
                groups[group][index] = carry[0][number]
            return effects, groups, output.joined(list(map(outside, output.axes, parts)), carry)

        return Transformed(frame, transformed)


def _outside(last: int, axis: Axis, part: Tree) -> Tree:
    """Return the entry at `last` of a stacked carry; else move the stack of outputs to its axis."""
    if axis is Carry:
        return jax.tree.map(lambda x: x[last], part)
    check_axis(axis)
    return moved_axis(part, 0, axis) if isinstance(axis, int) else part


def _keep_first_of_replaced(
    frame: Frame, effects: Effects, groups: Groups, first: int, others: Collection[int]
) -> None:
    """Keep of each replaced leaf only the value after the first step, at index `first`.

    Later steps get the replacement, so only the first step can change the original.
    """
    for group, index in [effects.changed[number] for number in others if number in effects.changed]:
        groups[group][index] = groups[group][index][first][None]
    for number, source in carried_sources(frame, effects, others).items():
        group, index = effects.changed.get(number, source)
        if (group, index) != source:
            groups[group][index] = groups[group][index][first][None]


@overload
def scan(
    f: Callable[P, R],
    *,
    in_axes: Prefix = (Carry, 0),
    out_axes: Prefix = (Carry, 0),
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    transform_metadata: Mapping[Any, Any] | None = None,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Scanned[P, R]:
    """With the function: the transformed one."""


@overload
def scan(
    *,
    in_axes: Prefix = (Carry, 0),
    out_axes: Prefix = (Carry, 0),
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    transform_metadata: Mapping[Any, Any] | None = None,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Callable[[Callable[P, R]], Scanned[P, R]]:
    """Without the function: a decorator."""


def scan(
    f: Any = None, *, in_axes: Prefix = (Carry, 0), out_axes: Prefix = (Carry, 0), **options: Any
) -> Any:
    """Loop over a function of objects (OBJ-7).

    Args:
      f: The function of one step, with objects and arrays as arguments, as for `jit`. Without it,
        this returns a decorator.
      in_axes: For each positional argument `Carry`, an axis to slice, or None if all steps share
        the argument; for objects, `StateAxes` gives an axis for each filter. One argument can be
        carried. A step returns it with the very objects that it got; arrays beside them may differ.
      out_axes: A prefix of the output: `Carry` where the carried argument comes out, or an axis
        that is new.
      **options: `transform_metadata` holds the name of the axis under `PARTITION_NAME`; the others
        are those of `jax.lax.scan`, and `graph` and `graph_updates` of `jit`.

    Returns:
      A function with the parameters of `f`.

    Raises:
      TypeError: `jax.lax.scan` has no such option.
      LiftingError: When called: a step changes a variable that all steps share, or returns
        something that `out_axes` is no prefix of.
      CarryError: When called: a step does not return the object that it carries.
    """
    return lift(Scanned, f, in_axes, out_axes, **options)
