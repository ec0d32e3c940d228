"""Each law of the wrappers of the bridge convicts its liar, and those beside it do not."""

import pytest
from scutch import catalogue, suite
from scutch.adapters.reference import implementation as reference
from scutch.profiles import PROFILES, Profile
from scutch.verdicts import rule, summarize
from trials.liars.tale import tried
from trials.liars.wrappers import WRAPPERS

FEW = Profile(2, 120, 0, "")
ROWS = {row.id: row for row in catalogue.select([f"BRG-{n}" for n in (7, 8)])}
LAWS = suite.tried_by(ROWS)


@pytest.mark.parametrize("liar", WRAPPERS, ids=[f"{li.breaks[0]}-{li.name}" for li in WRAPPERS])
def test_a_liar_is_convicted_of_its_lie_and_of_nothing_else(liar):
    profile = {True: PROFILES["ci"], False: FEW}
    trials = [tried(e, liar.implementation, profile[e.requirement in liar.breaks]) for e in LAWS]
    assert {t.requirement for t in trials if t.outcome == "failed"} >= set(liar.breaks)
    rulings = rule([ROWS[e.requirement] for e in LAWS], trials, claims=reference.claims)
    roots = summarize(rulings).roots
    found = {r.requirement.id: (r.verdict, r.reason) for r in roots if r.verdict != "untested"}
    assert set(found) == set(liar.breaks), found


def test_every_requirement_has_a_law_and_a_liar():
    lied_about = {identifier for liar in WRAPPERS for identifier in liar.breaks}
    assert set(ROWS) == {entry.requirement for entry in LAWS} == lied_about
