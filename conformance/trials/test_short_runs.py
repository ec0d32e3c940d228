"""Short runs: the portfolio, a time limit, and the changes since a commit."""

import math
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from scutch import catalogue, terminal
from scutch.implementation import SetupError
from scutch.judging import changed, portfolio
from scutch.judging.run import Run, settle
from scutch.report import load

ROOT = Path(__file__).parents[2]
RULES = "metadata/logical-rules"


# ---------------------------------------------------------------- the portfolio


def test_the_portfolio_has_requirements_of_the_catalogue_once_each():
    names = [choice.requirement for choice in portfolio.choices()]
    assert len(names) == len(set(names))
    known = {row.id for row in catalogue.load()}
    assert set(names) <= known
    # One that is new is judged by all other profiles; `ci/portfolio` takes it in.
    assert len(names) > 0.95 * len(known)
    assert all(choice.examples >= 1 and choice.seconds >= 0 for choice in portfolio.choices())


def test_a_choice_within_some_seconds_costs_no_more_and_keeps_the_order():
    everything = [choice.requirement for choice in portfolio.choices()]
    chosen = portfolio.within(5, everything)
    assert 0 < math.fsum(choice.seconds for choice in chosen) <= 5
    assert list(chosen) == [choice for choice in portfolio.choices() if choice in chosen]
    assert portfolio.within(1e6, everything) == portfolio.choices()
    assert portfolio.within(0, ["metadata/none/of-that-name"]) == ()


def _settled(**options):
    return settle("reference", isolate=False, **options)


def test_quick_judges_a_choice_unless_requirements_are_named():
    quick = _settled(profile="quick")
    assert quick.requirements == quick.asked
    assert {row.id for row in quick.requirements} == quick.chosen.keys()
    assert len(quick.requirements) < len(catalogue.load())
    assert {quick.inputs_for(name) for name in quick.chosen} <= {*quick.chosen.values()}
    named = _settled(profile="quick", patterns=["metadata"])
    assert not named.chosen
    assert named.inputs_for("metadata/box-values/unbox-returns-same-object") == named.examples
    assert not _settled(profile="quick", examples=3).chosen
    assert not _settled(profile="ci").chosen
    assert Run.from_data(quick.to_data()) == quick


def test_quick_judges_all_of_an_implementation_that_claims_little(tmp_path):
    (tmp_path / "resolving.py").write_text(
        "from scutch import flax_shaped\n"
        "claims = ['logical.logical_to_mesh_axes']\n"
        "implementation = flax_shaped('scutch_reference.logical', version='1', claims=claims)\n"
    )
    run = settle(str(tmp_path / "resolving.py"), isolate=False, profile="quick")
    assert run.wanted == run.chosen.keys() >= {row.id for row in catalogue.select([RULES])}


def test_what_finds_most_for_its_time_is_judged_first():
    names = [choice.requirement for choice in portfolio.choices()]
    inside = [name for name in names if not name.startswith(portfolio.LAST)]
    assert sorted(names, key=portfolio.rank)[: len(inside)] == inside


# ---------------------------------------------------------------- a time limit


@pytest.fixture
def scutch(command):
    """Gives the output of `scutch`, and its exit code."""

    def run(folder, *words):
        cache = str(folder / "cache")
        code, printed = command(folder, "scutch", *words, XDG_CACHE_HOME=cache)
        return printed, code

    return run


def test_a_run_ends_when_its_time_is_over_and_says_what_it_has_left_out(scutch, tmp_path):
    started = time.monotonic()
    printed, code = scutch(
        tmp_path, "run", "--within", "12s", "--no-cache", "--report", "report.json"
    )
    assert code == 0, printed
    assert time.monotonic() - started < 60  # a law that has begun goes on to its end
    report = load(tmp_path / "report.json")
    assert 0 < len(report.requirements) < len(catalogue.load())
    assert {one.verdict for one in report.requirements} == {"passed"}
    left = len(catalogue.load()) - len(report.requirements)
    assert f"left out: {left} requirements (" in printed
    assert f"{len(report.requirements)} of {len(catalogue.load())} requirements" in printed


