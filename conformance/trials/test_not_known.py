"""The limits of the judge, as CONTRIBUTING lists them: each of these cheats works.

A trial that fails here is good news: the judge knows more than it says, and the list gets shorter.
"""

import dataclasses
import sys
import types
from pathlib import Path

import pytest
from scutch import Namespace
from scutch.adapters.reference import implementation as reference
from scutch.inputs import subjects
from scutch.judging import known, suite
from scutch.judging.run import settle
from scutch.judging.trying import try_law
from scutch.lawkit import domain
from scutch_reference import meta

OWN = "test_removing_an_added_axis_restores_the_box"


class Broken(meta.Partitioned):
    """Loses the names of its axes."""

    def remove_axis(self, index, params):
        return meta.Partitioned(super().remove_axis(index, params).unbox(), ())


def tried(boxes, names=None):
    """The trial of the law on an implementation whose boxes are of this class."""
    space = Namespace("cheat: meta", types.SimpleNamespace(Partitioned=boxes), meta, names=names)
    cheat = dataclasses.replace(reference, meta=space, logical=None, linen=None)
    return try_law(suite.named(OWN), cheat, examples=10)


def test_without_a_cheat_the_law_is_broken():
    assert tried(Broken).outcome == "failed"


def test_it_can_patch_the_judge(monkeypatch):
    module = sys.modules[suite.named(OWN).function.__module__]

    class Patching(Broken):
        def remove_axis(self, index, params):
            monkeypatch.setattr(module, "alike", lambda *_: True)
            return super().remove_axis(index, params)

    assert tried(Patching).outcome == "passed"


def test_it_can_read_the_answer_from_the_stack():
    class Reading(Broken):
        def remove_axis(self, index, params):
            return sys._getframe(1).f_locals["box"]

    assert tried(Reading).outcome == "passed"


def test_it_can_have_the_judge_touch_a_name_that_it_does_not_claim():
    """Its requirement is unclaimed then, and not passed: the report says which name."""

    class Asking(Broken):
        def remove_axis(self, index, params):
            frame = sys._getframe(1)
            while "self" not in frame.f_locals or not hasattr(frame.f_locals["self"], "claimed"):
                frame = frame.f_back
            judged = frame.f_locals["self"].claimed[0]
            subjects.partitioned(judged).wrap(None, (), None)

    found = tried(Asking, names=set(vars(meta)) - {"with_partitioning"})
    assert (found.outcome, "with_partitioning" in found.reason) == ("skipped", True)


def test_it_can_hide_a_package_by_the_path(monkeypatch):
    monkeypatch.delitem(sys.modules, "optax", raising=False)
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(domain.NotAvailable):
        domain.import_or_leave("optax", "not here")


def test_a_fork_has_the_failures_that_its_upstream_is_known_for(tmp_path):
    """It says so itself, by `known="flax"`; its name alone does not."""
    text = (
        "from scutch import Implementation\nfrom scutch_reference import meta\n"
        "implementation = Implementation('flax', '0.12.8', meta=meta{})\n"
    )
    entries = {}
    for name, rest in {"named": "", "told": ", known='flax'"}.items():
        path = tmp_path / f"{name}.py"
        path.write_text(text.format(rest))
        entries[name] = settle(str(path), isolate=False, profile="quick").known
    of_boxes = [
        e for e in known.shipped() if e.implementation == "flax" and e.applies("flax", "0.12.8")
    ]
    assert entries == {"named": (), "told": tuple(of_boxes)}


def test_every_way_is_on_the_list():
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text("utf-8")
    section = text.split("## Limits of the judge\n")[1].split("\n## ")[0]
    here = [name for name in globals() if name.startswith(("test_it_can", "test_a_fork"))]
    assert [name for name in here if name not in section] == []
