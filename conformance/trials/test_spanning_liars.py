"""Each law of several processes convicts its liar; tried in one process, on eight fake devices."""

import pytest
from scutch import catalogue
from scutch.judging import suite
from scutch.judging.trying import try_law
from trials.liars import liars

ROWS = {row.id: row for row in catalogue.select("processes")}
LAWS = suite.tried_by(ROWS)
SPANNING = [liar for liar in liars() if liar.breaks[0] in ROWS]


@pytest.mark.parametrize("liar", SPANNING, ids=[f"{li.breaks[0]}-{li.name}" for li in SPANNING])
def test_a_liar_is_convicted_of_its_lie(liar):
    trials = [
        try_law(law, liar.implementation, examples=24, shrink=False)
        for law in LAWS
        if law.requirement in liar.breaks
    ]
    assert [trial.outcome for trial in trials] == ["failed"], trials
    assert trials[0].counterexample is not None


def test_every_requirement_has_a_law_and_a_liar():
    lied_about = {identifier for liar in SPANNING for identifier in liar.breaks}
    assert set(ROWS) == {law.requirement for law in LAWS} == lied_about
    assert all(law.in_job for law in LAWS)
