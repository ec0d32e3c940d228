"""Each law convicts its liar, and no other law does but those that need it.

The *corpus* holds inputs on which the reference obeys every law. It is drawn once. A liar's own
law is searched as in a run; all others are replayed on the corpus, which is quick.
"""

import functools
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scutch import catalogue
from scutch.adapters.reference import implementation as reference
from scutch.implementation import Implementation, check
from scutch.inputs.boxes import KINDS
from scutch.inputs.calls import parse_call
from scutch.inputs.descriptions import Array, Box, Description, Foreign, Mesh
from scutch.inputs.subjects import SUBJECTS, Subject
from scutch.judging import suite
from scutch.judging.profiles import PROFILES, Profile
from scutch.judging.suite import Entry
from scutch.judging.trying import Attempt, describe, prepare
from scutch.judging.unasserted import unasserted
from scutch.judging.verdicts import Trial, rule, summarize
from scutch.strategies import axis_names, box_trees, meshes
from scutch.strategies.values import DTYPES
from trials.liars import LIARS, Liar

INPUTS = 10
CI = PROFILES["ci"]
ASSERTING = Path(__file__).with_name("liars") / "asserting.py"
# What only the process without assertions can tell is told by its own liar, and by no other.
UNASSERTED = "unasserted"

Law = tuple[Entry, str]


@dataclass
class Recorder(Attempt):
    """An attempt that keeps its inputs, as descriptions and as texts."""

    def __post_init__(self) -> None:
        self.inputs: list[dict[str, Any]] = []
        self.texts: list[str] = []
        self.journal = self.texts.append

    def call(self, function: Any, inputs: dict[str, Any]) -> None:
        """As ever."""
        super().call(function, inputs)
        self.inputs.append(inputs)


@functools.cache
def laws() -> list[Law]:
    """Every law, on every subject that it is tried on."""
    names = {True: tuple(SUBJECTS), False: ("partitioned",)}
    pairs = [(entry, name) for entry in suite.entries() for name in names[entry.on_subjects]]
    return [law for law in pairs if identifier(law) in requirements()]


@functools.cache
def identifier(law: Law) -> str:
    entry, name = law
    prefix = SUBJECTS[name](reference).prefix if entry.on_subjects else ""
    return prefix + entry.requirement


@functools.cache
def requirements() -> dict[str, catalogue.Requirement]:
    """Those that the laws of boxes, logical axes and objects are for."""
    rows = [r for r in catalogue.load() if r.area in ("BOX", "LOG", "OBJ")]
    return {r.id: r for r in rows if r.capability in ("meta", "logical", "nnx")}


def about(law: Law, liar: Liar) -> bool:
    """Whether a law is about what the liar lies of: objects, or boxes and axes."""
    of_objects = requirements()[identifier(law)].capability == "nnx"
    return not liar.breaks or of_objects == ("nnx" in liar.implementation.claims)


@functools.cache
def corpus() -> dict[str, Recorder]:
    """What was drawn for each law, by the name of its attempt."""
    drawn = {}
    for entry, name in laws():
        if UNASSERTED not in entry.arguments:
            recorder = _attempt(Recorder, entry, reference, SUBJECTS[name](reference))
            prepare(entry.function, Profile(INPUTS, CI.timeout, 0, ""), 1)
            recorder.search(entry.function)
            drawn[recorder.test] = recorder
    return drawn


def _attempt(kind: Any, entry: Entry, of: Implementation, subject: Subject, **others: Any) -> Any:
    tried = suite.attempt(entry, of, subject, **others)
    return kind(tried.test, tried.world, tried.fixtures)


@pytest.fixture(scope="session")
def processes() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        stack.asserting = functools.cache(  # type: ignore[attr-defined]
            lambda: stack.enter_context(unasserted(str(ASSERTING)))
        )
        yield stack


def tried_on_corpus(law: Law, liar: Liar) -> Trial:
    """A law on its part of the corpus, up to the first input that breaks it."""
    entry, name = law
    subject = SUBJECTS[name](liar.implementation)
    tried = suite.attempt(entry, liar.implementation, subject)
    error = None
    liar.implementation.logical.set_logical_axis_rules(())
    for inputs in corpus()[tried.test].inputs:
        try:
            tried.replay(entry.function, inputs)
        except Exception as broken:
            error = broken
            break
    trial = suite.conclude(entry, subject, tried, error)
    return Trial(**{**vars(trial), "unmet": ()})  # that is a matter of the search


