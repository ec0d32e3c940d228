"""Specs, shardings and constraints: BOX-16 to BOX-18."""

import functools
import warnings

import jax
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from scutch.lawkit.equality import alike
from scutch.lawkit.marks import reached, requirement
from scutch.lawkit.placement import assert_placed, constraints, entries, has_sharding, in_context
from scutch.strategies import arrays, box_trees, foreign_boxes, leaves, meshes, placed_boxes, trees

pytestmark = pytest.mark.usefixtures("subject")


def _is_box_or_spec(meta):
    return lambda x: meta.is_axis_metadata(x) or isinstance(x, PartitionSpec) or x is None


def _pairs(meta, tree, specs):
    """Each outermost box, leaf or `None` of a tree, with what stands there in its specs."""
    found, structure = jax.tree_util.tree_flatten(tree, is_leaf=_is_box_or_spec(meta))
    answers, other = jax.tree_util.tree_flatten(specs, is_leaf=_is_box_or_spec(meta))
    assert structure == other, f"the specs {specs} have another structure than the tree"
    return list(zip(found, answers, strict=True))


@requirement("BOX-16a", must_reach=("own", "foreign"))
@given(tree=box_trees(nested=False))
def test_the_spec_of_a_box_is_its_names(meta, subject, tree):
    """A box gives its names, in order, in its place."""
    for leaf, spec in _pairs(meta, tree, meta.get_partition_spec(tree)):
        if meta.is_axis_metadata(leaf) and hasattr(leaf, "get_partition_spec"):
            reached("foreign" if hasattr(leaf, "payload") else "own")
            assert spec == PartitionSpec(*leaf.names)


@requirement("BOX-16b", must_reach=("array",))
@given(tree=trees(st.one_of(leaves(), foreign_boxes(arrays()))))
def test_an_unboxed_array_has_an_empty_spec(meta, tree):
    """Whatever has a shape and no box is replicated."""
    for leaf, spec in _pairs(meta, tree, meta.get_partition_spec(tree)):
        if hasattr(leaf, "shape"):
            reached("array")
            assert spec == PartitionSpec()


@requirement("BOX-16c", must_reach=("number",))
@given(tree=trees(leaves()))
def test_anything_else_has_no_spec(meta, tree):
    """What has no shape has no layout."""
    for leaf, spec in _pairs(meta, tree, meta.get_partition_spec(tree)):
        if not hasattr(leaf, "shape"):
            reached("number")
            assert spec is None


@requirement("BOX-17a", must_reach=("box", "none"))
@given(
    placed=placed_boxes(),
    own=st.one_of(st.none(), meshes()),
    plain=trees(leaves(), depth=1),
)
def test_the_sharding_is_that_of_the_spec(meta, subject, placed, own, plain):
    """Leaf by leaf, the sharding is the spec on the mesh, whatever mesh the box holds."""
    box, mesh = placed
    _assume_names(subject, box)
    tree = {"box": subject.make(box.unbox(), box.names, own), "plain": plain}
    pairs = _pairs(meta, meta.get_partition_spec(tree), _unsharded(meta.get_sharding(tree, mesh)))
    reached("box")
    for spec, sharding in pairs:
        if spec is None:
            reached("none")
            assert sharding is None
        else:
            assert sharding.sharding == NamedSharding(mesh, spec)


class _Held:
    """A sharding as an opaque leaf."""

    def __init__(self, sharding):
        self.sharding = sharding


def _unsharded(tree):
    return jax.tree_util.tree_map(lambda s: _Held(s), tree)


@requirement("BOX-17b")
@given(placed=placed_boxes(max_rank=2))
def test_shardings_serve_as_out_shardings(meta, subject, placed):
    """What `jit` returns under these shardings lies as they say, in its box."""
    box, mesh = placed
    _assume_names(subject, box)
    tree = {"box": box, "plain": np.ones(2, "float32")}
    same = _same(type(box))
    shardings = meta.get_sharding(jax.eval_shape(same, tree), mesh)
    made = jax.jit(same, out_shardings=shardings)(tree)
    assert alike(made["box"].replace_boxed(None), box.replace_boxed(None))
    assert_placed(*map(_wrapped, (made["box"], box)), _sharding(box, mesh))
    assert has_sharding(made["plain"], NamedSharding(mesh, PartitionSpec()))


