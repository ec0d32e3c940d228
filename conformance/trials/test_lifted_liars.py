"""Each law of lifted transformations convicts its liar, and those beside it do not."""

import pytest
from scutch import catalogue, suite
from scutch.adapters.reference import implementation as reference
from scutch.attempt import prepare
from scutch.profiles import PROFILES, Profile
from scutch.subjects import partitioned
from scutch.verdicts import rule, summarize
from trials.liars import arguments as arguments
from trials.liars import composition as composition
from trials.liars import jit as jit
from trials.liars import shard_map as shard_map
from trials.liars import stages as stages
from trials.liars import staleness as staleness
from trials.liars.lifted import LIFTED

FEW = Profile(3, 120, 0, "")
LAWS = [entry for entry in suite.entries() if entry.requirement[:3] in ("JIT", "SHM")]
ROWS = {row.id: row for row in catalogue.load() if row.area in ("JIT", "SHM")}


def _tried(entry, implementation, profile):
    """The trial of a law in a run."""
    subject = partitioned(implementation)
    tried = suite.attempt(entry, implementation, subject)
    prepare(entry.function, profile, 0)
    error = None
    try:
        tried.search(entry.function)
    except Exception as broken:
        error = broken
    return suite.conclude(entry, subject, tried, error)


@pytest.mark.parametrize("liar", LIFTED, ids=[f"{li.breaks[0]}-{li.name}" for li in LIFTED])
def test_a_liar_is_convicted_of_its_lie(liar):
    own = [entry for entry in LAWS if entry.requirement in liar.breaks]
    trials = [_tried(entry, liar.implementation, PROFILES["ci"]) for entry in own]
    assert {t.requirement for t in trials if t.outcome == "failed"} == set(liar.breaks)


NEAR = ("JIT-1", "JIT-2", "JIT-3", "JIT-6", "JIT-8")
"""Rows that are quick to try on every liar."""


@pytest.mark.parametrize("liar", LIFTED, ids=[f"{li.breaks[0]}-{li.name}" for li in LIFTED])
def test_a_liar_is_convicted_of_nothing_else(liar):
    near = [e for e in LAWS if e.requirement.startswith(NEAR) or e.requirement in liar.breaks]
    profile = {True: PROFILES["ci"], False: FEW}
    trials = [_tried(e, liar.implementation, profile[e.requirement in liar.breaks]) for e in near]
    rows = [ROWS[e.requirement] for e in near]
    rulings = rule(rows, trials, claims=reference.claims)
    found = {r.requirement.id for r in summarize(rulings).roots if r.verdict != "untested"}
    assert found == set(liar.breaks)


def test_every_requirement_has_a_law_and_a_liar():
    lied_about = {identifier for liar in LIFTED for identifier in liar.breaks}
    assert set(ROWS) == {entry.requirement for entry in LAWS} == lied_about
