"""Boxes as pytree nodes: BOX-1 and BOX-2 (`000_`).

JAX's transformations see a box as a node of a tree: its *leaves* are the leaves of its value.
Everything else, its class, names and mesh, is *static*: part of the tree structure, by which JAX
tells one traced program from another.

The oracle is JAX's own tree functions and transformations on the bare values.
"""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scutch.lawkit.boxes import emptied, names_of, outermost_boxes
from scutch.lawkit.domain import assume, not_available
from scutch.lawkit.equality import alike, assert_same_objects, says_equal, says_unequal
from scutch.lawkit.marks import reached, requirement
from scutch.laws.metadata.explicit_axes import explicit
from scutch.strategies import (
    any_boxes,
    arrays,
    box_trees,
    boxes,
    boxes_with_mesh,
    meshes,
    nested_boxes,
    trees,
    values,
)

pytestmark = pytest.mark.usefixtures("subject")

floats = arrays(dtypes=("float32",), max_rank=2)
vectors = arrays(dtypes=("float32",), max_rank=1)


@requirement("metadata/box-values/only-boxes-are-metadata")
@given(box=st.one_of(any_boxes(), nested_boxes()))
def test_a_box_is_axis_metadata(meta, box):
    """`is_axis_metadata` is true of every box, of the implementation's classes and of
    foreign ones.
    """
    assert meta.is_axis_metadata(box) is True


@requirement("metadata/box-values/only-boxes-are-metadata")
@given(tree=trees())
def test_nothing_else_is_axis_metadata(meta, tree):
    """`is_axis_metadata` is false of arrays, containers, specs and classes."""
    assert meta.is_axis_metadata(tree) is False
    assert meta.is_axis_metadata(jax.sharding.PartitionSpec("data")) is False
    assert meta.is_axis_metadata(meta.Partitioned) is False


@requirement("metadata/box-nodes/leaves-are-the-value", must_reach=("nested",))
@given(box=st.one_of(any_boxes(), nested_boxes()))
def test_the_leaves_of_a_box_are_those_of_its_value(meta, box):
    """Flattening a box gives the same leaf objects, in the same order, as flattening its value."""
    value = box.unbox()
    if meta.is_axis_metadata(value):
        reached("nested")
    assert_same_objects(jax.tree_util.tree_leaves(box), jax.tree_util.tree_leaves(value))


@requirement("metadata/box-nodes/unflattening-restores-the-box")
@given(box=st.one_of(any_boxes(), nested_boxes(), boxes_with_mesh()))
def test_unflattening_restores_a_box(box):
    """A box that is flattened and unflattened is like the original."""
    leaves, structure = jax.tree_util.tree_flatten(box)
    assert alike(jax.tree_util.tree_unflatten(structure, leaves), box)


@requirement(
    "metadata/box-nodes/structure-holds-class-names",
    must_reach=("equal", "names", "value", "class"),
)
@given(one=any_boxes(arrays(max_rank=2)), other=any_boxes(arrays(max_rank=2)))
def test_structure_is_class_names_and_value_structure(subject, one, other):
    """Two boxes have equal tree structures exactly when their classes, all that is static in them
    and their value structures are equal; equal structures have equal hashes.

    A box of an owner's class may note the shape and dtype of its value: another value is like it.
    """
    structure = jax.tree_util.tree_structure
    same_class = type(one) is type(other)
    assume(same_class or not _confused_by_jax(one, other))
    same_names = same_class and alike(emptied(one), emptied(other))
    reached("class" if not same_class else "names" if not same_names else "equal")
    assert says_equal(structure(one), structure(other)) is same_names
    if same_class:
        value = np.zeros_like(other.unbox()) if subject.owned else one.unbox()
        renamed = other.replace_boxed(value)
        assert says_equal(structure(renamed), structure(other))
        assert hash(structure(renamed)) == hash(structure(other))
        reached("value")
    if same_class and subject.holds({}):
        assert says_unequal(structure(other.replace_boxed({"a": one.unbox()})), structure(other))


