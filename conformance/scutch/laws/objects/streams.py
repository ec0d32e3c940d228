"""Streams by name, and the keys that they give as numbers, for the laws of streams."""

import jax
import numpy as np
from hypothesis import strategies as st

from scutch.lawkit.equality import alike

NAMES = ("default", "params", "dropout")

seeds = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5), min_size=1)
asked = st.lists(st.sampled_from(NAMES), max_size=5)


def key_numbers(key):
    """The numbers of a key, which can be compared."""
    return np.asarray(jax.random.key_data(key)).tolist()


def next_keys(rngs, names):
    """The next keys of the streams with the given names, as numbers."""
    return [key_numbers(rngs[name]() if not alike(name, "default") else rngs()) for name in names]


def copying_call(nnx, change, shape, filters):
    """The function that changes copies of streams alone, and its options.

    Args:
      nnx: The namespace of objects.
      change: `split` or `fork`.
      shape: The shape of the array of keys that `split` gives a stream.
      filters: A filter of the streams that change.
    """
    if change == "fork":
        return nnx.fork_rngs, {"split": {filters: None}, "graph_updates": False}
    return nnx.split_rngs, {"splits": shape, "only": filters, "graph_updates": False}
