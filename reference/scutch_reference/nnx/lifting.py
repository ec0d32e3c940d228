"""Lifting: the one core under every transformation of functions of objects.

A transformation of JAX works on arrays. To lift it, objects are taken apart into a flat list of
their leaves before, put together inside, compared with what they were, and changed outside
afterwards:

    outside              plan: structure + values                      commit: change the objects
                              |                                             ^
    transformation            v                                             |
    inside               built copies  ->  the function  ->  report: what changed

All that Python does inside happens while JAX traces. What is left of a call is to look the plan up,
prove that it holds, call the compiled function on the list of values, and store what came out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

import jax

from ..errors import LiftingError, UnhashableStaticError
from .definitions import Definition, built
from .layouts import (
    NOTHING,
    Choice,
    Layout,
    bounded,
    layout_of,
    parameter_names,
    settled,
    unbound,
)
from .outcomes import Commit, Groups, Outcome, Report
from .placing import explain, place, sharding_of
from .prefixes import FilterPrefix, at, for_leaves, is_branch
from .statics import Static
from .tracing import Tracer, current_level
from .walking import Plan, has_objects, planned, walked

_EMPTY = Definition((), ())
_ATOMS = (bool, int, float, complex, str, bytes, type(None))


def _is_leaf_type(cls: type[Any]) -> bool:
    """Whether values of a type can have no objects inside."""
    import numpy as np

    return issubclass(cls, (*_ATOMS, np.ndarray, np.generic, jax.Array, Tracer))


class Frame:
    """A function for arguments of one structure: the inside of a lifted call.

    `run` is what the transformation of JAX gets to see: a function of lists of leaves.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        layout: Layout,
        definition: Definition,
        statics: Sequence[Any],
        prefixes: Sequence[Any],
        out_prefix: Any,
        leaves: Sequence[Any],
        *,
        what: str = "prefixes",
        default: Any = None,
        donated: Choice = NOTHING,
    ):
        self.function, self.layout, self.definition = function, layout, definition
        self.statics, self.out_prefix = tuple(statics), out_prefix
        self.root_prefixes = tuple(prefixes[i] for i in layout.roots)
        self.plain_prefixes = tuple(prefixes[i] for i in layout.plain)
        labels = tuple(layout.labels[i] for i in layout.roots)
        self.asked = for_leaves(definition, self.root_prefixes, list(leaves), labels, what)
        self.default = default
        names = layout.names
        gone = {
            root
            for root, i in enumerate(layout.roots)
            if donated.includes(i, layout.positional, names)
        }
        reached = _reached(definition, gone)
        self.donated = tuple(
            root in gone or owner in reached for root, _, owner in definition.leaves
        )
        self.donated_plain = tuple(
            k for k, i in enumerate(layout.plain) if donated.includes(i, layout.positional, names)
        )
        self.order = tuple(sorted(range(len(self.donated)), key=lambda i: not self.donated[i]))
        self.split = sum(self.donated)
        self.groups = self._groups()
        self.transformed: Callable[..., Any] = self.run
        # Shardings that leaves are to have before the call, and those that were seen to be right.
        self.placements: list[Any] | None = None
        self.settled: list[Any] | None = None
        self.moves_committed = False
        # Nothing is to be done between the list of leaves and the call: the usual case.
        self.is_direct = False
        self.plain_placements: tuple[Any, ...] = ()
        self.mesh: Any = None

    def _groups(self) -> Groups:
        """One group for each thing that is asked of leaves; the first is for those in no prefix."""
        values: list[Any] = [self.default]
        for each in (*self.asked, *_values_of(self.root_prefixes), *self._extra_values()):
            if each is not None and each not in values:
                values.append(each)
        wanted = [0 if each is None else values.index(each) for each in self.asked]

        def place(root: int, path: tuple[Any, ...], value: Any) -> int:
            prefix = self.root_prefixes[root] if self.root_prefixes else None
            if isinstance(prefix, FilterPrefix) or is_branch(prefix):
                return 0
            asked = at(prefix, path, value)
            return 0 if asked is None else values.index(asked)

        return Groups(tuple(values), tuple(wanted), place, self.donated)

    def _extra_values(self) -> list[Any]:
        """What else leaves may be given."""
        return []

    def is_in_place(self, leaves: list[Any]) -> bool:
        """Whether the leaves lie where they were seen to be right."""
        if self.settled is None:
            return False
        try:
            return all(map(is_, map(sharding_of, leaves), self.settled))
        except AttributeError:  # Not all leaves are arrays on devices.
            return False

    def parted(self, leaves: list[Any]) -> tuple[Sequence[Any], list[Any]]:
        """Donated leaves, and the others."""
        if not self.split:
            return (), leaves
        ordered = [leaves[i] for i in self.order]
        return ordered[: self.split], ordered[self.split :]

    def joined(self, donated: Sequence[Any], others: Sequence[Any]) -> list[Any]:
        """The inverse of `parted`."""
        if not self.split:
            return list(others)
        leaves: list[Any] = [None] * len(self.order)
        for i, leaf in zip(self.order, (*donated, *others), strict=True):
            leaves[i] = leaf
        return leaves

    def enter(self, leaves: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Copies of the objects, at the current trace level: the roots, and all nodes."""
        return built(self.definition, leaves)

    def call(self, roots: Sequence[Any], plain: Sequence[Any]) -> Any:
        """The function itself."""
        args, kwargs = self.layout.assembled(roots, plain, self.statics)
        return self.function(*args, **kwargs)

    def run(self, donated: Sequence[Any], others: Sequence[Any], *plain: Any) -> Any:
        """The function on leaves: an `Outcome`, the arrays it needs by group, the output."""
        leaves = self.joined(donated, others)
        roots, nodes = self.enter(leaves)
        return self.report(nodes, leaves, self.call(roots, plain))

    def report(self, nodes: list[Any], leaves: list[Any], out: Any) -> Any:
        """What happened to the nodes, in the form in which it leaves the transformation."""
        report = Report(self.definition, nodes, leaves, self.groups)
        report.known_nodes()
        arrays, outputs = report.outputs(out, self.out_prefix)
        return report.outcome(outputs), report.arrays(), arrays

    def label(self, number: int) -> str:
        """What a leaf is called in messages."""
        root, path, _ = self.definition.leaves[number]
        return f"{self.layout.labels[self.layout.roots[root]]}, path {path!r}"

    def node_label(self, number: int) -> str:
        """What a node is called in messages."""
        root, path = self.definition.places[number]
        return f"{self.layout.labels[self.layout.roots[root]]}, path {path!r}"


def _values_of(prefixes: Sequence[Any]) -> list[Any]:
    """The values that prefixes can give to leaves that are not there yet."""
    return [p for p in prefixes if not isinstance(p, FilterPrefix) and not is_branch(p)]


def _reached(definition: Definition, roots: set[int]) -> set[int]:
    """The nodes that roots lead to, also where another root came first."""
    from .definitions import Ref, Tree

    seen: set[int] = set()
    todo = [definition.roots[i] for i in roots]
    while todo:
        item = todo.pop()
        if isinstance(item, Tree):
            todo.extend(item.items)
        elif isinstance(item, Ref) and item.number not in seen:
            seen.add(item.number)
            todo.extend(each for _, each in definition.nodes[item.number].items)
    return seen


class Call:
    """One call of a lifted function: the frame for its structure, the plan, and the arguments."""

    __slots__ = ("frame", "moved", "plain", "plan", "roots", "values")

    def __init__(self, frame: Frame, plan: Plan | None, roots: Any, values: Any, plain: Any):
        self.frame, self.plan, self.roots = frame, plan, roots
        self.values, self.plain = values, plain
        self.moved: tuple[int, ...] = ()

    def store_moved(self) -> None:
        """Let the objects have the leaves that were sent to other devices for the call."""
        if self.plan is not None:
            for number in self.moved:
                container, key = self.plan.slots[number]
                container[key] = self.values[number]


class Lifted:
    """A function of objects, transformed.

    Args:
      function: Called with copies of its arguments, inside the transformation.
      in_prefix: A value for all arguments, or a sequence of them, or None.
      out_prefix: A prefix of the output, or None.
      static, donated: Arguments by number and by name.
      structural: Whether changes of structure come out, or only those of values.
    """

    _what = "prefixes"
    _default: Any = None
    _frame_type: type[Frame] = Frame
    _is_direct = True

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        in_prefix: Any = None,
        out_prefix: Any = None,
        static_argnums: Any = None,
        static_argnames: Any = None,
        donate_argnums: Any = None,
        donate_argnames: Any = None,
        structural: bool = True,
    ):
        functools.update_wrapper(self, function, updated=())
        self._function, self._bound, self._bound_names = unbound(function)
        self._parameters = parameter_names(self._function)
        shift, visible = len(self._bound), self._parameters[len(self._bound) :]
        self._static = Choice.of(static_argnums, static_argnames, visible, shift)
        self._donated = Choice.of(donate_argnums, donate_argnames, visible, shift)
        self.in_prefix, self.out_prefix = in_prefix, out_prefix
        self._structural = structural
        self._has_bound = bool(self._bound or self._bound_names)
        self._layouts: dict[Any, Layout] = {}
        self._frames: dict[Any, Frame] = {}

    def transform(self, frame: Frame) -> Callable[..., Any]:
        """The transformation of JAX, applied to `frame.run`."""
        raise NotImplementedError

    def _prepare_frame(self, frame: Frame) -> None:
        """Last changes to a frame before it is transformed."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    # ---- before the call ----------------------------------------------------------------------

    def _layout(self, everything: tuple[Any, ...], names: tuple[str, ...]) -> Layout:
        types = tuple(map(type, everything))
        found = layout_of(types, names, self._static, self._parameters, _is_leaf_type)
        bounded(self._layouts)[types, names] = found
        return found

    def _static_key(self, layout: Layout, everything: tuple[Any, ...]) -> tuple[Static, ...]:
        """The static arguments; like those of `jax.jit` they are hashable themselves (JIT-4)."""
        for i in layout.statics:
            try:
                hash(everything[i])
            except TypeError as error:
                raise UnhashableStaticError(layout.labels[i], everything[i]) from error
        return tuple(Static(everything[i], layout.labels[i]) for i in layout.statics)

    def prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Everything that a call needs."""
        return Call(*self._found(args, kwargs))

    def _found(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The parts of a call: looked up if they are known, made if they are not."""
        if self._has_bound:
            args, kwargs = (*self._bound, *args), {**self._bound_names, **kwargs}
        names: tuple[str, ...] = ()
        if kwargs:
            names = tuple(sorted(kwargs))
            args = (*args, *map(kwargs.__getitem__, names))
        layout = self._layouts.get((tuple(map(type, args)), names)) or self._layout(args, names)
        if layout.uncertain:
            layout = settled(layout, tuple([has_objects(args[i]) for i in layout.uncertain]))
        # Objects mostly come first, and plain arguments after them.
        if layout.is_sliced:
            roots, plain = args[: layout.count], args[layout.count :]
        else:
            roots = tuple([args[i] for i in layout.roots])
            plain = tuple([args[i] for i in layout.plain])
        if not roots:
            plan, definition, values = None, _EMPTY, []
        else:
            plan = planned(roots[0], roots[1:]) if layout.objects_only else Plan(roots)
            definition, cells = plan.definition, plan.written
            values = plan.values() if cells is None else [cell[0] for cell in cells]
        key: tuple[Any, ...] = (definition, layout)
        if layout.statics:
            key = (definition, layout, *self._static_key(layout, args))
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frame(layout, definition, args, values)
            bounded(self._frames)[key] = frame
        return frame, plan, roots, values, plain

    def _prefixes(self, layout: Layout) -> list[Any]:
        """The prefix of each argument."""
        count, prefix = layout.positional, self.in_prefix
        if isinstance(prefix, list | tuple) and is_branch(prefix):
            prefixes = [None] * len(self._bound) + list(prefix)
            if len(prefixes) != count:
                raise LiftingError(
                    f"Got {self._what} for {len(prefix)} arguments, {prefix!r}, "
                    f"but {count - len(self._bound)} positional arguments."
                )
        else:
            prefixes = [prefix] * count
        return prefixes + [None] * len(layout.names)

    def _frame(
        self, layout: Layout, definition: Definition, everything: Any, leaves: list[Any]
    ) -> Frame:
        frame = self._frame_type(
            self._function,
            layout,
            definition,
            [everything[i] for i in layout.statics],
            self._prefixes(layout),
            self.out_prefix,
            leaves,
            what=self._what,
            default=self._default,
            donated=self._donated,
        )
        self._prepare_frame(frame)
        frame.transformed = self.transform(frame)
        frame.is_direct = self._is_direct and not frame.split and frame.placements is None
        return frame

    # ---- the call -----------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, transformed; its arguments change as it changes them."""
        parts = frame, _, _, values, plain = self._found(args, kwargs)
        if not frame.is_direct and (
            frame.split or not self._is_direct or not frame.is_in_place(values)
        ):
            return self.execute(Call(*parts), frame.transformed)
        try:
            outcome, groups, out = frame.transformed((), values, *plain)
        except Exception as error:
            explain(Call(*parts), error)
            raise
        return out if outcome.is_nothing else self.commit(Call(*parts), outcome, groups, out)

    def execute(self, call: Call, function: Callable[..., Any]) -> Any:
        """Call the transformed function, and change the objects."""
        frame = call.frame
        try:
            if frame.placements is not None:
                place(call)
            outcome, groups, out = function(*frame.parted(call.values), *call.plain)
        except Exception as error:
            explain(call, error)
            raise
        if call.moved:
            call.store_moved()
        if outcome.is_nothing:
            return out
        return self.commit(call, outcome, groups, out)

    def commit(self, call: Call, outcome: Outcome, groups: Any, out: Any) -> Any:
        """Change the objects, and return the output."""
        plan = call.plan
        cells = plan.written if plan is not None else None
        if outcome.is_plain and plan and cells and plan.level == current_level():
            for numbers, arrays in zip(outcome.changed, groups, strict=True):
                if len(numbers) == len(cells):
                    for cell, array in zip(cells, arrays, strict=True):
                        cell[0] = array
                else:
                    for number, array in zip(numbers, arrays, strict=True):
                        cells[number][0] = array
            return out
        _, nodes, slots, _ = walked(call.roots)
        commit = Commit(call.frame.definition, nodes, slots, call.values, outcome, groups)
        commit.check_levels(call.frame.node_label)
        commit.store_values()
        if outcome.is_plain:
            return out
        if not self._structural:
            kept = Outcome(outcome.changed, (), outcome.fresh, outcome.outputs)
            commit = Commit(call.frame.definition, nodes, slots, call.values, kept, groups)
        return commit.rebuild(out)
