"""Each law of the bridge convicts its liar, and those beside it do not."""

import pytest
from scutch import catalogue
from scutch.judging import suite
from scutch.judging.profiles import Profile
from trials.liars.crossings import CROSSINGS
from trials.liars.tale import convicted
from trials.liars.wrappers import WRAPPERS

# The liars, the rows of the contract on which they are tried, and how often beside their own.
SIDES = ((CROSSINGS, range(1, 7), 5), (WRAPPERS, range(7, 9), 2))
LIES = [
    pytest.param(liar, numbers, few, id=f"{liar.breaks[0]}-{liar.name}")
    for liars, numbers, few in SIDES
    for liar in liars
]


def rows(numbers):
    return {row.id: row for row in catalogue.select([f"BRG-{n}" for n in numbers])}


@pytest.mark.parametrize(("liar", "numbers", "few"), LIES)
def test_a_liar_is_convicted_of_its_lie_and_of_nothing_else(liar, numbers, few):
    requirements = rows(numbers)
    laws = suite.tried_by(requirements)
    failed, found = convicted(liar, laws, requirements, Profile(few, 120, 0, ""))
    assert failed >= set(liar.breaks)
    assert set(found) == set(liar.breaks), found


@pytest.mark.parametrize(("liars", "numbers"), [side[:2] for side in SIDES], ids=["1-6", "7-8"])
def test_every_requirement_has_a_law_and_a_liar(liars, numbers):
    requirements = rows(numbers)
    lied_about = {identifier for liar in liars for identifier in liar.breaks}
    laws = suite.tried_by(requirements)
    assert set(requirements) == {entry.requirement for entry in laws} == lied_about
