"""The GitHub Action and the hook for pre-commit, run as the shell commands that they are."""

import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml
from scutch import cli
from scutch.catalogue import PARTS
from scutch.report import load
from scutch.report.document import write
from trials.borrowing import ALONE, borrowing_environment

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
EXPRESSION = re.compile(r"\$\{\{ *([\w.-]+) *\}\}")
ADAPTER = """
from scutch import Implementation, Namespace
from scutch_reference import logical, meta


class Broken(meta.Partitioned):
    def remove_axis(self, index, params):
        print("::error::this is the implementation's")
        if meta.PARTITION_NAME not in params:
            return super().remove_axis(index, params)
        return self


own = type("Own", (), {"Partitioned": Broken})
implementation = Implementation("broken", "1", meta=Namespace("broken", own, meta))
honest = Implementation("broken", "2", meta=meta)
"""
NASTY = "my $(touch hacked) `touch hacked`; touch hacked; '\".py"
"""A name that a shell would obey, were it written into a command."""


OF_GITHUB = {"github.action_path", "github.token", "github.repository", "github.event.number"}


@dataclass
class Job:
    """A job of GitHub Actions that runs the steps of the action in a folder.

    Args:
      folder: The checkout of whoever uses the action.
      inputs: Those that are given.
      programs: The folder of the programs of its environment.
    """

    folder: Path
    inputs: dict
    programs: Path = Path(sys.executable).parent

    def __post_init__(self):
        declared = ACTION["inputs"]
        assert set(self.inputs) <= set(declared)
        defaults = {name: str(each.get("default", "")) for name, each in declared.items()}
        self.values = {f"inputs.{name}": v for name, v in (defaults | self.inputs).items()}
        self.values |= {
            "github.action_path": str(ROOT),
            "github.repository": "owner/model",
            "github.event.number": "7",
        }

    def evaluated(self, text):
        """A text of the action with its expressions replaced, as GitHub's runner does it."""
        return EXPRESSION.sub(lambda found: self.values.get(found[1], ""), text)

    def step(self, name, **variables):
        """Run a step; gives its exit code, its output, and the summary that it added."""
        step = STEPS[name]
        files = [self.folder.parent / f"{kind}-{uuid.uuid4()}" for kind in ("output", "summary")]
        for file in files:
            file.touch()
        given = {key: self.evaluated(value) for key, value in step.get("env", {}).items()}
        script = self.folder.parent / "step.sh"
        script.write_text(step["run"])
        path = os.pathsep.join([str(self.programs), ALONE["PATH"]])
        output, summary = map(str, files)
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.folder,
            env={
                **ALONE,
                "PATH": path,
                "GITHUB_OUTPUT": output,
                "GITHUB_STEP_SUMMARY": summary,
                **variables,
                **given,
            },
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        for line in files[0].read_text().splitlines():
            key, _, value = line.partition("=")
            self.values[f"steps.{step.get('id')}.outputs.{key}"] = value
        return done.returncode, done.stdout, files[1].read_text("utf-8")

    def output(self, name):
        """An output of the action."""
        return self.evaluated(ACTION["outputs"][name]["value"])


