"""An implementation that damages its process harms the law that was tried, and no other.

All cases are judged in one run, as `trials.hostile.running` has them: once in one process and once
in two. Each law that no case attacks must pass, as for the reference, whatever was tried before
it; the run ends with a complete report; and it leaves no process, file or folder.
"""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from scutch import catalogue
from scutch.judging import suite
from scutch.report import load
from trials.hostile.running import CASES, LEFT

ROOT = Path(__file__).parents[2]
WORKERS = {"one process": (), "two processes": ("-n", "2")}
EACH = pytest.mark.parametrize(
    "workers", ["one process", pytest.param("two processes", marks=pytest.mark.nightly)]
)
LAWS = {law.name: law.requirement for law in suite.laws()}
CASE_OF = {LAWS[case.law]: case for case in CASES}
BESIDE = (
    "metadata/box-values/only-boxes-are-metadata",
    "metadata/box-nodes/unflattening-restores-the-box",
    "metadata/box-axes/needs-partition-name",
    "metadata/box-trees/map-calls-once-per-box",
    "metadata/box-trees/map-keeps-other-leaves",
    "metadata/box-trees/unbox-keeps-plain-trees",
    "metadata/box-specs/arrays-have-empty-specs",
    "metadata/box-specs/other-leaves-have-none",
    "metadata/box-equality/boxes-are-immutable",
)
"""Requirements of which no law is attacked, judged between those that are."""


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Judges once with each number of workers; gives folder, exit code, output, report's path."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    done = {}

    def run(workers):
        if workers not in done:
            folder = shared / f"hostile in {workers}"
            with (shared / f"{folder.name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not folder.exists():
                    _run(folder, WORKERS[workers])
            code, output = ((folder / name).read_bytes() for name in ("code", "output"))
            done[workers] = folder, int(code), output, folder / "report.json"
        return done[workers]

    return run


def _run(folder, options):
    for name in ("left", "temporary", "work"):
        (folder / name).mkdir(parents=True)
    report = folder / "report.json"
    command = [
        sys.executable,
        "-P",
        "-m",
        "scutch",
        "run",
        "--implementation",
        "trials.hostile.running:implementation",
        "--profile",
        "quick",
        "--examples",
        "4",
        "--law-timeout",
        "20",
        "--report",
        str(report),
        "-p",
        "no:cacheprovider",
        "-rA",
        "-v",
        *options,
    ]
    for requirement in (*CASE_OF, *BESIDE):
        command += ["--requirement", requirement]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment |= {
        LEFT: str(folder / "left"),
        "TMPDIR": str(folder / "temporary"),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        command,
        cwd=folder / "work",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=240,
        check=False,
    )
    (folder / "code").write_text(str(done.returncode))
    (folder / "output").write_bytes(done.stdout)


def test_the_requirements_are_those_of_the_cases_and_some_beside():
    assert len(CASE_OF) == len(CASES)
    assert {row.id for row in catalogue.load()} >= set(BESIDE)
    assert not set(BESIDE) & set(CASE_OF)


@EACH
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_hostile_act_costs_its_own_law_and_no_other(runs, case, workers):
    _, _, output, path = runs(workers)
    assert path.exists(), output.decode(errors="replace")[-3000:]
    report = load(path)
    verdicts = {each.id: each for each in report.requirements}
    own = verdicts[LAWS[case.law]]
    assert (own.verdict, own.reason) == (case.verdict, own.reason)
    assert (own.counterexample is None) == (case.verdict == "passed")
    assert {i: verdicts[i].verdict for i in BESIDE} == dict.fromkeys(BESIDE, "passed")
    assert report.complete


@EACH
def test_what_is_printed_and_reported_can_be_read(runs, workers):
    _, code, output, path = runs(workers)
    assert code == 1
    assert b"INTERNALERROR" not in output
    assert b"\x1b" not in output
    assert len(output) < 1_000_000
    lines = [line.strip() for line in output.decode("utf-8").splitlines()]
    assert [line for line in lines if line.startswith("::") or "##[" in line] == []
    assert any("from the implementation" in line for line in lines)
    assert any("in a message" in line for line in lines)
    assert json.loads(path.read_text("utf-8"))


@EACH
def test_nothing_is_left(runs, workers):
    folder, _, _, _ = runs(workers)
    left = [process for process in (folder / "left").iterdir() if _is_alive(int(process.name))]
    assert left == []
    assert list((folder / "work").iterdir()) == []
    assert list((folder / "temporary").iterdir()) == []


def _is_alive(process):
    """Whether a process runs; one that has ended, and that nobody has asked about, does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
