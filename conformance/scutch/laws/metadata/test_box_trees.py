"""Functions over trees of boxes: BOX-12 to BOX-15 (`000_`).

A tree is any nesting of containers, with boxes and other leaves in it. The functions
`map_axis_meta`, `add_axis` and `remove_axis` act on the *outermost* boxes, those in no other box;
`unbox` opens boxes in boxes too, and `replace_boxed` puts values back under every layer.

The oracle is a second route: the method of each outermost box, put together again by JAX's own tree
functions.
"""

import jax
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.inputs.descriptions import Array, Box
from scutch.lawkit.boxes import outermost, outermost_boxes
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, assert_same_objects, plain_text
from scutch.lawkit.marks import is_partitioning_error, raised, reached, refused, requirement
from scutch.strategies import any_boxes, arrays, axis_names, box_trees, boxes, leaves, trees

pytestmark = pytest.mark.usefixtures("subject")

positions = st.integers(0, 4)


def _unboxed(meta, tree):
    """The tree with every box, at any depth, replaced by its value: computed box by box, without
    the tree function `unbox`.
    """
    if meta.is_axis_metadata(tree):
        return _unboxed(meta, tree.unbox())
    found, rebuild = outermost(meta, tree)
    if len([*found]) == 1 and found[0] is tree:
        return tree
    return rebuild([_unboxed(meta, leaf) for leaf in found])


def _within(meta, subject, tree, index, name):
    """`index`, or one that is allowed for each of the outermost boxes.

    An index beyond the rank is the matter of BOX-7, which is not claimed for every box class.
    """
    return subject.place(index, name, *outermost_boxes(meta, tree))


@requirement("metadata/box-trees/map-calls-once-per-box", must_reach=("several",))
@given(tree=box_trees())
@example(tree=[Box(Array(()), ()), Box(Array((2,)), ("data",))])
def test_map_axis_meta_calls_once_for_each_box(meta, tree):
    """`map_axis_meta(f, tree)` calls `f` with each outermost box, once and in JAX's order, and puts
    the result in the place of the box.
    """
    found, rebuild = outermost(meta, tree)
    expected = outermost_boxes(meta, tree)
    if len(expected) > 1:
        reached("several")
    seen = []

    def mark(box):
        seen.append(box)
        return f"box {len(seen)}"

    mapped = meta.map_axis_meta(mark, tree)
    assert_same_objects(seen, expected)
    names = iter(f"box {n}" for n in range(1, len(seen) + 1))
    replaced = [next(names) if meta.is_axis_metadata(leaf) else leaf for leaf in found]
    assert alike(mapped, rebuild(replaced))


@requirement("metadata/box-trees/map-keeps-other-leaves", must_reach=("leaf",))
@given(tree=box_trees())
def test_map_axis_meta_leaves_all_else(meta, tree):
    """`map_axis_meta` returns every leaf that is no box as the same object, in containers of the
    same types.
    """
    before, _ = outermost(meta, tree)
    mapped = meta.map_axis_meta(lambda box: box, tree)
    after, _ = outermost(meta, mapped)
    assert_same_objects(after, before)
    if not all(map(meta.is_axis_metadata, before)):
        reached("leaf")
    assert alike(mapped, tree)


@requirement("metadata/box-trees/axes-change-box-by-box")
@given(tree=box_trees(), index=positions, name=axis_names())
def test_adding_to_a_tree_adds_to_each_box(meta, subject, tree, index, name):
    """`add_axis(tree, index, params)` is the tree in which each outermost box is
    `box.add_axis(index, params)`.
    """
    index, params = _within(meta, subject, tree, index, name), subject.params(name)
    found, rebuild = outermost(meta, tree)
    each = [b.add_axis(index, params) if meta.is_axis_metadata(b) else b for b in found]
    assert alike(meta.add_axis(tree, index, params), rebuild(each))