CHECKOUT = {
    "PYTHONPATH": os.pathsep.join(str(ROOT / each) for each in ("conformance", "reference"))
}


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A job that has judged a broken implementation, whose name a shell would obey."""
    folder = tmp_path_factory.mktemp("job") / "checkout"
    folder.mkdir()
    (folder / NASTY).write_text(ADAPTER)
    found = Job(
        folder,
        {
            "implementation": NASTY,
            "requirements": "BOX-6\nBOX-8a\n",
            "profile": "quick",
            "output": "the $(touch hacked) report",
            "known": "none",
        },
    )
    found.judged = found.step("Judge", **CHECKOUT)
    return found


def test_no_input_is_written_into_a_command():
    for step in STEPS.values():
        assert "${{" not in step.get("run", "")
        assert ("run" in step) == (step.get("shell") == "bash")


def test_every_expression_names_what_is_declared():
    used = set(EXPRESSION.findall((ROOT / "action.yml").read_text("utf-8")))
    inputs = {f"inputs.{name}" for name in ACTION["inputs"]}
    assert inputs <= used
    steps = {step["id"]: step for step in STEPS.values() if "id" in step}
    for each in used - inputs - OF_GITHUB:
        _, step, _, name = each.split(".")
        assert f"{name}=" in steps[step]["run"]
    for each in (*ACTION["inputs"].values(), *ACTION["outputs"].values()):
        assert each["description"]


def test_the_action_judges_and_goes_on_when_something_is_broken(job):
    code, printed, _ = job.judged
    assert code == 0, printed
    assert (job.output("exit-code"), "metadata/box-axes/adding-undoes-removing" in printed) == (
        "1",
        True,
    )
    report = load(job.folder / job.output("report"))
    assert report.complete
    assert {each.id: each.verdict for each in report.requirements}[
        "metadata/box-axes/needs-partition-name"
    ] == "passed"
    left = {each.name for each in job.folder.iterdir()} - {".pytest_cache", "__pycache__"}
    assert left == {NASTY, "the $(touch hacked) report"}


def test_workflow_commands_of_what_is_judged_are_not_obeyed(job):
    lines = job.judged[1].splitlines()
    begin = next(line for line in lines if line.startswith("::stop-commands::"))
    end = f"::{begin.removeprefix('::stop-commands::')}::"
    obeyed = [*lines[: lines.index(begin)], *lines[lines.index(end) + 1 :]]
    assert [line for line in obeyed if line.startswith("::")] == []


def test_the_action_shows_annotations_a_table_and_files(job):
    code, printed, summary = job.step("Show", **CHECKOUT)
    assert code == 0, printed
    (annotation,) = [line for line in printed.splitlines() if line.startswith("::error ")]
    assert f"{NASTY},line=15," in annotation.replace("%2C", ",").replace("%3A", ":")
    assert "title=metadata/box-axes/adding-undoes-removing" in annotation
    assert "| requirement | verdict |" in summary
    made = {path.name for path in (job.folder / job.values["inputs.output"]).iterdir()}
    assert made == {
        "report.json",
        "report.md",
        "report.sarif",
        "report.txt",
        "badge.svg",
        "badges",
        "pages",
    }
    badges = job.folder / job.values["inputs.output"] / "badges"
    assert {file.stem for file in badges.iterdir()} == {"scutch", *PARTS}
    assert json.loads((badges / "metadata.json").read_text())["message"] == "1 of 2 must"
    for output in ("sarif", "badge"):
        assert (job.folder / job.output(output)).is_file()
    assert not (job.folder / "hacked").exists()


def test_what_fails_the_step_is_chosen(job):
    report = job.output("report")
    honest = Job(
        job.folder,
        {
            "implementation": f"{NASTY}:honest",
            "output": "vouched",
            "requirements": "BOX-6\nBOX-8a",
            "profile": "quick",
        },
    )
    assert honest.step("Judge", **CHECKOUT)[0] == 0
    assert honest.step("Decide", **CHECKOUT)[0] == 0
    decided = {}
    for kind, vouched in (
        ("nonconformance", ""),
        ("never", ""),
        ("regression", report),
        ("regression", honest.output("report")),
    ):
        values = {"inputs.fail-on": kind, "inputs.vouched": vouched}
        again = Job(job.folder, job.inputs)
        again.values = job.values | values
        decided[kind, vouched] = again.step("Decide", **CHECKOUT)[0]
    assert list(decided.values()) == [1, 0, 0, 1]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({}, "the input implementation is ''; expected an implementation, or a model"),
        ({"implementation": "a.py", "fail-on": "sometimes"}, "fail-on is 'sometimes'; expected"),
        ({"implementation": "a.py", "level": "may"}, "level is 'may'; expected must or should"),
        ({"implementation": "a.py", "comment": "yes"}, "comment is 'yes'; expected true or false"),
        ({"implementation": "a.py", "fail-on": "regression"}, "vouched is ''; expected the report"),
        ({"implementation": "a.py", "vouched": "b.json"}, "vouched is 'b.json'; expected the file"),
        ({"model": "a.py:b", "lock": "c.json"}, "lock is 'c.json'; expected the file that"),
        ({"implementation": "a.py"}, None),
    ],
)
def test_wrong_inputs_are_told_before_anything_is_run(tmp_path, wrong, told):
    (tmp_path / "checkout").mkdir()
    code, printed, _ = Job(tmp_path / "checkout", wrong).step("Look at the inputs")
    assert (code, (told or "") in printed) == (2 if told else 0, True), printed


MODEL = """
import flax.linen as nn, jax, scutch
print("::error::this is the model's")
setup = scutch.Model(nn.Dense({}), jax.ShapeDtypeStruct((8, 4), 'float32'))
"""
GH = """#!{python}
import json, pathlib, sys
log = pathlib.Path("gh.log")
asked = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
body = next((w.removeprefix("body=@") for w in sys.argv if w.startswith("body=@")), None)
asked.append([*sys.argv[1:], body and pathlib.Path(body).read_text()])
log.write_text("".join(json.dumps(each) + "\\n" for each in asked))
if "--jq" in sys.argv and len(asked) > 2:
    print("41\\n42")
