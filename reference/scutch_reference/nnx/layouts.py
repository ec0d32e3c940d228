"""Layouts: which arguments of a call are objects, which are plain, which are static.

It depends on the types of the arguments and the names of the keywords only (and, for containers,
on whether there are objects inside), so it is found once and looked up afterwards.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import jax

from .objects import Pytree
from .variables import Variable
from .walking import NODE, OTHER, is_object, kind_of


def _picker(numbers: tuple[int, ...]) -> Callable[[Any], Any]:
    """A function that picks these items of a tuple as a tuple; to call it is no Python call."""
    start = numbers[0] if numbers else 0
    if numbers == tuple(range(start, start + len(numbers))):
        return itemgetter(slice(start, start + len(numbers)))
    return itemgetter(*numbers)


class Layout:
    """The roles of the arguments: positional ones first, then keywords, sorted by name.

    Args:
      roles: "object", "plain", "static", "container" where one has to look inside for objects, and
        "full" for a container that has objects.
      names: Of the keywords.
      labels: What the arguments are called in messages.
    """

    def __init__(self, roles: tuple[str, ...], names: tuple[str, ...], labels: tuple[str, ...]):
        self.roles, self.names, self.labels = roles, names, labels
        self.positional = len(roles) - len(names)
        self.roots, self.plain, self.statics, self.containers = (
            tuple(i for i, role in enumerate(roles) if role in wanted)
            for wanted in (("object", "full"), ("plain",), ("static",), ("container",))
        )
        self.roots_of, self.plain_of = _picker(self.roots), _picker(self.plain)
        self.only_objects = "object" in roles and "full" not in roles
        self._settled: dict[tuple[bool, ...], Layout] = {}

    def settled(self, args: tuple[Any, ...]) -> Layout:
        """The layout in which each container has objects or is plain."""
        full = tuple([has_objects(args[i]) for i in self.containers])
        if full not in self._settled:
            roles = list(self.roles)
            for i, is_full in zip(self.containers, full, strict=True):
                roles[i] = "full" if is_full else "plain"
            self._settled[full] = Layout(tuple(roles), self.names, self.labels)
        return self._settled[full]

    def assembled(
        self, roots: Sequence[Any], plain: Sequence[Any], statics: Sequence[Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments and keyword arguments with these values in their roles."""
        numbers = (*self.roots, *self.plain, *self.statics)
        everything = dict(zip(numbers, (*roots, *plain, *statics), strict=True))
        found = [everything[i] for i in range(len(self.roles))]
        rest = found[self.positional :]
        return found[: self.positional], dict(zip(self.names, rest, strict=True))


def has_objects(value: Any) -> bool:
    """Whether there is an object in a tree."""
    return any(map(is_object, jax.tree.leaves(value, is_leaf=is_object)))


@dataclass(frozen=True)
class Choice:
    """Arguments chosen by number or by name, as `jax.jit` has them (JIT-4)."""

    numbers: tuple[int, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, numbers: Any, names: Any, parameters: tuple[str, ...], bound: int) -> Choice:
        """The choice that a user means.

        Args:
          numbers, names: One, several, or None; if one of both is None, the parameters tell it.
          parameters: The names of all parameters of the function.
          bound: How many of them the user does not count, because they have their arguments.
        """
        chosen, named = (
            (given,) if isinstance(given, int | str) else tuple(given or ())
            for given in (numbers, names)
        )
        if numbers is None:
            chosen = tuple(i for i, name in enumerate(parameters[bound:]) if name in named)
        elif names is None:
            named = tuple(name for i, name in enumerate(parameters[bound:]) if i in chosen)
        return cls(tuple(n + bound if n >= 0 else n for n in chosen), named)

    def among(self, count: int, names: Sequence[str]) -> list[bool]:
        """Whether each of so many positional arguments, and of the named ones, is chosen."""
        chosen = {n if n >= 0 else n + count for n in self.numbers}
        return [i in chosen for i in range(count)] + [name in self.names for name in names]


def layout_of(
    types: Sequence[Any], names: tuple[str, ...], static: Choice, parameters: tuple[str, ...]
) -> Layout:
    """The layout of calls with arguments of these types."""
    count, roles = len(types) - len(names), []
    for each, is_static in zip(types, static.among(count, names), strict=True):
        if is_static:
            roles.append("static")
        elif issubclass(each, Pytree | Variable):
            roles.append("object")
        else:
            roles.append("container" if kind_of(each) in (NODE, OTHER) else "plain")
    known = [f" ({name!r})" for name in parameters] + [""] * count
    labels = [f"argument {i}{known[i]}" for i in range(count)]
    return Layout(tuple(roles), names, (*labels, *(f"argument {name!r}" for name in names)))


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the positional parameters, as far as they are known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # Some callables of C have none.
        return ()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in parameters if p.kind in kinds)


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
