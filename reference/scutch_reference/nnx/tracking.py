"""What compiled calls go by: trace levels, versions, and static data.

Only the level that made an object may change it: else tracers would outlive their traces. While the
*epoch* of the process stays, no object that was ever flattened has another structure; else their
*versions* tell. A *cell* is a list that ends with the version, which is 0 if nobody has flattened
the object; that of a variable begins with the value, where calls reach it. Static data goes by a
`frozen` key, for Python says that `1 == 1.0 == True`, that `0.0 == -0.0`, and that `nan != nan`.
"""

import functools
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np

from ..errors import TraceLevelError, UnhashableStaticError

Tracer: type[Any] = jax.core.Tracer
# JAX 0.4 only has the trace itself.
_opaque_level: Any = getattr(jax.extend.core, "get_opaque_trace_state", None)
# The one owner of the epoch. A lost update of two threads is harmless: each moves a version, too.
EPOCH = [1]
_EXACT = frozenset({str, bytes, bool, int, type(None)})


def current_level() -> Any:
    """The running trace, as something that is equal to itself and to no other trace."""
    if _opaque_level is not None:
        return _opaque_level(convention="nnx")
    from jax._src import core

    stack = core.thread_local_state.trace_state.trace_stack  # type: ignore[attr-defined]
    return (stack.dynamic, len(stack.stack), id(stack.stack[-1]))


class Tracked:
    """What has a cell and a level; and is a tree of JAX, unless it says `pytree=False`."""

    __slots__ = ("__weakref__", "_cell", "_level", "_plans")
    _cell: list[Any]
    _level: Any
    _plans: dict[Any, Any] | None

    def __init_subclass__(cls, *, pytree: bool = True, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        node: Any = cls
        if pytree:
            jax.tree_util.register_pytree_with_keys(node, node._flatten, node._unflatten)

    def _begin(self, *cell: Any, **slots: Any) -> None:
        slots |= {"_cell": [*cell, 0], "_level": current_level(), "_plans": None}
        for name, start in slots.items():
            object.__setattr__(self, name, start)

    def _check(self, tried: str) -> None:
        """Raise `TraceLevelError` if this was made at another trace level."""
        if self._level != current_level():
            raise TraceLevelError(tried, self, "an object")

    def _changed(self) -> None:
        """Say that the structure is another one now."""
        if self._cell[-1]:
            self._cell[-1] += 1
            EPOCH[0] += 1


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


@dataclass(eq=False)
class Static:
    """A value that is part of a structure: it hashes and compares by its `frozen` key.

    That is made when it is asked for; until then nobody may change the value.
    """

    value: Any
    where: str = field(default="a static value", repr=False)

    @functools.cached_property
    def key(self) -> Hashable:
        """What tells the value from others."""
        return frozen(self.value, self.where)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Static) and self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)


def copied(value: Any) -> Any:
    """Plain containers anew, everything else as it is: what a getter may hand out (OBJ-5)."""
    if type(value) is dict:
        return {key: copied(each) for key, each in value.items()}
    return type(value)(map(copied, value)) if type(value) in (list, tuple, set) else value
