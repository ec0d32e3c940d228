"""The box that a variable becomes on its way to Linen: BRG-5.

The oracles are the variable itself, and the laws of boxes. A variable is *vanilla* when it has no
hooks and no metadata of its own; it becomes a bare array, and any other variable becomes an
`NNXMeta` box with its type, value and metadata.
"""

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.descriptions import Array
from scutch.inputs.graphs import HOOKS, differences, metadata, recording
from scutch.lawkit.boxes import unplaced
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, holds, plain_text, says_equal
from scutch.lawkit.marks import (
    is_partitioning_error,
    options,
    raised,
    reached,
    refused,
    requirement,
)
from scutch.strategies import axis_names, variables

hooks = st.lists(st.sampled_from(HOOKS), max_size=2, unique=True)
positions = st.integers(0, 3)
simple = st.sampled_from([1, 0, 2.5, "text", (1, 2)])
noted = st.sampled_from([{}, {"note": 1}, {"note": [1, 2]}, {"note": "some", "tag": {"k": 1}}])
kinds = st.sampled_from(["Param", "BatchStat", "Cache"])


def _given(variable):
    """The metadata that a user gave a variable, without the implementation's own entries."""
    return {n: each for n, each in metadata(variable).items() if holds(("note", "tag", *HOOKS), n)}


@requirement(
    "bridge/variables/vanilla-is-blank", must_reach=("vanilla", "metadata", "hook", "empty hook")
)
@given(variable=variables(), full=hooks, empty=hooks)
def test_vanilla_is_without_hooks_and_metadata(bridge, variable, full, empty):
    """A variable is vanilla exactly when it has no metadata and all of its hooks are empty; then
    `to_linen_var` gives its bare value, and else an `NNXMeta`.
    """
    plain = not _given(variable) and not metadata(variable).get("out_sharding")
    for name in empty:
        variable.set_metadata(name, ())
    for name in full:
        variable.set_metadata(name, recording([], name))
    reached("hook" if full else "metadata" if not plain else "empty hook" if empty else "vanilla")
    vanilla = plain and not full
    assert bridge.is_vanilla_variable(variable) is vanilla
    linen = bridge.to_linen_var(variable)
    assert isinstance(linen, bridge.NNXMeta) is not vanilla
    if vanilla:
        value = variable.get_raw_value()
        assert alike(linen, value)
        assert linen is value or not hasattr(value, "shape")


@requirement("bridge/variables/others-become-nnxmeta", must_reach=("metadata", "hook"))
@given(variable=variables(), chosen=hooks)
def test_any_other_variable_becomes_a_box_of_it(bridge, nnx, variable, chosen):
    """The box of a variable that is not vanilla holds its type, value and all metadata, and
    `to_nnx_variable` gives an equal variable; no hook runs.
    """
    events = []
    for name in chosen:
        variable.set_metadata(name, recording(events, name))
    annotations = _given(variable)
    assume(annotations)
    reached("hook" if chosen else "metadata")
    box = bridge.to_linen_var(variable)
    assert type(box) is bridge.NNXMeta
    assert box.var_type is type(variable)
    assert alike(box.value, variable.get_raw_value())
    assert alike({n: v for n, v in box.metadata.items() if holds(annotations, n)}, annotations)
    back = box.to_nnx_variable()
    assert not events
    assert not differences(nnx, back, variable)


@requirement("bridge/variables/nnxmeta-is-box", must_reach=("tree", "array"))
@given(variable=variables(), replacement=st.sampled_from([1.5, "text", ()]))
def test_a_box_of_a_variable_opens_and_is_filled(bridge, meta, variable, replacement):
    """`unbox` of an `NNXMeta` gives its value, and `replace_boxed` a box with the same type and
    metadata around another value, alone and in a tree; the box itself is not changed, and its
    value cannot be set.
    """
    value = variable.get_raw_value()
    reached("array" if hasattr(value, "shape") else "tree")
    box = bridge.NNXMeta(type(variable), value, _given(variable))
    assert isinstance(box, meta.AxisMetadata)
    assert meta.is_axis_metadata(box)
    assert box.unbox() is value
    filled = box.replace_boxed(replacement)
    assert alike(filled.unbox(), replacement)
    assert filled.var_type is box.var_type
    assert alike(filled.metadata, box.metadata)
    refused(lambda: setattr(box, "value", replacement))
    assert box.unbox() is value
    tree = {"x": box, "y": 1}
    assert alike(meta.unbox(tree), {"x": value, "y": 1})
    assert alike(meta.replace_boxed(tree, meta.unbox(tree)), tree)


