"""Static data: the values in the structure of an object, and the equality of two such values.

A compiled function is chosen by the structure of its arguments, so the parts of a structure need an
equality that is exact. Python's is not: it says that `1 == 1.0 == True` and `0.0 == -0.0`, and that
`nan != nan`; and lists, dictionaries and arrays have no hash. So static data goes by a *key*, a
hashable value that is equal for equal data of equal types alone; `frozen` makes it.

Words: a value is *static* if JAX is to see it as part of the structure, and *data* if JAX is to
trace the arrays in it. `Static` wraps a static value for the place in a tree of JAX where the
structure is kept.

>>> frozen([1, 2]) == frozen([1, 2]), frozen(1) == frozen(True)
(True, False)
>>> Static({"a": [1]}) == Static({"a": [1]})
True
"""

import functools
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from ..errors import UnhashableStaticError
from ..jax_versions import Tracer

_EXACT = frozenset({str, bytes, bool, int, type(None)})


def frozen(value: Any, where: str = "a static value") -> Hashable:
    """Return a hashable key that is equal for equal data alone (JIT-3).

    Args:
      value: Anything hashable; containers of Python, partial functions and concrete arrays go by
        their content.
      where: The name of the value in the message of an error.

    Returns:
      The key. Keys of values of different types differ, and floats go by their `repr`.

    Raises:
      UnhashableStaticError: Something in the value has no hash, such as a traced array.
    """
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
        is_key = jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key)
        array = np.asarray(jax.random.key_data(value) if is_key else value)
        return kind, array.shape, str(value.dtype), array.tobytes()
    try:
        hash(value)
    except TypeError as error:
        raise UnhashableStaticError(place=where, value=value) from error
    return kind, value


@dataclass(eq=False)
class Static:
    """A value that is part of a structure: it hashes and compares by its key.

    The key is made when it is first asked for; until then nobody may change the value.

    Args:
      value: The static value.
      where: The name of the value in the message of an `UnhashableStaticError`.
    """

    value: Any
    where: str = field(default="a static value", repr=False)

    @functools.cached_property
    def key(self) -> Hashable:
        """The key of the value, made by `frozen`, which raises an error if there is none."""
        return frozen(self.value, self.where)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Static) and self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)

    def __reduce__(self) -> tuple[Any, ...]:
        return Static, (self.value, self.where)  # A key has types in it that do not pickle.


def copied(value: Any) -> Any:
    """Copy the containers in a value, so that the caller cannot change the original ones (OBJ-5).

    Args:
      value: Anything. Only `dict`, `list`, `tuple` and `set` themselves, nested, are copied.
    """
    if type(value) is dict:
        return {key: copied(each) for key, each in value.items()}
    if type(value) is tuple and _EXACT.issuperset(map(type, value)):
        return value  # As names of axes are: nothing in it can change.
    return type(value)(map(copied, value)) if type(value) in (list, tuple, set) else value
