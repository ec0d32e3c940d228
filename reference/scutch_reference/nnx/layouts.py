"""Layouts: which arguments of a call are objects, which are plain, which are static.

It depends on the types of the arguments and the names of the keywords only (and, for containers,
on whether there are objects inside), so it is found once and looked up afterwards.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .objects import Pytree
from .variables import Variable

_CACHE_LIMIT = 1024


@dataclass(frozen=True, eq=False)
class Layout:
    """The roles of the arguments: positional ones first, then keywords, sorted by name.

    `uncertain` are containers; `variants` are layouts by which of them hold objects.
    """

    positional: int
    names: tuple[str, ...]
    roots: tuple[int, ...] = ()
    plain: tuple[int, ...] = ()
    statics: tuple[int, ...] = ()
    uncertain: tuple[int, ...] = ()
    objects_only: bool = True
    labels: tuple[str, ...] = ()
    variants: dict[tuple[bool, ...], Layout] = field(default_factory=dict)
    count: int = field(init=False)
    is_sliced: bool = field(init=False)

    def __post_init__(self) -> None:
        total = self.positional + len(self.names)
        object.__setattr__(self, "count", len(self.roots))
        object.__setattr__(self, "is_sliced", (*self.roots, *self.plain) == tuple(range(total)))

    def assembled(
        self, roots: Sequence[Any], plain: Sequence[Any], statics: Sequence[Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments and keyword arguments with these values in their roles."""
        everything: list[Any] = [None] * (self.positional + len(self.names))
        for indices, values in (
            (self.roots, roots),
            (self.plain, plain),
            (self.statics, statics),
        ):
            for i, value in zip(indices, values, strict=True):
                everything[i] = value
        rest = everything[self.positional :]
        return everything[: self.positional], dict(zip(self.names, rest, strict=True))


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, int | str) else tuple(value)


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the positional parameters, as far as they are known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # Some callables of C have none.
        return ()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in parameters if p.kind in kinds)


@dataclass(frozen=True)
class Choice:
    """Arguments chosen by number or by name, as `jax.jit` has them (JIT-4).

    If only numbers, or only names, are given, the signature of the function tells the others.
    """

    numbers: tuple[int, ...]
    names: frozenset[str]

    @classmethod
    def of(cls, numbers: Any, names: Any, parameters: tuple[str, ...], shift: int = 0) -> Choice:
        """Args: what the user gave, the `parameters` of the function, how many are bound."""
        chosen, named = _as_tuple(numbers), _as_tuple(names)
        if numbers is None:
            chosen = tuple(parameters.index(n) for n in named if n in parameters)
        elif names is None:
            count = len(parameters)
            named = tuple(parameters[n] for n in chosen if -count <= n < count)
            named = named if all(n >= 0 for n in chosen) else ()
        return cls(tuple(n + shift if n >= 0 else n for n in chosen), frozenset(named))

    def includes(self, index: int, positional: int, names: Sequence[str]) -> bool:
        """Whether the argument at an index of the layout is chosen."""
        if index >= positional:
            return names[index - positional] in self.names
        return index in self.numbers or index - positional in self.numbers


NOTHING = Choice((), frozenset())


def layout_of(
    types: Sequence[type[Any]],
    names: tuple[str, ...],
    static: Choice,
    parameters: tuple[str, ...],
    is_leaf_type: Callable[[type[Any]], bool],
) -> Layout:
    """The layout of calls with arguments of these types."""
    positional = len(types) - len(names)
    roles: dict[str, list[int]] = {"roots": [], "plain": [], "statics": [], "uncertain": []}
    for i, each in enumerate(types):
        if static.includes(i, positional, names):
            roles["statics"].append(i)
        elif issubclass(each, Pytree | Variable):
            roles["roots"].append(i)
        else:
            roles["plain" if is_leaf_type(each) else "uncertain"].append(i)
    labels = tuple(
        f"argument {names[i - positional]!r}"
        if i >= positional
        else f"argument {i}" + (f" ({parameters[i]!r})" if i < len(parameters) else "")
        for i in range(len(types))
    )
    found = {role: tuple(indices) for role, indices in roles.items()}
    return Layout(positional, names, **found, labels=labels)  # type: ignore[arg-type]


def settled(layout: Layout, inside: tuple[bool, ...]) -> Layout:
    """The layout in which the uncertain arguments have objects `inside`, or are plain."""
    found = layout.variants.get(inside)
    if found is None:
        pairs = list(zip(layout.uncertain, inside, strict=True))
        found = Layout(
            layout.positional,
            layout.names,
            tuple(sorted((*layout.roots, *(i for i, has in pairs if has)))),
            tuple(sorted((*layout.plain, *(i for i, has in pairs if not has)))),
            layout.statics,
            objects_only=not any(inside),
            labels=layout.labels,
        )
        layout.variants[inside] = found
    return found


def unbound(
    function: Callable[..., Any],
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """A function without the objects that are bound to it, and those as arguments (JIT-7).

    A bound method, a partial or a callable object changes the objects in it, so they must be
    arguments for the change to come out.
    """
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    while True:
        if type(function) is functools.partial:
            args, kwargs = (*function.args, *args), {**function.keywords, **kwargs}
            function = function.func
        elif inspect.ismethod(function) and isinstance(function.__self__, Pytree):
            args, function = (function.__self__, *args), function.__func__
        elif isinstance(function, Pytree):
            args, function = (function, *args), type(function).__call__
        else:
            return function, args, kwargs


def bounded(cache: dict[Any, Any]) -> dict[Any, Any]:
    """The cache, emptied if it has grown beyond what calls can need."""
    if len(cache) > _CACHE_LIMIT:
        cache.clear()
    return cache