@requirement("metadata/box-trees/axes-change-box-by-box")
@given(tree=box_trees(), index=positions, name=axis_names())
def test_removing_from_a_tree_removes_from_each_box(meta, subject, tree, index, name):
    """`remove_axis(tree, index, params)` is the tree in which each outermost box is
    `box.remove_axis(index, params)`.
    """
    index, params = _within(meta, subject, tree, index, name), subject.params(name)
    grown = meta.add_axis(tree, index, params)
    found, rebuild = outermost(meta, grown)
    each = [b.remove_axis(index, params) if meta.is_axis_metadata(b) else b for b in found]
    assert alike(meta.remove_axis(grown, index, params), rebuild(each))


@requirement("metadata/box-trees/reverse-removal-restores-tree", must_reach=("twice",))
@given(
    tree=trees(st.one_of(any_boxes(arrays()), leaves())),
    added=st.lists(st.tuples(positions, axis_names()), max_size=3),
)
@example(tree=Box(Array((2,)), ("data",)), added=[(1, "model"), (0, "layers")])
def test_axes_removed_in_reverse_order_restore_the_tree(meta, subject, tree, added):
    """Adding several axes to a tree and removing them in reverse order restores the tree."""
    grown, axes = tree, []
    for index, name in added:
        axes.append((_within(meta, subject, grown, index, name), subject.params(name)))
        grown = meta.add_axis(grown, *axes[-1])
    for index, params in reversed(axes):
        grown = meta.remove_axis(grown, index, params)
    if len(axes) > 1 and outermost_boxes(meta, tree):
        reached("twice")
    assert alike(grown, tree)


@requirement("metadata/box-axes/needs-partition-name", must_reach=("box", "no box"))
@given(tree=trees(st.one_of(boxes(arrays(min_rank=1)), leaves())))
def test_a_tree_with_a_box_needs_a_partition_name(meta, tree):
    """`add_axis` and `remove_axis` of a tree raise the partitioning error without a partition name,
    if the tree has a box; a tree without boxes comes back as it is.
    """
    for function in (meta.add_axis, meta.remove_axis):
        if outermost_boxes(meta, tree):
            reached("box")
            assert is_partitioning_error(refused(lambda f=function: f(tree, 0, {})))
        else:
            reached("no box")
            assert alike(function(tree, 0, {}), tree)


@requirement("metadata/box-trees/unbox-leaves-no-box", must_reach=("nested",))
@given(tree=box_trees())
@example(tree=Box(Box(Array((2,)), ("data",)), (None,)))
def test_unbox_leaves_no_box(meta, tree):
    """`unbox(tree)` holds no box: none in a container inside a box, and none inside a box."""
    if any(meta.is_axis_metadata(box.unbox()) for box in outermost_boxes(meta, tree)):
        reached("nested")
    left = outermost_boxes(meta, meta.unbox(tree))
    assert not left, f"unbox left the boxes {left}"


@requirement("metadata/box-trees/unbox-gives-every-value")
@given(tree=box_trees())
@example(tree={"a": Box(1, ())})
def test_unbox_gives_the_values_in_their_places(meta, tree):
    """`unbox(tree)` is the tree with every box opened by its own method; to unbox it again changes
    nothing.
    """
    opened = meta.unbox(tree)
    assert alike(opened, _unboxed(meta, tree))
    assert alike(meta.unbox(opened), opened)


@requirement("metadata/box-trees/unbox-keeps-plain-trees")
@given(tree=trees())
def test_unbox_is_the_identity_without_boxes(meta, tree):
    """`unbox` of a tree without boxes gives the same leaf objects in containers of the same
    types.
    """
    opened = meta.unbox(tree)
    assert_same_objects(jax.tree_util.tree_leaves(opened), jax.tree_util.tree_leaves(tree))
    assert alike(opened, tree)


class Updated:
    """A leaf that equals no other, so that a value in a wrong place shows."""

    def __init__(self, place):
        self.place = place