@pytest.mark.parametrize("text", ["0", "-3s", "soon", "s", "5 m", "nan"])
def test_a_time_that_is_none_is_refused(scutch, tmp_path, text):
    printed, code = scutch(tmp_path, "run", f"--within={text}")
    assert code == 2
    assert "expected a time" in printed


# ---------------------------------------------------------------- changes since a commit

BEFORE = '''
"""Rules."""
import math

LIMIT = 3


def first(x):
    """Say what it does."""
    return helper(x)


def helper(x):
    return x


class Rules:
    width = 2

    def look(self):
        return self.width
'''


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with one file, `rules.py`, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path.parent / f"{tmp_path.name}-cache"))
    (tmp_path / "rules.py").write_text(BEFORE)
    git("init", "--quiet")
    commit()
    return tmp_path


def git(*words):
    subprocess.run(["git", *words], check=True, capture_output=True)


def commit():
    git("add", "--all")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "a")


@pytest.mark.parametrize(
    ("old", "new", "functions", "files", "statements"),
    [
        ("return x\n", "return x + 1\n", ["rules.py:helper"], [], []),
        ("Say what it does.", "Say it in other words.", [], [], []),
        ("import math", "import math  # a comment", [], [], []),
        ("import math", "import math\nimport os", [], [], []),
        ("import math", "", [], [], ["rules.py"]),
        ("import math", "import math\nfrom os import path as helper", [], [], ["rules.py"]),
        ("LIMIT = 3", "LIMIT = 3\nLEAST = 1", [], [], []),
        ("LIMIT = 3", "LIMIT = 4", [], [], ["rules.py"]),
        ("LIMIT = 3", "LIMIT = 3\nprint(LIMIT)", [], [], ["rules.py"]),
        ("width = 2", "width = 3", [], [], ["rules.py"]),
        ("class Rules:", "class Rules(dict):", [], [], ["rules.py"]),
        ("def first(x):", "def first(x, y=None):", ["rules.py:first"], [], []),
        ("def helper(x):", "def help(x):", ["rules.py:helper"], [], []),
        ("def look(self):", "@property\n    def look(self):", ["rules.py:Rules.look"], [], []),
        ("def look(self):", "def see(self):", [], ["rules.py"], []),
    ],
)
def test_changes_are_told_by_function(repository, old, new, functions, files, statements):
    (repository / "rules.py").write_text(BEFORE.replace(old, new, 1))
    assert changed.changed("HEAD", changed.files()) == changed.Changes(
        "HEAD", frozenset(functions), frozenset(files), frozenset(statements)
    )


def test_a_new_file_changes_nothing_that_is_called_so_far(repository):
    (repository / "more.py").write_text("def more(): pass\n")
    assert changed.changed("HEAD", changed.files()) == changed.Changes("HEAD")


def test_a_file_that_is_gone_takes_its_functions_with_it(repository):
    (repository / "rules.py").unlink()
    found = changed.changed("HEAD", changed.files())
    assert found.functions == {"rules.py:first", "rules.py:helper"}
    assert found.statements == {"rules.py"}


def test_who_calls_what_has_changed_can_see_it():
    found = changed.Changes("HEAD", frozenset(["a.py:f"]), frozenset(["b.py"]))
    assert found.reach(["a.py:g", "a.py:f"])
    assert found.reach(["b.py:anything"])
    assert not found.reach(["a.py:g", "c.py:f"])
    assert changed.Changes("HEAD", statements=frozenset(["a.py"])).reach([])


def test_a_commit_or_a_repository_that_is_not_there_is_refused(repository, monkeypatch):
    with pytest.raises(SetupError, match="--changed 'nowhere'"):
        changed.changed("nowhere", changed.files())
    (repository / "rules.py").write_text("def (\n")
    with pytest.raises(SetupError, match=r"rules.py:1: expected Python"):
        changed.changed("HEAD", changed.files())
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", "/")
    monkeypatch.chdir("/")
    with pytest.raises(SetupError, match="expected to be run in a git repository"):
        changed.files()


def test_a_function_in_the_files_is_noted_when_it_is_called(repository, monkeypatch):
    monkeypatch.syspath_prepend(str(repository))
    import rules

    places = changed.places(repository, changed.files())
    with changed.calls_noted(places) as called:
        rules.first(1)
        os.path.join("a", "b")
    assert called == {"rules.py:first", "rules.py:helper"}
    sys.modules.pop("rules")


