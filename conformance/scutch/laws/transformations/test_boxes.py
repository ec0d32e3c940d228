"""Boxes in lifted transformations and across the bridge: LIN-2f (`002_`), BRG-4d (`004_`).

A lifted `scan` or `vmap` stacks a boxed parameter, and calls the box's `add_axis` to update its
metadata; for the body it calls `remove_axis`. The bridge turns a box into a variable, and back.

The oracle is the box's own method, called outside of any lift. These laws do not read the names of
a box, so they are tried on box classes without names as well.
"""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scutch.lawkit.boxes import emptied, unplaced
from scutch.lawkit.domain import assume, not_available
from scutch.lawkit.equality import alike
from scutch.lawkit.lifts import stacked
from scutch.lawkit.marks import raised, requirement
from scutch.strategies import arrays, axis_names, boxes, collection_names

pytestmark = pytest.mark.usefixtures("subject")

LIFTS = ("scan", "vmap")
COPIES = 4


@requirement("transformations/fits-rank/lifts-of-linen[own-methods]", must_reach=LIFTS)
@given(
    kind=st.sampled_from(LIFTS),
    box=boxes(arrays(dtypes=("float32",), max_rank=2)),
    index=st.integers(0, 2),
    name=axis_names(),
)
def test_a_lift_asks_the_box_for_its_axis(linen, subject, kind, box, index, name):
    """A box stacked by `scan` or `vmap` has the metadata of its own `add_axis`.

    Inside the body it has the metadata of the box itself.
    """
    index, params, seen = subject.place(index, name, box), subject.params(name), []
    assume(index <= len(box.unbox().shape))

    class Body(linen.Module):
        @linen.compact
        def __call__(self, x, *_):
            seen.append(self.param("w", lambda key: box, unbox=False))
            return (x, None) if kind == "scan" else x

    lifted, rest = stacked(
        linen,
        kind,
        Body,
        COPIES,
        variable_axes={"params": index},
        split_rngs={"params": True},
        metadata_params=params,
    )
    x = np.ones(2, "float32")
    variables = jax.eval_shape(lambda: lifted().init(jax.random.key(0), x, *rest))
    jax.eval_shape(lambda given: lifted().apply(given, x, *rest), variables)
    stack = variables["params"]["w"]
    assert alike(emptied(stack), emptied(box.add_axis(index, params)))
    shape = tuple(map(int, np.insert(box.unbox().shape, index, COPIES)))
    assert alike([leaf.shape for leaf in jax.tree_util.tree_leaves(stack)], [shape])
    assert all(alike(emptied(inside), emptied(box)) for inside in seen)


@requirement("bridge/variables/foreign-box-crosses")
@given(col=collection_names(), box=boxes(arrays(max_rank=2)))
def test_a_box_crosses_and_returns(bridge, subject, col, box):
    """`to_linen_var(to_nnx_var(collection, box))` is alike to `box`.

    A box with names and no mesh may be refused.
    """
    if not subject.crosses:
        not_available(f"{subject.name} has no conversion to a variable, and no attribute `value`")
    found = []
    error = raised(lambda: found.append(bridge.to_linen_var(bridge.to_nnx_var(col, box))))
    if error is None:
        assert alike(found[0], box)
    elif not unplaced(box):
        raise error
