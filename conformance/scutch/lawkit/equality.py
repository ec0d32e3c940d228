"""Equality that does not trust the implementation's own.

Two values are *alike* when they have the same type, the same parts, and arrays of equal shape,
dtype and contents. It looks at fields, not at `__eq__`, which is itself under judgment.
"""

import dataclasses
from typing import Any

import jax
import numpy as np

_ARRAYS = (np.ndarray, np.generic, jax.Array)
_ATOMS = (str, bytes, bool, int, float, complex, type(None))


def alike(one: Any, other: Any) -> bool:
    """Whether two values are the same in all that can be seen of them."""
    if one is other:
        return True
    if isinstance(one, _ARRAYS):
        return isinstance(other, _ARRAYS) and _same_array(one, other)
    kind = type(one)
    if kind is not type(other):
        return False
    if issubclass(kind, _ATOMS):
        return bool(one == other)
    if issubclass(kind, dict):
        return one.keys() == other.keys() and all(alike(one[k], other[k]) for k in one)
    if kind is list or kind is tuple:
        return len(one) == len(other) and all(map(alike, one, other))
    if dataclasses.is_dataclass(kind):
        return all(
            alike(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(kind)
        )
    if hasattr(one, "names") and hasattr(one, "__dict__"):
        return alike(vars(one), vars(other))
    return bool(one == other)


def _same_array(one: Any, other: Any) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if jax.numpy.issubdtype(one.dtype, jax.dtypes.prng_key):
        one, other = jax.random.key_data(one), jax.random.key_data(other)
    return np.array_equal(np.asarray(one), np.asarray(other))
