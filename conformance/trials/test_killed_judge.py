"""A judge that is killed by SIGKILL leaves no process behind, whatever it was doing."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

MARK = "SCUTCH_TRIAL_MARK"
SECONDS = 30
"""In which all processes must be gone: keepers look after 0.2 s, and kill for 5 s at the most."""

ADAPTER = """
import os, signal, subprocess, time
from scutch import Implementation, Namespace
from scutch_reference import meta, nnx


class Hanging(meta.Partitioned):
    def replace_boxed(self, value):
        hang()

    def remove_axis(self, index, params):
        hang()


def hang(*args, **kwargs):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
    open(f"hanging-{os.getpid()}", "w").close()
    time.sleep(600)


own = type("Own", (), {"Partitioned": Hanging})
implementation = Implementation("hanging", "1", meta=Namespace("hanging", own, meta))
lifted = type("Own", (), {"jit": staticmethod(hang)})
in_job = Implementation(
    "hanging", "1", meta=meta, nnx=nnx, transforms=Namespace("hanging", lifted, nnx)
)
"""
CASES = {
    "in a runner": ("implementation", ("metadata/box-values/replacing-keeps-metadata",), ()),
    "in two workers": (
        "implementation",
        (
            "metadata/box-values/replacing-keeps-metadata",
            "metadata/box-axes/removing-undoes-adding",
        ),
        ("-n", "2"),
    ),
    "in a process without assertions": (
        "implementation",
        ("metadata/box-axes/removal-works-without-assertions",),
        (),
    ),
    "in a job of two processes": ("in_job", ("processes/shardings/jit-shards-as-asked",), ()),
}


def processes(mark):
    """The processes that have inherited a mark, and have not ended."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            inherited = mark.encode() in (folder / "environ").read_bytes()
            if inherited and state not in "ZX":
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[int(folder.name)] = command
        except OSError:
            continue
    return found


def awaited(condition, seconds):
    """The result of a condition, once it is true, or after some seconds."""
    limit = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < limit:
        time.sleep(0.1)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are found on Linux only")
@pytest.mark.parametrize(("attribute", "requirements", "options"), CASES.values(), ids=CASES)
def test_a_killed_judge_leaves_no_process(tmp_path, attribute, requirements, options):
    mark = str(uuid.uuid4())
    (tmp_path / "hanging.py").write_text(ADAPTER)
    judge = subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-m",
            "scutch",
            "run",
            "-p",
            "no:cacheprovider",
            *options,
            "--implementation",
            f"hanging.py:{attribute}",
            "--profile",
            "quick",
            *(f"--requirement={each}" for each in requirements),
        ],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, MARK: mark, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    at_once = 1 if len(requirements) == 1 and attribute == "implementation" else 2
    hanging = awaited(lambda: len(list(tmp_path.glob("hanging-*"))) >= at_once, 90)
    # The judge and a keeper; who hangs, and the two processes that each of these has started.
    least = 2 + 3 * at_once
    awaited(lambda: len(processes(mark)) >= least, 30)
    before = processes(mark)
    judge.send_signal(signal.SIGKILL)
    judge.wait()
    awaited(lambda: not processes(mark), SECONDS)
    left = processes(mark)
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert hanging
    assert len(before) >= least, before
    assert left == {}
