"""Conditions on the values of a function, for faults that are active only where one holds.

A mutant calls `holds` at its fault, with the local variables of the function: those are its
arguments and the values made of them. No code of the implementation runs for the answer.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

import jax
import numpy as np

CALLS: Counter[bool] = Counter()
"""How often the condition of this process's mutant held, and how often it did not."""
MOST = 300
"""The number of values that are looked at in each call."""
WHOLE = (jax.Array, type, ModuleType, FunctionType)
"""Objects whose parts are not looked at."""
SMALL = (str, int, float, bytes, tuple, type(None), type, ModuleType, FunctionType)
"""Objects that are in several places without being shared."""


def holds(condition: str, variables: Mapping[str, Any]) -> bool:
    """Whether a condition of `CONDITIONS` holds for the local variables of a function."""
    values = itertools.islice(_with_parts(tuple(variables.values()), 4), MOST)
    found = CONDITIONS[condition](list(values))
    CALLS[found] += 1
    return found


def _with_parts(value: Any, depth: int) -> Iterator[Any]:
    """A value and the parts of containers and objects in it, `depth` levels deep."""
    parts: Iterable[Any] = ()
    if isinstance(value, list | tuple):
        parts = value[:]
    elif isinstance(value, dict):
        parts = list(dict.values(value))
    elif type(value).__dictoffset__ and not isinstance(value, WHOLE):
        parts = list(object.__getattribute__(value, "__dict__").values())
    yield value
    for each in parts if depth else ():
        yield from _with_parts(each, depth - 1)


def _shapes(values: Sequence[Any]) -> list[tuple[Any, ...]]:
    arrays = (jax.Array, jax.ShapeDtypeStruct, np.ndarray)
    return [tuple(each.shape) for each in values if isinstance(each, arrays)]


def _repeats(values: Sequence[object]) -> bool:
    return len(set(values)) < len(values)


CONDITIONS: Mapping[str, Callable[[Sequence[Any]], bool]] = {
    "a rank above 2": lambda values: any(len(shape) > 2 for shape in _shapes(values)),
    "an axis of size 1": lambda values: any(1 in shape for shape in _shapes(values)),
    "a traced array": lambda values: any(isinstance(each, jax.core.Tracer) for each in values),
    "a repeated name": lambda values: any(
        _repeats([name for name in each if type(name) is str])
        for each in values
        if isinstance(each, tuple)
    ),
    "a shared value": lambda values: _repeats([id(v) for v in values if not isinstance(v, SMALL)]),
    "every second call": lambda values: CALLS.total() % 2 == 1,
}
"""The conditions by their names."""
