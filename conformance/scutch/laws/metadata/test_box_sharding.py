"""Partition specs, shardings and constraints of boxes: BOX-16 to BOX-18 (`000_`).

A *spec* is JAX's `PartitionSpec`: a mesh axis, several, or `None` for each axis of an array. A
*sharding* is a spec on a mesh. A *constraint* is the operation by which a traced program asks for a
sharding; `unbox` records one where there is a mesh, in context or in the box.

The oracle is JAX: the names of the box as a `PartitionSpec`, a `NamedSharding` made of it, the
operations in the traced program, and the sharding of the array that comes out.
"""

import functools
import warnings

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from scutch.lawkit.boxes import names_of
from scutch.lawkit.domain import assume, not_available
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import raised, reached, requirement
from scutch.lawkit.placement import (
    assert_placed,
    constraints,
    has_sharding,
    in_context,
    splits,
)
from scutch.laws.metadata.manual_axes import constraints_inside, jax_constraints, unnamed_axis
from scutch.strategies import arrays, box_trees, foreign_boxes, leaves, meshes, placed_boxes, trees

pytestmark = pytest.mark.usefixtures("subject")


def _is_box_or_spec(meta):
    """A predicate for JAX's `is_leaf` that stops at boxes, at specs, and at `None`."""
    return lambda x: meta.is_axis_metadata(x) or isinstance(x, PartitionSpec) or x is None


def _pairs(meta, tree, specs):
    """Each outermost box, leaf or `None` of a tree, with the entry of `specs` at the same path."""
    found, structure = jax.tree_util.tree_flatten(tree, is_leaf=_is_box_or_spec(meta))
    answers, other = jax.tree_util.tree_flatten(specs, is_leaf=_is_box_or_spec(meta))
    assert alike(structure, other), f"the specs {specs} have another structure than the tree"
    return list(zip(found, answers, strict=True))


@requirement("metadata/box-specs/names-become-the-spec", must_reach=("own", "foreign"))
@given(tree=box_trees(nested=False))
def test_the_spec_of_a_box_is_its_names(meta, subject, tree):
    """`get_partition_spec(tree)` has `PartitionSpec(*box.names)` in the place of each box."""
    for leaf, spec in _pairs(meta, tree, meta.get_partition_spec(tree)):
        if meta.is_axis_metadata(leaf) and hasattr(leaf, "get_partition_spec"):
            reached("foreign" if hasattr(leaf, "payload") else "own")
            assert alike(spec, PartitionSpec(*subject.named(leaf)))


@requirement("metadata/box-specs/arrays-have-empty-specs", must_reach=("array",))
@given(tree=trees(st.one_of(leaves(), foreign_boxes(arrays()))))
def test_an_unboxed_array_has_an_empty_spec(meta, tree):
    """`get_partition_spec(tree)` has `PartitionSpec()` in the place of everything that has a shape
    and no box.
    """
    for leaf, spec in _pairs(meta, tree, meta.get_partition_spec(tree)):
        if hasattr(leaf, "shape"):
            reached("array")
            assert alike(spec, PartitionSpec())


@requirement("metadata/box-specs/other-leaves-have-none", must_reach=("number",))
@given(tree=trees(leaves()), mesh=meshes())
def test_anything_else_has_no_spec(meta, tree, mesh):
    """`get_partition_spec(tree)` and `get_sharding(tree, mesh)` have `None` in the place of
    everything without a shape.
    """
    for found in (meta.get_partition_spec(tree), meta.get_sharding(tree, mesh)):
        for leaf, one in _pairs(meta, tree, found):
            if not hasattr(leaf, "shape"):
                reached("number")
                assert one is None