@requirement("metadata/box-trees/replaced-values-come-out", must_reach=("box",))
@given(tree=box_trees())
def test_what_is_put_in_comes_out(meta, subject, tree):
    """`unbox(replace_boxed(tree, updates))` is `updates`, whatever its leaves are."""
    if outermost_boxes(meta, tree):
        reached("box")
    leaves, structure = jax.tree_util.tree_flatten(_unboxed(meta, tree))
    update = Updated if subject.holds(Updated(0)) else np.array
    updates = structure.unflatten([update(n) for n in range(len(leaves))])
    assert alike(meta.unbox(meta.replace_boxed(tree, updates)), updates)


@requirement("metadata/box-trees/replacing-by-itself-keeps-tree", must_reach=("nested",))
@given(tree=box_trees())
@example(tree=Box(Box(Array((2,)), ("data",)), (None,)))
def test_replacing_values_by_themselves_changes_nothing(meta, tree):
    """`replace_boxed(tree, unbox(tree))` is `tree`; boxes in boxes keep every layer."""
    if any(meta.is_axis_metadata(box.unbox()) for box in outermost_boxes(meta, tree)):
        reached("nested")
    assert alike(meta.replace_boxed(tree, _unboxed(meta, tree)), tree)


CHANGES = ("a key too few", "a key too many", "a leaf", "longer", "another container")


def _changed(tree, kind):
    """Updates for a tree of `{"kept": ..., "place": ...}` whose structure differs from it in one
    place.

    Args:
      tree: The tree without its boxes.
      kind: One of `CHANGES`; an input that cannot be changed so is skipped.

    Returns:
      The updates, and the key at or under which they differ.
    """
    part = tree["place"]
    match kind:
        case "a key too few":
            return {"kept": tree["kept"]}, "place"
        case "a key too many":
            return {**tree, "surplus": 1}, "surplus"
        case "a leaf":
            assume(part is not None and not jax.tree_util.all_leaves([part]))
            return {**tree, "place": 1.0}, "place"
        case "longer":
            assume(isinstance(part, list | tuple))
            return {**tree, "place": type(part)((*part, 1.0))}, "place"
    assume(isinstance(part, list | tuple))
    return {**tree, "place": (tuple if isinstance(part, list) else list)(part)}, "place"


def parts(nested):
    """Boxes for one part of a tree, alone or in containers; with `nested`, also boxes in boxes."""
    return st.one_of(
        boxes(arrays(max_rank=2)),
        st.lists(boxes(arrays(max_rank=2)), max_size=2),
        st.tuples(any_boxes(arrays(max_rank=2))),
        box_trees(depth=1, nested=nested),
    )


_PLACE = {"kept": Array(()), "place": [Box(Array((2,)), ("data",))]}


@requirement("metadata/box-trees/other-structure-is-refused", must_reach=CHANGES)
@given(
    tree=st.fixed_dictionaries({"kept": arrays(max_rank=1), "place": parts(nested=True)}),
    kind=st.sampled_from(CHANGES),
)
@example(tree=_PLACE, kind="a key too few")
@example(tree=_PLACE, kind="a key too many")
@example(tree=_PLACE, kind="a leaf")
@example(tree=_PLACE, kind="longer")
@example(tree=_PLACE, kind="another container")
def test_updates_of_another_structure_are_refused(meta, tree, kind):
    """`replace_boxed(tree, updates)` raises an error where the structure of `updates` is not the
    structure of `unbox(tree)`; updates that go deeper are none of these: `jax.tree.map` takes them.
    """
    updates, _ = _changed(_unboxed(meta, tree), kind)
    refused(lambda: meta.replace_boxed(tree, updates))


@requirement("metadata/box-trees/other-structure-is-refused[message]")
@given(
    tree=st.fixed_dictionaries({"kept": arrays(max_rank=1), "place": parts(nested=False)}),
    kind=st.sampled_from(CHANGES),
)
def test_the_refusal_names_the_place(meta, tree, kind):
    """The message of that error holds the key at or under which the structures differ."""
    updates, key = _changed(_unboxed(meta, tree), kind)
    error = raised(lambda: meta.replace_boxed(tree, updates))
    assume(error is not None)
    assert key in plain_text(error)
