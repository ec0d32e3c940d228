"""Lifted `jax.lax.scan`: a loop over objects whose variables are stacked, carried or shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ..errors import LiftingError
from .definitions import Ref
from .lifting import Frame
from .outcomes import Groups, Outcome
from .prefixes import FilterPrefix, is_branch
from .vmap import Mapped

_UNSET: Any = object()


class Carry:
    """What goes from one step to the next: the class itself is the mark."""


def _moved(tree: Any, axes: Any, forth: bool) -> Any:
    """The tree with its scanned axis first, or back in its place."""

    def move(axis: Any, part: Any) -> Any:
        if not isinstance(axis, int):
            return part
        ends = (axis, 0) if forth else (0, axis)
        return jax.tree.map(lambda x: jnp.moveaxis(x, *ends), part)

    return jax.tree.map(move, axes, tree, is_leaf=lambda x: x is None or x is Carry)


class Scanned(Mapped):
    """A loop over a function of objects; see `scan`."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], **lifted: Any):
        super().__init__(function, **lifted)
        self._options = options

    def _prepare_frame(self, frame: Frame) -> None:
        """Leaves that are carried come out of every step, changed or not."""
        super()._prepare_frame(frame)
        always = tuple(each is Carry for each in frame.asked)
        groups = frame.groups
        frame.groups = Groups(groups.values, groups.of_leaf, groups.place, always)

    def transform(self, frame: Frame) -> Callable[..., Any]:
        """`jax.lax.scan`."""

        def transformed(_: Any, values: list[Any], *plain: Any) -> Any:
            kinds = [_kind(each) for each in frame.asked]
            carried = [i for i, kind in enumerate(kinds) if kind == "carry"]
            stacked = [i for i, kind in enumerate(kinds) if kind == "axis"]
            plain_kinds = [_kind(each) for each in frame.plain_prefixes]
            numbers = [k for k, kind in enumerate(plain_kinds) if kind == "carry"]
            along = [k for k, kind in enumerate(plain_kinds) if kind == "axis"]
            if len(numbers) > 1:
                raise LiftingError(f"scan can carry one argument, got {frame.plain_prefixes!r}.")

            def body(carry: Any, xs: Any) -> Any:
                leaves, arguments = list(values), list(plain)
                for indices, parts in ((carried, carry[0]), (stacked, xs[0])):
                    for i, part in zip(indices, parts, strict=True):
                        leaves[i] = part
                for indices, parts in ((numbers, carry[1]), (along, xs[1])):
                    for i, part in zip(indices, parts, strict=True):
                        arguments[i] = part
                outcome, groups, out = frame.run((), leaves, *arguments)
                after = self._carried(frame, outcome, groups, carried)
                plain_carry, out = self._split(outcome, out, bool(numbers))
                rest = tuple(
                    arrays[len(gone) :] if value is Carry else arrays
                    for value, gone, arrays in zip(
                        frame.groups.values, outcome.changed, groups, strict=True
                    )
                )
                return (after, plain_carry), (outcome, rest, out)

            xs = (
                [_moved(values[i], frame.asked[i], True) for i in stacked],
                [_moved(plain[k], frame.plain_prefixes[k], True) for k in along],
            )
            start = ([values[i] for i in carried], [plain[k] for k in numbers])
            (after, last), (outcome, groups, out) = jax.lax.scan(body, start, xs, **self._options)
            return (
                outcome,
                self._collected(frame, outcome, groups, carried, after),
                (self._joined(out, last)),
            )

        return transformed

    def _carried(
        self, frame: Frame, outcome: Outcome, groups: Any, carried: list[int]
    ) -> list[Any]:
        """The carried leaves after a step, in their order."""
        found: dict[int, Any] = {}
        for value, numbers, arrays in zip(
            frame.groups.values, outcome.changed, groups, strict=True
        ):
            if value is None and numbers:
                raise LiftingError(
                    f"{frame.label(numbers[0])}: the variable is shared by all steps of scan "
                    "(its axis is None), and one of them changed it. Carry it, or scan over it."
                )
            if value is Carry:
                found = dict(zip(numbers, arrays, strict=False))
        if lost := [frame.label(i) for i in carried if i not in found]:
            raise LiftingError(f"scan carries arrays that a step removed: {', '.join(lost)}.")
        return [found[i] for i in carried]

    def _collected(
        self, frame: Frame, outcome: Outcome, groups: Any, carried: list[int], after: list[Any]
    ) -> tuple[Any, ...]:
        """The arrays by group: the last of what was carried, all of what was stacked."""
        last = dict(zip(carried, after, strict=True))
        found = []
        for value, numbers, arrays in zip(
            frame.groups.values, outcome.changed, groups, strict=True
        ):
            if value is Carry:
                found.append([*(last[i] for i in numbers), *(array[-1] for array in arrays)])
            else:
                found.append([_moved(array, value, False) for array in arrays])
        return tuple(found)

    def _split(self, outcome: Outcome, out: Any, has_plain: bool) -> tuple[list[Any], Any]:
        """The carry in the output of a step, and the rest of it."""
        axes = self.out_prefix
        if axes is Carry:
            return ([out] if has_plain else []), None if has_plain else (out,)
        if not is_branch(axes) or Carry not in axes:
            if has_plain:
                raise LiftingError(f"scan carries an argument, but out_axes is {axes!r}.")
            return [], out
        place = axes.index(Carry)
        if not isinstance(out, tuple) or len(out) != len(axes):
            raise LiftingError(f"scan with out_axes={axes!r} needs a tuple like it, got {out!r}.")
        if has_plain:
            return [out[place]], tuple(x for i, x in enumerate(out) if i != place)
        items = outcome.outputs[1] if outcome.outputs else ()
        if not any(isinstance(item, Ref) for item in items):
            raise LiftingError("scan carries an object: the function must return that object.")
        return [], out

    def _joined(self, out: Any, last: list[Any]) -> Any:
        """The output: the last carry, and what was stacked, with its axes in place."""
        axes = self.out_prefix
        if axes is Carry:
            return last[0] if last else out[0]
        if not is_branch(axes) or Carry not in axes or not last:
            return _moved(out, _without_carry(axes), False)
        place = axes.index(Carry)
        rest = [axis for axis in axes if axis is not Carry]
        parts = [_moved(x, axis, False) for x, axis in zip(out, rest, strict=True)]
        return type(axes)((*parts[:place], last[0], *parts[place:]))


def _without_carry(axes: Any) -> Any:
    return jax.tree.map(
        lambda axis: None if axis is Carry or isinstance(axis, FilterPrefix) else axis,
        axes,
        is_leaf=lambda x: x is None or x is Carry or isinstance(x, FilterPrefix),
    )


def _kind(axis: Any) -> str:
    if axis is Carry:
        return "carry"
    leaves = jax.tree.leaves(axis)
    return "axis" if any(isinstance(each, int) for each in leaves) else "shared"


def scan(
    f: Any = _UNSET,
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
    options: dict[str, Any] = {"length": length, "reverse": reverse, "unroll": unroll}

    def lift(function: Callable[..., Any]) -> Scanned:
        return Scanned(
            function,
            options,
            metadata=transform_metadata or {},
            in_prefix=in_axes,
            out_prefix=out_axes,
            structural=graph_updates is not False,
        )

    return lift if f is _UNSET else lift(f)
