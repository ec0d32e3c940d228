"""Each law of Linen and of lifted transformations convicts its liar, and those beside it do not."""

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache
from scutch import catalogue
from scutch.judging import suite
from scutch.judging.profiles import PROFILES, Profile
from trials.liars import arguments as arguments
from trials.liars import composition as composition
from trials.liars import guide as guide
from trials.liars import jit as jit
from trials.liars import lifts as lifts
from trials.liars import modules as modules
from trials.liars import plain as plain
from trials.liars import shard_map as shard_map
from trials.liars import stages as stages
from trials.liars import staleness as staleness
from trials.liars import transforms as transforms
from trials.liars.lifted import LIFTED
from trials.liars.tale import convicted, tried

FEW = Profile(3, 120, 0, "")
HISTORIES = "test_histories_of_calls_and_changes"
ROWS = {
    row.id: row
    for row in catalogue.load()
    if row.area in ("JIT", "SHM", "LIN") or (row.area, row.capability) == ("OBJ", "transforms")
}
LAWS = [entry for entry in suite.entries() if entry.requirement in ROWS]


@pytest.fixture(scope="module", autouse=True)
def _compiled_once(tmp_path_factory):
    """The liars compile the same programs: keep what XLA makes of them."""
    options = {
        "jax_compilation_cache_dir": str(tmp_path_factory.mktemp("compiled")),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in options}
    for name, value in options.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


QUICK = ("JIT-2", "JIT-8", "SHM-3", "SHM-4")
"""Rows that are quick to try on every liar of their area, beside those of its own number."""


def near(liar, entry):
    """Whether a law is tried on a liar: it is about the same, and no history of many calls."""
    own, other = liar.breaks[0], entry.requirement
    if other in liar.breaks:
        return True
    alike = ROWS[own].row == ROWS[other].row or (other.startswith(QUICK) and other[:3] == own[:3])
    return alike and entry.name != HISTORIES


@pytest.mark.parametrize("liar", LIFTED, ids=[f"{li.breaks[0]}-{li.name}" for li in LIFTED])
def test_a_liar_is_convicted_of_its_lie_and_of_nothing_else(liar):
    laws = [entry for entry in LAWS if near(liar, entry)]
    failed, found = convicted(liar, laws, ROWS, FEW)
    assert failed >= set(liar.breaks)
    assert set(found) == set(liar.breaks), found


def test_a_disagreement_with_the_reference_shows_both_answers():
    (liar,) = (liar for liar in LIFTED if liar.breaks == ("LIN-4h",))
    (law,) = (entry for entry in LAWS if entry.requirement == "LIN-4h")
    text = tried(law, liar.implementation, PROFILES["ci"]).reason
    assert "gradients differ: reference answers [" in text
    assert f"; {liar.name} answers [" in text


def test_every_requirement_has_a_law_and_a_liar():
    lied_about = {identifier for liar in LIFTED for identifier in liar.breaks}
    assert set(ROWS) == {entry.requirement for entry in LAWS} == lied_about
