"""Carries: how the loops over functions of objects pass values from one step to the next.

Words: in each step a leaf or argument is *carried* from the step before (its axis is `Carry`),
*sliced* along an axis, or *shared* by all steps (its axis is None). Every step outputs leaves of
objects, in the groups of the frame; of a carried leaf, a loop keeps only the last value.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import jax

from ..errors import CarryError, LiftingError
from ..types import Prefix, Tree
from .effects import Effects, Source
from .flatten import is_object
from .frames import Frame, Groups
from .graphdef import leaf_at, unflatten
from .prefixes import RETURNED, for_jax


class Carry:
    """The axis of a value that each step passes to the next; use the class, no instance."""


Axis: TypeAlias = int | type[Carry] | None
"""How the steps get a value; see the words above."""


def step(frame: Frame, run: Callable[..., Any], output: "Output") -> Callable[..., Any]:
    """Return the function of one step, which gets the arguments, the carry and the slices.

    Args:
      frame: The frame of the loop.
      run: The function of leaves.
      output: How the function's output is taken apart.

    Returns:
      A function that returns the next carry, and the effects, groups and parts of the output.
    """

    def stepped(arguments: Tree, carry: Tree, slices: Tree) -> Tree:
        given = map_axes(_given, frame.inside, carry, slices, arguments)
        # Without `jit` each step runs by itself, and may change other leaves than the last one.
        always_out = [
            axis is Carry or (axis is not None and jax.config.jax_disable_jit)  # type: ignore[attr-defined]
            for axis in frame.leaf_prefixes
        ]
        effects, groups, out = run(*given, always_out=always_out)
        plain, parts, others = output.carried_and_parts(effects, out)
        _forget_unchanged(effects, groups, given[0], others)
        leaves = _take_carried_leaves(frame, effects, groups, others)
        return (leaves, *plain), (effects, groups, parts)

    return stepped


def _is_axis(value: object) -> bool:
    return value is None or value is Carry


def _is_returned(part: object) -> bool:
    return part is RETURNED


def _is_of_objects(out: Tree) -> bool:
    """Whether an output is an object, or a container of objects alone."""
    marks = jax.tree.leaves(out, is_leaf=_is_returned)
    return bool(marks) and all(map(_is_returned, marks))


def map_axes(function: Callable[..., Any], axes: Prefix, *trees: Tree) -> Tree:
    """Apply a function to each axis in a prefix, and to the parts of the trees under this axis.

    Args:
      function: Gets an axis, and one part of each tree.
      axes: The prefix.
      *trees: The trees.

    Returns:
      A tree like the prefix, with the results.
    """
    return jax.tree.map(function, axes, *trees, is_leaf=_is_axis)


def moved_axis(tree: Tree, start: int, end: int) -> Tree:
    """Move an axis of every array of a tree.

    Args:
      tree: The tree.
      start, end: The place of the axis before and after.

    Returns:
      The new tree.
    """
    return jax.tree.map(lambda x: jax.numpy.moveaxis(x, start, end), tree)


def carried_part(axis: Axis, part: Tree) -> Tree:
    """Return a part that is carried; None for others.

    Args:
      axis: Its axis.
      part: The part.
    """
    return part if axis is Carry else None


def sliced_part(axis: Axis, part: Tree) -> Tree:
    """Move a sliced axis to the front, where `jax.lax.scan` slices; None for other parts.

    Args:
      axis: The axis of the part.
      part: The part.

    Raises:
      LiftingError: The axis is neither a number nor None nor `Carry`.
    """
    check_axis(axis)
    return moved_axis(part, axis, 0) if isinstance(axis, int) else None


def check_axis(axis: Axis) -> None:
    """Refuse what is no axis of a loop.

    Args:
      axis: What a caller gave for an axis.

    Raises:
      LiftingError: It is neither a number nor None nor `Carry`.
    """
    if not (isinstance(axis, int) or _is_axis(axis)):
        raise LiftingError(
            place="an axis of scan", given=axis, expected="a number of an axis, None or Carry"
        )


def _given(axis: Axis, carry: Tree, piece: Tree, whole: Tree) -> Tree:
    """Return the input of a step, which is the carry, a slice, or the whole argument."""
    return carry if axis is Carry else piece if isinstance(axis, int) else whole


def carried_sources(frame: Frame, effects: Effects, others: Collection[int]) -> dict[int, Source]:
    """Return the (group, index) at which a step outputs each carried leaf, by leaf number.

    A step may replace a carried variable by another: the next step gets the new one. Leaves in
    `others` are skipped, because the step returns them in its output.

    Args:
      frame: The frame of the loop.
      effects: The changes of a step.
      others: The numbers of leaves to skip.

    Returns:
      By the number of each carried leaf, its group and the index in it.

    Raises:
      CarryError: A step removed a carried array.
    """
    starts = frame.definition.first_leaves
    own = {each.number: each for each in effects.rewrites}
    nodes = dict(enumerate(frame.definition.nodes)) | {n: each.node for n, each in own.items()}
    found = {}
    carried = [n for n, axis in enumerate(frame.leaf_prefixes) if axis is Carry and n not in others]
    for number in carried:
        place = leaf_at(nodes, frame.definition.leaves[number][0])
        source: int | Source | None = None
        if place is not None:
            node, index = place
            source = own[node].sources[index] if node in own else starts[node] + index
        if isinstance(source, int):
            source = effects.changed.get(source)
        if source is None or frame.groups[source[0]] is not Carry:
            raise CarryError(place=frame.where(number), expected="an object with this array")
        found[number] = source
    return found


def _forget_unchanged(
    effects: Effects, groups: Groups, leaves: Sequence[Tree], carried: Collection[int]
) -> None:
    """Drop from `effects.changed` the arrays in `carried` that a step left in their container."""
    for number in carried:
        source = effects.changed.get(number)
        if source is not None and groups[source[0]][source[1]] is leaves[number]:
            del effects.changed[number]


def _take_carried_leaves(
    frame: Frame, effects: Effects, groups: Groups, others: Mapping[int, Any]
) -> list[Any]:
    """Remove the carried leaves from the groups of a step; return them with `others` by number."""
    for number, axis in enumerate(frame.leaf_prefixes):
        if axis is None and number in effects.changed:
            raise LiftingError(
                place=f"the axis of {frame.where(number)} in scan",
                given=axis,
                expected="Carry, or an axis to scan over: with None all steps share the variable, "
                "and one of them changed it",
            )
    sources = carried_sources(frame, effects, others)
    values = dict(others)
    values |= {number: groups[group][index] for number, (group, index) in sources.items()}
    for group, index in sources.values():
        groups[group][index] = None
    return [values.get(number) for number in range(len(frame.leaf_prefixes))]


class _Mark(int):
    """The number of an object; replaces the object in an output."""


class Output:
    """The output of a step, in one part for each axis in the prefix; one part may be the carry.

    Args:
      frame: The frame of the calls.
      prefix: The prefix of the output.

    Raises:
      LiftingError: The prefixes carry more than one argument; or they carry a plain argument, and
        `out_axes` has no `Carry`.

    Attributes:
      axes: The axis of each part.
      carried: The numbers of the arrays beside objects in the carried argument, which each step
        returns; known once a step is traced.
    """

    def __init__(self, frame: Frame, prefix: Prefix):
        self.prefix, self.plain, self.carried = prefix, frame.plain_prefixes, set[int]()
        self.definition = frame.definition
        self.roots = [n for n, axis in enumerate(frame.prefixes[:-1]) if axis is Carry]
        self.label = "".join(frame.labels[n] for n in self.roots)
        self.entries: list[Any] = []
        self.form: Any = None
        flattened: Any = jax.tree.flatten(for_jax(prefix, None), is_leaf=_is_axis)
        self.axes, self.structure = flattened
        carried = self.axes.count(Carry)
        count = self.plain.count(Carry)
        if count > carried or carried > 1 or count + len(self.roots) > 1:
            raise LiftingError(
                place="the axes of objects, of other arguments, and of the output of scan",
                given=(frame.prefixes[:-1], self.plain, prefix),
                expected="one argument with Carry, and Carry in out_axes to say where it comes out",
            )

    def carried_and_parts(
        self, effects: Effects, out: Tree
    ) -> tuple[list[Any], list[Any], dict[int, Any]]:
        """Separate an output into the carry for the next step and the parts that are stacked.

        Args:
          effects: The changes of the step.
          out: The output.

        Returns:
          The carried plain arguments; the parts, with None for the carried one; and the arrays
          beside objects in the carry, by leaf number.

        Raises:
          LiftingError: The output does not fit `out_axes`.
          CarryError: The output lacks the carried object.
        """
        others: dict[int, Any] = {}
        try:
            parts = self.structure.flatten_up_to(out)
        except ValueError as error:
            raise LiftingError(
                place="the output of a step of scan",
                given=out,
                expected=f"an output like {self.prefix!r}",
            ) from error
        for axis, part in zip(self.axes, parts, strict=True):
            if axis is None and jax.tree.leaves(part):
                raise LiftingError(
                    place=f"an axis of an output of scan, in {self.prefix!r}",
                    given=axis,
                    expected="Carry, or an axis to stack the outputs of the steps along",
                )
        last = parts[self.axes.index(Carry)] if Carry in self.axes else RETURNED
        if Carry in self.axes and (Carry in self.plain or self.roots):
            parts[self.axes.index(Carry)] = None
        if Carry in self.axes and self.roots:
            marks = iter(effects.returned)
            numbered = jax.tree.map(
                lambda part: _Mark(next(marks)) if part is RETURNED else part,
                out,
                is_leaf=_is_returned,
            )
            others = self._beside_objects(
                self.structure.flatten_up_to(numbered)[self.axes.index(Carry)]
            )
        elif Carry not in self.plain and not _is_of_objects(last):
            raise CarryError(place="an object", expected="it")
        carried: list[Any] = map_axes(lambda axis: carried_part(axis, last), list(self.plain))
        return carried, parts, others

    def _beside_objects(self, last: Tree) -> dict[int, Any]:
        """Return the arrays beside objects in the returned carry, by leaf number.

        `last` is the carry that a step returned, with a `_Mark` in place of each object. The step
        must have returned the very objects of the carried argument, in the same positions.

        Raises:
          CarryError: The step returned another object.
          LiftingError: The step returned other containers.
        """
        nodes = unflatten(self.definition, list(range(len(self.definition.leaves))))
        numbers = {id(node): number for number, node in enumerate(nodes)}
        marks = jax.tree.leaves(last)
        whole = {id(nodes[n]) for n in marks if isinstance(n, _Mark) and n < len(nodes)}
        argument = nodes[0][self.roots[0]]
        flattened: Any = jax.tree.flatten(
            argument, is_leaf=lambda part: is_object(part) or id(part) in whole
        )
        self.entries, self.form = flattened
        try:
            returned = self.form.flatten_up_to(last)
        except ValueError as error:
            raise LiftingError(
                place=f"the {self.label} that a step of scan returned",
                given=last,
                expected="containers like those that the step got",
            ) from error
        found = {}
        for i, (entry, part) in enumerate(zip(self.entries, returned, strict=True)):
            number = numbers.get(id(entry))
            if isinstance(entry, int):
                found[entry] = part
            elif number is not None:
                self.entries[i] = RETURNED
                if not isinstance(part, _Mark) or part != number:
                    raise CarryError(
                        place=self.label,
                        expected=f"the very object that it got, a {type(entry).__name__}",
                    )
        self.carried = set(found)
        return found

    def joined(self, parts: list[Any], carried: Sequence[Any]) -> Tree:
        """Rebuild the output from its parts and the carry; inverse of `carried_and_parts`.

        Args:
          parts: The parts.
          carried: The leaves of objects in the last carry, then the plain arguments.

        Returns:
          The output.
        """
        leaves, *plain = carried
        if Carry in self.plain:
            parts[self.axes.index(Carry)] = plain[self.plain.index(Carry)]
        elif Carry in self.axes and self.roots:
            whole = [leaves[each] if isinstance(each, int) else each for each in self.entries]
            parts[self.axes.index(Carry)] = self.form.unflatten(whole)
        return self.structure.unflatten(parts)