@requirement("metadata/box-specs/sharding-follows-the-spec", must_reach=("box", "array"))
@given(
    placed=placed_boxes(),
    own=st.one_of(st.none(), meshes()),
    plain=trees(leaves(), depth=1),
)
def test_the_sharding_is_that_of_the_spec(meta, subject, placed, own, plain):
    """`get_sharding(tree, mesh)` has the `NamedSharding` of each box's and each array's spec on
    `mesh`, whatever mesh the box itself holds.
    """
    box, mesh = placed
    _assume_names(subject, box)
    tree = {"box": subject.make(box.unbox(), names_of(box), own), "plain": plain}
    specs = _pairs(meta, tree, meta.get_partition_spec(tree))
    shardings = _pairs(meta, tree, meta.get_sharding(tree, mesh))
    for (leaf, spec), (_, sharding) in zip(specs, shardings, strict=True):
        if meta.is_axis_metadata(leaf) or hasattr(leaf, "shape"):
            reached("box" if meta.is_axis_metadata(leaf) else "array")
            assert alike(sharding, NamedSharding(mesh, spec))


@requirement("metadata/box-specs/shardings-serve-jit")
@given(placed=placed_boxes(max_rank=2))
def test_shardings_serve_as_out_shardings(meta, subject, placed):
    """A function jitted with `out_shardings=get_sharding(abstract, mesh)` returns arrays with those
    shardings, in the boxes they were in.
    """
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
    """The identity function, as a new function for each class.

    JAX may call the structures of similar classes equal; with one function for all it would then
    reuse a trace of another class.
    """
    return lambda tree: tree


@requirement("metadata/box-constraints/tracing-records-a-constraint")
@given(placed=placed_boxes())
def test_unboxing_under_a_mesh_records_a_constraint(subject, placed):
    """Under a mesh in context, tracing `unbox` records one constraint, with the spec of the box;
    mesh axes of size one may be left out.
    """
    box, mesh = placed
    _assume_names(subject, box)
    with in_context(mesh):
        found = constraints(lambda v: box.replace_boxed(v).unbox(), box.unbox())
    assert alike([splits(each, mesh) for each in found], [splits(names_of(box), mesh)])


@requirement("metadata/box-constraints/tracing-records-a-constraint", must_reach=("sharded",))
@given(placed=placed_boxes(), manual=st.integers(0, 2))
def test_unboxing_inside_shard_map_constrains_the_other_axes(subject, placed, manual):
    """Inside `shard_map` over one mesh axis, `unbox` records the constraint that JAX's own records
    for the names of the box. They are other mesh axes alone.
    """
    box, mesh = placed
    _assume_names(subject, box)
    axis, value = unnamed_axis(mesh, names_of(box), manual), box.unbox()
    expected = jax_constraints(PartitionSpec(*names_of(box)), value, mesh, axis)
    if any(expected):
        reached("sharded")
    found = constraints_inside(lambda v: box.replace_boxed(v).unbox(), value, mesh, axis)
    assert alike(found, expected)


@requirement("metadata/box-constraints/context-mesh-places-the-array")
@given(placed=placed_boxes(max_rank=2))
def test_an_array_unboxed_under_a_mesh_lies_on_it(meta, subject, placed):
    """Under a mesh in context, `unbox` returns an equal array that is sharded as the names of the
    box say.
    """
    _check_unboxed(meta, subject, placed, in_context(placed[1]))


@requirement("metadata/box-constraints/own-mesh-places-the-array")
@given(placed=placed_boxes(own_mesh=True, max_rank=2))
def test_the_mesh_of_a_box_constrains(meta, subject, placed):
    """A box that holds a mesh unboxes to an array that is sharded on it, with no mesh in
    context; also a box that a jitted function closes over.
    """
    _check_unboxed(meta, subject, placed, in_context(None))
    box, mesh = placed
    with in_context(None):
        found = jax.jit(lambda: box.unbox())()
    assert_placed(found, _wrapped(box), _sharding(box, mesh))


@requirement("metadata/box-constraints/own-mesh-places-the-array")
@given(placed=placed_boxes(own_mesh=True, max_rank=2))
def test_the_mesh_of_a_box_constrains_while_jit_is_disabled(meta, subject, placed):
    """Under `jax.disable_jit()`, as one debugs, a box that holds a mesh unboxes to an array that is
    sharded on it, too. There JAX's own constraint does nothing, and `jax.device_put` moves arrays.
    """
    if subject.owned:
        not_available("constraints of an owner's class while jit is disabled")
    _check_unboxed(meta, subject, placed, jax.disable_jit())