@functools.lru_cache(maxsize=64)
def _same(kind):
    """The identity, for one class: JAX may take structures of alike classes for equal."""
    return lambda tree: tree


@requirement("BOX-18a")
@given(placed=placed_boxes())
def test_unboxing_under_a_mesh_records_a_constraint(subject, placed):
    """Tracing shows one constraint, with the spec of the box."""
    box, mesh = placed
    _assume_names(subject, box)
    with in_context(mesh):
        found = constraints(lambda v: box.replace_boxed(v).unbox(), box.unbox())
    assert found == [entries(box.names)]


@requirement("BOX-18b")
@given(placed=placed_boxes(max_rank=2))
def test_an_array_unboxed_under_a_mesh_lies_on_it(subject, placed):
    """The array is equal, and lies as the box says."""
    box, mesh = placed
    _assume_names(subject, box)
    with in_context(mesh):
        array = box.unbox()
    assert_placed(array, _wrapped(box), _sharding(box, mesh))


@requirement("BOX-18c")
@given(placed=placed_boxes(own_mesh=True, max_rank=2))
def test_the_mesh_of_a_box_constrains(subject, placed):
    """A box that brings its mesh needs none in context."""
    box, mesh = placed
    _assume_names(subject, box)
    assert_placed(box.unbox(), _wrapped(box), _sharding(box, mesh))


@requirement("BOX-18d", must_reach=("another mesh",))
@given(
    placed=placed_boxes(own_mesh=True, max_rank=2),
    context=meshes(axes=(("data", "model"), ("data",))),
)
def test_the_mesh_of_a_box_wins(subject, placed, context):
    """The mesh in context does not matter to a box with its own."""
    box, mesh = placed
    _assume_names(subject, box)
    assume(mesh.size == context.size)
    if mesh != context:
        reached("another mesh")
    with in_context(context):
        array = box.unbox()
    assert_placed(array, _wrapped(box), _sharding(box, mesh))


@requirement("BOX-18e", must_reach=("context", "own"))
@given(placed=st.one_of(placed_boxes(), placed_boxes(own_mesh=True)))
def test_no_constraint_when_told_so(subject, placed):
    """The very object comes out, mesh or no mesh."""
    box, mesh = placed
    _assume_names(subject, box)
    reached("context" if box.mesh is None else "own")
    with in_context(mesh):
        assert box.unbox(apply_constraint=False) is _wrapped(box)


@requirement("BOX-18f")
@given(placed=placed_boxes(explicit=True, max_rank=2))
def test_an_array_unboxed_under_explicit_axes_lies_on_them(subject, placed):
    """Explicit axes are no reason to refuse."""
    box, mesh = placed
    _assume_names(subject, box)
    with in_context(mesh):
        array = box.unbox()
    assert_placed(array, _wrapped(box), _sharding(box, mesh))


@requirement("BOX-18g")
@given(placed=placed_boxes(max_rank=2))
def test_the_deprecated_context_counts(subject, placed):
    """`with mesh:` puts a mesh in context."""
    box, mesh = placed
    _assume_names(subject, box)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with mesh:
            array = box.unbox()
    assert_placed(array, _wrapped(box), _sharding(box, mesh))


def _sharding(box, mesh):
    """The sharding of a box on a mesh: each axis by its name."""
    return NamedSharding(mesh, PartitionSpec(*box.names))


def _wrapped(box):
    return jax.tree_util.tree_leaves(box)[0]


def _assume_names(subject, box):
    """Keep tuples of mesh axes from boxes whose names are logical: there they mean nothing."""
    assume(subject.tuples or not any(isinstance(name, tuple) for name in box.names))