def _confused_by_jax(one, other):
    """Whether JAX calls the structures of two boxes equal although their classes differ.

    No box class can prevent that: for classes registered by `register_dataclass`, some versions of
    JAX compare the static values only.
    """
    structures = [jax.tree_util.tree_structure(box) for box in (one, other)]
    kinds = [(structure.node_data() or [None])[0] for structure in structures]
    return says_equal(structures[0], structures[1]) and kinds[0] is not kinds[1]


@requirement("metadata/box-nodes/structure-holds-the-mesh", must_reach=("equal", "unequal"))
@given(box=boxes(arrays(max_rank=2)), meshes=st.tuples(*2 * [st.integers(0, 3)]))
def test_structure_holds_the_mesh(subject, box, meshes):
    """Two boxes that differ in their meshes alone have different tree structures; with equal meshes
    they have equal ones.
    """
    devices = np.array(jax.devices())
    drawn = [
        None,
        jax.sharding.Mesh(devices[:1], ("data",)),
        jax.sharding.Mesh(devices[:1], ("model",)),
        jax.sharding.Mesh(devices[:2], ("data",)),  # the second again, where there is one device
    ]
    one, other = (subject.make(box.unbox(), names_of(box), drawn[which]) for which in meshes)
    equal = drawn[meshes[0]] == drawn[meshes[1]]
    reached("equal" if equal else "unequal")
    structures = jax.tree_util.tree_structure(one), jax.tree_util.tree_structure(other)
    assert says_equal(structures[0], structures[1]) is equal


@requirement("metadata/box-nodes/structure-holds-the-mesh", must_reach=("the same", "others"))
@given(box=boxes(arrays(max_rank=2)), mesh=meshes(), types=st.tuples(*2 * [st.booleans()]))
def test_types_of_mesh_axes_are_part_of_the_structure(subject, box, mesh, types):
    """Two boxes whose meshes have the same devices and names have equal tree structures exactly
    when the axes have the same types, `Auto` or `Explicit`.
    """
    meshes_by_type = {False: mesh, True: explicit(subject, mesh)}
    same = types[0] is types[1]
    reached("the same" if same else "others")
    made = [
        subject.make(box.unbox(), names_of(box), meshes_by_type[is_explicit])
        for is_explicit in types
    ]
    assert says_equal(*map(jax.tree_util.tree_structure, made)) is same


@requirement("metadata/box-nodes/unflattening-restores-the-box")
@given(box=boxes(arrays(max_rank=2)), mesh=meshes())
def test_unflattening_restores_the_types_of_mesh_axes(subject, box, mesh):
    """A box with a mesh of `Explicit` axes that is flattened and unflattened has such a mesh."""
    mesh = explicit(subject, mesh)
    made = subject.make(box.unbox(), names_of(box), mesh)
    leaves, structure = jax.tree_util.tree_flatten(made)
    back = jax.tree_util.tree_unflatten(structure, leaves)
    assert alike(tuple(back.mesh.axis_types), tuple(mesh.axis_types))


@requirement("metadata/box-nodes/leaves-are-the-value", must_reach=("in a tree", "moments"))
@given(
    box=boxes(arrays(dtypes=("float32",), max_rank=2)),
    key=st.sampled_from(["k", "kernel", 0, 1]),
    where=st.sampled_from(["alone", "in a tree", "moments"]),
)
def test_the_leaf_of_a_box_has_the_key_path_of_its_field(subject, box, key, where):
    """The key path of a boxed array ends in the field `value`, also in a tree, and in the moments
    that an optimizer makes of it: masks and checkpoints find parameters by their paths.
    """
    if subject.owned:
        not_available("key paths, which an owner's class may lack")
    tree = box if where == "alone" else {"layers": [{key: box}]}
    path = "" if where == "alone" else f"['layers'][0][{key!r}]"
    if where == "moments":
        tree = jax.tree_util.tree_map(np.zeros_like, tree)
    found, _ = jax.tree_util.tree_flatten_with_path(tree)
    assert alike([jax.tree_util.keystr(each) for each, _ in found], [f"{path}.value"])