"""


@pytest.fixture
def github_cli(tmp_path):
    """The folder of a program `gh` that notes its arguments and the comment in `gh.log`."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "gh").write_text(GH.format(python=sys.executable))
    (programs / "gh").chmod(0o755)
    return programs


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("passed", "Since the vouched report of broken 1: 1 regression"),
        ("failed", "Since the vouched report of broken 1: no regression, no change"),
        (None, ""),
    ],
)
def test_the_pull_request_shows_failures_of_an_adapter_and_changes_since_the_vouched_report(
    before, told, job, tmp_path, github_cli
):
    folder = tmp_path / "checkout"
    shutil.copytree(job.folder, folder)
    commented = Job(folder, job.inputs)
    if before:
        report = load(job.folder / job.output("report"))
        outcomes = [
            replace(one, verdict=before if one.verdict == "failed" else one.verdict)
            for one in report.requirements
        ]
        write(replace(report, requirements=tuple(outcomes)), folder / "vouched.json")
        commented = Job(folder, job.inputs | {"vouched": "vouched.json"})
    code, printed, summary = commented.step("Show", **CHECKOUT)
    assert code == 0, printed
    commented.programs = github_cli
    code, printed, _ = commented.step("Comment")
    assert code == 0, printed
    *_, body = json.loads((folder / "gh.log").read_text().splitlines()[-1])
    assert body == f"<!-- scutch: scutch -->\n{summary}"
    assert "1 of 2 must, 1 root cause" in body
    assert "<details open><summary>Root causes: 1</summary>" in body
    assert (told in body, "Since the vouched" in body) == (True, bool(before))
    regression = "| metadata/box-axes/adding-undoes-removing | passed | failed | must |"
    assert (regression in body) is (before == "passed")


def test_a_model_is_compared_with_its_lock_and_the_pull_request_shows_it(tmp_path, github_cli):
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / NASTY).write_text(MODEL.format(4))
    lock = [Path(sys.executable).parent / "scutch", "model", f"{NASTY}:setup", "lock"]
    subprocess.run(lock, cwd=folder, env={**ALONE, **CHECKOUT}, check=True, capture_output=True)
    inputs = {"model": f"{NASTY}:setup", "lock": "setup.lock.json", "output": "out"}
    same = Job(folder, inputs)
    code, printed, summary = same.step("Compare the model with its lock", **CHECKOUT)
    assert (code, same.output("model-exit-code")) == (0, "0"), printed
    assert "as in setup.lock.json" in summary
    assert same.step("Decide")[0] == 0
    (folder / NASTY).write_text(MODEL.format(8))
    changed = Job(folder, inputs)
    code, printed, summary = changed.step("Compare the model with its lock", **CHECKOUT)
    assert (code, changed.output("model-exit-code")) == (0, "1"), printed
    told = "kernel is now float32[4,8] () (was float32[4,4] ())"
    assert told in summary
    lines = printed.splitlines()
    begin = next(line for line in lines if line.startswith("::stop-commands::"))
    between = lines[: lines.index(f"::{begin.removeprefix('::stop-commands::')}::")]
    assert all(line in between for line in lines if "this is the model's" in line)
    assert "The layout of" in (folder / "out" / "model.html").read_text("utf-8")
    changed.programs = github_cli
    for _ in range(2):
        code, printed, _ = changed.step("Comment")
        assert code == 0, printed
    asked = [json.loads(line) for line in (folder / "gh.log").read_text().splitlines()]
    assert [each[1:4] for each in asked[1::2]] == [
        ["--silent", "repos/owner/model/issues/7/comments", "-F"],
        ["--silent", "--method", "PATCH"],
    ]
    assert "repos/owner/model/issues/comments/41" in asked[3]
    assert all(each[-1].startswith("<!-- scutch: scutch -->") for each in asked[1::2])
    assert all(told in each[-1] for each in asked[1::2])
    assert [changed.step("Decide")[0], Job(folder, inputs).step("Decide")[0]] == [1, 0]
    changed.values["inputs.fail-on"] = "regression"
    assert changed.step("Decide")[0] == 1
    changed.values["inputs.fail-on"] = "never"
    assert changed.step("Decide")[0] == 0
    assert not (folder / "hacked").exists()


def test_a_wrong_set_up_fails_the_step_whatever_fails_it(tmp_path):
    (tmp_path / "checkout").mkdir()
    wrong = Job(tmp_path / "checkout", {"implementation": "none.py", "fail-on": "never"})
    code, printed, _ = wrong.step("Judge", **CHECKOUT)
    assert (code, "there is no file 'none.py'" in printed) == (2, True), printed
    assert wrong.output("exit-code") == "2"
    assert wrong.step("Decide", **CHECKOUT)[0] == 2


