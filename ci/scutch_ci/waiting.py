"""What a long step shows until it ends: the time, and how much is left if it goes as it last went.

A terminal gets a bar. Elsewhere, as in a log of CI, a line comes every two minutes.

    with waiting("judge flax, py3.11"):
        judge()
"""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from scutch_ci.checkout import ROOT
from scutch_ci.history import read_json, write_json

KEPT = ROOT / "build" / "durations.json"
"""How long each step took when it last came to its end, in seconds."""

EVERY = 120.0
"""Seconds between lines where there is no terminal."""

_AGAIN = 0.5


@contextlib.contextmanager
def waiting(step: str, *, kept: Path = KEPT, begun: bool = False) -> Iterator[None]:
    """Show how a step comes along while the block runs; how long it took is kept if it succeeds.

    Args:
      step: Its name, the same whenever it is done.
      kept: The file of how long steps took.
      begun: Whether its name stands at the beginning of a line that its caller ends.
    """
    before, started, over = durations(kept).get(step), time.monotonic(), threading.Event()
    shown = threading.Thread(target=_show, args=(step, before, over, begun), daemon=True)
    shown.start()
    try:
        yield
        write_json(durations(kept) | {step: round(time.monotonic() - started, 1)}, kept)
    finally:
        over.set()
        shown.join()


def durations(file: Path) -> dict[str, float]:
    """How long steps took, in seconds; none where there is no such file."""
    return dict(read_json(file)) if file.exists() else {}


def left(seconds: float, before: float | None) -> str:
    """How much of a step is left, in words; empty where nobody knows.

    Args:
      seconds: Since it began.
      before: How long it took before, if that is known.

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


def _show(step: str, before: float | None, over: threading.Event, begun: bool) -> None:
    """Show the time until the step is over."""
    started = time.monotonic()
    if not sys.stdout.isatty():
        told = False
        while not over.wait(EVERY):
            seconds = time.monotonic() - started
            start = "\n" if begun and not told else ""
            told = True
            print(f"{start}    {step}: {_clock(seconds)}  {left(seconds, before)}", flush=True)
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
            progress.update(task, completed=done, left=left(seconds, before))
