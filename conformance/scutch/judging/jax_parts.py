"""The private parts of JAX that the judge uses, in this module alone.

`jax.distributed` starts a store of keys and values that all processes of a job share, and offers no
public name for it. Nor is there an option for the MLIR contexts in which JAX lowers programs.
"""

import functools
import os
from typing import Any

import jax
from jax._src import distributed, xla_bridge
from jax._src.interpreters import mlir

_one_context = functools.cache(mlir.make_ir_context)
_LINES = "jax_traceback_in_locations_limit"


def key_value_store() -> Any:
    """The store that the processes of a job share; `jax.distributed.initialize` has been called.

    Its `key_value_set(key, text)` sets a key once; its `blocking_key_value_get(key, milliseconds)`
    waits for a key, and raises an error with `DEADLINE_EXCEEDED` if the key is not set in time.

    Raises:
      RuntimeError: `jax.distributed.initialize` has not been called in this process.
    """
    client = distributed.global_state.client
    if client is None:
        raise RuntimeError("jax.distributed.initialize() must be called before processes can talk")
    return client


def backends_are_started() -> bool:
    """Whether JAX has looked for devices: a fork of this process may hang when it computes."""
    return bool(xla_bridge.backends_are_initialized())


def lower_quickly() -> None:
    """Make JAX lower programs in one MLIR context, and without the Python lines of operations.

    All programs of this process are lowered in one MLIR context. JAX 0.10 makes a context for each
    program and keeps it with the lowered program: that took a sixth of the time of a run, and half
    of its memory. JAX 0.12 lowers ten programs in one context.

    Lowered operations do not tell the Python lines that they come from, unless the user has set
    `JAX_TRACEBACK_IN_LOCATIONS_LIMIT`. That saves a tenth of the time.
    """
    mlir.make_ir_context = _one_context
    if _LINES.upper() not in os.environ:
        jax.config.update(_LINES, 0)  # type: ignore[no-untyped-call]
