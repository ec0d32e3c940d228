"""Python's operators by the names of its `ast`: the sign of each, and its function.

COMPARISONS["NotIn"]      # ("not in", and a function of two operands)
OPPOSITES["not in"]       # "in"
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any

COMPARISONS: Mapping[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "Eq": ("==", operator.eq),
    "NotEq": ("!=", operator.ne),
    "Lt": ("<", operator.lt),
    "LtE": ("<=", operator.le),
    "Gt": (">", operator.gt),
    "GtE": (">=", operator.ge),
    "Is": ("is", operator.is_),
    "IsNot": ("is not", operator.is_not),
    "In": ("in", lambda one, other: one in other),
    "NotIn": ("not in", lambda one, other: one not in other),
}
OPPOSITES = {
    "==": "!=", "<": ">=", "<=": ">", "is": "is not", "in": "not in",
    "!=": "==", ">=": "<", ">": "<=", "is not": "is", "not in": "in",
}  # fmt: skip
"""The sign that asks the opposite of each comparison."""
COMBINATIONS: Mapping[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "Add": ("+", operator.add),
    "Sub": ("-", operator.sub),
    "Mult": ("*", operator.mul),
    "Div": ("/", operator.truediv),
    "FloorDiv": ("//", operator.floordiv),
    "Mod": ("%", operator.mod),
    "Pow": ("**", operator.pow),
    "MatMult": ("@", operator.matmul),
    "BitAnd": ("&", operator.and_),
    "BitOr": ("|", operator.or_),
    "BitXor": ("^", operator.xor),
    "LShift": ("<<", operator.lshift),
    "RShift": (">>", operator.rshift),
}
IN_PLACE: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": operator.iadd,
    "Sub": operator.isub,
    "Mult": operator.imul,
    "Div": operator.itruediv,
    "FloorDiv": operator.ifloordiv,
    "Mod": operator.imod,
    "Pow": operator.ipow,
    "MatMult": operator.imatmul,
    "BitAnd": operator.iand,
    "BitOr": operator.ior,
    "BitXor": operator.ixor,
    "LShift": operator.ilshift,
    "RShift": operator.irshift,
}
TURNS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "USub": ("-", operator.neg),
    "UAdd": ("+", operator.pos),
    "Invert": ("~", operator.invert),
}
