"""The process between the judge and a runner, which ends all that the runner has started.

Code that is judged may ignore signals, start processes that outlive it, or return twice from a
fork. So the judge does not fork a runner itself: it forks a *keeper*, and the keeper forks the
runner. Whatever the runner starts is a descendant of the keeper, also when its parent is gone
(where the system has it, on Linux: `PR_SET_CHILD_SUBREAPER`). The keeper waits until the runner has
ended, the judge tells it to end by SIGTERM, the judge is gone, or there are more than `MOST`
descendants; then it kills every one of them, and ends.

    judge ── forks ──> keeper ── forks ──> runner ── starts ──> whatever is judged starts
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import NoReturn

import psutil

MOST = 64
"""Processes that a runner may have started, and that have not ended."""

_ROUND = 0.2
"""Seconds after which the keeper looks again whether the judge is there, and counts processes."""

PATIENCE = 5.0
"""Seconds that killed processes get to be gone."""

_SIGNAL_AFTER_PARENT, _SUBREAPER = 1, 36
"""The numbers of `PR_SET_PDEATHSIG`, which sends a process a signal when its parent is gone, and of
`PR_SET_CHILD_SUBREAPER`, which makes it the parent of orphans, in `linux/prctl.h`."""


@dataclass(frozen=True)
class Ending:
    """The keeper's record of the runner, which the judge reads from a file that both have open.

    Args:
      runner: The number of its process.
      code: Its exit code, or a signal as a negative number; `None` while it lives, and after it was
        killed.
      reason: Why it was killed, if the judge did not say so.
      over: Whether all processes that it started are gone.
    """

    runner: int
    code: int | None = None
    reason: str = ""
    over: bool = False

    def write(self, descriptor: int) -> None:
        """Write it to the beginning of an open file."""
        os.pwrite(descriptor, json.dumps(asdict(self)).encode() + b"\0", 0)

    @classmethod
    def read(cls, descriptor: int) -> "Ending | None":
        """The record in the file; `None` if it is empty, or the runner has overwritten it."""
        try:
            return cls(**json.loads(os.pread(descriptor, 4096, 0).partition(b"\0")[0]))
        except (ValueError, TypeError):
            return None


def keep(
    judge: int, serve: Callable[[], NoReturn], close: Callable[[], None], descriptor: int
) -> NoReturn:
    """The life of a keeper, in the process that the judge has forked: it never returns.

    Args:
      judge: The number of the judge's process.
      serve: The life of the runner, which never returns either.
      close: Closes the runner's channel in the keeper, so that it is closed when the runner ends.
      descriptor: Of the open file in which the judge reads the `Ending`.
    """
    try:
        os.setpgid(0, 0)  # a signal to the judge's group is for the judge alone
        _ask_kernel(_SUBREAPER, 1)
        told = _wake_by_signals()
        runner = os.fork()
        if runner == 0:
            os.setpgid(0, 0)  # so that it can be killed with its children, and kill no other
            _ask_kernel(_SIGNAL_AFTER_PARENT, signal.SIGKILL)
            serve()
        close()
        signal.signal(signal.SIGUSR1, lambda *_: os.kill(runner, signal.SIGUSR1))
        Ending(runner).write(descriptor)
        ending = _wait(judge, runner, told)
        replace(ending, over=_kill_all(runner)).write(descriptor)
    finally:
        os._exit(0)


def _wake_by_signals() -> int:
    """A descriptor that delivers the number of each signal that this process receives."""
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    return told


def _wait(judge: int, runner: int, told: int) -> Ending:
    """Wait until there is a reason to end."""
    signals = b""
    while True:
        pid, status = os.waitpid(runner, os.WNOHANG)
        if pid:
            return Ending(runner, os.waitstatus_to_exitcode(status))
        if signal.SIGTERM in signals or os.getppid() != judge:
            return Ending(runner)
        if len(psutil.Process().children(recursive=True)) > MOST:
            return Ending(runner, reason=f"it had started more than {MOST} processes")
        signals = os.read(told, 64) if select.select([told], [], [], _ROUND)[0] else b""


def _ask_kernel(option: int, value: int) -> None:
    """Set an option of this process, one of `prctl`'s, where the system has it."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _kill_all(runner: int) -> bool:
    """Kill the runner, its group, and all other descendants of this process.

    Returns:
      Whether all are gone, after `PATIENCE` at the most.
    """
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(runner, signal.SIGKILL)
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                process.kill()
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return True
        time.sleep(0.005)
    return False
