"""Lifting: the one core under every transformation of functions of objects.

A transformation of JAX works on arrays. To lift it, objects are taken apart into a flat list of
their leaves before, put together inside, compared with what they were, and changed afterwards:

    outside              plan: structure + values                      commit: change the objects
                              |                                             ^
    transformation            v                                             |
    inside               built copies  ->  the function  ->  report: what changed

All that Python does inside happens while JAX traces. What is left of a call is to look the plan up,
prove that it holds, call the compiled function on the list of values, and store what came out.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, compress
from operator import attrgetter, getitem, is_, not_
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.sharding import Sharding

from ..errors import (
    AliasingError,
    LeakedTracerError,
    LiftingError,
    NoFilterMatchError,
    UnhashableStaticError,
)
from .call_signature import Layout, choice, parameter_names, unbound
from .effects import commit, report
from .filters import Path
from .flatten import EMPTY, Plan, is_object, planned
from .graphdef import Ref, built, visits
from .prefixes import FilterPrefix, check_spec, for_jax, is_branch, is_end, spread
from .tracking import EPOCH, Static, Tracer, current_level

# The frame, the plan, the arguments with objects, their leaves, and the plain arguments.
Call: TypeAlias = "tuple[Frame, Plan, Sequence[Any], list[Any], Sequence[Any]]"
_CACHE_LIMIT = 1024
_signature = functools.cache(inspect.signature)
# The attribute behind `sharding`: that one is a property, and costs a Python call for each array.
_sharding_of = attrgetter("_sharding")


class Frame:
    """The inside of a lifted call, for arguments of one structure.

    Paths begin with the number of a root, or the next number for the output. Leaves go out in
    `groups` of those that are asked for the same thing.
    """

    mesh: Any = None
    donated: Sequence[bool] = ()
    # Shardings that leaves are to have before the call, and those that were seen to be right.
    placements: Sequence[Any] = ()
    settled: Sequence[Any] = ()

    def __init__(self, lifted: Lifted, layout: Layout, plan: Plan, args: Any, values: list[Any]):
        # No cycle: objects that are bound to a function die with it.
        self.lifted: Any = weakref.proxy(lifted)
        self.layout, self.definition, definition = layout, plan.definition, plan.definition
        self.statics = [args[i] for i in layout.statics]
        prefixes: Any = lifted.prefixes(layout)
        self.prefixes: Any = (*layout.roots_of(prefixes), lifted.out_prefix)
        self.plain = [for_jax(each, lifted.default) for each in layout.plain_of(prefixes)]
        self.labels = (*layout.roots_of(layout.labels), "output")
        self.paths = [path for path, _ in definition.leaves]
        self.owners = [owner for _, owner in definition.leaves]
        ends = jax.tree.leaves(self.prefixes, is_leaf=is_end)
        given = [v for end in ends for v in getattr(end, "values_", [end]) if v is not None]
        self.groups = tuple(dict.fromkeys([lifted.default, *given]))
        # For what comes out of `run`: an outcome without leaves, the groups, and the output.
        self.outside = (lifted.default, self.groups, for_jax(lifted.out_prefix, lifted.default))
        nodes = built(definition, values)
        leaves = [v if i is None else nodes[i] for i, v in zip(self.owners, values, strict=True)]
        asked = list(map(self.at, self.paths, leaves))
        again = [(Ref(number), path) for path, number, first in definition.visits if not first]
        ways = (way for item, path in again for way in visits(definition.nodes, item, path))
        self.asked = self.agreed(asked, nodes, ways)
        self.always = [False] * len(values)  # Leaves that go out though they are as before.
        self.transformed: Any = lifted.transform(self)

    def where(self, place: Path | int) -> str:
        """What a path, or the leaf of this number, is called in messages."""
        root, *path = self.paths[place] if isinstance(place, int) else place
        return f"{self.labels[root]}, path {tuple(path)!r}"

    def at(self, path: Path, leaf: Any, *, is_new: bool = False) -> Any:
        """What is asked of a leaf, or of a variable, at a path; of a new one maybe nothing."""
        prefix, below, where = self.prefixes, path, self.where(path)
        try:
            while is_branch(prefix):
                prefix, below = prefix[below[0]], below[1:]
            if isinstance(prefix, FilterPrefix):
                prefix = prefix.map_prefix(below, leaf, where)
        except (LookupError, TypeError, NoFilterMatchError) as error:
            if is_new:
                return self.lifted.default
            if isinstance(error, NoFilterMatchError):
                raise
            raise LiftingError(f"{where}: {prefix!r} has nothing for {below!r}.") from error
        return self.lifted.default if prefix is None else prefix

    def agreed(self, asked: list[Any], nodes: Any, others: Iterable[Any]) -> list[Any]:
        """What is asked of each leaf; an `AliasingError` if other ways to it disagree (JIT-2)."""
        asked, free = list(asked), self.lifted.free
        numbers = {owner: i for i, owner in enumerate(self.owners)}
        for path, node, _ in others if len(self.groups) > 1 else ():
            if (i := numbers.get(node)) is not None:
                first, other = asked[i], self.at(path, nodes[node])
                if first is free:
                    asked[i] = other
                elif other is not free and other != first:
                    places = (self.where(i), first), (self.where(path), other)
                    raise AliasingError(self.lifted.what, nodes[node], *places)
        return asked

    def arguments(self, values: Sequence[Any], plain: Sequence[Any]) -> tuple[Any, ...]:
        """What JAX is called with; donated leaves are apart from the others."""
        if not self.donated:
            return values, *plain
        others = compress(values, map(not_, self.donated))
        return list(compress(values, self.donated)), list(others), *plain

    def place(self, plan: Plan, values: list[Any]) -> tuple[list[Any], Sequence[int]]:
        """The leaves where they are asked to be, and the numbers of those that moved (JIT-5).

        That all are there, the usual case, is seen by the identity of shardings that were right.
        """
        try:
            seen = list(map(_sharding_of, values))
        except AttributeError:  # Not all leaves are arrays on devices.
            seen = []
        is_settled = bool(seen and self.settled) and all(map(is_, seen, self.settled))
        if is_settled or plan.level != current_level():
            return values, ()
        placed, moved = list(values), []
        for i, value in enumerate(values):
            leaves, treedef = jax.tree.flatten(value)
            sent = [self._sent(leaf, i) for leaf in leaves]
            if not all(map(is_, sent, leaves)):
                placed[i] = jax.tree.unflatten(treedef, sent)
                moved.append(i)
        if not moved:
            self.settled = seen
        return placed, moved

    def _sent(self, leaf: Any, number: int) -> Any:
        """A leaf where it is asked to be; one that the user put elsewhere is for JAX to judge."""
        sharding = self.placements[number]
        if not isinstance(sharding, Sharding) or isinstance(leaf, Tracer | jax.ShapeDtypeStruct):
            return leaf
        check_spec(self.where(number), np.shape(leaf), sharding)
        present = getattr(leaf, "sharding", None)
        stays = getattr(leaf, "committed", True) and not self.lifted.sends_committed
        if present is not None and (stays or present.is_equivalent_to(sharding, np.ndim(leaf))):
            return leaf
        return jax.device_put(leaf, sharding)

    def explain(self, values: Sequence[Any], plain: Sequence[Any], error: Exception) -> None:
        """Raise an error that says which argument and path is at fault, where one of them is."""
        if isinstance(error, jax.errors.UnexpectedTracerError):
            for path, value in zip(self.paths, values, strict=True):
                for leaf in jax.tree.leaves(value):
                    if isinstance(leaf, Tracer):
                        raise LeakedTracerError(self.where(path), leaf) from error
        if isinstance(error, ValueError | KeyError):  # The latter in JAX 0.4.
            labels = [*self.layout.plain_of(self.layout.labels), *map(self.where, self.paths)]
            parts = map(spread, [*self.plain, *self.asked], [*plain, *values], labels)
            try:
                for where, spec, leaf in chain.from_iterable(parts):
                    check_spec(where, np.shape(leaf), spec, self.mesh)
            except ValueError as better:
                raise better from error

    def run(self, leaves: Sequence[Any], *plain: Any) -> Any:
        """The function on leaves, which is what the transformation of JAX gets to see."""
        nodes = built(self.definition, leaves)
        args, kwargs = self.layout.assembled(*nodes[0], *plain, *self.statics)
        out = self.lifted.inside(self, nodes, lambda: self.lifted.function(*args, **kwargs))
        return report(self, nodes, leaves, out)


class Lifted:
    """A function of objects, transformed; `jit` says what its arguments mean.

    The options are for the transformation of JAX that it `lifts`, where they are not None.
    """

    lifts: Callable[..., Any]
    what = ""  # Prefixes, in messages.
    default: Any = None  # What leaves are given where a prefix says None,
    free: Any = ...  # and what leaves the choice to another place, as the output.
    for_keywords: Any = None
    sends_committed = False
    by_position = False  # Whether arguments by name are refused, where JAX refuses them.

    def __init__(
        self,
        function: Callable[..., Any],
        in_prefix: Any = None,
        out_prefix: Any = None,
        graph_updates: bool | None = None,
        *,
        static_argnums: Any = None,
        static_argnames: Any = None,
        donate_argnums: Any = None,
        donate_argnames: Any = None,
        **options: Any,
    ):
        functools.update_wrapper(self, function, updated=())
        self.function, self._bound, self._bound_names = unbound(function)
        parameters, count = parameter_names(self.function), len(self._bound)
        static = choice(static_argnums, static_argnames, parameters, count)
        self.donated = choice(donate_argnums, donate_argnames, parameters, count)
        layout = functools.partial(Layout, parameters, static)
        self._layout = functools.lru_cache(_CACHE_LIMIT)(layout)
        self.in_prefix, self.out_prefix = in_prefix, out_prefix
        self.structural = graph_updates is not False
        self.options = {name: value for name, value in options.items() if value is not None}
        if unknown := self.options.keys() - _signature(self.lifts).parameters.keys():
            raise TypeError(f"jax.{self.lifts.__name__} has no option {sorted(unknown)}.")
        self._frames: dict[Any, Frame] = {}

    def transform(self, frame: Frame) -> Callable[..., Any]:
        """The transformation of JAX, applied to `frame.run`."""
        raise NotImplementedError

    def inside(self, frame: Frame, nodes: list[Any], function: Callable[[], Any]) -> Any:
        """Call the function on the copies."""
        return function()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def prefixes(self, layout: Layout) -> tuple[Any, ...]:
        """The prefix of each argument: none of those that are bound or static (JIT-10)."""
        count, prefix = layout.positional, self.in_prefix
        numbers = [i for i in range(len(self._bound), count) if i not in layout.statics]
        given = [prefix] * len(numbers)
        if is_branch(prefix) and not isinstance(prefix, dict):
            given = list(prefix)
        if len(given) != len(numbers):
            raise LiftingError(
                f"Got {self.what} for {len(given)} arguments, {prefix!r}, "
                f"but {len(numbers)} positional arguments."
            )
        places = dict(zip(numbers, given, strict=True))
        named = [None if name in layout.fixed else self.for_keywords for name in layout.names]
        return *map(places.get, range(count)), *named

    def _statics(self, layout: Layout, args: tuple[Any, ...]) -> tuple[Static, ...]:
        """The static arguments; like those of `jax.jit` they are hashable themselves (JIT-4)."""
        for i in layout.statics:
            try:
                hash(args[i])
            except TypeError as error:
                raise UnhashableStaticError(layout.labels[i], args[i]) from error
        return tuple(Static(args[i], layout.labels[i]) for i in layout.statics)

    def prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Everything that a call needs: looked up if it is known, made if it is not."""
        if kwargs and self.by_position:
            raise LiftingError(
                f"With {self.what}, arguments are passed by position, as in JAX; got "
                f"{sorted(kwargs)} by name."
            )
        fixed: tuple[str, ...] = ()
        if self._bound or self._bound_names:
            fixed = tuple(name for name in self._bound_names if name not in kwargs)
            args, kwargs = (*self._bound, *args), {**self._bound_names, **kwargs}
        names: tuple[str, ...] = ()
        if kwargs:
            names = tuple(sorted(kwargs))
            args = (*args, *map(kwargs.__getitem__, names))
        types = tuple(map(type, args))
        layout = self._layout(types, names, None, fixed)
        if layout.containers:
            leaves = {i: jax.tree.leaves(args[i], is_leaf=is_object) for i in layout.containers}
            full = tuple([i for i, found in leaves.items() if any(map(is_object, found))])
            layout = self._layout(types, names, full, fixed)
        roots, plain = layout.roots_of(args), layout.plain_of(args)
        if layout.only_objects:
            plans = roots[0]._plans
            plan = plans.get(tuple(map(id, roots[1:]))) if plans else None
            if plan is None or ((plan.epoch != EPOCH[0] or plan.checks) and not plan.holds()):
                plan = planned(roots)
        else:
            plan = Plan(roots) if roots else EMPTY
        values = list(map(getitem, plan.containers, plan.keys))
        # Equal definitions are one, and the frame keeps it, so that no other has its number.
        key: tuple[Any, ...] = (id(plan.definition), layout)
        if layout.statics:
            key = (*key, *self._statics(layout, args))
        frame = self._frames.get(key)
        if frame is None:
            if len(self._frames) > _CACHE_LIMIT:
                self._frames.clear()
            frame = Frame(self, layout, plan, args, values)
            self._frames[key] = frame
        return frame, plan, roots, values, plain

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, transformed; its arguments change as it changes them."""
        return self.execute(self.prepared(args, kwargs))

    def execute(self, call: Call, function: Callable[..., Any] | None = None) -> Any:
        """Call the transformed function, or a compiled form of it, and change the objects."""
        frame, plan, roots, values, plain = call
        moved: Sequence[int] = ()
        try:
            if frame.placements:
                values, moved = frame.place(plan, values)
            arguments = frame.arguments(values, plain)
            outcome, groups, out = (function or frame.transformed)(*arguments)
        except Exception as error:
            frame.explain(values, plain, error)
            raise
        for number in moved:
            plan.containers[number][plan.keys[number]] = values[number]
        if outcome.is_nothing:
            return out
        return commit((frame, plan, roots, values, plain), outcome, groups, out)


def lift(
    cls: type[Lifted], function: Any, *prefixes: Any, graph: Any = None, **options: Any
) -> Any:
    """The transformed function, or a decorator if there is no function yet.

    The option `graph` is accepted and not needed: sharing is always kept.
    """
    if function is None:
        return lambda function: cls(function, *prefixes, **options)
    return cls(function, *prefixes, **options)
