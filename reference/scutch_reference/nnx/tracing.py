"""What an object knows of the calls that use it: its trace level, and whether it has changed.

Only the *level* that made an object may change it: else tracers would outlive their traces.

Every call asks for changes. If the *epoch* of the process is the same, no object that was ever
flattened has another structure; if not, the *versions* of objects tell. A *cell* is a list that
ends with the version; that of a variable starts with its value, so that a call reaches it without
touching the variable. With version 0 nobody has flattened the object, so that the epoch stays.
"""

from typing import Any

import jax
import jax.extend.core

from ..errors import TraceLevelError

Tracer: type[Any] = jax.core.Tracer
# JAX 0.4 only has the trace itself.
_opaque_level: Any = getattr(jax.extend.core, "get_opaque_trace_state", None)
# The one owner of the epoch. A lost update of two threads is harmless: each moves a version, too.
EPOCH = [1]


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

    def _begin(self, *cell: Any) -> None:
        for name, start in ("_cell", [*cell, 0]), ("_level", current_level()), ("_plans", None):
            object.__setattr__(self, name, start)

    def _check(self, tried: str) -> None:
        """Raise `TraceLevelError` if this was made at another trace level."""
        if self._level != current_level():
            raise TraceLevelError(tried, self)

    def _changed(self) -> None:
        """Say that the structure is another one now."""
        if self._cell[-1]:
            self._cell[-1] += 1
            EPOCH[0] += 1
