"""The judge as its users meet it: options, exit codes, verdicts, and laws that end badly."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).parents[2]

HONEST = """
import scutch_reference
from scutch_reference import logical, meta
from scutch import Implementation, Namespace
"""


@pytest.fixture
def judge(tmp_path, command):
    """Run `pytest conformance`; gives the exit code, the output, and the report."""

    def run(*options, profile="quick", report=True):
        path = tmp_path / "report.json"
        path.unlink(missing_ok=True)
        words = ("pytest", "conformance", "-q", "-p", "no:cacheprovider", "--profile", profile)
        written = ("--report", path) if report else ()
        code, printed = command(ROOT, *words, *written, *options)
        return code, printed, _read(path)

    return run


def _execute(command, **options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        **options,
    )


def _read(path):
    return json.loads(path.read_text()) if path.exists() else None


def _verdicts(report):
    return {r["id"]: r["verdict"] for r in report["requirements"]}


@pytest.fixture
def adapter(tmp_path):
    """Write an adapter file; gives its path."""

    def write(text, name="adapter.py"):
        path = tmp_path / name
        path.write_text(HONEST + text)
        return str(path)

    return write


# ---------------------------------------------------------------- bad set-ups


def test_an_unknown_implementation_is_refused(judge):
    code, text, report = judge("--implementation", "flux")
    assert code == 2
    assert "scutch: unknown implementation 'flux'" in text
    assert "Exit" not in text
    assert "reference" in text
    assert report is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise ValueError('no wheels for this platform')", "ValueError: no wheels"),
        ("import os; os._exit(7)", "the process exited with 7"),
        ("", "has no attribute 'implementation'"),
        ("import jax; jax.nothing", f"'nothing'; installed: jax {jax.__version__}, flax "),
        ("implementation = 3", "is a int; expected a scutch.Implementation"),
        ("implementation = Implementation('mine', '1')", "claims no capability"),
        (
            "implementation = Implementation('mine', '1', meta=Namespace('mine'))",
            "claims 'meta' but lacks AxisMetadata, PARTITION_NAME, Partitioned",
        ),
        (
            "implementation = Implementation('mine', '1', logical=logical)",
            "without 'meta', which 'logical' needs; expected meta= too, or logical=Namespace(",
        ),
    ],
)
def test_a_bad_adapter_is_refused(judge, adapter, text, message):
    code, said, report = judge("--implementation", adapter(text))
    assert code == 2
    assert message in said
    assert report is None


def test_an_adapter_may_import_what_lies_beside_it(judge, adapter, tmp_path):
    (tmp_path / "beside_it.py").write_text("VERSION = '3.1'\n")
    text = "import beside_it\nimplementation = Implementation('mine', beside_it.VERSION, meta=meta)"
    code, said, _ = judge(
        "--implementation",
        adapter(text),
        "--requirement",
        "metadata/box-axes/removal-works-without-assertions",
    )
    assert code == 0, said
    assert "mine 3.1 conforms" in said


def test_a_missing_adapter_file_is_refused(judge, tmp_path):
    code, text, _ = judge("--implementation", str(tmp_path / "none.py"))
    assert code == 2
    assert "there is no file" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--requirement", "BOX-99"), "no requirement matches 'BOX-99'"),
        (("--profile", "fast"), "--profile 'fast': expected one of quick, ci, nightly, deep"),
        (("--level", "may"), "--level 'may': expected one of must, should"),
        (("--report", "report.txt"), "expected a path that ends in .json"),
        (("--platform", "none"), "--platform none: Unable to initialize backend 'none'"),
        (("--replay", "test_x("), "--replay: cannot read"),
        (("--replay", "test_nowhere()"), "there is no law 'test_nowhere'"),
        (("--implementation", "flax", "--requirement", "EXP"), "nothing was tested"),
    ],
)
def test_a_bad_option_is_refused(judge, options, message):
    code, text, _ = judge(*options, report=False)
    assert code == 2
    assert message in text
    assert "Exit" not in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('implementation = "reference"\n[[known]', "known.toml: Expected"),
        ("[[known]]\n", "known.toml:1: expected implementation"),
        (
            'implementation = "reference"\n\n[[known]]\nreason = "x"\n',
            "known.toml:3: 'requirement'",
        ),
        (
            'implementation = "reference"\n[[known]]\nrequirement = "BOX-99"\nversions = ""\n'
            'reason = "x"\nwitness = "test_x()"\n',
            "known.toml:2: unknown requirement 'BOX-99'",
        ),
        (
            'implementation = "reference"\n[[known]]\nrequirement = "BOX-5"\nversions = "new"\n'
            'reason = "x"\nwitness = "test_x()"\n',
            "known.toml:2: versions 'new' is no range",
        ),
        (
            'implementation = "reference"\n[[known]]\nrequirement = "BOX-5"\nversions = ""\n'
            'reason = "x"\nwitness = "exit()["\n',
            "known.toml:2: witness: cannot read",
        ),
    ],
)
def test_a_broken_known_failures_file_is_refused(judge, tmp_path, text, message):
    path = tmp_path / "known.toml"
    path.write_text(text)
    code, said, _ = judge("--known", str(path))
    assert code == 2
    assert message in said


# ---------------------------------------------------------------- laws that end badly

MISBEHAVED = """
import os, sys, time

