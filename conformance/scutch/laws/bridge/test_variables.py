"""One variable, from Linen to NNX and back, or the other way round: BRG-4.

The oracle is the original variable: `to_nnx_var` and `to_linen_var` are inverse. To *cross* is to
be converted by one of them; to *return*, by the other one afterwards.
"""

import copy

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.graphs import HOOKS, differences, leaves, metadata, recording
from scutch.lawkit.boxes import unplaced
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import raised, reached, refused, requirement
from scutch.strategies import (
    arrays,
    boxes,
    boxes_with_mesh,
    collection_names,
    collections,
    copies,
    crossing_boxes,
    logical_placements,
    values,
    variable_trees,
    variables,
)

hooked = st.lists(st.sampled_from(HOOKS), max_size=2, unique=True)
NOTES = {"note": "some", "list": [1, {"k": 2}], "tag": None}
notes = st.lists(st.sampled_from(list(NOTES)), min_size=1, max_size=2, unique=True)


@requirement("bridge/variables/plain-value-crosses", must_reach=("array",))
@given(col=collection_names(), value=values())
def test_a_plain_value_crosses_and_returns(bridge, col, value):
    """A plain value crosses to a vanilla variable of its collection's type and returns equal; an
    array returns as the same object.
    """
    variable = bridge.to_nnx_var(col, value)
    assert type(variable) is bridge.variable_type(col)
    assert alike(variable.get_raw_value(), value)
    assert bridge.is_vanilla_variable(variable)
    back = bridge.to_linen_var(variable)
    assert alike(back, value)
    if isinstance(value, np.ndarray):
        reached("array")
        assert back is value


@requirement("bridge/variables/partitioned-box-crosses", must_reach=("mesh", "names"))
@given(col=collection_names(), box=st.one_of(boxes(), boxes_with_mesh()))
def test_a_partitioned_box_crosses_and_returns(bridge, col, box):
    """A `Partitioned` box crosses to a variable of its collection's type and returns with its
    class, value, names and mesh; names without a mesh may be refused.
    """
    if box.mesh is not None:
        reached("mesh")
    if any(box.names):
        reached("names")
    variable = _crossed(lambda: bridge.to_nnx_var(col, box), box)
    if variable is None:
        return
    assert type(variable) is bridge.variable_type(col)
    assert alike(variable.get_raw_value(), box.value)
    assert alike(bridge.to_linen_var(variable), box)


@requirement("bridge/variables/logical-box-crosses", must_reach=("held", "not held"))
@given(col=collection_names(), placed=logical_placements(), held=st.booleans())
def test_a_logical_box_crosses_and_returns(bridge, logical, col, placed, held):
    """A `LogicallyPartitioned` box crosses and returns with its class, value, names, mesh and
    rules; names without a mesh may be refused.
    """

    def made():
        mesh = placed.mesh if held else None
        return logical.LogicallyPartitioned(
            placed.array, placed.names, mesh=mesh, rules=placed.rules
        )

    back = _crossed(lambda: bridge.to_linen_var(bridge.to_nnx_var(col, made())), made())
    assert back is None or alike(back, made())


@requirement("bridge/variables/foreign-box-crosses", must_reach=("Plain", "Portable"))
@given(col=collection_names(), box=crossing_boxes())
def test_a_foreign_box_crosses_and_returns(bridge, col, box):
    """A box of a class written elsewhere crosses, by its own conversion methods or by its
    attributes, and returns equal; names without a mesh may be refused.
    """
    reached(type(box).__name__)
    variable = _crossed(lambda: bridge.to_nnx_var(col, box), box)
    if variable is None:
        return
    found = metadata(variable)
    assert type(variable) is bridge.variable_type(col)
    assert alike(variable.get_raw_value(), box.unbox())
    assert alike(found.get("names" if alike(type(box).__name__, "Plain") else "called"), box.names)
    assert alike(bridge.to_linen_var(variable), box)


@requirement("bridge/variables/variable-crosses", must_reach=("hooked", "metadata"))
@given(variable=variables(), hooks=hooked)
def test_a_variable_crosses_and_returns(bridge, nnx, variable, hooks):
    """A variable crosses to Linen and returns with its type, value, metadata and hooks; no hook
    runs. Names without a mesh may be refused.
    """
    events = []
    if hooks:
        reached("hooked")
        for name in hooks:
            variable.set_metadata(name, recording(events, name))
    if variable.has_metadata("note"):
        reached("metadata")
    col = bridge.variable_type_name(type(variable))
    back = _crossed(lambda: bridge.to_nnx_var(col, bridge.to_linen_var(variable)), variable)
    assert back is None or not differences(nnx, back, variable)
    assert not events


@requirement("bridge/variables/variable-crosses", must_reach=("boxed", "foreign"))
@given(
    col=collection_names(),
    box=st.one_of(boxes(arrays(max_rank=0)), crossing_boxes(arrays(max_rank=2))),
    chosen=notes,
)
def test_what_was_added_to_a_boxed_variable_returns(bridge, nnx, meta, col, box, chosen):
    """Metadata that was added to a variable which came from a box returns, though the box has no
    field for it; they may be refused, but not dropped.
    """
    reached("boxed" if isinstance(box, meta.Partitioned) else "foreign")
    variable = _crossed(lambda: bridge.to_nnx_var(col, box), box)
    if variable is None:
        return
    variable.set_metadata(**{name: NOTES[name] for name in chosen})
    back = []
    if raised(lambda: back.append(bridge.to_nnx_var(col, bridge.to_linen_var(variable)))) is None:
        assert not differences(nnx, back[0], variable)


