"""Lifted `jax.vmap` and `jax.lax.scan`: variables have one more axis outside, or are carried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ..errors import LiftingError
from .lifting import Frame, Lifted, lift
from .prefixes import RETURNED, is_branch
from .spmd import PARTITION_NAME, add_axis, remove_axis
from .walking import walked


class Mapped(Lifted):
    """What `vmap` and `scan` share: inside, variables lack an axis that they have outside."""

    what = "axes"

    def __init__(self, *args: Any, metadata: Any, **options: Any):
        super().__init__(*args, **options)
        self._metadata = metadata or {}

    def enter(self, frame: Frame, nodes: list[Any]) -> None:
        """Take the name of the axis away."""
        for (_, _, owner), axis in zip(frame.definition.leaves, frame.asked, strict=True):
            self._rename(remove_axis, owner, axis, nodes)

    def leave(self, frame: Frame, nodes: list[Any], roots: list[Any], out: Any) -> None:
        """Put the name of the axis back in place, and give it to new variables."""
        for (_, _, owner), axis in zip(frame.definition.leaves, frame.asked, strict=True):
            self._rename(add_axis, owner, axis, nodes)
        if PARTITION_NAME in self._metadata:
            definition, found, _, _ = walked([*roots, out])
            old = set(map(id, nodes))
            for root, path, owner in definition.leaves:
                if owner is not None and id(found[owner]) not in old:
                    axis = frame.at((root, *path), found[owner])
                    self._rename(add_axis, owner, axis, found)

    def _rename(self, change: Any, owner: int | None, axis: Any, nodes: list[Any]) -> None:
        if PARTITION_NAME in self._metadata and owner is not None and isinstance(axis, int):
            change(nodes[owner], axis, self._metadata)


class Vmapped(Mapped):
    """A vectorized function of objects; see `vmap`."""

    for_keywords = 0  # They are mapped over their first axis, as in JAX.

    def transform(self, frame: Frame) -> Callable[..., Any]:
        """`jax.vmap`."""
        inside = frame.arguments(frame.asked, frame.plain)
        outside = (None, tuple(frame.groups), frame.out)
        return jax.vmap(frame.run, inside, outside, **self.options)


def vmap(
    f: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
    transform_metadata: Mapping[Any, Any] | None = None,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Any:
    """Vectorize a function of objects.

    Args:
      f: The function. Without it, a decorator.
      in_axes: A prefix of the positional arguments: an axis, None for what all share, or
        `StateAxes` for objects.
      out_axes: A prefix of the output.
      axis_name, axis_size, spmd_axis_name: See `jax.vmap`.
      transform_metadata: With a `PARTITION_NAME`, variables have that name at the axis outside.
    """
    options = {"axis_name": axis_name, "axis_size": axis_size, "spmd_axis_name": spmd_axis_name}
    options |= {"metadata": transform_metadata}
    return lift(Vmapped, f, in_axes, out_axes, graph_updates, **options)


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
    f: Any = None,
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
    options = {"reverse": reverse, "unroll": unroll, "metadata": transform_metadata}
    return lift(Scanned, f, in_axes, out_axes, graph_updates, length=length, **options)
