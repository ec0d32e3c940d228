"""The progress of a long step, with the time since it began and an estimate of the time left.

The estimate is the duration of the step's last run that succeeded, less the time since the step
began. A terminal gets a bar. Elsewhere, as in a log of CI, a line comes every two minutes, or as
often as the caller asks.

    with waiting("judge flax, py3.11"):
        judge()
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from scutch_ci.checkout import ROOT
from scutch_ci.history import read_json, write_json

KEPT = ROOT / "build" / "durations.json"
"""The file that holds the duration of the last successful run of each step, in seconds."""

EVERY = 120.0
"""Seconds between lines where there is no terminal."""

_AGAIN = 0.5


@contextlib.contextmanager
def waiting(
    step: str,
    *,
    kept: Path = KEPT,
    begun: bool = False,
    every: float = EVERY,
    told: Callable[[], str] = str,
) -> Iterator[None]:
    """Show the progress of a step while the block runs; its duration is kept if it succeeds.

    Args:
      step: The step's name, the same in every run.
      kept: The file that holds the durations of steps.
      begun: Whether the caller has printed the name at the beginning of a line that it will end.
      every: Seconds between lines where there is no terminal.
      told: Returns a text about the step's progress, such as `3 laws tried`.
    """
    before, started, over = durations(kept).get(step), time.monotonic(), threading.Event()
    arguments = (step, before, over, begun, every, told)
    shown = threading.Thread(target=_show, args=arguments, daemon=True)
    shown.start()
    try:
        yield
        write_json(durations(kept) | {step: round(time.monotonic() - started, 1)}, kept)
    finally:
        over.set()
        shown.join()


def durations(file: Path) -> dict[str, float]:
    """The durations of steps in a file, in seconds, by name; empty where the file is missing."""
    return dict(read_json(file)) if file.exists() else {}


def left(seconds: float, before: float | None) -> str:
    """How much time of a step is left, in words; empty without an earlier duration.

    Args:
      seconds: The time since the step began.
      before: The duration of its last successful run, if there was one.

    >>> left(30, 150.0), left(200, 150.0), left(30, None)
    ('about 2:00 left', 'longer than the 2:30 of last time', '')
    """
    if before is None:
        return ""
    if seconds > before:
        return f"longer than the {_clock(before)} of last time"
    return f"about {_clock(before - seconds)} left"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


def _show(
    step: str,
    before: float | None,
    over: threading.Event,
    begun: bool,
    every: float,
    told: Callable[[], str],
) -> None:
    """Show the time until the step is over."""
    started = time.monotonic()
    if not sys.stdout.isatty():
        start = "\n" if begun else ""
        while not over.wait(every):
            seconds = time.monotonic() - started
            words = "  ".join(filter(None, [_clock(seconds), told(), left(seconds, before)]))
            print(f"{start}    {step}: {words}", flush=True)
            start = ""
        return
    if begun:
        print(flush=True)
    rest = TextColumn("{task.fields[left]}")
    columns = (TextColumn(f"{step:24}"), BarColumn(), TimeElapsedColumn(), rest)
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task(step, total=before, left="")
        while not over.wait(_AGAIN):
            seconds = time.monotonic() - started
            done = min(seconds, before) if before else seconds
            words = "  ".join(filter(None, [told(), left(seconds, before)]))
            progress.update(task, completed=done, left=words)
