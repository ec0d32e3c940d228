"""A process in which Python drops its assertions, and which removes axes on request.

Run as `python -O -m scutch.judging.unasserted READ WRITE WHERE`, with the two ends of a
channel. Each request is `(subject, names, index, name)`; the answer is the names that are left, or
`None` when the removal was refused.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from scutch.implementation import load
from scutch.inputs.subjects import SUBJECTS
from scutch.judging.isolation import Channel, Closed
from scutch.judging.profiles import prepare_devices


def main(read: str, write: str, where: str) -> None:
    """Answer requests until the other end is closed."""
    prepare_devices()
    implementation = load(where)
    claimed = [name for name in SUBJECTS if _claims(implementation, name)]
    subjects = {name: SUBJECTS[name](implementation) for name in claimed}
    channel = Channel(int(read), int(write))
    while True:
        try:
            subject, names, index, name = channel.receive()
        except Closed:
            return
        box = subjects[subject].make(1.0, names, None)
        try:
            left = box.remove_axis(index, {implementation.meta.PARTITION_NAME: name}).names
        except Exception:  # a refusal, whatever its type, is the answer
            left = None
        channel.send(left)


def _claims(implementation: Any, subject: str) -> bool:
    return subject != "logical" or implementation.logical is not None


@contextmanager
def unasserted(where: str) -> Iterator[Callable[..., Any]]:
    """Start the process; gives the function that asks it."""
    here, there = os.pipe(), os.pipe()
    arguments = [str(there[0]), str(here[1]), where]
    process = subprocess.Popen(
        [sys.executable, "-O", "-m", "scutch.judging.unasserted", *arguments],
        pass_fds=(there[0], here[1]),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        stdin=subprocess.DEVNULL,
    )
    os.close(there[0])
    os.close(here[1])
    channel = Channel(here[0], there[1])

    def ask(*request: Any) -> Any:
        channel.send(request)
        return channel.receive()

    try:
        yield ask
    finally:
        channel.close()
        process.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
