"""Static data: what a function is specialized on, so it must be hashable and compare by content.

Python says that `1 == 1.0 == True`, that `0.0 == -0.0`, and that `nan != nan`; a program may tell
the first ones apart, and cannot tell the last ones. So static data is compared by a `frozen` key
that says what Python's equality does not.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import UnhashableStaticError
from .tracing import Tracer

_EXACT = frozenset({str, bytes, bool, int, type(None)})


def frozen(value: Any, where: str = "a static value") -> Hashable:
    """A hashable key that is equal for equal static data, and for nothing else (JIT-3).

    Raises:
      UnhashableStaticError: `value`, which is at `where`, is not hashable, nor a known container.
    """
    kind = type(value)
    if kind in _EXACT:
        return (kind, value)
    if kind in (float, complex):
        return (kind, repr(value))
    if isinstance(value, tuple | list):
        return (kind, *(frozen(each, where) for each in value))
    if isinstance(value, Mapping):
        return (kind, frozenset((frozen(k, where), frozen(v, where)) for k, v in value.items()))
    if isinstance(value, set | frozenset):
        return (kind, frozenset(frozen(each, where) for each in value))
    if isinstance(value, functools.partial):
        return (kind, value.func, frozen(value.args, where), frozen(value.keywords, where))
    if isinstance(value, np.ndarray | jax.Array) and not isinstance(value, Tracer):
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            return (kind, str(value.dtype), frozen(jax.random.key_data(value)))
        array = np.asarray(value)
        return (kind, array.shape, str(array.dtype), array.tobytes())
    try:
        hash(value)
    except TypeError as error:
        raise UnhashableStaticError(where, value) from error
    return (kind, value)


class Static:
    """A value that is part of a structure: it hashes and compares by its `frozen` key."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any, where: str = "a static value"):
        self.value, self.key = value, frozen(value, where)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Static) and self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Static({self.value!r})"


def copied(value: Any) -> Any:
    """Plain containers anew, everything else as it is: what a getter may hand out (OBJ-5)."""
    if type(value) is dict:
        return {key: copied(each) for key, each in value.items()}
    return type(value)(map(copied, value)) if type(value) in (list, tuple, set) else value
