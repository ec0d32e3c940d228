"""Every liar is convicted by its own laws, and in the nightly by no others.

A liar's own law is searched as in a run. The nightly also tries the laws of the same row of the
contract, on few inputs: none may name another root cause than the lie.
"""

import contextlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scutch import catalogue
from scutch.adapters.reference import implementation as reference
from scutch.inputs.boxes import KINDS
from scutch.inputs.descriptions import Array, Box, Description, Foreign, Mesh
from scutch.judging import hypothesis_parts, suite
from scutch.judging.attempt import Setting, call_text
from scutch.judging.calls import parse_call
from scutch.judging.profiles import PROFILES
from scutch.judging.suite import UNASSERTED, Law
from scutch.judging.trials import Trial
from scutch.judging.trying import try_law
from scutch.judging.unasserted import Unasserted
from scutch.judging.verdicts import rule, summarize
from scutch.lawkit.domain import is_installed
from scutch.loading import check
from scutch.strategies import axis_names, box_trees, meshes
from scutch.strategies.values import DTYPES
from trials.liars import Liar, liars

DRAWN = 120
FEW = 2
"""Inputs for a law beside the liar's own."""
ASSERTING = Path(__file__).with_name("liars") / "asserting.py"
ROWS = catalogue.by_id()
LAWS = suite.laws()
EACH = pytest.mark.parametrize(
    "liar", [pytest.param(each, id=f"{each.breaks[0]}-{each.name}") for each in liars()]
)
READ_BACK = ("meta", "logical", "nnx")
"""Capabilities whose laws run in milliseconds."""
OF_TENSORFLOW = {
    "export/methods/compiled-method-computes-same",
    "export/meshes/several-axes-must-be-allowed",
}


@pytest.fixture(scope="session")
def asserting() -> Iterator[Setting]:
    with contextlib.closing(Unasserted(str(ASSERTING))) as remove:
        yield Setting(unasserted=remove)


@EACH
def test_a_liar_is_convicted_by_its_own_laws(liar, asserting):
    check(liar.implementation, liar.name)
    trials = [convicted(law, liar, asserting) for law in suite.tried_by(accused(liar))]
    assert {trial.requirement for trial in trials if trial.outcome == "failed"} == accused(liar)


@pytest.mark.nightly
@EACH
def test_a_liar_is_convicted_of_nothing_else(liar, asserting):
    own = accused(liar)
    trials = [
        convicted(law, liar, asserting) if law.requirement in own else on_few(law, liar)
        for law in suite.tried_by(near(own))
        if law.requirement in own or claimed(law, liar)
    ]
    tried = {trial.requirement for trial in trials}
    rows = [row for row in catalogue.load() if row.id in tried]
    ruled = rule(rows, trials, claims=liar.implementation.claims, retry=trusted)
    assert {ruling.requirement.id for ruling in summarize(ruled).roots} == set(liar.breaks)


def accused(liar: Liar) -> set[str]:
    """The requirements that a liar breaks: of both box classes, if its lie serves both."""
    if OF_TENSORFLOW & set(liar.breaks) and not is_installed("tensorflow"):
        pytest.skip("the lie is about TensorFlow, which is not installed")
    variants = {logical(each) for each in liar.breaks if liar.name in SHARED}
    return {*liar.breaks, *variants}


def logical(identifier: str) -> str:
    """The same requirement of logically partitioned boxes."""
    return catalogue.variant(identifier, catalogue.LOGICAL)


SHARED = frozenset(
    liar.name
    for liar in liars()
    if logical(liar.breaks[0]) in ROWS
    and f"{liar.name}[logical]" not in {other.name for other in liars()}
)
"""The lies in functions that serve both box classes."""


def near(broken: Iterable[str]) -> frozenset[str]:
    """Some requirements, and those that share a row of the contract with them."""
    own = frozenset(broken)
    shared = {row for each in own for row in rows_of(each)}
    return own | {each for each in ROWS if rows_of(each) & shared}


def rows_of(identifier: str) -> set[str]:
    """The rows of the contract that a requirement comes from, such as `BOX-2` and `LOG-9`."""
    was = ROWS[identifier].was
    return {found[0] for old in was if (found := re.match(r"[A-Z]+-\d+", old))}


def claimed(law: Law, liar: Liar) -> bool:
    """Whether a law can be tried here on a liar that should obey it."""
    claims = liar.implementation.claims
    return UNASSERTED not in law.fixtures and ROWS[law.requirement].capability in claims


def convicted(law: Law, liar: Liar, setting: Setting) -> Trial:
    """A law as a run tries it but for shrinking; its counterexample breaks it again."""
    examples, lying = PROFILES["ci"].examples, liar.implementation
    lying.logical.set_logical_axis_rules(())
    trial = try_law(law, lying, examples=examples, setting=setting, shrink=False)
    if trial.counterexample is not None:
        name, inputs = parse_call(trial.counterexample.input)
        assert name == law.name
        lying.logical.set_logical_axis_rules(())
        again = try_law(law, lying, examples=1, setting=setting, replay=[inputs])
        assert again.outcome == "failed"
    return trial