def _crossed(crossing, value):
    """The result of a conversion; `None` if it refuses a value that has names and no mesh."""
    found = []
    error = raised(lambda: found.append(crossing()))
    if error is not None and not unplaced(value):
        raise error
    return found[0] if found else None


def _containers(value):
    """The lists and dicts in a value, and in the values and metadata of boxes and variables."""
    if isinstance(value, list | dict):
        yield value
    if isinstance(value, list | tuple):
        inside = value
    elif isinstance(value, dict):
        inside = value.values()
    elif hasattr(value, "get_metadata") and not isinstance(value, type):
        inside = (value.get_raw_value(), metadata(value))
    elif hasattr(value, "unbox") and not isinstance(value, type):
        inside = (value.unbox(), getattr(value, "metadata", None))
    else:
        return
    for part in inside:
        yield from _containers(part)


def _apart(one, other):
    """Whether two values have no list or dict in common."""
    ours, theirs = list(_containers(one)), list(_containers(other))
    return not any(mine is yours for mine in ours for yours in theirs)


@requirement("bridge/variables/crossing-changes-no-input", must_reach=("container",))
@given(pair=copies(variables()), listed=st.booleans())
def test_crossing_to_linen_leaves_the_variable(bridge, nnx, pair, listed):
    """`to_linen_var`, and crossing back, leave the variable as it was."""
    for variable in pair:
        if listed:
            variable.set_metadata(**NOTES)
    linen = []
    col = bridge.variable_type_name(type(pair[0]))
    if raised(lambda: linen.append(bridge.to_linen_var(pair[0]))) is None:
        raised(lambda: bridge.to_nnx_var(col, linen[0]))
    if any(_containers(linen)):
        reached("container")
    assert not differences(nnx, *pair)


@requirement("bridge/variables/crossing-shares-no-container", must_reach=("container",))
@given(variable=variables(), listed=st.booleans())
def test_what_crosses_shares_no_container(bridge, variable, listed):
    """A variable, its Linen form, and the variable converted back share no list or dict."""
    if listed:
        variable.set_metadata(**NOTES)
    linen, back = [], []
    col = bridge.variable_type_name(type(variable))
    if raised(lambda: linen.append(bridge.to_linen_var(variable))) is not None:
        return
    if any(_containers(linen[0])):
        reached("container")
    assert _apart(variable, linen[0])
    if raised(lambda: back.append(bridge.to_nnx_var(col, linen[0]))) is None:
        assert _apart(linen[0], back[0])


@requirement(
    "bridge/variables/crossing-changes-no-input", must_reach=("partitioned", "logical", "foreign")
)
@given(
    col=collection_names(),
    pair=copies(st.one_of(boxes(arrays(max_rank=0)), crossing_boxes())),
    named=st.booleans(),
)
def test_crossing_to_nnx_leaves_the_box(bridge, meta, logical, col, pair, named):
    """`to_nnx_var`, and crossing back, leave the box as it was."""
    if isinstance(pair[0], meta.Partitioned) and named:
        reached("logical")
        pair = [logical.LogicallyPartitioned(box.value, box.names, rules=()) for box in pair]
    else:
        reached("partitioned" if isinstance(pair[0], meta.Partitioned) else "foreign")
    raised(lambda: bridge.to_linen_var(bridge.to_nnx_var(col, pair[0])))
    assert alike(*pair)


@requirement("bridge/variables/crossing-changes-no-input")
@given(linen=copies(collections()), attributes=copies(variable_trees()))
def test_converting_trees_leaves_them(bridge, nnx, linen, attributes):
    """Converting trees of variables, in either direction, leaves them as they were."""
    raised(lambda: bridge.nnx_attrs_to_linen_vars(attributes[0]))
    assert not differences(nnx, *attributes)
    raised(lambda: bridge.linen_vars_to_nnx_attrs(linen[0]))
    assert alike(*linen)


@requirement("bridge/variables/crossing-shares-no-container")
@given(linen=collections(), attributes=variable_trees())
def test_converted_trees_share_no_container(bridge, nnx, linen, attributes):
    """A tree of variables and its converted tree share no list or dict, also in metadata."""
    noted = [x for x in leaves(nnx, attributes).values() if isinstance(x, nnx.Variable)]
    for variable in noted:
        variable.set_metadata(**NOTES)
    notes = copy.deepcopy([*map(metadata, noted)])
    for convert, tree in (
        (bridge.nnx_attrs_to_linen_vars, attributes),
        (bridge.linen_vars_to_nnx_attrs, linen),
    ):
        found = []
        if raised(lambda call=convert, tree=tree, found=found: found.append(call(tree))) is None:
            assert _apart(found[0], tree)
            for each in [part for part in _containers(found[0]) if isinstance(part, list)]:
                each.append("more")
    assert alike([*map(metadata, noted)], notes)


@requirement("bridge/variables/other-collection-is-refused")
@given(variable=variables(), col=collection_names())
def test_a_box_of_another_collection_is_refused(bridge, variable, col):
    """`to_nnx_var` with an `NNXMeta` of another type than the collection's raises an error that
    shows both types.
    """
    typ, other = type(variable), bridge.variable_type(col)
    assume(typ is not other)
    box = bridge.NNXMeta(typ, variable.get_raw_value(), {"note": 1})
    refused(lambda: bridge.to_nnx_var(col, box), naming=(typ.__name__, other.__name__))
