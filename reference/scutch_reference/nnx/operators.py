"""Python's operations on variables, which act on their values: `variable + 1` is an array.

>>> from scutch_reference import nnx
>>> weight = nnx.Param(2.0)
>>> weight + 1, 1 - weight, -weight, float(weight)
(3.0, -1.0, -2.0, 2.0)
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..types import Tree


class Operators:
    """The base of variables: Python's operations get the result of `get_value` in their place."""

    __slots__ = ()


def value_of(value: Tree) -> Tree:
    """Return the value of a variable; return any other argument itself."""
    return value.get_value() if isinstance(value, Operators) else value  # type: ignore[attr-defined]


# Python's operations on a variable act on its value. The method on the left calls the function on
# the right with the values of its operands.
_ANSWERED_BY_THE_VALUE: dict[str, Callable[..., Any]] = {
    "__array__": np.asarray,
    "__jax_array__": value_of,
    "__neg__": operator.neg,
    "__pos__": operator.pos,
    "__abs__": operator.abs,
    "__invert__": operator.invert,
    "__eq__": operator.eq,
    "__ne__": operator.ne,
    "__lt__": operator.lt,
    "__le__": operator.le,
    "__gt__": operator.gt,
    "__ge__": operator.ge,
    "__contains__": operator.contains,
    "__index__": operator.index,
    "__call__": operator.call,
    "__int__": int,
    "__float__": float,
    "__complex__": complex,
    "__bool__": bool,
    "__len__": len,
    "__iter__": iter,
    "__round__": round,
}
# Operators of two operands: `a + b` is `a.__add__(b)`, or if `a` has no such method
# `b.__radd__(a)`; `a += b` is `a.__iadd__(b)`.
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "matmul": operator.matmul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
    "and": operator.and_,
    "xor": operator.xor,
    "or": operator.or_,
}


def _of_values(function: Callable[..., Any], *, reflected: bool = False) -> Callable[..., Any]:
    """Return a method that calls a function with the values of its operands.

    Args:
      function: Gets the operands, each variable replaced by its value, and the named arguments.
      reflected: Whether the operands are handed on in reverse order, as `__radd__` needs it.

    Returns:
      A function whose first operand is the variable; it returns the output of `function`.
    """
    order = -1 if reflected else 1
    return lambda *operands, **named: function(*[*map(value_of, operands)][::order], **named)


def _refuse_assignment(self: Any, other: Tree) -> Tree:
    raise NotImplementedError("`v += x` would make `v` an array. Write `v[...] += x`.")


for _method, _function in _ANSWERED_BY_THE_VALUE.items():
    setattr(Operators, _method, _of_values(_function))
for _operator, _function in _OPERATORS.items():
    setattr(Operators, f"__{_operator}__", _of_values(_function))
    setattr(Operators, f"__r{_operator}__", _of_values(_function, reflected=True))
    setattr(Operators, f"__i{_operator}__", _refuse_assignment)
