"""A process in which Python drops its assertions, and which removes axes on request.

Python drops every `assert` under `python -O`, so only a process that runs with `-O` shows whether
an implementation still refuses a mismatch (BOX-9b). `Unasserted` starts one at its first call:

    with contextlib.closing(Unasserted("flax")) as remove:
        remove("partitioned", ("data", None), 0, "model")    # None: it was refused

The process is `python -P -O -m scutch.judging.unasserted DESCRIPTOR WHERE`. It sends `READY` when
it has imported the implementation. Each request is `[subject, names, index, name]`. Each answer is
the names that are left, or `null` when the removal was refused.
"""

import os
import subprocess
import sys
from typing import Any

from scutch.inputs.subjects import remaining
from scutch.judging.isolation import Channel, Closed
from scutch.judging.profiles import prepare_devices
from scutch.lawkit.domain import Untried
from scutch.loading import load

READY = "ready"
_START_SECONDS = 120.0
_GRACE = 2.0


def main(descriptor: str, where: str) -> None:
    """Answer requests until the other end is closed.

    Args:
      descriptor: Of this process's end of the channel, in decimal.
      where: How the implementation is found.
    """
    prepare_devices()
    channel = Channel(int(descriptor))
    implementation = load(where)
    channel.send(READY)
    while True:
        try:
            subject, names, index, name = channel.receive()
        except Closed:
            return
        channel.send(remaining(implementation, subject, _tuples(names), index, _tuples(name)))


def _tuples(value: Any) -> Any:
    """Names with lists turned back into tuples, which JSON does not have."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


class Unasserted:
    """Removes axes of boxes in a process without assertions."""

    def __init__(self, where: str) -> None:
        """Start nothing yet.

        Args:
          where: How that process finds the implementation, as `loading.load` takes it.
        """
        self._where, self._folder = where, os.getcwd()
        self._channel: Channel | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(
        self, subject: str, names: tuple[Any, ...], index: int, name: Any
    ) -> tuple[Any, ...] | None:
        """Remove an axis of a box.

        Args:
          subject: The box class, a key of `SUBJECTS` that the implementation claims.
          names: Of the box, one for each axis: a string, a tuple of strings, or `None`.
          index: Of the axis, `0 <= index < len(names)`.
          name: The axis name in the parameters of the removal.

        Returns:
          The names that are left; `None` if the removal was refused.

        Raises:
          Closed: The process has ended.
          Untried: It could not be started, or did not find the implementation.
        """
        if self._channel is None:
            self._channel = self._start()
            try:
                if self._channel.receive(_START_SECONDS) != READY:
                    raise Closed
            except (Closed, TimeoutError):
                self.close()
                raise Untried("the process without assertions could not be started") from None
        self._channel.send([subject, names, index, name])
        return _tuples(self._channel.receive())  # type: ignore[no-any-return]

    def _start(self) -> Channel:
        here, there = Channel.pair()
        command = [
            sys.executable,
            "-P",
            "-O",
            "-m",
            "scutch.judging.unasserted",
            str(there.fileno()),
            self._where,
        ]
        self._process = subprocess.Popen(
            command,
            pass_fds=(there.fileno(),),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            stdin=subprocess.DEVNULL,
            cwd=self._folder,
        )
        there.close()
        return here

    def close(self) -> None:
        """End the process, if it was started."""
        if self._channel is not None and self._process is not None:
            self._channel.close()
            try:
                self._process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._channel = self._process = None


if __name__ == "__main__":
    main(*sys.argv[1:])