def on_few(law: Law, liar: Liar) -> Trial:
    """A law on few inputs, one where each is compiled; they need not be all that it must reach."""
    liar.implementation.logical.set_logical_axis_rules(())
    few = 1 if getattr(law.function, "scutch_share", 1.0) < 1 else FEW
    return replace(try_law(law, liar.implementation, examples=few, shrink=False), unmet=())


def trusted(broken: Trial, needed: Sequence[Trial]) -> Trial:
    """A `retry` that always passes: it trusts the catalogue's `needs`, which these trials test."""
    return replace(broken, outcome="passed", counterexample=None)


def test_every_requirement_has_a_law_and_a_liar():
    lied_about = {
        identifier
        for liar in liars()
        for each in liar.breaks
        for identifier in ((each, logical(each)) if liar.name in SHARED else (each,))
    }
    assert set(ROWS) == {law.requirement for law in LAWS} == lied_about


def test_every_law_has_a_name_of_its_own():
    names = Counter(law.name for law in LAWS)
    assert names.most_common(1)[0][1] == 1


def test_no_requirement_needs_itself():
    def descend(identifier: str, path: tuple[str, ...]) -> None:
        assert identifier not in path
        for need in ROWS[identifier].needs:
            descend(need, (*path, identifier))

    for identifier in ROWS:
        descend(identifier, ())


def test_every_input_can_be_read_back_and_replayed():
    for law in LAWS:
        if UNASSERTED in law.fixtures or ROWS[law.requirement].capability not in READ_BACK:
            continue
        reference.logical.set_logical_axis_rules(())
        texts: list[str] = []
        tried = try_law(law, reference, examples=FEW, seed=1, setting=Setting(journal=texts.append))
        read = [parse_call(text) for text in texts]
        assert [call_text(*each) for each in read] == texts
        assert {name for name, _ in read} == {law.name}
        inputs = [each for _, each in read]
        replayed = try_law(law, reference, examples=len(texts), replay=inputs)
        assert (replayed.outcome, replayed.examples) == ("passed", tried.examples)


def test_a_disagreement_with_the_reference_shows_both_answers():
    disagreement = ("transformations/equals-jax/lifts-of-linen[reference]",)
    (liar,) = (each for each in liars() if each.breaks == disagreement)
    (law,) = suite.tried_by(liar.breaks)
    examples = PROFILES["ci"].examples
    text = try_law(law, liar.implementation, examples=examples, shrink=False).reason
    assert "gradients differ: reference answers {" in text
    assert f"; {liar.name} answers {{" in text


def test_strategies_reach_what_they_must():
    """All of it comes up in `DRAWN` inputs: as many as two laws of profile `ci` are tried on."""
    drawn = _drawn(
        st.fixed_dictionaries({"tree": box_trees(), "mesh": meshes(), "name": axis_names()})
    )
    parts = [part for inputs in drawn for part in _parts(inputs)]
    kinds = {type(part).__name__ for part in parts}
    assert kinds >= {"Array", "Abstract", "Key", "Record", "Box", "Foreign", "Mesh", "NoneType"}
    assert {part.kind for part in parts if isinstance(part, Foreign)} == set(KINDS)
    boxes = [part for part in parts if isinstance(part, Box | Foreign)]
    assert any(isinstance(box.value, Box | Foreign) for box in boxes)
    assert any(isinstance(box.value, dict) for box in boxes)
    assert all(empty in parts for empty in ({}, [], ()))
    arrays = [part for part in parts if isinstance(part, Array)]
    assert {array.dtype for array in arrays} == set(DTYPES)
    assert {0, 1} <= {size for array in arrays for size in array.shape}
    assert {len(array.shape) for array in arrays} == {0, 1, 2, 3, 4}
    names = {name for box in boxes for name in box.names}
    assert names >= {"data", None, ("data", "model")}
    grids = [part for part in parts if isinstance(part, Mesh)]
    assert {math.prod(mesh.shape) for mesh in grids} == {1, 2, 4, 8}
    assert {len(mesh.axes) for mesh in grids} == {1, 2, 3}


def _drawn(strategy: st.SearchStrategy[Any]) -> list[Any]:
    drawn: list[Any] = []

    @given(value=strategy)
    def draw(value: Any) -> None:
        """Never called: `search` puts its own call in the place of this one."""

    hypothesis_parts.search(
        draw, lambda given: drawn.append(given["value"]), fixtures={}, examples=DRAWN, seed=0
    )
    return drawn


def _parts(value: Any) -> Iterator[Any]:
    """A description and all descriptions inside it."""
    yield value
    if isinstance(value, Description):
        value = vars(value)
    children = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict | list | tuple):
        for child in children:
            yield from _parts(child)