def convicted(law: Law, liar: Liar, others: dict[str, Any]) -> Trial:
    """A law as a run tries it, and the counterexample as it is replayed."""
    entry, name = law
    subject = SUBJECTS[name](liar.implementation)
    tried = suite.attempt(entry, liar.implementation, subject, **others)
    prepare(entry.function, CI, 0)
    liar.implementation.logical.set_logical_axis_rules(())
    try:
        tried.search(entry.function)
    except Exception as error:
        trial = suite.conclude(entry, subject, tried, error)
    else:
        return suite.conclude(entry, subject, tried, None)
    assert trial.counterexample is not None
    test, inputs = parse_call(trial.counterexample.input)
    assert test == tried.test
    again = suite.attempt(entry, liar.implementation, subject, **others)
    liar.implementation.logical.set_logical_axis_rules(())
    with pytest.raises(Exception) as broken:  # noqa: PT011  whatever breaks the law
        again.replay(entry.function, inputs)
    assert type(broken.value).__name__ == describe(broken.value).partition(":")[0]
    return trial


@pytest.mark.parametrize("liar", LIARS, ids=[f"{li.breaks[0]}-{li.name}" for li in LIARS])
def test_a_liar_is_convicted_of_its_lie_and_of_nothing_else(liar, processes):
    check(liar.implementation, liar.name)
    trials, targets = [], {*liar.breaks, *(f"LOG-9.{i}" for i in liar.breaks if shared(liar))}
    for law in laws():
        if not about(law, liar):
            continue
        asserts = UNASSERTED in law[0].arguments
        others = (
            {UNASSERTED: processes.asserting()} if asserts and identifier(law) in targets else {}
        )
        if identifier(law) in targets and not (asserts and not others):
            trials.append(convicted(law, liar, others))
        elif not asserts:
            trials.append(tried_on_corpus(law, liar))
    outcomes: dict[str, set[str]] = {}
    for trial in trials:
        outcomes.setdefault(trial.requirement, set()).add(trial.outcome)
    assert {i for i in targets if "failed" not in outcomes[i]} == set()
    rows = [row for row in requirements().values() if row.id in outcomes]
    roots = summarize(rule(rows, trials, claims=liar.implementation.claims)).roots
    found = {r.requirement.id: (r.verdict, r.reason, r.counterexample) for r in roots}
    assert set(found) == set(liar.breaks), found


def shared(liar: Liar) -> bool:
    """Whether the lie is one of a function that serves both box classes."""
    return liar.name in SHARED


SHARED = frozenset(
    liar.name
    for liar in LIARS
    if liar.breaks[0].startswith("BOX-")
    and f"LOG-9.{liar.breaks[0]}" in requirements()
    and f"{liar.name}[logical]" not in {other.name for other in LIARS}
)


def test_every_requirement_has_a_law_and_a_liar():
    lied_about = {i for liar in LIARS for i in liar.breaks}
    lied_about |= {f"LOG-9.{i}" for liar in LIARS for i in liar.breaks if shared(liar)}
    assert set(requirements()) == {identifier(law) for law in laws()} == lied_about


def test_every_law_has_a_name_of_its_own():
    names = Counter(entry.name for entry in suite.entries())
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
    for law in laws():
        if UNASSERTED not in law[0].arguments:
            trial = tried_on_corpus(law, honest)
            assert (trial.outcome, trial.reason) == ("passed", None)
            assert trial.examples


def test_every_input_can_be_read_back():
    for test, recorder in corpus().items():
        read = [parse_call(text) for text in recorder.texts]
        assert {name for name, _ in read} == {test}
        assert all(inputs in [i for _, i in read] for inputs in recorder.inputs)


def test_strategies_reach_what_they_must():
    """Drawn as a run of profile `ci` draws, for one law."""
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

    @given(strategy)
    def draw(value: Any) -> None:
        drawn.append(value)

    prepare(draw, CI, 0)
    draw()
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