class Misbehaved(meta.Partitioned):
    def replace_boxed(self, val):
        print("noise on standard output", flush=True)
        os.write(1, b"and past Python\\n")
        return super().replace_boxed(val)

    def remove_axis(self, index, params):
        if "test_adding_a_removed_axis_restores_the_box" in _law():
            os._exit(3)
        if "test_an_axis_of_another_name_is_not_removed" in _law():
            while True:
                pass
        return super().remove_axis(index, params)

def _law():
    return os.environ.get("PYTEST_CURRENT_TEST", "")

own = type("Own", (), {"Partitioned": Misbehaved})
implementation = Implementation("misbehaved", "1", meta=Namespace("misbehaved", own, meta))
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_a_crash_and_a_hang_cost_one_law_each(judge, adapter, workers):
    chosen = (
        "metadata/box-values/replacing-keeps-metadata",
        "metadata/box-axes/removing-undoes-adding",
        "metadata/box-axes/adding-undoes-removing",
        "metadata/box-axes/wrong-name-is-refused",
        "metadata/box-values/axes-keep-the-value",
    )
    options = [option for r in chosen for option in ("--requirement", r)]
    where = adapter(MISBEHAVED)
    code, text, report = judge("--implementation", where, *options, "--law-timeout", "5", *workers)
    assert code == 1
    assert _verdicts(report) == {
        "metadata/box-values/replacing-keeps-metadata": "passed",
        "metadata/box-axes/removing-undoes-adding": "passed",
        "metadata/box-axes/adding-undoes-removing": "crashed",
        "metadata/box-axes/wrong-name-is-refused": "timeout",
        "metadata/box-values/axes-keep-the-value": "passed",
    }
    assert report["complete"] is True
    crashed = next(r for r in report["requirements"] if r["verdict"] == "crashed")
    assert "exited with 3" in crashed["reason"]
    assert crashed["counterexample"]["input"].startswith("test_adding_a_removed_axis")
    hung = next(r for r in report["requirements"] if r["verdict"] == "timeout")
    assert "no end after 5 s, in " in hung["reason"]
    assert "2 root causes" in text


STUCK = """
class Stuck(meta.Partitioned):
    calls = []

    def remove_axis(self, index, params):
        self.calls.append(index)
        while len(self.calls) > 1:
            pass
        return self

own = type("Own", (), {"Partitioned": Stuck})
implementation = Implementation("stuck", "1", meta=Namespace("stuck", own, meta))
"""


def test_a_law_that_is_broken_before_its_time_is_over_keeps_its_counterexample(judge, adapter):
    asked = ("--requirement", "metadata/box-axes/removing-undoes-adding", "--law-timeout", "5")
    code, _, report = judge("--implementation", adapter(STUCK), *asked)
    (found,) = report["requirements"]
    assert (code, found["verdict"]) == (1, "failed")
    assert found["counterexample"]["input"].startswith("test_removing_an_added_axis")
    assert found["counterexample"]["error"].startswith("AssertionError")
    assert "--replay" in found["replay"]


