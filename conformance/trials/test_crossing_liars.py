"""Each law of the bridge's variables convicts its liar, and those beside it do not."""

import pytest
from scutch import catalogue, suite
from scutch.adapters.reference import implementation as reference
from scutch.profiles import PROFILES, Profile
from scutch.verdicts import rule, summarize
from trials.liars.crossings import CROSSINGS
from trials.liars.tale import tried

FEW = Profile(5, 120, 0, "")
ROWS = {row.id: row for row in catalogue.select([f"BRG-{n}" for n in range(1, 7)])}
LAWS = suite.tried_by(ROWS)


@pytest.mark.parametrize("liar", CROSSINGS, ids=[f"{li.breaks[0]}-{li.name}" for li in CROSSINGS])
def test_a_liar_is_convicted_of_its_lie_and_of_nothing_else(liar):
    profile = {True: PROFILES["ci"], False: FEW}
    trials = [tried(e, liar.implementation, profile[e.requirement in liar.breaks]) for e in LAWS]
    assert {t.requirement for t in trials if t.outcome == "failed"} >= set(liar.breaks)
    rulings = rule([ROWS[e.requirement] for e in LAWS], trials, claims=reference.claims)
    roots = summarize(rulings).roots
    found = {r.requirement.id: (r.verdict, r.reason) for r in roots if r.verdict != "untested"}
    assert set(found) == set(liar.breaks), found


def test_every_requirement_has_a_law_and_a_liar():
    lied_about = {identifier for liar in CROSSINGS for identifier in liar.breaks}
    assert set(ROWS) == {entry.requirement for entry in LAWS} == lied_about
