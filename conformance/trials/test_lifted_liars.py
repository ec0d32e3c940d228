"""Each law of Linen and of lifted transformations convicts its liar, and those beside it do not."""

from dataclasses import replace

import pytest
from scutch import catalogue
from scutch.judging import suite
from scutch.judging.profiles import PROFILES
from scutch.judging.trying import try_law
from trials.liars import liars
from trials.liars.tale import convict, few, rows

FEW = 2
LIFTS = ("JIT", "SHM", "LIN")
HISTORIES = "test_histories_of_calls_and_changes"
ROWS = {
    row.id: row
    for row in catalogue.select(["JIT", "SHM", "LIN", "OBJ"])
    if row.capability == "transforms" or any(old[:3] in LIFTS for old in row.was)
}
LAWS = suite.tried_by(ROWS)
LIFTED = [liar for liar in liars() if liar.breaks[0] in ROWS]


QUICK = ("JIT-2", "JIT-8", "SHM-3", "SHM-4")
"""Rows that are quick to try on every liar of their area, beside the liar's own rows."""


def near(liar, law):
    """Whether a law is tried on a liar: it is about the same, and no history of many calls."""
    own, other = liar.breaks[0], law.requirement
    if other in liar.breaks:
        return True
    same, areas = rows(own) & rows(other), {row[:3] for row in rows(own)}
    quick = any(row in QUICK and row[:3] in areas for row in rows(other))
    return (same or quick) and law.name != HISTORIES


def on_few(law, liar):
    """A law on few inputs, which need not be all that it must reach."""
    trial = try_law(law, liar.implementation, examples=few(law, FEW), shrink=False)
    return replace(trial, unmet=())


@pytest.mark.parametrize("liar", LIFTED, ids=[f"{li.breaks[0]}-{li.name}" for li in LIFTED])
def test_a_liar_is_convicted_of_its_lie_and_of_nothing_else(liar):
    failed, found = convict(liar, [law for law in LAWS if near(liar, law)], on_few)
    assert failed >= set(liar.breaks)
    assert set(found) == set(liar.breaks), found


def test_a_disagreement_with_the_reference_shows_both_answers():
    (liar,) = (
        liar
        for liar in LIFTED
        if liar.breaks == ("transformations/equals-jax/lifts-of-linen[reference]",)
    )
    (law,) = suite.tried_by(liar.breaks)
    examples = PROFILES["ci"].examples
    text = try_law(law, liar.implementation, examples=examples, shrink=False).reason
    assert "gradients differ: reference answers {" in text
    assert f"; {liar.name} answers {{" in text


def test_every_requirement_has_a_law_and_a_liar():
    lied_about = {identifier for liar in LIFTED for identifier in liar.breaks}
    assert set(ROWS) == {law.requirement for law in LAWS} == lied_about
