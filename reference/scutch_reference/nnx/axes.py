"""Lifted `jax.vmap` and `jax.lax.scan`: variables have one more axis outside, or are carried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..errors import LiftingError
from .lifting import Frame, Lifted, lift
from .prefixes import RETURNED, for_jax, is_branch
from .spmd import PARTITION_NAME, add_axis, remove_axis
from .walking import walked


class Mapped(Lifted):
    """What `vmap` and `scan` share: inside, variables lack an axis that they have outside."""

    what = "axes"

    def __init__(self, *args: Any, metadata: Any, **options: Any):
        super().__init__(*args, **options)
        self._metadata = metadata or {}

    def _rename(self, change: Any, nodes: list[Any], owners: Sequence[Any], axes: Any) -> None:
        if PARTITION_NAME in self._metadata:
            for owner, axis in zip(owners, axes, strict=True):
                if owner is not None and isinstance(axis, int):
                    change(nodes[owner], axis, self._metadata)

    def inside(self, frame: Frame, roots: Any, nodes: Any, function: Callable[[], Any]) -> Any:
        """Call the function on copies that do not name the axis; new ones get its name, too."""
        self._rename(remove_axis, nodes, frame.owners, frame.asked)
        out = function()
        self._rename(add_axis, nodes, frame.owners, frame.asked)
        if PARTITION_NAME in self._metadata:
            definition, found, _, _ = walked([*roots, out])
            leaves, old = definition.leaves, set(map(id, nodes))
            new = [(owner, (root, *path)) for root, path, owner in leaves if owner is not None]
            new = [(owner, path) for owner, path in new if id(found[owner]) not in old]
            axes = [frame.at(path, found[owner]) for owner, path in new]
            self._rename(add_axis, found, [owner for owner, _ in new], axes)
        return out


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
        axes, is_whole = frame.arguments(frame.asked, frame.plain), self.out_prefix is Carry
        out_axes = (Carry,) if is_whole else self.out_prefix
        carries = is_branch(out_axes) and Carry in out_axes
        place = out_axes.index(Carry) if carries else -1
        frame.always = [axis is Carry for axis in frame.asked]
        if frame.plain.count(Carry) > 1:
            raise LiftingError(f"scan can carry one argument, got {frame.plain!r}.")
        has_plain = Carry in frame.plain
        if has_plain and not carries:
            raise LiftingError(f"scan carries an argument, but out_axes is {out_axes!r}.")

        def parted(out: Any) -> tuple[Any, Any]:
            """The carried part of an output, and the rest."""
            if carries and (not isinstance(out, tuple) or len(out) != len(out_axes)):
                raise LiftingError(
                    f"out_axes={out_axes!r} of scan needs such a tuple, got {out!r}."
                )
            if has_plain:
                return out[place], (*out[:place], None, *out[place + 1 :])
            if carries and out[place] is not RETURNED:
                raise LiftingError("scan carries an object: the function must return that object.")
            return None, out

        def now(axis: Any, carry: Any, piece: Any, whole: Any) -> Any:
            return carry if axis is Carry else piece if isinstance(axis, int) else whole

        def outside(axis: Any, part: Any) -> Any:
            if axis is Carry:  # It was made by the last step.
                return jax.tree.map(lambda x: x[0 if self.options["reverse"] else -1], part)
            return _moved(part, 0, axis) if isinstance(axis, int) else part

        def transformed(*everything: Any) -> Any:
            def step(carry: Any, slices: Any) -> Any:
                outcome, groups, out = frame.run(*_mapped(now, axes, carry, slices, everything))
                leaves = self._carried(frame, outcome.changed, groups)
                last, out = parted((out,) if is_whole else out)
                plain = [last if axis is Carry else None for axis in frame.plain]
                return (leaves, *plain), (outcome, groups, out)

            start = _mapped(lambda axis, x: x if axis is Carry else None, axes, everything)
            slices = _mapped(
                lambda axis, x: _moved(x, axis, 0) if isinstance(axis, int) else None,
                axes,
                everything,
            )
            carry, (outcome, rest, out) = jax.lax.scan(step, start, slices, **self.options)
            groups = tuple(
                [outside(axis, array) for array in arrays]
                for axis, arrays in zip(frame.groups, rest, strict=True)
            )
            for number, (group, i) in outcome.changed.items():
                if frame.asked[number] is Carry:
                    groups[group][i] = carry[0][number]
            out = _mapped(outside, for_jax(tuple(out_axes) if carries else out_axes, None), out)
            if has_plain:
                out = (*out[:place], carry[1 + frame.plain.index(Carry)], *out[place + 1 :])
            return outcome, groups, out[0] if is_whole else out

        return transformed

    def _carried(self, frame: Frame, changed: dict[int, Any], groups: Any) -> list[Any]:
        """The carried leaves after a step, taken from its groups, in their places."""
        found: list[Any] = [None] * len(frame.asked)
        for number, axis in enumerate(frame.asked):
            if axis is None and number in changed:
                raise LiftingError(
                    f"{frame.label(number)}: the variable is shared by all steps of scan "
                    "(its axis is None), and one of them changed it. Carry it, or scan over it."
                )
            if axis is Carry:
                if number not in changed:
                    where = frame.label(number)
                    raise LiftingError(f"scan carries arrays that a step removed: {where}.")
                group, place = changed[number]
                found[number], groups[group][place] = groups[group][place], None
        return found


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
