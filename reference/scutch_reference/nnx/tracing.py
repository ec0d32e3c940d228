"""Trace levels: an object remembers the one that made it, and lets no other change it.

Otherwise tracers would outlive their traces, in variables that were made outside.
"""

from typing import Any

import jax
import jax.extend.core

from ..errors import TraceLevelError

Tracer: type[Any] = jax.core.Tracer
# JAX 0.4 only has the trace itself.
_opaque_level: Any = getattr(jax.extend.core, "get_opaque_trace_state", None)


def current_level() -> Any:
    """The running trace, as something that is equal to itself and to no other trace."""
    if _opaque_level is not None:
        return _opaque_level(convention="nnx")
    from jax._src import core

    stack = core.thread_local_state.trace_state.trace_stack  # type: ignore[attr-defined]
    return (stack.dynamic, len(stack.stack), id(stack.stack[-1]))


def check_level(level: Any, tried: str, value: Any, where: str = "an object") -> None:
    """Raise `TraceLevelError` where a value is to be changed that another trace level made."""
    if level != current_level():
        raise TraceLevelError(tried, value, where)
