"""A fork of Flax with a planted fault: the headline of its run names that very fault.

More than thirty faults are planted in turn. Nothing of what Flax itself departs in is in a
headline: a fork inherits the known failures. A fork is judged by the requirements near its fault;
with `SCUTCH_WHOLE_AREAS=1` in the environment by all of `among`, which takes minutes.
"""

import os

import pytest
from trials.forks import faults
from trials.forks.planting import fork, judged

FEW = 3
"""Root causes that a headline may name."""

WHOLE_AREAS = bool(os.environ.get("SCUTCH_WHOLE_AREAS"))


def headline(implementation, patterns):
    """The musts that a run names as root causes."""
    roots = judged(implementation, patterns)
    return [r.requirement.id for r in roots if r.requirement.level == "must"]


@pytest.mark.parametrize("planted", faults(), ids=lambda planted: planted.name)
def test_the_headline_names_the_fault(planted):
    with fork(planted) as implementation:
        named = headline(implementation, planted.among if WHOLE_AREAS else planted.near)
    assert set(named) & set(planted.about)
    assert len(named) <= FEW, named


def test_there_are_thirty():
    assert len(faults()) >= 30


def test_three_faults_in_three_areas_are_three_root_causes():
    """Of boxes, of rules, and of the bridge."""
    ids = ("BOX-16b", "LOG-2", "BRG-6c")
    three = [planted for planted in faults() if planted.about[0] in ids]
    with fork(*three) as implementation:
        assert headline(implementation, ids) == list(ids)
