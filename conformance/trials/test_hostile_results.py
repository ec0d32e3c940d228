"""An implementation cannot fool the judge by its exceptions or its results.

Each hostile implementation is judged by a selection of laws, by the driver and the rules of a run:
its own requirement has the verdict that it must have, every other one the reference's, and
the report is valid and complete.
"""

import dataclasses
import functools
import os
import signal
import sys
from types import SimpleNamespace

import pytest
from scutch import catalogue
from scutch.adapters.reference import implementation as reference
from scutch.judging import suite
from scutch.judging.run import settle
from scutch.judging.trying import try_law
from scutch.judging.verdicts import rule
from scutch.namespaces import Namespace
from scutch.report import load, write
from scutch.terminal import document
from trials.hostile import hostile, tried
from trials.hostile.agreeing import CASES
from trials.hostile.lying import FUNCTIONS, LAWS, NAMES, only_during, renaming
from trials.hostile.raising import ACTS, CLASSES

OWN = "test_removing_an_added_axis_restores_the_box"
SELECTION = (
    OWN,
    "test_axes_commute_with_replacing",
    "test_replacing_keeps_all_but_the_value",
    "test_removing_from_a_tree_removes_from_each_box",
)
"""The laws that every hostile implementation is judged by, beside its own."""


@pytest.fixture(autouse=True)
def _as_in_a_runner(monkeypatch):
    """A runner ignores Ctrl-C, so that a `KeyboardInterrupt` comes from the implementation."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "")
    yield
    signal.signal(signal.SIGINT, before)


def forget():
    """Empty the reference's caches: a name that equals others would find their entries."""
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] == "scutch_reference":
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


@functools.cache
def laws():
    return {law.name: law for law in suite.laws()}


def judged(implementation, names):
    """The rulings on the requirements of some laws, and the trial of each law, by its name."""
    trials = {}
    for name in names:
        os.environ["PYTEST_CURRENT_TEST"] = f"trial::{name} (call)"
        trials[name] = try_law(laws()[name], implementation, examples=5)
        forget()
    rows = {row.id: row for row in catalogue.load()}
    wanted = dict.fromkeys(laws()[name].requirement for name in names)
    rulings = rule(
        [rows[each] for each in wanted],
        [dataclasses.replace(trial, unmet=()) for trial in trials.values()],
        claims=implementation.claims,
    )
    return rulings, trials


@functools.cache
def honest(names):
    """The verdicts on the reference by some laws, which all trials of these laws share."""
    rulings, _ = judged(reference, names)
    return {ruling.requirement.id: ruling.verdict for ruling in rulings}


@functools.cache
def run():
    return settle(
        "reference",
        isolate=False,
        profile="quick",
        patterns=("metadata/box-axes/removing-undoes-adding",),
    )


def check(implementation, own, tmp_path):
    """Judge by the selection and by the law `own`, which alone must fail; gives its trial."""
    names = tuple(dict.fromkeys((own, *SELECTION)))
    rulings, trials = judged(implementation, names)
    of = laws()[own].requirement
    expected = honest(names)
    assert set(expected.values()) == {"passed"}
    assert {r.requirement.id: r.verdict for r in rulings} == {**expected, of: "failed"}
    path = tmp_path / "report.json"
    write(document(run(), rulings, "scutch run", complete=True), path)
    assert load(path).complete
    return trials[own]


@functools.cache
def smallest():
    """The smallest input on which an ordinary error breaks the law."""
    raising = hostile({OWN: lambda *_: 1 / 0})
    return judged(raising, (OWN,))[1][OWN].counterexample.input


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_whatever_is_raised_breaks_the_law(act, tmp_path):
    trial = check(hostile({OWN: lambda *_: act()}), OWN, tmp_path)
    assert trial.outcome == "failed"
    assert trial.counterexample.input == smallest()
    assert trial.reason.isprintable() or "\n" in trial.reason
    assert len(trial.reason) < 10_000


@pytest.mark.parametrize("boxes", CLASSES.values(), ids=CLASSES)
def test_a_function_of_the_judge_in_the_place_of_a_method_breaks_the_law(boxes):
    meta = Namespace("hostile: meta", SimpleNamespace(Partitioned=boxes), reference.meta)
    _, trials = judged(dataclasses.replace(reference, meta=meta), (OWN,))
    assert (trials[OWN].outcome, trials[OWN].examples) == ("failed", 0)


RENAMED = [
    pytest.param(method, law, names, id=f"{law}-{lie}")
    for method, several in LAWS.items()
    for law in several
    for lie, names in NAMES.items()
    if (law, lie) != ("test_adding_a_removed_axis_restores_the_box", "names that read right")
]
"""Wrong names; but for those that are read, and put right, before a law sees them."""


@pytest.mark.parametrize(("method", "law", "names"), RENAMED)
def test_wrong_names_are_seen_whatever_they_equal(method, law, names, tmp_path):
    check(hostile({law: renaming(method, names, law)}), law, tmp_path)


@pytest.mark.parametrize(
    ("law", "lies"), [*FUNCTIONS.values(), *CASES.values()], ids=[*FUNCTIONS, *CASES]
)
def test_wrong_results_are_seen_whatever_they_equal(law, lies, tmp_path):
    spaces = {
        space: {name: only_during(law, tried, space, name, lie) for name, lie in names.items()}
        for space, names in lies.items()
    }
    check(hostile({}, **spaces), law, tmp_path)