def test_a_run_that_is_cut_short_says_so(judge):
    code, text, report = judge(
        "--implementation",
        "flax",
        "--known",
        "none",
        "-x",
        "--requirement",
        "BOX-11",
        "--requirement",
        "BOX-9b",
    )
    assert code == 1
    assert report["complete"] is False
    assert "cut short" in text


LACKING = """
names = {"AxisMetadata", "Partitioned", "PARTITION_NAME"}
implementation = Implementation("lacks", "1", meta=Namespace("lacks", meta, names=names))
"""


def test_pytest_lists_what_was_skipped(judge, adapter):
    where = adapter(LACKING)
    code, text, report = judge(
        "--implementation",
        where,
        "--requirement",
        "metadata/box-trees/map-calls-once-per-box",
        "-rs",
    )
    assert code == 2, text
    assert _verdicts(report) == {"metadata/box-trees/map-calls-once-per-box": "unclaimed"}
    assert "does not claim lacks.is_axis_metadata" in text


# ---------------------------------------------------------------- verdicts and exit codes


def test_known_failures_make_the_difference(judge):
    code, text, report = judge(
        "--implementation", "flax", "--requirement", "metadata/logical-boxes/rules-are-part-of-it"
    )
    assert code == 0
    assert _verdicts(report) == {"metadata/logical-boxes/rules-are-part-of-it": "known"}
    assert "but for 1 known cause: 1 bug" in text

    code, text, report = judge(
        "--implementation",
        "flax",
        "--requirement",
        "metadata/logical-boxes/rules-are-part-of-it",
        "--known",
        "none",
    )
    assert code == 1
    (broken,) = report["requirements"]
    assert broken["verdict"] == "failed"
    assert broken["counterexample"]["input"].startswith("test_rules_are_part_of_a_logical_box")
    assert broken["counterexample"]["input"] in text
    shown = text.partition("FAILURES")[2]
    assert "LogicallyPartitioned" in shown, "the law is shown"
    assert not any(part in shown for part in ("trying.py", "hypothesis/core.py", "runner.py"))
    assert broken["replay"] in text

    again = _execute([sys.executable, "-m", *shlex.split(broken["replay"])[2:]])
    assert again.returncode == 1
    assert "failed    metadata/logical-boxes/rules-are-part-of-it" in again.stdout


def test_many_root_causes_fit_a_screen(judge):
    old = ("BOX-9b", "LOG-9e", "LOG-10a", "LOG-9.BOX-20d", "OBJ-5s", "BRG-3a", "BRG-1d", "OBJ-4j")
    chosen = [f"--requirement={each}" for each in old]
    code, text, report = judge("--implementation", "flax", "--known", "none", *chosen)
    broken = [r["id"] for r in report["requirements"] if r["verdict"] == "failed"]
    assert (code, len(broken) > 5) == (1, True), broken
    assert len(text.splitlines()) < 24, text
    lines = [line.split()[1] for line in text.splitlines() if line.startswith("failed ")]
    assert sorted(lines) == sorted(broken)
    assert "inputs, errors and replays: in the report" in text


FORK = """
import dataclasses
import flax
from flax.core import meta as upstream
from scutch import flax_shaped

@flax.struct.dataclass
class Partitioned(upstream.Partitioned):
    def remove_axis(self, index, params):
        names = list(self.names)
        if names[index] != params[upstream.PARTITION_NAME]:
            raise ValueError(f"{index} of {names} is not {params}")
        return self.replace(names=(*names[:index], *names[index + 1 :]))

class Own:
    def map_axis_meta(fn, tree):
        upstream.map_axis_meta(fn, tree)
        return upstream.map_axis_meta(fn, tree)

Own.Partitioned = Partitioned
base = flax_shaped("my-fork", version=flax.__version__, package="flax", known="flax")
implementation = dataclasses.replace(base, meta=Namespace("my-fork: meta", Own, base.meta))
"""


