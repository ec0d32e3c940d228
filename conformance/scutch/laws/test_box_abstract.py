"""Shapes and dtypes in the place of arrays: BOX-23."""

import jax
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scutch.lawkit.boxes import outermost_boxes
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import reached, requirement
from scutch.lawkit.placement import in_context
from scutch.strategies import abstract_values, any_boxes, axis_names, placed_boxes, trees

pytestmark = pytest.mark.usefixtures("subject")

abstract_trees = trees(st.one_of(any_boxes(abstract_values()), abstract_values()))


def _concrete(tree):
    return jax.tree_util.tree_map(lambda a: np.zeros(a.shape, a.dtype), tree)


def _abstract(tree):
    return jax.tree_util.tree_map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), tree)


@requirement("BOX-23a", must_reach=("box",))
@given(tree=abstract_trees, index=st.integers(0, 3), name=axis_names())
def test_abstract_values_are_treated_as_arrays_are(meta, tree, index, name):
    """Each function gives abstractly what it gives on arrays."""
    concrete = _concrete(tree)
    params = {meta.PARTITION_NAME: name}
    ranks = [len(box.names) for box in outermost_boxes(meta, tree)]
    if ranks:
        reached("box")
    index = min([index, *ranks])
    for function in (
        meta.unbox,
        lambda t: meta.add_axis(t, index, params),
        lambda t: meta.remove_axis(meta.add_axis(t, index, params), index, params),
        lambda t: meta.replace_boxed(t, meta.unbox(t)),
        lambda t: meta.map_axis_meta(lambda box: box, t),
    ):
        assert alike(function(tree), _abstract(function(concrete)))
    specs, expected = meta.get_partition_spec(tree), meta.get_partition_spec(concrete)
    assert jax.tree_util.tree_structure(specs) == jax.tree_util.tree_structure(expected)
    assert jax.tree_util.tree_leaves(specs) == jax.tree_util.tree_leaves(expected)


@requirement("BOX-23b", must_reach=("context", "own"))
@given(placed=st.one_of(placed_boxes(abstract=True), placed_boxes(abstract=True, own_mesh=True)))
def test_abstract_values_are_accepted_under_a_mesh(meta, subject, placed):
    """A mesh in context, or in the box, is no reason to refuse a shape."""
    box, mesh = placed
    assume(subject.tuples or not any(isinstance(name, tuple) for name in box.names))
    value = box.unbox(apply_constraint=False)
    with in_context(mesh if box.mesh is None else None):
        reached("context" if box.mesh is None else "own")
        for opened in (box.unbox(), meta.unbox({"box": box})["box"]):
            assert (opened.shape, opened.dtype) == (value.shape, value.dtype)
