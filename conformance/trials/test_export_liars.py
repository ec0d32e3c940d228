"""Each law of export convicts its liar, and those beside it do not."""

from dataclasses import replace

import pytest
from scutch import catalogue
from scutch.judging import suite
from scutch.judging.trying import try_law
from scutch.lawkit.domain import is_installed
from trials.liars import liars
from trials.liars.tale import convict, few, rows

ROWS = {row.id for row in catalogue.select("EXP")}
LIARS = [liar for liar in liars() if liar.breaks[0] in ROWS]
OF_TENSORFLOW = {
    "export/methods/compiled-method-computes-same",
    "export/meshes/several-axes-must-be-allowed",
}
QUICK = (
    "export/methods/method-equals-jax-function",
    "export/methods/jax-methods-are-bound-functions",
    "export/methods/one-function-has-default-key",
    "export/training/tree-holds-leaf-by-leaf",
    "export/updates/other-parameters-are-refused",
    "export/names/name-is-the-path",
    "export/meshes/parameters-must-be-jax-arrays",
)
"""Requirements with quick laws, tried on every liar beside its own row of the contract."""


def near(law, liar):
    """Whether a law is tried on a liar: it is of the same row, or quick."""
    if law.requirement not in ROWS:
        return False
    return bool(rows(law.requirement) & rows(liar.breaks[0])) or law.requirement in QUICK


@pytest.mark.parametrize("liar", LIARS, ids=[f"{li.breaks[0]}-{li.name}" for li in LIARS])
def test_a_liar_is_convicted_of_its_lie_and_of_nothing_else(liar):
    if OF_TENSORFLOW & set(liar.breaks) and not is_installed("tensorflow"):
        pytest.skip("the lie is about TensorFlow, which is not installed")

    def on_few(law, liar):
        trial = try_law(law, liar.implementation, examples=few(law, 3), shrink=False)
        return replace(trial, unmet=())

    failed, found = convict(liar, [law for law in suite.laws() if near(law, liar)], on_few)
    assert failed >= set(liar.breaks)
    assert set(found) == set(liar.breaks), found


def test_every_requirement_has_a_law_and_a_liar():
    lied_about = {identifier for liar in LIARS for identifier in liar.breaks}
    assert ROWS == {law.requirement for law in suite.tried_by(ROWS)} == lied_about
