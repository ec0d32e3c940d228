"""Lifted `jax.lax.scan`: a loop over objects whose variables are stacked, carried or shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ..errors import LiftingError
from .lifting import UNSET, Frame, lift
from .prefixes import RETURNED, is_branch
from .vmap import Mapped


class Carry:
    """What goes from one step to the next: the class itself is the mark."""


def _mapped(function: Callable[..., Any], axes: Any, *trees: Any) -> Any:
    """`function` of each axis, and of the parts of the trees that it is for."""
    return jax.tree.map(function, axes, *trees, is_leaf=lambda x: x is None or x is Carry)


def _moved(tree: Any, start: int, end: int) -> Any:
    return jax.tree.map(lambda x: jnp.moveaxis(x, start, end), tree)


class Scanned(Mapped):
    """A loop over a function of objects; see `scan`."""

    def transform(self, frame: Frame) -> Callable[..., Any]:
        """`jax.lax.scan`: leaves and arguments are sliced, carried or shared, by their axes."""
        axes = frame.arguments(frame.asked, frame.plain)
        frame.always = [axis is Carry for axis in frame.asked]
        has_plain = Carry in frame.plain
        if frame.plain.count(Carry) > 1:
            raise LiftingError(f"scan can carry one argument, got {frame.plain!r}.")

        def now(axis: Any, carry: Any, piece: Any, whole: Any) -> Any:
            return carry if axis is Carry else piece if isinstance(axis, int) else whole

        def outside(axis: Any, part: Any) -> Any:
            if axis is Carry:  # It was made by the last step.
                return jax.tree.map(lambda x: x[0 if self.options["reverse"] else -1], part)
            return _moved(part, 0, axis) if isinstance(axis, int) else part

        def transformed(*everything: Any) -> Any:
            def step(carry: Any, slices: Any) -> Any:
                arguments = _mapped(now, axes, carry, slices, everything)
                outcome, groups, out = frame.run(*arguments)
                leaves = self._carried(frame, outcome, groups)
                last, out = self._parted(out, has_plain)
                rest = [
                    [array for n, array in zip(numbers, arrays, strict=True) if n not in leaves]
                    for numbers, arrays in zip(outcome.changed, groups, strict=True)
                ]
                plain = [last if axis is Carry else None for axis in frame.plain]
                return ([leaves.get(i) for i in range(len(frame.asked))], *plain), (
                    outcome,
                    rest,
                    out,
                )

            start = _mapped(lambda axis, x: x if axis is Carry else None, axes, everything)
            slices = _mapped(
                lambda axis, x: _moved(x, axis, 0) if isinstance(axis, int) else None,
                axes,
                everything,
            )
            (leaves, *plain), (outcome, rest, out) = jax.lax.scan(
                step, start, slices, **self.options
            )
            groups = []
            for axis, numbers, arrays in zip(frame.groups, outcome.changed, rest, strict=True):
                others = iter(arrays)
                groups.append(
                    [
                        leaves[n] if axis is Carry and n >= 0 else outside(axis, next(others))
                        for n in numbers
                    ]
                )
            axes_out, place = self._out_axes(frame.out)
            out = _mapped(outside, axes_out, out)
            if has_plain:
                out = (*out[:place], plain[frame.plain.index(Carry)], *out[place + 1 :])
            return outcome, tuple(groups), out[0] if self.out_prefix is Carry else out

        return transformed

    def _carried(self, frame: Frame, outcome: Any, groups: Any) -> dict[int, Any]:
        """The carried leaves after a step, by number."""
        found: dict[int, Any] = {}
        for axis, numbers, arrays in zip(frame.groups, outcome.changed, groups, strict=True):
            old = {n: array for n, array in zip(numbers, arrays, strict=True) if n >= 0}
            if axis is Carry:
                found = old
            elif axis is None and old:
                raise LiftingError(
                    f"{frame.label(min(old))}: the variable is shared by all steps of scan "
                    "(its axis is None), and one of them changed it. Carry it, or scan over it."
                )
        lost = [i for i, axis in enumerate(frame.asked) if axis is Carry and i not in found]
        if lost:
            places = ", ".join(map(frame.label, lost))
            raise LiftingError(f"scan carries arrays that a step removed: {places}.")
        return found

    def _out_axes(self, axes: Any) -> tuple[Any, int]:
        """The axes of the output, or of the tuple around it, and the place of the carry or -1."""
        axes = (Carry,) if axes is Carry else axes
        has_carry = is_branch(axes) and Carry in axes
        return (tuple(axes), axes.index(Carry)) if has_carry else (axes, -1)

    def _parted(self, out: Any, has_plain: bool) -> tuple[Any, Any]:
        """The plain carry in the output of a step, and the rest of it."""
        axes, place = self._out_axes(self.out_prefix)
        out = (out,) if self.out_prefix is Carry else out
        if place < 0:
            if has_plain:
                raise LiftingError(f"scan carries an argument, but out_axes is {axes!r}.")
            return None, out
        if not isinstance(out, tuple) or len(out) != len(axes):
            raise LiftingError(f"scan with out_axes={axes!r} needs a tuple like it, got {out!r}.")
        if has_plain:
            return out[place], (*out[:place], None, *out[place + 1 :])
        if out[place] is not RETURNED:
            raise LiftingError("scan carries an object: the function must return that object.")
        return None, out


def scan(
    f: Any = UNSET,
    *,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
    in_axes: Any = (Carry, 0),
    out_axes: Any = (Carry, 0),
    transform_metadata: Mapping[Any, Any] | None = None,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Any:
    """Loop over a function of objects (LIN-4 is its Linen form).

    Args:
      f: The function of one step. Without it, a decorator.
      length, reverse, unroll: See `jax.lax.scan`.
      in_axes: For each positional argument `Carry`, an axis to scan over, or None for what all
        steps share; `StateAxes` says it by filter.
      out_axes: The same for the output; it has a `Carry` where `in_axes` has one.
      transform_metadata: With a `PARTITION_NAME`, variables have that name at the axis outside.

    Raises:
      LiftingError: A step changes a variable that all steps share.
    """
    return lift(
        Scanned,
        f,
        in_prefix=in_axes,
        out_prefix=out_axes,
        metadata=transform_metadata,
        length=length,
        reverse=reverse,
        unroll=unroll,
        graph_updates=graph_updates,
    )
