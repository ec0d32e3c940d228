"""Call signatures: which arguments of a call are objects, which are plain, which are static.

That follows from the types of the arguments, from the options of the transformation, and for
containers from whether there are objects inside.

Words: arguments are numbered, positional ones first, then keywords, sorted by name. A *root* is an
argument with objects; a *plain* one is a tree of arrays, which goes to JAX as it is; a *static* one
is compiled in. Arguments are *chosen*, as static or donated, by number or by name.

>>> chosen = choice(-1, None, ("model", "x", "mode"), 0)
>>> signature = CallSignature(("model", "x", "mode"), chosen, (Pytree, float, str), ())
>>> signature.roots, signature.plain, signature.statics
((0,), (1,), (2,))
>>> signature.labels
("argument 0 ('model')", "argument 1 ('x')", "argument 2 ('mode')")
"""

import functools
import inspect
from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import jax

from .flatten import is_object
from .node_types import ARRAY, ATOM, type_of
from .objects import Pytree
from .tracking import Tracked

# Tells which of so many positional arguments, and of those with these names, are chosen.
Choice = Callable[[int, Sequence[str]], list[bool]]


def _as_tuple(given: Any) -> tuple[Any, ...]:
    return (given,) if isinstance(given, int | str) else tuple(given or ())


def choice(numbers: Any, names: Any, parameters: tuple[str, ...], bound: int) -> Choice:
    """Return which arguments are chosen by number or by name, as `jax.jit` chooses them (JIT-4).

    Args:
      numbers: Numbers of arguments, negative ones from the end; or one; or None, and then `names`
        and the names of the parameters tell the numbers.
      names: Names of arguments, or one; or None, and then `numbers` tell the names.
      parameters: The names of the positional parameters.
      bound: How many first parameters are bound already; the user does not count them.

    Returns:
      A function of the number of positional arguments of a call, bound ones too, and of the names
      of its keyword arguments. It returns whether each argument is chosen: first those by position,
      then those by name, in the order of the names.
    """
    by_number, by_name = _as_tuple(numbers), _as_tuple(names)
    if numbers is None:
        by_number = tuple(i for i, name in enumerate(parameters[bound:]) if name in by_name)
    elif names is None:
        by_name = tuple(name for i, name in enumerate(parameters[bound:]) if i in by_number)

    def among(count: int, keywords: Sequence[str]) -> list[bool]:
        chosen = {n + bound if n >= 0 else n + count for n in by_number}
        return [i in chosen for i in range(count)] + [name in by_name for name in keywords]

    return among


def _picker(numbers: tuple[int, ...]) -> Callable[[Any], Any]:
    """A function that picks these items of a tuple, without a Python call."""
    start = numbers[0] if numbers else 0
    if numbers == tuple(range(start, start + len(numbers))):
        return itemgetter(slice(start, start + len(numbers)))
    return itemgetter(*numbers)


class CallSignature:
    """The roles of the arguments of a call.

    Args:
      parameters: The names of the positional parameters of the function.
      static: Which arguments are static.
      types: The types of the arguments.
      names: The names of the keyword arguments, which are the last.
      with_objects: The numbers of the containers that have objects inside; None if the containers
        have not been searched yet.
      fixed: Names that a partial function binds, and the call does not pass.

    Attributes:
      roots, plain, statics: Numbers of arguments by their role.
      dynamic: The numbers of the positional arguments that are not static, in their order.
      roots_of, plain_of: Functions that pick the roots, or the plain arguments, of all arguments.
      containers: Numbers of arguments that may have objects inside and are not searched yet.
      only_objects: Whether all roots are objects themselves; then the first can keep a plan.
      positional: The number of positional arguments.
      labels: The name of each argument in messages.
    """

    def __init__(
        self,
        parameters: tuple[str, ...],
        static: Choice,
        types: tuple[Any, ...],
        names: tuple[str, ...],
        with_objects: tuple[int, ...] | None = None,
        fixed: tuple[str, ...] = (),
    ):
        self.fixed = fixed
        self.names = names
        self.count, self.positional = len(types), len(types) - len(names)
        known = [f" ({name!r})" for name in parameters] + [""] * self.positional
        labels = [f"argument {i}{known[i]}" for i in range(self.positional)]
        self.labels = (*labels, *(f"argument {name!r}" for name in names))
        chosen = static(self.positional, names)
        self.statics = tuple(i for i, is_static in enumerate(chosen) if is_static)
        numbers = [i for i, is_static in enumerate(chosen) if not is_static]
        self.dynamic = numbers[: bisect_left(numbers, self.positional)]
        objects = {i for i in numbers if issubclass(types[i], Tracked)} | set(with_objects or ())
        self.roots = tuple(i for i in numbers if i in objects)
        self.plain = tuple(i for i in numbers if i not in objects)
        unknown = self.plain if with_objects is None else ()
        self.containers = [i for i in unknown if type_of(types[i]) not in (ARRAY, ATOM)]
        self.only_objects = bool(objects) and not with_objects
        self.roots_of, self.plain_of = _picker(self.roots), _picker(self.plain)

    def assembled(self, *values: Any) -> tuple[list[Any], dict[str, Any]]:
        """Return positional and keyword arguments.

        Args:
          *values: The values of the roots, then of the plain, then of the static arguments.
        """
        found = dict(zip((*self.roots, *self.plain, *self.statics), values, strict=True))
        args = [found[i] for i in range(self.count)]
        return args[: self.positional], dict(zip(self.names, args[self.positional :], strict=True))


def arguments_with_objects(args: Sequence[Any], containers: Sequence[int]) -> tuple[int, ...]:
    """Return which containers among the arguments of a call have objects inside.

    Args:
      args: All arguments.
      containers: The numbers of the containers.
    """
    find = functools.partial(jax.tree.leaves, is_leaf=is_object)
    return tuple([i for i in containers if any(map(is_object, find(args[i])))])


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the positional parameters, as far as they are known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # Some callables of C have none.
        return ()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in parameters if p.kind in kinds)


def unbound(function: Any) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Separate a function from its bound arguments, so that they are lifted, too (JIT-7).

    Args:
      function: A function; a method of an object, a partial function, or a callable object.

    Returns:
      The function itself, and its bound positional and keyword arguments. The object of a method,
      or a callable object, is the first positional argument.
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
