"""Each law convicts its liar, and no other law does but those that need it.

The *corpus* holds inputs on which the reference obeys a law. They are drawn once. A liar's own law
is searched as in a run; those near it are replayed on the corpus, which is quick. With
`SCUTCH_WHOLE_AREAS=1` in the environment all laws are.
"""

import contextlib
import functools
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scutch import catalogue
from scutch.adapters.reference import implementation as reference
from scutch.implementation import check
from scutch.inputs.boxes import KINDS
from scutch.inputs.calls import parse_call
from scutch.inputs.descriptions import Array, Box, Description, Foreign, Mesh
from scutch.judging import hypothesis_parts, suite
from scutch.judging.suite import UNASSERTED, Law
from scutch.judging.trying import call_text, try_law
from scutch.judging.unasserted import Unasserted
from scutch.judging.verdicts import Trial
from scutch.strategies import axis_names, box_trees, meshes
from scutch.strategies.values import DTYPES
from trials.areas import EVERYWHERE, near
from trials.liars import Liar, liars
from trials.liars.tale import convict, few

INPUTS, DRAWN = 6, 120
ASSERTING = Path(__file__).with_name("liars") / "asserting.py"


@functools.cache
def requirements() -> dict[str, catalogue.Requirement]:
    """Those that the laws of boxes, logical axes and objects are for."""
    rows = catalogue.select(["BOX", "LOG", "OBJ"])
    return {r.id: r for r in rows if r.capability in ("meta", "logical", "nnx")}


LIARS = [liar for liar in liars() if liar.breaks[0] in requirements()]
LAWS = suite.tried_by(requirements())


def about(law: Law, liar: Liar) -> bool:
    """Whether law and liar have one subject: objects, or boxes and axes."""
    of_objects = requirements()[law.requirement].capability == "nnx"
    return not liar.breaks or of_objects == ("nnx" in liar.implementation.claims)


@functools.cache
def corpus(law: Law) -> list[str]:
    """The calls that were drawn for a law."""
    drawn: list[str] = []
    try_law(law, reference, examples=few(law, INPUTS), seed=1, journal=drawn.append)
    return drawn


@functools.cache
def inputs(law: Law) -> list[dict[str, Any]]:
    """The inputs of a law in the corpus."""
    return [parse_call(text)[1] for text in corpus(law)]


def tried_on_corpus(law: Law, liar: Liar) -> Trial:
    """A law on its part of the corpus, up to the first input that breaks it."""
    return try_law(law, liar.implementation, examples=INPUTS, replay=inputs(law))


@pytest.fixture(scope="session")
def asserting() -> Iterator[Unasserted]:
    with contextlib.closing(Unasserted(str(ASSERTING))) as remove:
        yield remove


@pytest.mark.parametrize("liar", LIARS, ids=[f"{li.breaks[0]}-{li.name}" for li in LIARS])
def test_a_liar_is_convicted_of_its_lie_and_of_nothing_else(liar, asserting):
    check(liar.implementation, liar.name)
    own = {*liar.breaks, *(logical(i) for i in liar.breaks if shared(liar))}
    asked = set(requirements()) if EVERYWHERE else near(own)
    # A law that needs the process without assertions is tried on its requirement's liars alone.
    laws = [
        law
        for law in LAWS
        if law.requirement in asked
        and about(law, liar)
        and (UNASSERTED not in law.fixtures or law.requirement in own)
    ]
    failed, found = convict(liar, laws, tried_on_corpus, own=own, unasserted=asserting)
    assert failed >= own
    assert set(found) == set(liar.breaks), found


def shared(liar: Liar) -> bool:
    """Whether the lie is in a function that serves both box classes."""
    return liar.name in SHARED


def logical(identifier: str) -> str:
    """The same requirement of logically partitioned boxes."""
    return catalogue.variant(identifier, catalogue.LOGICAL)


SHARED = frozenset(
    liar.name
    for liar in LIARS
    if logical(liar.breaks[0]) in requirements()
    and f"{liar.name}[logical]" not in {other.name for other in LIARS}
)


def test_every_requirement_has_a_law_and_a_liar():
    lied_about = {i for liar in LIARS for i in liar.breaks}
    lied_about |= {logical(i) for liar in LIARS for i in liar.breaks if shared(liar)}
    assert set(requirements()) == {law.requirement for law in LAWS} == lied_about


def test_every_liar_is_tried():
    """A liar is of a requirement of this file, or of an area whose liars another file tries."""
    areas = ("LIN", "JIT", "SHM", "BRG", "EXP", "DST")
    others = {row.id for row in catalogue.select(areas)}
    others |= {row.id for row in catalogue.load() if row.capability == "transforms"}
    assert {liar.breaks[0] for liar in liars()} <= set(requirements()) | others


def test_every_law_has_a_name_of_its_own():
    names = Counter(law.name for law in suite.laws())
    assert names.most_common(1)[0][1] == 1


def test_no_requirement_needs_itself():
    rows = {r.id: r for r in catalogue.load()}

    def descend(identifier: str, path: tuple[str, ...]) -> None:
        assert identifier not in path
        for need in rows[identifier].needs:
            descend(need, (*path, identifier))

    for identifier in requirements():
        descend(identifier, ())


def test_the_reference_obeys_every_law_on_the_corpus():
    honest = Liar("honest", (), reference)
    reference.logical.set_logical_axis_rules(())
    for law in LAWS:
        if UNASSERTED not in law.fixtures:
            trial = tried_on_corpus(law, honest)
            assert (trial.outcome, trial.reason) == ("passed", None)
            assert trial.examples


def test_every_input_can_be_read_back():
    for law in LAWS:
        if UNASSERTED not in law.fixtures:
            texts = corpus(law)
            assert [call_text(*parse_call(text)) for text in texts] == texts
            assert {parse_call(text)[0] for text in texts} == {law.name}


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
