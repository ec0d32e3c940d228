"""Static data: what a function is specialized on, so it must be hashable and compare by content.

Python says that `1 == 1.0 == True`, that `0.0 == -0.0`, and that `nan != nan`; a program may tell
the first ones apart, and cannot tell the last ones. So it is compared by a `frozen` key.
"""

import functools
from collections.abc import Hashable, Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import UnhashableStaticError
from .tracing import Tracer

_EXACT = frozenset({str, bytes, bool, int, type(None)})


def frozen(value: Any, where: str = "a static value") -> Hashable:
    """A hashable key that is equal for equal data alone, or `UnhashableStaticError` (JIT-3)."""
    kind, freeze = type(value), functools.partial(frozen, where=where)
    if kind in _EXACT:
        return kind, value
    if kind in (float, complex):
        return kind, repr(value)
    if isinstance(value, tuple | list):
        return kind, *map(freeze, value)
    if isinstance(value, Mapping | set | frozenset):
        return kind, frozenset(map(freeze, value.items() if isinstance(value, Mapping) else value))
    if isinstance(value, functools.partial):
        return kind, value.func, freeze(value.args), freeze(value.keywords)
    if isinstance(value, np.ndarray | jax.Array) and not isinstance(value, Tracer):
        is_key = jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
        array = np.asarray(jax.random.key_data(value) if is_key else value)
        return kind, array.shape, str(value.dtype), array.tobytes()
    try:
        hash(value)
    except TypeError as error:
        raise UnhashableStaticError(where, value) from error
    return kind, value


@dataclass(unsafe_hash=True)
class Static:
    """A value that is part of a structure: it hashes and compares by its `frozen` key."""

    value: Any = field(compare=False)
    key: Hashable = field(init=False, repr=False)
    where: InitVar[str] = "a static value"

    def __post_init__(self, where: str) -> None:
        self.key = frozen(self.value, where)


def copied(value: Any) -> Any:
    """Plain containers anew, everything else as it is: what a getter may hand out (OBJ-5)."""
    if type(value) is dict:
        return {key: copied(each) for key, each in value.items()}
    return type(value)(map(copied, value)) if type(value) in (list, tuple, set) else value
