"""Layouts: which arguments of a call are objects, which are plain, which are static.

That follows from their types and names, and for containers from whether there are objects inside.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from .flatten import NODE, OTHER, kind_of
from .objects import Pytree
from .tracking import Tracked

# Which of so many positional arguments, and of those with these names, are chosen.
Choice = Callable[[int, Sequence[str]], list[bool]]


def choice(numbers: Any, names: Any, parameters: tuple[str, ...], bound: int) -> Choice:
    """Arguments chosen by number or by name, as in `jax.jit`, after so many that are bound (JIT-4).

    If one of both is None, the other and the names of the parameters tell it.
    """
    chosen, named = (
        (given,) if isinstance(given, int | str) else tuple(given or ())
        for given in (numbers, names)
    )
    if numbers is None:
        chosen = tuple(i for i, name in enumerate(parameters[bound:]) if name in named)
    elif names is None:
        named = tuple(name for i, name in enumerate(parameters[bound:]) if i in chosen)

    def among(count: int, keywords: Sequence[str]) -> list[bool]:
        places = {n + bound if n >= 0 else n + count for n in chosen}
        return [i in places for i in range(count)] + [name in named for name in keywords]

    return among


def _picker(numbers: tuple[int, ...]) -> Callable[[Any], Any]:
    """A function that picks these items of a tuple, without a Python call."""
    start = numbers[0] if numbers else 0
    if numbers == tuple(range(start, start + len(numbers))):
        return itemgetter(slice(start, start + len(numbers)))
    return itemgetter(*numbers)


class Layout:
    """The roles of the arguments: positional ones first, then keywords, sorted by name.

    Containers are where one has to look for objects; with `full`, those that have some are known.
    """

    def __init__(
        self,
        parameters: tuple[str, ...],
        static: Choice,
        types: tuple[Any, ...],
        names: tuple[str, ...],
        full: tuple[int, ...] | None = None,
        fixed: tuple[str, ...] = (),
    ):
        self.fixed = fixed  # Names that a partial binds, and the call does not.
        self.names, self.count, self.positional = names, len(types), len(types) - len(names)
        known = [f" ({name!r})" for name in parameters] + [""] * self.positional
        labels = [f"argument {i}{known[i]}" for i in range(self.positional)]
        self.labels = (*labels, *(f"argument {name!r}" for name in names))
        chosen = static(self.positional, names)
        self.statics = tuple(i for i, is_static in enumerate(chosen) if is_static)
        numbers = [i for i, is_static in enumerate(chosen) if not is_static]
        objects = {i for i in numbers if issubclass(types[i], Tracked)} | set(full or ())
        self.roots = tuple(i for i in numbers if i in objects)
        self.plain = tuple(i for i in numbers if i not in objects)
        unknown = self.plain if full is None else ()
        self.containers = [i for i in unknown if kind_of(types[i]) in (NODE, OTHER)]
        self.only_objects = bool(objects) and not full
        self.roots_of, self.plain_of = _picker(self.roots), _picker(self.plain)

    def assembled(self, *values: Any) -> tuple[list[Any], dict[str, Any]]:
        """Arguments and keywords with the values of the roots, then of plain and static ones."""
        found = dict(zip((*self.roots, *self.plain, *self.statics), values, strict=True))
        args = [found[i] for i in range(self.count)]
        return args[: self.positional], dict(zip(self.names, args[self.positional :], strict=True))


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the positional parameters, as far as they are known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # Some callables of C have none.
        return ()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in parameters if p.kind in kinds)


def unbound(function: Any) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """A function, and what is bound to it as arguments, so that changes of it come out (JIT-7)."""
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
