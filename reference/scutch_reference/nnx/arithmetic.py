"""Variables stand in for their values in Python expressions: `kernel @ x`, `-bias`, `abs(v)`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

_UNARY = ("neg", "pos", "abs", "invert")
_BINARY = (
    *("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow"),
    *("lshift", "rshift", "and", "xor", "or"),
)
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_CONVERSIONS = {"int": int, "float": float, "complex": complex, "bool": bool, "len": len}


def _bare(value: Any) -> Any:
    """The value of a variable, or the value itself."""
    return value.get_value() if isinstance(value, Arithmetic) else value


def _operation(name: str) -> Callable[..., Any]:
    function = getattr(operator, f"__{name}__")
    return lambda self, *others: function(self.get_value(), *map(_bare, others))


def _reflected(name: str) -> Callable[..., Any]:
    function = getattr(operator, f"__{name}__")
    return lambda self, other: function(_bare(other), self.get_value())


def _in_place(name: str) -> Callable[..., Any]:
    def refuse(self: Any, other: Any) -> Any:
        raise NotImplementedError(
            f"In-place operations would rebind the attribute to an array. Instead of "
            f"`variable {name}= x`, write `variable[...] {name}= x`."
        )

    return refuse


class Arithmetic:
    """The operators of a value, for a class that has `get_value`."""

    __slots__ = ()

    def get_value(self) -> Any:
        """The value that operators work on."""
        raise NotImplementedError

    __hash__ = object.__hash__

    def __round__(self, ndigits: int = 0) -> Any:
        return round(self.get_value(), ndigits)

    def __index__(self) -> int:
        return operator.index(self.get_value())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get_value())

    def __contains__(self, item: Any) -> bool:
        return item in self.get_value()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the value."""
        return self.get_value()(*args, **kwargs)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return np.asarray(self.get_value()).__array__(*args, **kwargs)

    def __jax_array__(self) -> Any:
        return self.get_value()


_SYMBOLS = dict(
    zip(_BINARY[:8], ("+", "-", "*", "@", "/", "//", "%", "**"), strict=True),
    lshift="<<",
    rshift=">>",
    **{"and": "&", "xor": "^", "or": "|"},
)
for _name in (*_UNARY, *_BINARY, *_COMPARISONS):
    setattr(Arithmetic, f"__{_name}__", _operation(_name))
for _name in _BINARY:
    setattr(Arithmetic, f"__r{_name}__", _reflected(_name))
    setattr(Arithmetic, f"__i{_name}__", _in_place(_SYMBOLS[_name]))
for _name, _convert in _CONVERSIONS.items():
    setattr(Arithmetic, f"__{_name}__", lambda self, _convert=_convert: _convert(self.get_value()))
