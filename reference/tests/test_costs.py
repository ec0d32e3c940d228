"""The cost of tree functions in Python calls: these counts do not jitter, as times do."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh
from scutch_reference import meta
from scutch_reference.logical import LogicallyPartitioned

from benchmarks.calls import python_calls

PARAMS = {meta.PARTITION_NAME: "layers"}


def tree_functions(boxes):
    """Each function of the module, on these boxes."""
    mesh = Mesh(np.array(jax.devices()[:1]), ("data",))
    values = meta.unbox(boxes)
    stacked = meta.add_axis(boxes, 0, PARAMS)
    return {
        "map_axis_meta": lambda: meta.map_axis_meta(id, boxes),
        "add_axis": lambda: meta.add_axis(boxes, 0, PARAMS),
        "remove_axis": lambda: meta.remove_axis(stacked, 0, PARAMS),
        "unbox": lambda: meta.unbox(boxes),
        "replace_boxed": lambda: meta.replace_boxed(boxes, values),
        "get_partition_spec": lambda: meta.get_partition_spec(boxes),
        "get_sharding": lambda: meta.get_sharding(boxes, mesh),
    }


@pytest.mark.parametrize("box", [meta.Partitioned, LogicallyPartitioned])
@pytest.mark.parametrize(
    ("function", "most"),
    [
        ("map_axis_meta", 1),
        ("add_axis", 3),
        ("remove_axis", 3),
        ("unbox", 2),
        ("replace_boxed", 2),
        ("get_partition_spec", 4),
        ("get_sharding", 4),
    ],
)
def test_a_tree_function_makes_few_calls_for_each_box(box, function, most):
    """The marginal cost of a box, with nothing that grows faster than the tree."""

    def cost(boxes):
        return python_calls(tree_functions([box(1.0, ("data",))] * boxes)[function])

    assert cost(300) - cost(200) <= 100 * most
    assert cost(300) - cost(200) == cost(200) - cost(100)