ADAPTER = """
from scutch import flax_shaped
names = ["logical.logical_to_mesh_axes", "logical.logical_to_mesh"]
implementation = flax_shaped("mine", version="1", claims=names)
"""
MINE = """
from scutch_reference import logical


def logical_to_mesh_axes(names, rules=None):
    return logical.logical_to_mesh_axes(names, rules)


def logical_to_mesh(tree, rules=None):
    return logical.logical_to_mesh(tree, rules)
"""


def test_only_what_calls_a_changed_function_is_judged_again(scutch, repository):
    (repository / "adapter.py").write_text(ADAPTER)
    (repository / "mine.py").write_text(MINE)
    commit()
    command = (
        "run",
        "--implementation",
        "adapter.py",
        "--requirement",
        RULES,
        "--profile",
        "quick",
        "--changed",
        "HEAD",
        "--no-cache",
    )
    printed, code = scutch(repository, *command)
    assert code == 0, printed
    assert "have not held yet in a run with --changed" in printed
    printed, code = scutch(repository, *command)
    assert code == 0
    assert "nothing is to be judged: changed since HEAD: nothing" in printed

    (repository / "mine.py").write_text(MINE.replace("(tree, rules)", "(tree, None)"))
    printed, code = scutch(repository, *command)
    assert code == 0
    assert "changed since HEAD: mine.py:logical_to_mesh; 0 of" in printed

    (repository / "mine.py").write_text(MINE.replace("(names, rules)", "(names, rules=None)"))
    printed, code = scutch(repository, *command)
    assert code == 1
    assert "changed since HEAD: mine.py:logical_to_mesh_axes;" in printed
    assert "those that see what has changed" in printed

    (repository / "mine.py").write_text(MINE)  # the broken requirement is judged again
    printed, code = scutch(repository, *command)
    assert code == 0
    assert "changed since HEAD: nothing;" in printed
    assert "passed" in printed


def test_a_requirement_that_is_not_claimed_is_not_judged_again(scutch, repository):
    """Also where its laws are tried in a job of processes, whose calls are not noted."""
    (repository / "adapter.py").write_text(ADAPTER)
    (repository / "mine.py").write_text(MINE)
    commit()
    command = (
        "run",
        "--implementation",
        "adapter.py",
        "--requirement",
        f"{RULES}/one-entry-per-name",
        "--requirement",
        "processes/shardings/logical-constraint-places-across-processes",
        "--profile",
        "quick",
        "--changed",
        "HEAD",
        "--no-cache",
    )
    printed, code = scutch(repository, *command)
    assert (code, "unclaimed" in printed) == (0, True), printed
    printed, code = scutch(repository, *command)
    assert (code, "nothing is to be judged" in printed) == (0, True), printed


def test_a_run_of_changes_asks_for_all_that_marks_list_and_a_short_one_does_not():
    quick = _settled(profile="quick")
    assert quick.is_short
    assert not _settled(profile="ci").is_short
    affected = replace(quick, chosen=dict.fromkeys(quick.chosen, quick.examples))
    assert not affected.is_short
    assert replace(quick, chosen={}).requirements == ()  # no change reaches any


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "ci (20 inputs for each law), seed 0, 2 known failures"),
        ({"known": ["a"]}, ", 1 known failure"),
        ({"chosen": {"a": 6, "b": 6}}, "(2 requirements, 6 inputs for each law)"),
        ({"chosen": {"a": 6}}, "(1 requirement, 6 inputs for each law)"),
        ({"chosen": {"a": 6, "b": 20}}, "(2 requirements, 6 to 20 inputs for each law)"),
        ({"replay": "test_a(x=1)"}, "ci (one input), seed 0"),
    ],
)
def test_the_first_line_counts_inputs_and_known_failures(settings, words):
    run = SimpleNamespace(
        name="fork",
        version="1",
        devices=8,
        platform="cpu",
        profile="ci",
        examples=20,
        seed=0,
        known=["a", "b"],
        replay="",
        chosen=None,
        is_short="chosen" in settings,
    )
    vars(run).update(settings)
    assert words in terminal.header(run)
