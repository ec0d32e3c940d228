"""Each law of the bridge convicts its liar, and those beside it do not."""

from dataclasses import replace

import pytest
from scutch import catalogue
from scutch.judging import suite
from scutch.judging.trying import try_law
from trials.areas import EVERYWHERE, near
from trials.liars import liars
from trials.liars.tale import convict

# Rows of the contract whose liars are tried on each other's laws, and on how many inputs.
SIDES = ((range(1, 7), 3), (range(7, 9), 1))


def rows(numbers):
    return {row.id for row in catalogue.select([f"BRG-{n}" for n in numbers])}


LIES = [
    pytest.param(liar, numbers, few, id=f"{liar.breaks[0]}-{liar.name}")
    for numbers, few in SIDES
    for liar in liars()
    if liar.breaks[0] in rows(numbers)
]


@pytest.mark.parametrize(("liar", "numbers", "few"), LIES)
def test_a_liar_is_convicted_of_its_lie_and_of_nothing_else(liar, numbers, few):
    def on_few(law, liar):
        trial = try_law(law, liar.implementation, examples=few, shrink=False)
        return replace(trial, unmet=())

    asked = rows(numbers) if EVERYWHERE else rows(numbers) & near(liar.breaks)
    failed, found = convict(liar, suite.tried_by(asked), on_few)
    assert failed >= set(liar.breaks)
    assert set(found) == set(liar.breaks), found


@pytest.mark.parametrize("numbers", [side[0] for side in SIDES], ids=["1-6", "7-8"])
def test_every_requirement_has_a_law_and_a_liar(numbers):
    lied_about = {i for liar in liars() for i in liar.breaks}
    tried = {law.requirement for law in suite.tried_by(rows(numbers))}
    assert rows(numbers) == tried == lied_about & rows(numbers)
