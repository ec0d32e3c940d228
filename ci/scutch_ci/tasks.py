"""The tasks of a nightly, each of which writes one whole file or none.

A task makes its file in a scratch folder and moves it to the night's folder when it is whole. So a
task is done if and only if its file exists, however an earlier run ended.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scutch_ci.waiting import waiting

PR_SET_PDEATHSIG = 1
GRACE_SECONDS = 20.0


class TaskFailed(Exception):
    """A task left no file; the text says why."""


@dataclass(frozen=True)
class Task:
    """The making of one file.

    Args:
      name: The task's name, for people.
      result: The file; the task is done when it exists.
      make: Makes the file. Its arguments are an empty scratch folder, and the log for the output of
        the programs that it runs.
      summary: Sums up the finished file in one line.
    """

    name: str
    result: Path
    make: Callable[[Path, Path], None]
    summary: Callable[[Path], str]

    def do(self, scratch: Callable[[], contextlib.AbstractContextManager[Path]]) -> bool:
        """Make the file unless it exists, and print how that went; returns whether it exists."""
        print(f"{self.name:56} ", end="", flush=True)
        if self.result.exists():
            print(f"kept               {self.summary(self.result)}", flush=True)
            return True
        log = self.result.with_suffix(".log")
        log.parent.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        try:
            with scratch() as folder, waiting(self.name, begun=True):
                self.make(folder, log)
            word, text = "done  ", self.summary(self.result)
        except TaskFailed as error:
            word, text = "FAILED", f"{error}; see {log}"
        print(f"{word} {time.monotonic() - started:8.1f} s  {text}", flush=True)
        return self.result.exists()


def run(command: Sequence[str], log: Path, folder: Path, environment: Mapping[str, str]) -> int:
    """Run a program to its end; it does not outlive this process.

    Args:
      command: The program and its arguments.
      log: The file that its output is added to.
      folder: Its working directory.
      environment: All its environment variables.

    Returns:
      Its exit code.
    """
    with log.open("a", encoding="utf-8") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        try:
            return process.wait()
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a program as Ctrl-C does, give it time to tidy up, then kill all it started."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _end_with_parent() -> None:
    """Have this new process interrupted when its parent ends, even by SIGKILL; on Linux only."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore it
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)
