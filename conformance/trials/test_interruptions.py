"""An interrupted run ends soon with exit code 2 and a report; no process or temporary file stays.

So does a run whose broken laws take long when they are tried again, after the last law.
"""

import json
import os
import signal
import sys
import time
import uuid

import pytest
from scutch import catalogue, rulings
from scutch.judging.executor import Executor
from scutch.judging.interruptions import Interrupted, heeded
from scutch.judging.isolation import Lost
from scutch.judging.run import settle
from scutch.judging.suite import laws
from scutch.judging.trials import Counterexample, Trial
from trials.commands import begin, ended, variables, warm_process
from trials.test_killed_judge import MARK, awaited, processes

QUICK = "metadata/box-values/only-boxes-are-metadata"
ROOT_CAUSE = "metadata/box-axes/removing-undoes-adding"
CONSEQUENCE = "metadata/box-trees/reverse-removal-restores-tree"
ADAPTER = """
import pathlib, subprocess, tempfile, time, traceback
from scutch import Implementation, Namespace
from scutch_reference import meta

def hang(*args):
    tempfile.mkdtemp()
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    pathlib.Path("hanging").touch()
    time.sleep(600)


class Hanging(meta.Partitioned):
    remove_axis = hang


class Broken(meta.Partitioned):
    def remove_axis(self, index, params):
        again = any(f.name == "attempt_again" for f in traceback.extract_stack())
        return hang() if again else self


def claiming(box):
    own = type("Own", (), {"Partitioned": box})
    return Implementation("mine", "1", meta=Namespace("mine", own, meta))


hanging = claiming(Hanging)
broken = claiming(Broken)
"""
CASES = {
    "Ctrl-C": ("hanging", (signal.SIGINT,), ()),
    "Ctrl-C twice": ("hanging", (signal.SIGINT, signal.SIGINT), ()),
    "Ctrl-C with two workers": ("hanging", (signal.SIGINT, signal.SIGINT), ("-n", "2")),
    "SIGTERM": ("hanging", (signal.SIGTERM,), ()),
    "SIGTERM with two workers": ("hanging", (signal.SIGTERM,), ("-n", "2")),
    "SIGHUP": ("hanging", (signal.SIGHUP, signal.SIGTERM), ()),
    "Ctrl-C after the last law": ("broken", (signal.SIGINT, signal.SIGINT), ()),
}


@pytest.fixture(scope="module")
def mark():
    """The value of `MARK` in the environment of this module's judges."""
    return str(uuid.uuid4())


@pytest.fixture(scope="module")
def warm(mark):
    """A process that carries out commands of `scutch`, each in a process group of its own."""
    ours = {k: v for k, v in variables().items() if not k.startswith("JAX_")}
    with warm_process({**ours, MARK: mark}) as process:
        yield process


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
@pytest.mark.parametrize(("attribute", "signals", "options"), CASES.values(), ids=CASES)
def test_an_interrupted_run_ends_with_a_report_and_nothing_else(
    warm, mark, tmp_path, attribute, signals, options
):
    for name in ("work", "temporary"):
        (tmp_path / name).mkdir()
    (tmp_path / "work" / "mine.py").write_text(ADAPTER)
    asked = [f"--requirement={each}" for each in (QUICK, ROOT_CAUSE, CONSEQUENCE)]
    command = (
        "scutch",
        "run",
        "-p",
        "no:cacheprovider",
        "--implementation",
        f"mine.py:{attribute}",
        "--profile",
        "quick",
        "--report",
        "report.json",
        *asked,
        *options,
    )
    output = tmp_path / "output"
    begin(warm, command, tmp_path / "work", output, {"TMPDIR": str(tmp_path / "temporary")})
    hanging = awaited((tmp_path / "work" / "hanging").exists, 50)
    judge = int((tmp_path / "output.pid").read_text())
    for number in signals:
        os.killpg(judge, number)
        time.sleep(0.1)
    started = time.monotonic()
    code, text = ended(warm, output)
    assert hanging, text
    assert code == 2, text
    assert time.monotonic() - started < 20
    assert "interrupted" in text
    assert "Traceback" not in text
    assert "nothing was tested" not in text
    report = json.loads((tmp_path / "work" / "report.json").read_text("utf-8"))
    assert report["complete"] is False
    found = {row["id"]: row["verdict"] for row in report["requirements"]}
    wanted = {"failed"} if attribute == "broken" else {"untested"}
    assert {found[ROOT_CAUSE], found[CONSEQUENCE]} == wanted
    assert list((tmp_path / "temporary").iterdir()) == []
    awaited(lambda: set(processes(mark)) <= {warm.pid}, 5)
    assert set(processes(mark)) <= {warm.pid}


def test_only_the_first_signal_interrupts_and_an_ignored_one_does_not():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with heeded(before):
            os.kill(os.getpid(), signal.SIGHUP)
            with pytest.raises(Interrupted, match="interrupted by SIGTERM"):
                os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) == before[signal.SIGTERM]
    finally:
        signal.signal(signal.SIGHUP, before[signal.SIGHUP])


@pytest.fixture
def judge():
    """An executor, and trials of the laws of two requirements, one of which needs the other."""
    run = settle("reference", isolate=False, patterns=(ROOT_CAUSE, CONSEQUENCE))
    trials = []
    for law in (law for law in laws() if law.requirement in (ROOT_CAUSE, CONSEQUENCE)):
        found = Counterexample(law.name, f"{law.name}()", "broken")
        trials.append(Trial(law.name, law.requirement, "failed", 1, counterexample=found))
    return Executor(run, isolate=True), trials


def _hang(request, timeout):
    """Take all the time that there is."""
    time.sleep(timeout)
    return Lost("timeout", "no end")


@pytest.mark.nightly
def test_broken_laws_are_tried_again_for_a_limited_time(judge, monkeypatch):
    made, trials = judge
    printed = []
    monkeypatch.setattr(rulings, "RETRYING", 0.5)
    made.runner.ask = _hang
    rows = [row for row in catalogue.load() if row.id in (ROOT_CAUSE, CONSEQUENCE)]
    started = time.monotonic()
    found = rulings.with_retries(made, rows, trials, say=printed.append)
    assert time.monotonic() - started < 20
    assert {ruling.verdict for ruling in found} == {"failed"}
    broken = sum(trial.requirement == CONSEQUENCE for trial in trials)
    assert printed[0].startswith(f"trying again {broken} broken law")
    assert printed[1].startswith("no more are tried again after 0.5 s")
