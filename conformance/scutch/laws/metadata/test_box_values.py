"""The value in a box: BOX-3, BOX-4, BOX-10 and BOX-22 (`000_`).

`unbox` gives the value that a box wraps, and `replace_boxed` puts another in its place. The oracle
is identity (`is`) for the value, and `alike` for all else that a box holds.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import raised, reached, requirement
from scutch.strategies import (
    any_boxes,
    axis_names,
    boxes_with_mesh,
    copies,
    nested_boxes,
    numbers,
    values,
)

pytestmark = pytest.mark.usefixtures("subject")


@requirement("metadata/box-values/unbox-returns-same-object")
@given(value=values(), names=st.lists(axis_names(), max_size=3).map(tuple))
def test_unbox_gives_the_very_object(subject, value, names):
    """`unbox` returns the object that was wrapped, not a copy of it."""
    assert subject.make(value, names, None).unbox() is value


@requirement("metadata/box-values/unbox-returns-same-object", must_reach=("nested",))
@given(box=nested_boxes(), names=st.lists(axis_names(), max_size=3).map(tuple))
def test_unbox_takes_one_layer_off(meta, subject, box, names):
    """`unbox` of a box that wraps a box returns the inner box."""
    reached("nested")
    inner = subject.make(box, names, None).unbox()
    assert inner is box
    assert meta.is_axis_metadata(inner)


@requirement("metadata/box-values/replacing-keeps-metadata")
@given(box=any_boxes(), value=values())
def test_replacing_keeps_all_but_the_value(subject, box, value):
    """`replace_boxed(value)` gives a box of the same class and names that wraps `value`; with the
    old value put back, it is like the first box.
    """
    assume(subject.holds(value))
    replaced = box.replace_boxed(value)
    assert type(replaced) is type(box)
    assert replaced.unbox() is value
    assert alike(replaced.replace_boxed(box.unbox()), box)
    assert subject.names is None or alike(subject.names(replaced), subject.names(box))


@requirement("metadata/box-values/replacing-keeps-metadata")
@given(box=boxes_with_mesh(), value=values())
def test_replacing_keeps_the_mesh(box, value):
    """`replace_boxed` of a box that holds a mesh gives a box that holds the same mesh."""
    assert box.replace_boxed(value).mesh is box.mesh
    assert alike(box.replace_boxed(value).replace_boxed(0), box.replace_boxed(0))


@requirement("metadata/box-values/inputs-stay-unchanged")
@given(
    pair=st.one_of(copies(any_boxes()), copies(any_boxes(numbers()))),
    value=st.one_of(values(), numbers()),
)
def test_replacing_leaves_the_box_alone(subject, pair, value):
    """After `replace_boxed`, which returns another object, the box still wraps its own value."""
    assume(subject.holds(value))
    box, before = pair
    wrapped = box.unbox()
    assert box.replace_boxed(value) is not box
    assert box.unbox() is wrapped
    assert alike(box, before)


@requirement("metadata/box-values/axes-keep-the-value", must_reach=("removed",))
@given(pair=copies(any_boxes()), index=st.integers(0, 5), name=axis_names())
def test_axes_touch_names_only(subject, pair, index, name):
    """`add_axis` and `remove_axis` give boxes that wrap the same object; the box itself and the
    parameters are as they were.
    """
    box, before = pair
    wrapped = box.unbox()
    index = subject.place(index, name, box) if subject.owned else index
    params = subject.params(name) | {"other": 1}
    added = box.add_axis(index, params)
    assert added.unbox() is wrapped
    if raised(lambda: added.remove_axis(index, params)) is None:
        reached("removed")
        assert added.remove_axis(index, params).unbox() is wrapped
    assert alike(box, before)
    assert alike(params, subject.params(name) | {"other": 1})


@requirement("metadata/box-values/axes-commute-with-replacing")
@given(box=any_boxes(), index=st.integers(0, 4), name=axis_names(), value=values())
def test_axes_commute_with_replacing(subject, box, index, name, value):
    """`add_axis` or `remove_axis` before `replace_boxed` gives the same box as after it."""
    assume(subject.holds(value))
    index = subject.place(index, name, box)

    def added(box):
        return box.add_axis(index, subject.params(name))

    def removed(box):
        return box.remove_axis(index, subject.params(name))

    assert alike(added(box).replace_boxed(value), added(box.replace_boxed(value)))
    assert alike(removed(added(box).replace_boxed(value)), removed(added(box)).replace_boxed(value))
