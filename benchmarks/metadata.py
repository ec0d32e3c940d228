"""The functions of sharding metadata on whole trees of boxes.

The floor, `jax`, is a plain `jax.tree.map` over the same tree without boxes. `time_*` are seconds,
for people. `track_*` count Python calls, which do not jitter, for the gate. An implementation that
is not installed, or lacks a feature at the commit that is measured, is skipped.
"""

import functools
import gc

import jax
import numpy as np
from jax.sharding import Mesh

from .calls import python_calls
from .libraries import METADATA, loaded

FUNCTIONS = (
    "map_axis_meta",
    "add_axis",
    "remove_axis",
    "unbox",
    "replace_boxed",
    "get_partition_spec",
    "get_sharding",
)


@functools.cache
def calls(implementation, boxes):
    """Each function as a call without arguments, on a tree of layers with ten boxes each."""
    value = np.ones((4, 2), np.float32)
    plain = [{f"p{i}": value for i in range(10)} for _ in range(boxes // 10)]
    if implementation == "jax":
        return dict.fromkeys(FUNCTIONS, lambda: jax.tree_util.tree_map(lambda x: x, plain))
    meta = loaded(METADATA[implementation])
    names, added = ("data", None), {meta.PARTITION_NAME: "layers"}
    boxed = jax.tree_util.tree_map(lambda x: meta.Partitioned(x, names), plain)
    stacked = meta.add_axis(boxed, 0, added)
    mesh = Mesh(np.array(jax.devices()[:1]), ("data",))
    return {
        "map_axis_meta": lambda: meta.map_axis_meta(lambda x: x, boxed),
        "add_axis": lambda: meta.add_axis(boxed, 0, added),
        "remove_axis": lambda: meta.remove_axis(stacked, 0, added),
        "unbox": lambda: meta.unbox(boxed),
        "replace_boxed": lambda: meta.replace_boxed(boxed, plain),
        "get_partition_spec": lambda: meta.get_partition_spec(boxed),
        "get_sharding": lambda: meta.get_sharding(boxed, mesh),
    }


class Trees:
    """One call of one function on a whole tree of boxes."""

    params = ([*METADATA, "jax"], list(FUNCTIONS), [100, 1000, 10000])
    param_names = ("implementation", "function", "boxes")

    def setup(self, implementation, function, boxes):
        """Build the tree once in a process; asv calls this before every sample."""
        self.call = calls(implementation, boxes)[function]
        gc.disable()

    def teardown(self, implementation, function, boxes):
        """Turn the garbage collector on again."""
        gc.enable()

    def time_function(self, implementation, function, boxes):
        """Seconds of one call."""
        self.call()

    def track_calls(self, implementation, function, boxes):
        """Python function calls in one call, divided by the number of boxes."""
        return python_calls(self.call) / boxes

    track_calls.unit = "Python calls per box"
