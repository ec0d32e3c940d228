"""A fork of Flax with a planted fault: the headline of its run names that very fault.

More than thirty faults are planted in turn. No headline names a departure of Flax itself:
a fork inherits the known failures.
"""

import pytest
from flax.linen.spmd import LogicallyPartitioned
from scutch.catalogue import by_id
from trials.forks import Fault, faults
from trials.forks.planting import fork, judged

pytestmark = pytest.mark.nightly


def equality_that_raises(plant):
    """Of boxes with values that are equal, and so where Flax is right."""
    equal = LogicallyPartitioned.__eq__

    def compared(box, other):
        if equal(box, other) and len(box.names) > 1:
            raise TypeError("no equality of boxes")
        return equal(box, other)

    plant.attribute(LogicallyPartitioned, "__eq__", compared)


EQUALITY_THAT_RAISES = Fault(
    "equality raises",
    ("metadata/box-equality/equality-compares-all-contents[logical]",),
    (),
    equality_that_raises,
)
FEW = 3
"""Root causes that a headline may name."""


def headline(implementation, patterns, level):
    """The requirements of a level, and the musts, that a run names as root causes."""
    roots = judged(implementation, patterns)
    return [r.requirement.id for r in roots if r.requirement.level in ("must", level)]


@pytest.mark.parametrize("planted", faults(), ids=lambda planted: planted.name)
def test_the_headline_names_the_fault(planted):
    with fork(planted) as implementation:
        level = by_id()[planted.about[0]].level
        named = headline(implementation, planted.among, level)
    assert set(named) & set(planted.about)
    assert len(named) <= FEW, named


def test_a_fault_in_a_law_that_is_known_to_fail_is_new():
    """Flax's equality of logical boxes looks at values alone, as is known. Here it raises, too."""
    inherited = ("metadata/box-equality/equality-compares-all-contents[logical]",)
    for planted, named in (((), []), ((EQUALITY_THAT_RAISES,), list(inherited))):
        with fork(*planted) as implementation:
            roots = judged(implementation, inherited)
        assert [ruling.requirement.id for ruling in roots] == named
    (ruling,) = roots
    assert ruling.reason.startswith("it is known to fail, but not so: TypeError: no equality of")
    assert "AssertionError at `assert says_equal(first, second) is (not differing)`" in [
        found.way for found in ruling.also
    ]


def test_there_are_thirty():
    assert len(faults()) >= 30


def test_three_faults_in_three_areas_are_three_root_causes():
    """Of boxes, of rules, and of the bridge."""
    ids = (
        "metadata/box-specs/arrays-have-empty-specs",
        "metadata/logical-rules/mesh-axes-are-used-once",
        "bridge/trees/path-in-two-is-refused",
    )
    three = [planted for planted in faults() if planted.about[0] in ids]
    with fork(*three) as implementation:
        assert headline(implementation, ids, "should") == list(ids)
