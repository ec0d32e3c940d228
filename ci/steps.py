"""One step of a night: a program that runs to its end, or leaves nothing behind.

What a step makes is made in a folder of its own and moved to its place when it is whole.
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

PR_SET_PDEATHSIG = 1
GRACE = 20.0


class Failed(Exception):
    """A step left nothing behind; the text says why."""


@dataclass(frozen=True)
class Step:
    """What leaves one file.

    Args:
      name: For people.
      result: The file; the step is done when it is there.
      make: Makes it: is given an empty folder, and the file that its programs may write to.
      told: One line on what is in the file.
    """

    name: str
    result: Path
    make: Callable[[Path, Path], None]
    told: Callable[[Path], str]

    def do(self, scratch: Callable[[], contextlib.AbstractContextManager[Path]]) -> bool:
        """Do it unless it is done, and say how it went; returns whether the file is there."""
        print(f"{self.name:56} ", end="", flush=True)
        if self.result.exists():
            print(f"kept               {self.told(self.result)}", flush=True)
            return True
        log = self.result.with_suffix(".log")
        log.parent.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        try:
            with scratch() as folder:
                self.make(folder, log)
        except Failed as error:
            print(f"FAILED {time.monotonic() - started:8.1f} s  {error}; see {log}", flush=True)
            return False
        print(f"done   {time.monotonic() - started:8.1f} s  {self.told(self.result)}", flush=True)
        return True


def run(command: Sequence[str], log: Path, folder: Path, environment: Mapping[str, str]) -> int:
    """Run a program to its end and return its exit code; it does not outlive this process."""
    with log.open("a", encoding="utf-8") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=_end_with_parent,
        )  # fmt: skip
        try:
            return process.wait()
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let it tidy up, as after Ctrl-C, and then have it gone with all that it began."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _end_with_parent() -> None:
    """In a new process: be interrupted when the parent ends, even by SIGKILL; on Linux only."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore it
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)