@requirement("metadata/box-constraints/own-mesh-wins", must_reach=("another mesh",))
@given(
    placed=placed_boxes(own_mesh=True, max_rank=2),
    context=meshes(axes=(("data", "model"), ("data",))),
)
def test_the_mesh_of_a_box_wins(meta, subject, placed, context):
    """A box that holds a mesh unboxes to an array that is sharded on that mesh, when another mesh
    is in context.
    """
    assume(int(placed[1].size) == int(context.size))
    if not alike(placed[1], context):
        reached("another mesh")
    _check_unboxed(meta, subject, placed, in_context(context))


@requirement("metadata/box-constraints/constraint-can-be-declined", must_reach=("context", "own"))
@given(placed=st.one_of(placed_boxes(), placed_boxes(own_mesh=True)))
def test_no_constraint_when_told_so(subject, placed):
    """`unbox(apply_constraint=False)` returns the wrapped object itself, with a mesh in context or
    in the box.
    """
    box, mesh = placed
    _assume_names(subject, box)
    reached("context" if box.mesh is None else "own")
    with in_context(mesh):
        assert box.unbox(apply_constraint=False) is _wrapped(box)


@requirement("metadata/box-constraints/explicit-axes-move-or-refuse", must_reach=("context", "own"))
@given(
    placed=st.one_of(
        placed_boxes(explicit=True, max_rank=2),
        placed_boxes(explicit=True, own_mesh=True, max_rank=2),
    )
)
def test_an_array_unboxed_under_explicit_axes_lies_on_them(meta, subject, placed):
    """Under a mesh whose axes are `Explicit`, in context or in the box, `unbox` returns an equal
    array that is sharded as the names of the box say, or raises an error; inside `jax.jit`, too.
    """
    box, mesh = placed
    _assume_names(subject, box)
    reached("context" if box.mesh is None else "own")
    with in_context(mesh if box.mesh is None else None):
        for unboxed in (
            lambda: box.unbox(),
            lambda: meta.unbox({"part": [box]})["part"][0],
            lambda: jax.jit(lambda box: box.unbox())(box),
        ):
            found: list[jax.Array] = []
            if raised(lambda call=unboxed, found=found: found.append(call())) is None:
                assert_placed(found[0], _wrapped(box), _sharding(box, mesh))


@requirement("metadata/box-constraints/deprecated-context-counts")
@given(placed=placed_boxes(max_rank=2))
def test_the_deprecated_context_counts(meta, subject, placed):
    """Under `with mesh:`, JAX's deprecated way to put a mesh in context, `unbox` returns an equal
    array that is sharded as the names of the box say.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        _check_unboxed(meta, subject, placed, placed[1])


def _check_unboxed(meta, subject, placed, context):
    """Fail unless a box that is unboxed in a context, alone and in a tree, gives an equal array,
    sharded on the mesh of `placed` as the names of the box say.
    """
    box, mesh = placed
    _assume_names(subject, box)
    with context:
        found = box.unbox(), meta.unbox({"part": [box]})["part"][0]
    for array in found:
        assert_placed(array, _wrapped(box), _sharding(box, mesh))


def _sharding(box, mesh):
    """The sharding of a box on a mesh: each axis by its name."""
    return NamedSharding(mesh, PartitionSpec(*names_of(box)))


def _wrapped(box):
    """The value in a box of one array, without asking the box."""
    leaves = jax.tree_util.tree_leaves(box)
    assert leaves, f"{box} has no leaves, expected those of an array"
    return leaves[0]


def _assume_names(subject, box):
    """Skip boxes with a tuple of mesh axes as a name, where names are logical: a tuple is no
    logical name.
    """
    assume(subject.tuples or not any(isinstance(name, tuple) for name in names_of(box)))