def test_the_action_installs_what_it_runs(tmp_path):
    python = borrowing_environment(tmp_path / "made")
    (tmp_path / "checkout").mkdir()
    job = Job(tmp_path / "checkout", {"implementation": "reference"}, python.parent)
    job.values["github.action_path"] = str(_copy(tmp_path / "action"))
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    code, printed, _ = job.step("Install scutch", **offline)
    assert code == 0, printed
    shown = subprocess.run(
        [python.parent / "scutch", "--version"],
        cwd=tmp_path,
        env=ALONE,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.startswith("scutch ")


def _copy(folder):
    """Copy the files of this checkout that git does not ignore: a build leaves files."""
    folder.mkdir()
    tree = subprocess.run(
        [
            "git",
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
            "pyproject.toml",
            "conformance/scutch*",
            "reference/scutch_reference",
            "README.md",
            "LICENSE",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, tree.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder


# ---------------------------------------------------------------- the hook for a box class


BOXES = """
import dataclasses
import jax
from scutch_reference import meta


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Plain(meta.AxisMetadata):
    value: object

    def unbox(self):
        return self.value

    def replace_boxed(self, val):
        return dataclasses.replace(self, value=val)

    def add_axis(self, index, params):
        return self

    def remove_axis(self, index, params):
        return self


class Broken(Plain):
    def replace_boxed(self, val):
        return self


jax.tree_util.register_dataclass(Broken, ["value"], [])
"""


@pytest.mark.parametrize(
    ("classes", "code", "says"),
    [
        (["boxes.py:Plain"], 0, "conforms in"),
        (["boxes:Plain", "boxes.py:Broken"], 1, "Broken breaks metadata/box-values/"),
        (["boxes.py:None"], 2, "scutch: 'boxes.py:None': boxes.py has no attribute 'None'"),
        (["boxes.py"], 2, "expected FILE.py:NAME or MODULE:NAME"),
        (["none.py:Plain"], 2, "scutch: 'none.py': there is no file 'none.py'"),
        (["boxes.py:Plain", "--profile", "fast"], 2, "expected one of quick, ci"),
        (["exits.py:Plain"], 2, "SystemExit: 0"),
    ],
)
def test_the_hook_judges_the_classes_that_are_its_arguments(tmp_path, classes, code, says):
    (tmp_path / "boxes.py").write_text(BOXES)
    (tmp_path / "exits.py").write_text("raise SystemExit(0)\n")
    hook = hooks()["scutch-box"]
    assert hook["language"] == "python"
    assert hook["pass_filenames"] is False
    command = [*hook["entry"].split(), *classes]
    command += [
        "--implementation",
        "reference",
        "--requirement",
        "metadata/box-values/replacing-keeps-metadata",
    ]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        text=True,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert (done.returncode, says in done.stdout) == (code, True), done.stdout
    assert "Traceback" not in done.stdout or code == 1


def hooks():
    listed = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    return {hook["id"]: hook for hook in listed}


def test_the_hook_of_a_model_compares_it_with_its_lock(tmp_path):
    """As the README shows it; a change of the model fails the commit."""
    [args] = re.findall(
        r"id: scutch-model\n +args: (\[.*\])", (ROOT / "README.md").read_text("utf-8")
    )
    where, *options = yaml.safe_load(args)
    file = tmp_path / where.partition(":")[0]
    file.parent.mkdir()
    made = (
        "import flax.linen as nn, jax, scutch\n"
        "setup = scutch.Model(nn.Dense({}), jax.ShapeDtypeStruct((8, 4), 'float32'))\n"
    )
    hook = hooks()["scutch-model"]
    assert (hook["language"], hook["pass_filenames"]) == ("python", False)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    def run(width, *words):
        file.write_text(made.format(width))
        return subprocess.run(
            [*hook["entry"].split(), where, *words],
            cwd=tmp_path,
            text=True,
            check=False,
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    missing = run(4, *options)
    assert (missing.returncode, "lock setup.lock.json: " in missing.stdout) == (2, True)
    assert run(4, "lock").returncode == 0
    same = run(4, *options)
    assert (same.returncode, same.stdout) == (0, "as in setup.lock.json\n")
    changed = run(8, *options)
    assert changed.returncode == 1
    assert "kernel is now float32[4,8] () (was float32[4,4] ())" in changed.stdout


@pytest.mark.parametrize("name", ["scutch-box", "scutch-model"])
def test_a_hook_is_a_command_of_scutch(name, capsys):
    program, command = hooks()[name]["entry"].split()
    assert program == "scutch"
    assert cli.main([command, "--help"]) == 0
    assert f"usage: scutch {command}" in capsys.readouterr().out
