"""How a jitted function is written and called, described.

    Call(form="method", static="name", scale=1)

is a call of a method by `jit(f, static_argnames="scale")(first, pair, scale=1)`.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scutch.inputs.descriptions import Description

FORMS = ("function", "decorator", "method", "callable", "partial")
"""How the function of a call is written, or given to `jit`."""

STAGES = ("call", "lower", "trace")
"""How it is called: as it is, or as the compiled form that `lower` or `trace` lead to."""

BY = (None, "position", "negative", "name")
"""How options of `jit` name an argument, where they do."""


@dataclass(frozen=True, repr=False)
class Call(Description):
    """How a jitted function `f(first, ..., pair, scale=2)` is written and called.

    Args:
      form: One of `FORMS`.
      pair: Whether the pair of arrays is passed by `"position"` or by `"name"`.
      static: One of `BY`: how `scale` is declared static.
      scale: How often 1 is added to the pair; the default, `None`, is left out of the call.
      donate: One of `BY`: how the first argument is donated.
      stage: One of `STAGES`.
    """

    form: str = "function"
    pair: str = "position"
    static: str | None = None
    scale: int | None = None
    donate: str | None = None
    stage: str = "call"

    @property
    def added(self) -> int:
        """How often the function adds 1 to each array of the pair."""
        if self.static is None:
            return 0
        return DEFAULT_SCALE if self.scale is None else self.scale

    @property
    def by_position(self) -> bool:
        """Whether `scale` is passed by position: where it is passed, and the pair is, too."""
        return self.scale is not None and self.pair == "position"

    def options(self, count: int) -> dict[str, Any]:
        """The options of `jit` for a function of so many arguments before the pair."""
        passed = count + (self.pair == "position") + self.by_position
        static = {"position": count + 1, "negative": -1, "name": "scale"}
        donated = {"position": 0, "negative": -passed, "name": "first"}
        found: dict[str, Any] = {}
        for option, by, names in (
            ("static", self.static, static),
            ("donate", self.donate, donated),
        ):
            if by is not None:
                found[f"{option}_{'argnames' if by == 'name' else 'argnums'}"] = names[by]
        return found

    def written(self, function: Callable[..., Any], count: int) -> Callable[..., Any]:
        """A function of `first`, maybe `second`, `pair` and `scale`, in the form of this call.

        Args:
          function: A function of the objects and the pair.
          count: How many arguments come before the pair, 1 or 2.
        """

        def added(pair: Any, scale: Any) -> Any:
            return plus(pair, scale if self.static is not None else 0)

        def one(first: Any, pair: Any, scale: Any = DEFAULT_SCALE) -> Any:
            return function(first, added(pair, scale))

        def two(first: Any, second: Any, pair: Any, scale: Any = DEFAULT_SCALE) -> Any:
            return function(first, second, added(pair, scale))

        plain = one if count == 1 else two
        owner: Any = (_OwnerOfOne if count == 1 else _OwnerOfTwo)(plain)
        forms = {"method": owner.method, "callable": owner, "partial": functools.partial(plain)}
        found: Callable[..., Any] = forms.get(self.form, plain)
        return found

    def make(self, jitted: Any, objects: tuple[Any, ...], pair: Any) -> Any:
        """Call a jitted function.

        Args:
          jitted: The function that `written` returns, lifted by `jit`.
          objects: The arguments before the pair.
          pair: The pair of arrays.

        Returns:
          The result of the jitted function, or of its compiled form.
        """
        last = {"pair": pair, "scale": self.scale}
        if self.scale is None:
            del last["scale"]
        positions: list[Any] = [*objects]
        if self.pair == "position":
            positions.append(last.pop("pair"))
        if self.stage == "call":
            if self.by_position:
                positions.append(last.pop("scale"))
            return jitted(*positions, **last)
        scale = [last.pop("scale")] if self.by_position else []
        staged = getattr(jitted, self.stage)(*positions, *scale, **last)
        compiled = (staged.lower() if self.stage == "trace" else staged).compile()
        last.pop("scale", None)  # the compiled form does not take the static argument
        return compiled(*positions, **last)


DEFAULT_SCALE = 2
"""The default of the argument `scale` of a `Call`."""


@dataclass(frozen=True, eq=False)
class _OwnerOfOne:
    """An object of a plain class whose method takes one argument before the pair."""

    function: Callable[..., Any]

    def method(self, first: Any, pair: Any, scale: Any = DEFAULT_SCALE) -> Any:
        return self.function(first, pair, scale)

    __call__ = method


@dataclass(frozen=True, eq=False)
class _OwnerOfTwo:
    """An object of a plain class whose method takes two arguments before the pair."""

    function: Callable[..., Any]

    def method(self, first: Any, second: Any, pair: Any, scale: Any = DEFAULT_SCALE) -> Any:
        return self.function(first, second, pair, scale)

    __call__ = method


def plus(pair: Any, count: int) -> Any:
    """A pair of arrays, with 1 added so many times.

    Args:
      pair: The arrays.
      count: How often; anything but a Python number is refused.
    """
    for _ in range(count):
        pair = tuple(array + 1 for array in pair)
    return pair