def test_a_fork_is_told_what_is_its_own(judge, adapter):
    mapping = "metadata/box-trees/map-calls-once-per-box"
    removal = "metadata/box-axes/removal-works-without-assertions"
    rules = "metadata/logical-boxes/rules-are-part-of-it"
    chosen = [f"--requirement={each}" for each in (mapping, removal, rules)]
    code, text, report = judge("--implementation", adapter(FORK), *chosen)
    assert code == 1
    assert _verdicts(report) == {mapping: "failed", removal: "passed", rules: "known"}
    assert f"against flax: 1 new ({mapping}), 1 fixed ({removal})" in text
    code, text, _ = judge("--implementation", adapter(FORK), *chosen, "--known", "none")
    assert f"2 root causes: {mapping}, {rules}" in text


def test_a_should_is_reported_and_not_enforced(judge):
    options = (
        "--implementation",
        "flax",
        "--requirement",
        "metadata/box-axes/negative-index-counts-array-axes",
        "--known",
        "none",
    )
    code, text, report = judge(*options)
    assert code == 0
    assert _verdicts(report) == {"metadata/box-axes/negative-index-counts-array-axes": "failed"}
    assert "it departs from 1 should" in text
    code, _, _ = judge(*options, "--level", "should")
    assert code == 1


def test_a_known_failure_that_is_gone_must_go(judge, tmp_path):
    path = tmp_path / "known.toml"
    path.write_text(
        'implementation = "reference"\n[[known]]\n'
        'requirement = "metadata/box-values/axes-commute-with-replacing"\nversions = ""\n'
        'reason = "was once so"\nwitness = "test_axes_commute_with_replacing('
        'box=Box(1, ()), index=0, name=None, value=2)"\n'
    )
    code, text, report = judge(
        "--requirement", "metadata/box-values/axes-commute-with-replacing", "--known", str(path)
    )
    assert code == 1
    assert _verdicts(report) == {"metadata/box-values/axes-commute-with-replacing": "fixed"}
    assert "expected to fail, and passes" in text


def test_an_input_that_never_came_up_leaves_a_requirement_untested(judge, tmp_path):
    law = tmp_path / "test_hollow.py"
    law.write_text(
        "from hypothesis import given, strategies as st\n"
        "from scutch.lawkit.marks import requirement\n\n"
        "@requirement('metadata/box-axes/beyond-rank-pads', must_reach=('never',))\n"
        "@given(st.integers())\n"
        "def test_hollow(number):\n"
        "    assert number == number\n"
    )
    done = _execute(
        [
            sys.executable,
            "-m",
            "pytest",
            str(law),
            "-q",
            "-c",
            str(ROOT / "pyproject.toml"),
            "-p",
            "scutch.plugin",
            "--requirement",
            "BOX-7",
            "--report",
            str(tmp_path / "r.json"),
        ],
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert _verdicts(_read(tmp_path / "r.json")) == {
        "metadata/box-axes/beyond-rank-pads": "untested"
    }
    assert "never came up: never" in done.stdout
    assert "no verdict on" in done.stdout
    assert "untested: metadata/box-axes/beyond-rank-pads" in done.stdout
    assert "root cause" not in done.stdout


def test_the_same_seed_gives_the_same_counterexample(judge):
    options = (
        "--implementation",
        "flax",
        "--requirement",
        "metadata/logical-boxes/rules-are-part-of-it",
        "--known",
        "none",
    )
    inputs = {
        judge(*options, "--seed", "5")[2]["requirements"][0]["counterexample"]["input"]
        for _ in range(2)
    }
    assert len(inputs) == 1


def test_other_tests_are_left_alone(tmp_path):
    (tmp_path / "test_theirs.py").write_text("def test_theirs():\n    assert True\n")
    done = _execute(
        [
            sys.executable,
            "-m",
            "pytest",
            str(tmp_path),
            "-q",
            "-c",
            str(ROOT / "pyproject.toml"),
            "-p",
            "scutch.plugin",
        ],
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "conformance of" not in done.stdout
    assert "1 passed" in done.stdout
