"""Shards divide the requirements alike everywhere, and together they are one run."""

import functools
import json
import random
from pathlib import Path

import pytest
from scutch import catalogue
from scutch.implementation import SetupError
from scutch.judging import portfolio
from scutch.judging.shards import Shard, division

ROOT = Path(__file__).parents[2]
IDS = [row.id for row in catalogue.load()]


@pytest.mark.parametrize("of", [1, 2, 3, 8, 16])
def test_every_requirement_is_in_one_shard(of):
    parts = [Shard(number, of).part_of(IDS) for number in range(1, of + 1)]
    assert sorted(one for part in parts for one in part) == sorted(IDS)
    assert sum(any(one.startswith("processes/") for one in part) for part in parts) == 1


def test_the_division_does_not_depend_on_the_order_in_which_requirements_are_named():
    shuffled = random.Random(0).sample(IDS, len(IDS))
    assert Shard(3, 8).part_of(shuffled) == Shard(3, 8).part_of(IDS)


def test_every_shard_has_about_the_same_cost():
    jobs = sum(portfolio.seconds(one) for one in IDS if one.startswith("processes/"))
    for of in (2, 3, 8):
        costs = [sum(map(portfolio.seconds, part)) for part in division(IDS, of)]
        assert max(costs) <= max(1.1 * sum(costs) / of, jobs)


def test_requirements_of_jobs_stay_together():
    jobs = ["processes/a/b", "processes/a/c"]
    assert division(["a/b/c", "a/b/d", "a/b/e", *jobs], 2) == (
        {"a/b/e", *jobs},
        {"a/b/c", "a/b/d"},
    )
    assert division([], 2) == (frozenset(), frozenset())


@pytest.mark.parametrize("text", ["", "3", "0/8", "9/8", "3/0", "-1/8", "1/257", "a/b", "3/8 "])
def test_a_shard_that_is_none_is_refused(text):
    with pytest.raises(SetupError, match="expected NUMBER/OF, such as 3/8"):
        Shard.parse(text)


LIAR = """
import scutch_reference
from scutch_reference import logical, meta
from scutch import Implementation, Namespace
from types import SimpleNamespace

class Partitioned(meta.Partitioned):
    def remove_axis(self, index, params):
        return self

def with_partitioning(fn, names, mesh=None, **fields):
    return lambda *a, **k: Partitioned(fn(*a, **k), names, mesh=mesh, **fields)

told = SimpleNamespace(Partitioned=Partitioned, with_partitioning=with_partitioning)
implementation = Implementation("liar", "1", meta=Namespace("lying meta", told, meta))
"""


@pytest.fixture(scope="module")
def scutch(command):
    """Gives the exit code of `scutch`, and its output."""
    return functools.partial(command, ROOT, "scutch")


@pytest.fixture(scope="module")
def divided(scutch, tmp_path_factory):
    """A whole run on a liar, and the same in two shards, in different folders; and the liar."""
    folder = tmp_path_factory.mktemp("shards")
    (folder / "liar.py").write_text(LIAR)
    asked = ("--requirement", "BOX-5", "--requirement", "BOX-6", "--requirement", "BOX-8")
    for name, options in {"whole": (), "1": ("--shard", "1/2"), "2": ("--shard", "2/2")}.items():
        code, printed = scutch(
            "run",
            "--implementation",
            str(folder / "liar.py"),
            "-q",
            "-p",
            "no:cacheprovider",
            "--examples",
            "8",
            *asked,
            "--report",
            str(folder / f"{name}.json"),
            *options,
        )
        assert code in (0, 1), printed
        (folder / f"{name}.txt").write_text(printed)
    return folder


def _found(path):
    report = json.loads(path.read_text())
    machine = {"seconds": 0, "cost": {}}
    return report | {"requirements": [row | machine for row in report["requirements"]]}


def test_merged_shards_are_the_whole_run(scutch, divided):
    """A failure that follows from one in the other shard is blocked in both."""
    merged = divided / "merged.json"
    code, printed = scutch(
        "merge", str(divided / "2.json"), str(divided / "1.json"), "-o", str(merged)
    )
    assert code == 1, printed
    whole = _found(divided / "whole.json")
    assert _found(merged) == whole
    parts = [_found(divided / f"{n}.json")["requirements"] for n in (1, 2)]
    assert all(parts)
    blocked = {row["id"]: row["blocked_by"] for row in whole["requirements"] if row["blocked_by"]}
    assert blocked
    place = {row["id"]: number for number, part in enumerate(parts) for row in part}
    assert any(place[one] != place[root] for one, roots in blocked.items() for root in roots)


def test_a_shard_says_which_it_is(divided):
    assert "this is shard 1/2 of " in (divided / "1.txt").read_text()
    assert json.loads((divided / "1.json").read_text())["shard"]["of"] == 2


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (("1",), "shard 2/2 is missing"),
        (("1", "2", "again"), "shard 1/2 was run 2 times"),
        (("1", "cut"), "shard 2/2 was cut short"),
    ],
)
def test_a_shard_that_is_missing_repeated_or_cut_short_is_said(
    scutch, divided, tmp_path, named, said
):
    second = json.loads((divided / "2.json").read_text())
    (divided / "again.json").write_text((divided / "1.json").read_text())
    (divided / "cut.json").write_text(json.dumps(second | {"complete": False}))
    paths = [str(divided / f"{name}.json") for name in named]
    code, printed = scutch("merge", *paths, "-o", str(tmp_path / "merged.json"))
    assert code == 2
    assert said in printed
    assert json.loads((tmp_path / "merged.json").read_text())["complete"] is False


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 7}, "seed is 7, but 0 in "),
        ({"profile": "deep"}, "profile is deep, but ci in "),
        ({"shard": None}, "it is no report of a shard"),
        ({"shard": {"number": 2, "of": 3, "requirements": 9}}, "it is shard 2/3 of 9 requirements"),
    ],
)
def test_shards_of_different_runs_are_refused(scutch, divided, tmp_path, change, said):
    second = json.loads((divided / "2.json").read_text())
    (tmp_path / "other.json").write_text(json.dumps(second | change))
    merged = tmp_path / "merged.json"
    code, printed = scutch(
        "merge", str(divided / "1.json"), str(tmp_path / "other.json"), "-o", str(merged)
    )
    assert code == 2
    assert said in printed
    assert not merged.exists()


def test_a_report_that_is_named_twice_is_refused(scutch, divided, tmp_path):
    path = str(divided / "1.json")
    code, printed = scutch("merge", path, path, "-o", str(tmp_path / "merged.json"))
    assert code == 2
    assert "is named twice" in printed


def test_shards_of_a_profile_with_a_new_seed_need_one_seed(scutch):
    code, printed = scutch("run", "--shard", "1/2", "--profile", "deep", "--requirement", "BOX-5")
    assert code == 2
    assert "expected --seed with one number for all shards" in printed