@requirement("bridge/variables/nnxmeta-is-box", must_reach=("differ", "list"))
@given(one=st.tuples(kinds, simple, noted), other=st.tuples(kinds, simple, noted))
def test_type_and_metadata_of_a_box_are_structure(bridge, nnx, one, other):
    """The leaves of an `NNXMeta` box are the leaves of its value.

    Two boxes have equal tree structures when types, metadata and value structures agree, and are
    equal when the values agree, too.
    """

    def made(kind, value, notes):
        """A box of a described type, value and metadata."""
        return bridge.NNXMeta(getattr(nnx, kind), value, notes)

    box = made(*one)
    leaves, structure = jax.tree_util.tree_flatten(box)
    assert alike(leaves, jax.tree_util.tree_leaves(one[1]))
    assert alike(jax.tree_util.tree_unflatten(structure, leaves), box)
    assert alike(jax.tree_util.tree_map(lambda x: x, box), box)
    others = jax.tree_util.tree_structure(made(*other))
    values = [jax.tree_util.tree_structure(value) for _, value, _ in (one, other)]
    same = values[0] == values[1] and one[0] == other[0] and one[2] == other[2]
    reached("list" if "note" in one[2] and isinstance(one[2]["note"], list) else "differ")
    assert says_equal(structure, others) is same
    assert says_equal(box, made(*other)) is (same and one[1] == other[1])
    again = jax.tree_util.tree_structure(made(*one))
    assert says_equal(structure, again)
    assert hash(structure) == hash(again)


@st.composite
def _named(draw):
    """Names for the axes of an array, and the array."""
    names = draw(st.lists(axis_names(), min_size=1, max_size=3).map(tuple))
    return names, Array((2,) * len(names))


def _box(bridge, nnx, named, **further):
    """The box of a parameter with names, made by its class: no variable crosses."""
    names, value = named
    variable = nnx.Param(value, out_sharding=names, eager_sharding=False, **further)
    return bridge.NNXMeta(nnx.Param, variable.get_raw_value(), metadata(variable))


def _names(box):
    """The names that a box of a variable has."""
    return tuple(box.metadata.get("out_sharding", ()))


@requirement("bridge/variables/nnxmeta-changes-axes")
@options("nnx.Variable.out_sharding")
@given(named=_named(), index=positions, name=axis_names())
def test_an_axis_added_to_the_box_of_a_variable_has_its_name(bridge, nnx, meta, named, index, name):
    """`add_axis` on the box of a variable with names puts the partition name at the new axis and
    changes nothing else, and `remove_axis` restores the box.
    """
    box, names = _box(bridge, nnx, named, note="some"), named[0]
    index = min(index, len(names))
    params = {meta.PARTITION_NAME: name}
    added = box.add_axis(index, params)
    assert alike(_names(added), (*names[:index], name, *names[index:]))
    assert alike((added.var_type, added.metadata.get("note")), (nnx.Param, "some"))
    assert added.unbox() is box.unbox()
    assert alike(_names(box), names)
    assert alike(added.remove_axis(index, params), box)


@requirement("bridge/variables/nnxmeta-changes-axes")
@options("nnx.Variable.out_sharding")
@given(named=_named(), index=positions, name=axis_names())
def test_the_box_of_a_variable_asks_for_the_name_of_an_axis(bridge, nnx, meta, named, index, name):
    """`add_axis` and `remove_axis` without a partition name raise the partitioning error, and
    removing an axis by another axis's name is refused.
    """
    box, names = _box(bridge, nnx, named), named[0]
    index %= len(names)
    assume(not alike(name, names[index]))
    for change in (box.add_axis, box.remove_axis):
        assert is_partitioning_error(refused(lambda change=change: change(index, {})))
    refused(lambda: box.remove_axis(index, {meta.PARTITION_NAME: name}))
    assert alike(_names(box), names)


@requirement("bridge/variables/nnxmeta-knows-spec", must_reach=("annotated", "not annotated"))
@options("nnx.Variable.out_sharding")
@given(named=_named(), annotated=st.booleans())
def test_the_spec_of_the_box_is_that_of_the_variable(bridge, nnx, meta, named, annotated):
    """`get_partition_spec` of the box of a variable, with names or without, alone or in a tree, is
    the spec that `nnx.get_partition_spec` gives for the variable; names without a mesh may be
    refused.
    """
    notes = {"out_sharding": named[0], "eager_sharding": False} if annotated else {}
    flat = [n for name in named[0] if name for n in ((name,) if isinstance(name, str) else name)]
    assume(len({*map(plain_text, flat)}) == len(flat))
    variable = nnx.Param(np.asarray(named[1]), note="some", **notes)
    box = bridge.NNXMeta(nnx.Param, variable.get_raw_value(), metadata(variable))
    if unplaced(variable) and raised(box.get_partition_spec) is not None:
        return
    spec = nnx.get_partition_spec(variable).get_raw_value()
    assert alike(box.get_partition_spec(), spec)
    assert alike(meta.get_partition_spec({"x": box}), {"x": spec})
