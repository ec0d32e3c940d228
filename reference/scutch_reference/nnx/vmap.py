"""Lifted `jax.vmap` and `jax.lax.scan`: variables have one more axis outside, or are carried."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ..errors import LiftingError
from ..meta import PARTITION_NAME
from .flatten import walked
from .lifting import Frame, Lifted, lift
from .prefixes import RETURNED, for_jax
from .variables import add_axis, remove_axis


class Mapped(Lifted):
    """What `vmap` and `scan` share: inside, variables lack an axis that they have outside."""

    what = "axes"

    def __init__(self, *args: Any, transform_metadata: Any = None, **options: Any):
        super().__init__(*args, **options)
        self._metadata = transform_metadata or {}

    def inside(self, frame: Frame, nodes: list[Any], function: Callable[[], Any]) -> Any:
        """Call the function on copies that do not name the axis; new ones get its name, too."""
        if PARTITION_NAME not in self._metadata:
            return function()
        pairs = zip(frame.owners, frame.asked, strict=True)
        named = [(nodes[owner], axis) for owner, axis in pairs if owner is not None]
        for variable, axis in named:
            if isinstance(axis, int):
                remove_axis(variable, axis, self._metadata)
        out = function()
        definition, found, _, _ = walked([*nodes[0], out])
        old = set(map(id, nodes))
        for path, owner in definition.leaves:
            if owner is not None and id(found[owner]) not in old:
                named.append((found[owner], frame.at(path, found[owner])))
        for variable, axis in named:
            if isinstance(axis, int):
                add_axis(variable, axis, self._metadata)
        return out


class Vmapped(Mapped):
    """A vectorized function of objects; see `vmap`."""

    lifts = staticmethod(jax.vmap)
    for_keywords = 0  # They are mapped over their first axis, as in JAX.

    def transform(self, frame: Frame) -> Callable[..., Any]:
        """`jax.vmap`."""
        inside = frame.arguments(frame.asked, frame.plain)
        return jax.vmap(frame.run, inside, frame.outside, **self.options)


def vmap(f: Any = None, *, in_axes: Any = 0, out_axes: Any = 0, **options: Any) -> Any:
    """Vectorize a function of objects; see `jax.vmap`, and `jit` for what is the same there.

    Args:
      in_axes: A prefix of the arguments: an axis, None for what all share, or `StateAxes`.
      transform_metadata: With a `PARTITION_NAME`, variables have that name at the axis outside.
    """
    return lift(Vmapped, f, in_axes, out_axes, **options)


class Carry:
    """What goes from one step to the next: the class itself is the mark."""


def _is_axis(value: Any) -> bool:
    return value is None or value is Carry


def _mapped(function: Callable[..., Any], axes: Any, *trees: Any) -> Any:
    """`function` of each axis, and of the parts of the trees that it is for."""
    return jax.tree.map(function, axes, *trees, is_leaf=_is_axis)


def _moved(tree: Any, start: int, end: int) -> Any:
    return jax.tree.map(lambda x: jnp.moveaxis(x, start, end), tree)


class Scanned(Mapped):
    """A loop over a function of objects; see `scan`."""

    lifts = staticmethod(jax.lax.scan)

    def transform(self, frame: Frame) -> Callable[..., Any]:
        """`jax.lax.scan`, where leaves and arguments are sliced, carried or shared."""
        frame.always = [axis is Carry for axis in frame.asked]
        axes, plain = frame.arguments(frame.asked, frame.plain), frame.plain
        ends, form = jax.tree.flatten(for_jax(self.out_prefix, None), is_leaf=_is_axis)
        structure: Any = form
        place: Any = ends.index(Carry) if Carry in ends else None
        if plain.count(Carry) > ends.count(Carry) or ends.count(Carry) > 1:
            raise LiftingError(
                "scan can carry one argument, with a Carry in out_axes to say where it comes out; "
                f"got {plain!r} and {self.out_prefix!r}."
            )

        def now(axis: Any, carry: Any, piece: Any, whole: Any) -> Any:
            return carry if axis is Carry else piece if isinstance(axis, int) else whole

        def sliced(axis: Any, part: Any) -> Any:
            return _moved(part, axis, 0) if isinstance(axis, int) else None

        def outside(axis: Any, part: Any) -> Any:
            if axis is Carry:  # It was made by the last step.
                return jax.tree.map(lambda x: x[0 if self.options.get("reverse") else -1], part)
            return _moved(part, 0, axis) if isinstance(axis, int) else part

        def transformed(*everything: Any) -> Any:
            def step(carry: Any, slices: Any) -> Any:
                outcome, groups, out = frame.run(*_mapped(now, axes, carry, slices, everything))
                leaves = self._carried(frame, outcome.changed, groups)
                try:
                    parts = structure.flatten_up_to(out)
                except ValueError as error:
                    like = f"scan needs an output like {self.out_prefix!r}, got {out!r}."
                    raise LiftingError(like) from error
                last = parts[place] if place is not None else RETURNED
                if Carry in plain:
                    parts[place] = None
                elif last is not RETURNED:
                    raise LiftingError("scan carries an object: the function must return it.")
                after = (leaves, *(last if axis is Carry else None for axis in plain))
                return after, (outcome, groups, parts)

            start = _mapped(lambda axis, x: x if axis is Carry else None, axes, everything)
            slices = _mapped(sliced, axes, everything)
            carry, (outcome, rest, parts) = jax.lax.scan(step, start, slices, **self.options)
            groups = [[outside(axis, x) for x in rest[i]] for i, axis in enumerate(frame.groups)]
            for number, (group, i) in outcome.changed.items():
                if frame.asked[number] is Carry:
                    groups[group][i] = carry[0][number]
            parts = list(map(outside, ends, parts))
            if Carry in plain:
                parts[place] = carry[1 + plain.index(Carry)]
            return outcome, groups, structure.unflatten(parts)

        return transformed

    def _carried(self, frame: Frame, changed: dict[int, Any], groups: Any) -> list[Any]:
        """The carried leaves after a step, taken from its groups, in their places."""
        found: list[Any] = [None] * len(frame.asked)
        for number, axis in enumerate(frame.asked):
            if axis is None and number in changed:
                raise LiftingError(
                    f"{frame.where(number)}: the variable is shared by all steps of scan "
                    "(its axis is None), and one of them changed it. Carry it, or scan over it."
                )
            if axis is Carry:
                if number not in changed:
                    where = frame.where(number)
                    raise LiftingError(f"scan carries arrays that a step removed: {where}.")
                group, place = changed[number]
                found[number], groups[group][place] = groups[group][place], None
        return found


def scan(
    f: Any = None, *, in_axes: Any = (Carry, 0), out_axes: Any = (Carry, 0), **options: Any
) -> Any:
    """Loop over a function of objects; see `jax.lax.scan`, and `vmap` for what is the same there.

    Args:
      in_axes: For each positional argument `Carry`, an axis to scan over, or None for what all
        steps share; `StateAxes` says it by filter.
      out_axes: The same for the output; it has a `Carry` where `in_axes` has one.

    Raises:
      LiftingError: A step changes a variable that all steps share.
    """
    return lift(Scanned, f, in_axes, out_axes, **options)
