"""Lifted `jax.lax.scan`: loops over functions of objects.

Words: in each step a leaf or argument is *carried* from the step before (its axis is `Carry`),
*sliced* along an axis, or *shared* by all steps (its axis is None). The outputs of all
steps are *stacked* along an axis. Every step outputs leaves of objects, in the groups of the frame;
of a carried leaf, `scan` keeps only the value after the last step.

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
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias, overload

import jax

from ..errors import CarryError, LiftingError
from ..types import Prefix, Tree
from .effects import Effects, Source
from .flatten import is_object
from .frames import Frame, Groups, Transformed
from .graphdef import leaf_at, unflatten
from .lifting import P, R, lift
from .prefixes import RETURNED, for_jax
from .vmap import Mapped


class Carry:
    """The axis of a value that each step passes to the next; use the class, no instance."""


Axis: TypeAlias = int | type[Carry] | None
"""How the steps get a value; see the words above."""


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
        always_out = [axis is Carry for axis in frame.leaf_prefixes]
        axes = (frame.leaf_prefixes, *frame.plain_prefixes)
        output = _Output(frame, self.out_prefix)

        def transformed(*arguments: Tree) -> Tree:
            def step(carry: Tree, slices: Tree) -> Tree:
                given = _map_axes(_given, axes, carry, slices, arguments)
                effects, groups, out = run(*given, always_out=always_out)
                plain, parts, others = output.carried_and_parts(effects, out)
                _forget_unchanged(effects, groups, given[0], others)
                leaves = _take_carried_leaves(frame, effects, groups, others)
                return (leaves, *plain), (effects, groups, parts)

            start = _map_axes(_carried, axes, arguments)
            slices = _map_axes(_sliced, axes, arguments)
            carry, (effects, groups, parts) = jax.lax.scan(step, start, slices, **self.options)
            first, last = (-1, 0) if self.options.get("reverse") else (0, -1)
            outside = functools.partial(_outside, last)
            _keep_first_of_replaced(frame, effects, groups, first, output.carried)
            groups = [[outside(axis, x) for x in groups[i]] for i, axis in enumerate(frame.groups)]
            sources = _carried_sources(frame, effects, output.carried)
            for number, (group, index) in sources.items():  # The steps output None there.
                groups[group][index] = carry[0][number]
            return effects, groups, output.joined(list(map(outside, output.axes, parts)), carry)

        return Transformed(frame, transformed)


def _is_axis(value: object) -> bool:
    return value is None or value is Carry


def _is_returned(part: object) -> bool:
    return part is RETURNED


def _is_of_objects(out: Tree) -> bool:
    """Whether an output is an object, or a container of objects alone."""
    marks = jax.tree.leaves(out, is_leaf=_is_returned)
    return bool(marks) and all(map(_is_returned, marks))


def _map_axes(function: Callable[..., Any], axes: Prefix, *trees: Tree) -> Tree:
    """Apply a function to each axis in a prefix, and to the parts of the trees under this axis."""
    return jax.tree.map(function, axes, *trees, is_leaf=_is_axis)


def _moved_axis(tree: Tree, start: int, end: int) -> Tree:
    return jax.tree.map(lambda x: jax.numpy.moveaxis(x, start, end), tree)


def _carried(axis: Axis, part: Tree) -> Tree:
    return part if axis is Carry else None


def _sliced(axis: Axis, part: Tree) -> Tree:
    """Move a sliced axis to the front, where `jax.lax.scan` slices; None for other arguments."""
    return _moved_axis(part, axis, 0) if isinstance(axis, int) else None


def _given(axis: Axis, carry: Tree, piece: Tree, whole: Tree) -> Tree:
    """Return the input of a step, which is the carry, a slice, or the whole argument."""
    return carry if axis is Carry else piece if isinstance(axis, int) else whole


def _outside(last: int, axis: Axis, part: Tree) -> Tree:
    """Return the entry at `last` of a stacked carry; else move the stack of outputs to its axis."""
    if axis is Carry:
        return jax.tree.map(lambda x: x[last], part)
    return _moved_axis(part, 0, axis) if isinstance(axis, int) else part


def _carried_sources(frame: Frame, effects: Effects, others: Collection[int]) -> dict[int, Source]:
    """Return the (group, index) at which a step outputs each carried leaf, by leaf number.

    A step may replace a carried variable by another: the next step gets the new one. Leaves in
    `others` are skipped, because the step returns them in its output.

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
    sources = _carried_sources(frame, effects, others)
    values = dict(others)
    values |= {number: groups[group][index] for number, (group, index) in sources.items()}
    for group, index in sources.values():
        groups[group][index] = None
    return [values.get(number) for number in range(len(frame.leaf_prefixes))]


def _keep_first_of_replaced(
    frame: Frame, effects: Effects, groups: Groups, first: int, others: Collection[int]
) -> None:
    """Keep of each replaced leaf only the value after the first step, at index `first`.

    Later steps get the replacement, so only the first step can change the original.
    """
    for group, index in [effects.changed[number] for number in others if number in effects.changed]:
        groups[group][index] = groups[group][index][first][None]
    for number, source in _carried_sources(frame, effects, others).items():
        group, index = effects.changed.get(number, source)
        if (group, index) != source:
            groups[group][index] = groups[group][index][first][None]


class _Mark(int):
    """The number of an object; replaces the object in an output."""


class _Output:
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
        carried: list[Any] = _map_axes(lambda axis: _carried(axis, last), list(self.plain))
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
        """Rebuild the output from its parts and the carry; inverse of `carried_and_parts`."""
        leaves, *plain = carried
        if Carry in self.plain:
            parts[self.axes.index(Carry)] = plain[self.plain.index(Carry)]
        elif Carry in self.axes and self.roots:
            whole = [leaves[each] if isinstance(each, int) else each for each in self.entries]
            parts[self.axes.index(Carry)] = self.form.unflatten(whole)
        return self.structure.unflatten(parts)


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
