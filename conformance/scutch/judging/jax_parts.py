"""The private parts of JAX that the judge uses, in this module alone.

`jax.distributed` starts a store of keys and values that all processes of a job share, and offers no
public name for it.
"""

from typing import Any

from jax._src import distributed, xla_bridge


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
