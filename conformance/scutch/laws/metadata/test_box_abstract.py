"""Boxes of abstract values: BOX-23 (`000_`, `002_`).

An *abstract value* is a `jax.ShapeDtypeStruct`: a shape and a dtype without contents. The guide of
`002_` initializes abstractly, to know every sharding before an array is made; so boxes and the
functions of trees must take abstract values wherever they take arrays.

The oracle is the same function on zeros of the same shapes and dtypes. Its result, with every array
replaced by its `ShapeDtypeStruct`, must be alike to the result on the abstract tree.
"""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scutch.lawkit.boxes import names_of, outermost_boxes
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import raised, reached, requirement
from scutch.lawkit.placement import in_context
from scutch.strategies import abstract_values, any_boxes, axis_names, placed_boxes, trees

pytestmark = pytest.mark.usefixtures("subject")

abstract_trees = trees(st.one_of(any_boxes(abstract_values()), abstract_values()))


def _concrete(tree):
    """The tree with zeros in the place of its abstract values, in the same boxes."""
    return jax.tree_util.tree_map(lambda a: np.zeros(a.shape, a.dtype), tree)


def _abstract(tree):
    """The tree with an abstract value in the place of every array, in the same boxes."""
    return jax.tree_util.tree_map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), tree)


@requirement("metadata/box-values/abstract-values-count-as-arrays", must_reach=("box",))
@given(tree=abstract_trees, index=st.integers(0, 3), name=axis_names())
def test_abstract_values_are_treated_as_arrays_are(meta, subject, tree, index, name):
    """Every tree function accepts abstract values in the place of arrays.

    Its result is the result on arrays of the same shapes and dtypes, with every array replaced by
    its `ShapeDtypeStruct`. The partition specs are equal.
    """
    concrete = _concrete(tree)
    params, inside = subject.params(name), outermost_boxes(meta, tree)
    if inside:
        reached("box")
    index = subject.place(index, name, *inside)
    for function in (
        meta.unbox,
        lambda t: meta.add_axis(t, index, params),
        lambda t: meta.remove_axis(meta.add_axis(t, index, params), index, params),
        lambda t: meta.replace_boxed(t, meta.unbox(t)),
        lambda t: meta.map_axis_meta(lambda box: box, t),
    ):
        assert alike(function(tree), _abstract(function(concrete)))
    specs, expected = meta.get_partition_spec(tree), meta.get_partition_spec(concrete)
    assert alike(jax.tree_util.tree_structure(specs), jax.tree_util.tree_structure(expected))
    assert alike(jax.tree_util.tree_leaves(specs), jax.tree_util.tree_leaves(expected))


@requirement("metadata/box-values/abstract-values-under-mesh", must_reach=("context", "own"))
@given(placed=st.one_of(placed_boxes(abstract=True), placed_boxes(abstract=True, own_mesh=True)))
def test_abstract_values_are_accepted_under_a_mesh(meta, subject, placed):
    """Unboxing an abstract value under a mesh, in context or in the box, keeps its shape
    and dtype, or raises an error, as JAX's own constraint does.
    """
    box, mesh = placed
    assume(subject.tuples or not any(isinstance(name, tuple) for name in names_of(box)))
    value = box.unbox(apply_constraint=False)
    with in_context(mesh if box.mesh is None else None):
        reached("context" if box.mesh is None else "own")
        for unboxed in (lambda: box.unbox(), lambda: meta.unbox({"box": box})["box"]):
            found = []
            if raised(lambda call=unboxed, found=found: found.append(call())) is None:
                assert alike((found[0].shape, found[0].dtype), (value.shape, value.dtype))
