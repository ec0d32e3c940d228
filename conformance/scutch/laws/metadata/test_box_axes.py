"""Axes that a transformation adds to a box and removes: BOX-5 to BOX-9, BOX-11, BOX-27 (`000_`).

A lifted `scan` or `vmap` stacks variables along a new axis. It calls `box.add_axis(index, params)`
to name that axis, and `box.remove_axis(index, params)` to take the name away inside its body;
`params[PARTITION_NAME]` is the *partition name*: the name of the axis.

The oracle is algebra: the two methods are inverse to each other. For negative indices it is NumPy,
which says where `expand_dims` puts an axis.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scutch.lawkit.boxes import names_of
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import is_partitioning_error, raised, reached, refused, requirement
from scutch.lawkit.placement import entries
from scutch.strategies import any_boxes, arrays, axis_names, boxes, boxes_with_mesh

pytestmark = pytest.mark.usefixtures("subject")

positions = st.integers(0, 4)


@requirement("metadata/box-axes/removing-undoes-adding")
@given(box=st.one_of(any_boxes(), boxes_with_mesh()), index=positions, name=axis_names())
def test_removing_an_added_axis_restores_the_box(subject, box, index, name):
    """`add_axis` and then `remove_axis` with the same arguments gives back a box like the first."""
    index = subject.place(index, name, box)
    added = box.add_axis(index, subject.params(name))
    assert alike(added.remove_axis(index, subject.params(name)), box)


@requirement("metadata/box-axes/adding-undoes-removing")
@given(box=st.one_of(any_boxes(arrays(min_rank=1)), boxes_with_mesh(min_rank=1)), index=positions)
def test_adding_a_removed_axis_restores_the_box(subject, box, index):
    """`remove_axis` and then `add_axis` with the same arguments gives back a box like the first."""
    index %= len(subject.named(box))
    box = subject.removable(box, index)
    name = subject.named(box)[index]
    removed = box.remove_axis(index, subject.params(name))
    assert alike(removed.add_axis(index, subject.params(name)), box)


@requirement("metadata/box-axes/adding-undoes-removing")
@given(box=any_boxes(), index=positions, name=axis_names())
def test_adding_a_removed_axis_again_restores_the_box(subject, box, index, name):
    """An axis that is added, removed and added again gives the same box as adding it once."""
    index = subject.place(index, name, box)
    added = box.add_axis(index, subject.params(name))
    removed = added.remove_axis(index, subject.params(name))
    assert alike(removed.add_axis(index, subject.params(name)), added)


@requirement("metadata/box-axes/adding-names-the-axis")
@given(box=st.one_of(any_boxes(), boxes_with_mesh()), index=positions, name=axis_names())
def test_an_added_axis_is_named_at_its_index(subject, box, index, name):
    """`add_axis` inserts the partition name at the index, among the names that the box has."""
    names, index = subject.named(box), subject.place(index, name, box)
    added = box.add_axis(index, subject.params(name))
    assert alike(_meant(subject.named(added)), _meant((*names[:index], name, *names[index:])))


def _meant(names):
    """Names with the mesh axis itself for a tuple of one, as JAX may write them in a spec."""
    return tuple(
        name[0] if isinstance(name, tuple) and len([*name]) == 1 else name for name in names
    )


@requirement("metadata/box-axes/removing-takes-the-name")
@given(box=st.one_of(any_boxes(arrays(min_rank=1)), boxes_with_mesh(min_rank=1)), index=positions)
def test_a_removed_axis_takes_its_name_along(subject, box, index):
    """`remove_axis` takes the name at the index away, and leaves the other names in their order."""
    index %= len(subject.named(box))
    box = subject.removable(box, index)
    names = subject.named(box)
    removed = box.remove_axis(index, subject.params(names[index]))
    assert alike(subject.named(removed), (*names[:index], *names[index + 1 :]))


@requirement("metadata/box-axes/beyond-rank-pads")
@given(box=boxes(), gap=st.integers(1, 3), name=axis_names())
def test_an_axis_beyond_the_rank_pads(meta, box, gap, name):
    """`add_axis` at an index beyond the rank fills the gap with `None`; removing the axis again
    leaves the same partition spec up to trailing `None`.
    """
    index = len(names_of(box)) + gap
    params = {meta.PARTITION_NAME: name}
    added = box.add_axis(index, params)
    assert names_of(added) == (*names_of(box), *[None] * gap, name)
    assert entries(names_of(added.remove_axis(index, params))) == entries(names_of(box))


@requirement("metadata/box-axes/needs-partition-name")
@given(box=boxes(), index=positions)
def test_adding_needs_a_partition_name(box, index):
    """`add_axis` without a partition name raises the partitioning error."""
    error = refused(lambda: box.add_axis(index, {"other": "data"}))
    assert is_partitioning_error(error), f"expected the partitioning error, not {error!r}"


@requirement("metadata/box-axes/needs-partition-name")
@given(box=boxes(arrays(min_rank=1)), index=positions)
def test_removing_needs_a_partition_name(box, index):
    """`remove_axis` without a partition name raises the partitioning error."""
    error = refused(lambda: box.remove_axis(index % len(names_of(box)), {}))
    assert is_partitioning_error(error), f"expected the partitioning error, not {error!r}"


@requirement(
    "metadata/box-axes/needs-partition-name[message]", must_reach=("add_axis", "remove_axis")
)
@given(
    box=boxes(arrays(min_rank=1)),
    index=positions,
    method=st.sampled_from(["add_axis", "remove_axis"]),
)
def test_the_partitioning_error_names_the_box(box, index, method):
    """The partitioning error has in its message the class of the box and its names."""
    named = [name for name in names_of(box) if isinstance(name, str)]
    refused(
        lambda: getattr(box, method)(index % len(names_of(box)), {}),
        naming=(type(box).__name__, *named),
    )


@requirement("metadata/box-axes/none-is-a-name")
@given(box=any_boxes(arrays()), index=positions)
def test_none_is_a_partition_name(subject, box, index):
    """A partition name of `None` adds an axis that is named `None`, and removes it again, wherever
    a string does: it does not count as a missing name.
    """
    subject.named(box)
    index = subject.place(index, None, box)

    def works(name):
        added = box.add_axis(index, subject.params(name))
        assert alike(subject.named(added)[index], name)
        assert alike(added.remove_axis(index, subject.params(name)), box)

    assume(raised(lambda: works("added")) is None)
    works(None)


@requirement("metadata/box-axes/wrong-name-is-refused")
@given(box=boxes(arrays(min_rank=1)), index=positions, name=axis_names())
def test_an_axis_of_another_name_is_not_removed(meta, box, index, name):
    """`remove_axis` raises an error when the partition name is not the name of the axis at the
    index.
    """
    index %= len(names_of(box))
    assume(names_of(box)[index] != name)
    refused(lambda: box.remove_axis(index, {meta.PARTITION_NAME: name}))


@requirement(
    "metadata/box-axes/removal-works-without-assertions", must_reach=("right name", "wrong name")
)
@given(
    names=st.lists(axis_names(), min_size=1, max_size=3).map(tuple),
    index=positions,
    name=axis_names(),
)
def test_removal_does_not_hang_on_assertions(unasserted, subject, names, index, name):
    """In a process that runs under `python -O`, a wrong name is still refused, and the right one is
    still removed.
    """
    index %= len(names)
    subject.make(1.0, names, None)  # leaves the law here where the box class is not claimed:
    subject.params(name)  # the other process could only end
    left = unasserted(subject.name, names, index, name)
    if names[index] == name:
        reached("right name")
        assert alike(left, (*names[:index], *names[index + 1 :]))
    else:
        reached("wrong name")
        assert left is None, f"the axis {names[index]!r} was removed as {name!r}: {left} is left"


@requirement("metadata/box-axes/negative-index-counts-array-axes", must_reach=("last",))
@given(box=boxes(arrays(max_rank=3)), back=st.integers(1, 4), name=axis_names())
def test_a_negative_index_adds_the_axis_of_the_array(meta, box, back, name):
    """`add_axis(-k, params)` puts the name at the axis that `numpy.expand_dims(value, -k)`
    inserts.
    """
    shape = box.unbox().shape
    assume(back <= len(shape) + 1)
    if back == 1:
        reached("last")
    grown = np.expand_dims(np.empty([n + 2 for n in shape]), -back)
    added = box.add_axis(-back, {meta.PARTITION_NAME: name})
    place = grown.shape.index(1)
    assert names_of(added) == (*names_of(box)[:place], name, *names_of(box)[place:])


@requirement("metadata/box-axes/negative-index-counts-array-axes", must_reach=("last",))
@given(box=boxes(arrays(min_rank=1)), back=st.integers(1, 4))
def test_a_negative_index_removes_the_axis_of_the_array(meta, box, back):
    """`remove_axis(-k, params)` takes away the name of the axis that is counted `k` from
    the end.
    """
    assume(back <= len(names_of(box)))
    if back == 1:
        reached("last")
    place = len(names_of(box)) - back
    removed = box.remove_axis(-back, {meta.PARTITION_NAME: names_of(box)[place]})
    assert names_of(removed) == (*names_of(box)[:place], *names_of(box)[place + 1 :])