@requirement("metadata/box-nodes/tree-map-keeps-boxes", must_reach=("box",))
@given(tree=st.one_of(box_trees(), boxes_with_mesh()))
def test_tree_map_keeps_boxes(meta, tree):
    """`jax.tree.map` applies its function to the leaves inside boxes, never to a box, and the
    result has the boxes of the tree.
    """
    seen = []

    def wrap(leaf):
        seen.append(leaf)
        return Wrapped(leaf)

    mapped = jax.tree_util.tree_map(wrap, tree)
    back = jax.tree_util.tree_map(lambda w: w.leaf, mapped)
    if outermost_boxes(meta, tree):
        reached("box")
    assert alike(back, tree)
    assert not any(meta.is_axis_metadata(leaf) for leaf in seen)


class Wrapped:
    """Holds a leaf; it is itself a leaf, and no array."""

    def __init__(self, leaf):
        self.leaf = leaf


@requirement("metadata/box-nodes/tracing-keeps-boxes")
@given(box=any_boxes(floats), name=st.sampled_from(["eval_shape", "jit"]))
def test_tracing_carries_boxes(box, name):
    """A function that is traced by `jax.jit` or `jax.eval_shape` receives and returns boxes of the
    class, names and mesh that went in.
    """
    received = []

    def function(box):
        received.append(box)
        return {"box": box, "doubled": box.replace_boxed(box.unbox() * 2)}

    shapes = jax.eval_shape(jax.jit(function) if name == "jit" else function, box)
    expected = jax.tree_util.tree_map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), box)
    assert alike(shapes, {"box": expected, "doubled": expected})
    assert received, "the function was not traced"
    assert alike(emptied(received[0]), emptied(box))


@requirement("metadata/box-nodes/gradients-are-boxed-alike")
@given(boxed=st.dictionaries(st.sampled_from("ab"), any_boxes(vectors), min_size=1, max_size=2))
def test_gradients_are_boxed_alike(boxed):
    """The gradient of a sum of squares is the tree of parameters with every value doubled, in the
    same boxes.
    """

    def loss(tree):
        return sum((leaf**2).sum() for leaf in jax.tree_util.tree_leaves(tree))

    gradients = jax.grad(loss)(boxed)
    assert alike(gradients, jax.tree_util.tree_map(lambda x: 2 * x, boxed))


@requirement("metadata/box-nodes/tracing-keeps-boxes")
@given(box=any_boxes(arrays(dtypes=("float32",), min_rank=1, max_rank=3)))
def test_vmap_and_scan_carry_boxes(box):
    """`jax.vmap` and `jax.lax.scan` map over the values inside boxes; class, names and mesh are
    those that went in.
    """
    value = box.unbox()
    assume(value.shape[0] > 0)
    received = []

    def body(carry, mapped):
        received.append(mapped)
        return carry, mapped

    shapes = jax.eval_shape(lambda b: jax.vmap(lambda x: body(x, x)[1])(b), box)
    carried, stacked = jax.eval_shape(lambda b: jax.lax.scan(body, b, b), box)
    whole = jax.tree_util.tree_map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), box)
    assert alike((shapes, carried, stacked), (whole, whole, whole))
    assert all(alike(emptied(row), emptied(box)) for row in received)


@requirement("metadata/box-nodes/tracing-keeps-boxes")
@given(box=any_boxes(values()))
def test_identity_survives_tracing(box):
    """Boxes of arrays, numbers and keys can be traced by `jax.eval_shape`, and come out with the
    class, names and mesh that went in.
    """
    assume(not isinstance(box.unbox(), jax.ShapeDtypeStruct))
    shaped = jax.eval_shape(lambda b: b, box)
    assert alike(emptied(shaped), emptied(box))
