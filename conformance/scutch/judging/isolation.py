"""Laws run in a process of their own, so that a crash or a hang costs one law only.

A *runner* is a fork of the collecting process: it has every test already, and starts in
milliseconds. It is forked before JAX has looked for devices, when no thread holds a lock, runs one
test at a time on request and sends back pytest's reports. When it dies, the test that it ran is
told apart as crashed or timed out, and the next test gets a new runner.
"""

import faulthandler
import os
import pickle
import select
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_HEADER = struct.Struct("!Q")
_GRACE = 0.3


@dataclass(frozen=True)
class Lost:
    """A test whose runner ended before it answered.

    Args:
      outcome: `crashed` or `timeout`.
      reason: How it ended.
    """

    outcome: str
    reason: str


class Closed(Exception):
    """The other end of a channel is gone."""


@dataclass
class Channel:
    """Objects through a pair of pipes. Only this suite's own processes are at the two ends."""

    read: int
    write: int

    def send(self, message: Any) -> None:
        """Write one object."""
        data = pickle.dumps(message)
        view = memoryview(_HEADER.pack(len(data)) + data)
        try:
            while view:
                view = view[os.write(self.write, view) :]
        except BrokenPipeError:
            raise Closed from None

    def receive(self, timeout: float | None = None) -> Any:
        """Read one object.

        Raises:
          TimeoutError: It was not complete within `timeout` seconds.
          Closed: The other end is gone.
        """
        end = None if timeout is None else time.monotonic() + timeout
        (size,) = _HEADER.unpack(self._read(_HEADER.size, end))
        return pickle.loads(self._read(size, end))

    def _read(self, size: int, end: float | None) -> bytes:
        parts: list[bytes] = []
        while size:
            left = None if end is None else max(0.0, end - time.monotonic())
            if not select.select([self.read], [], [], left)[0]:
                raise TimeoutError
            part = os.read(self.read, min(size, 1 << 20))
            if not part:
                raise Closed
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        """Close both pipes."""
        os.close(self.read)
        os.close(self.write)


@dataclass
class Runner:
    """A forked process that answers requests.

    Args:
      answer: Called in the runner with each request; what it returns is sent back.
      pid: Of the process; `None` while there is none.
    """

    answer: Callable[[Any], Any]
    pid: int | None = None
    _channel: Channel | None = field(default=None, repr=False)
    _trace: Any = field(default=None, repr=False)

    def ask(self, request: Any, timeout: float) -> Any:
        """The answer to a request, or `Lost` when the runner ends or takes too long."""
        if self.pid is None:
            self._fork()
        channel = self._channel
        if channel is None:
            raise RuntimeError("a runner was forked without a channel; this is a bug in scutch")
        try:
            channel.send(request)
            return channel.receive(timeout)
        except TimeoutError:
            where = self._where()
            self._end(signal.SIGKILL)
            return Lost("timeout", f"no end after {timeout:g} s{where}")
        except Closed:
            return Lost("crashed", self._end())

    def close(self) -> None:
        """Let the process end, if there is one."""
        if self.pid is not None:
            self._end(signal.SIGTERM)

    def _fork(self) -> None:
        to_runner, to_parent = os.pipe(), os.pipe()
        self._trace = tempfile.TemporaryFile("w+b")  # noqa: SIM115 (the runner's, for its life)
        with warnings.catch_warnings():
            # Python 3.12 warns of any second thread. NumPy's worker threads are fork-safe, and
            # JAX has started none of its own yet.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            os.close(to_runner[1])
            os.close(to_parent[0])
            self._serve(Channel(to_runner[0], to_parent[1]))
        os.close(to_runner[0])
        os.close(to_parent[1])
        self.pid, self._channel = pid, Channel(to_parent[0], to_runner[1])

    def _serve(self, channel: Channel) -> None:
        """The life of a runner: it never returns."""
        code = 70
        try:
            faulthandler.register(signal.SIGUSR1, file=self._trace, all_threads=False)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            while True:
                channel.send(self.answer(channel.receive()))
        except (Closed, KeyboardInterrupt):
            code = 0
        except BaseException:  # a fault of the judge's own: laws cannot get here
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)

    def _where(self) -> str:
        """The innermost line of a hanging runner, as ` in f (file:line)`."""
        if self.pid is None:
            return ""
        os.kill(self.pid, signal.SIGUSR1)
        time.sleep(_GRACE)
        self._trace.seek(0)
        lines = self._trace.read().decode(errors="replace").splitlines()
        inner = next((line.strip() for line in lines if line.lstrip().startswith("File ")), "")
        return f", in {inner.removeprefix('File ')}" if inner else ""

    def _end(self, with_signal: int | None = None) -> str:
        """Reap the process; say how it ended."""
        if self.pid is None or self._channel is None:
            return "the runner is gone"
        if with_signal is not None:
            os.kill(self.pid, with_signal)
        _, status = os.waitpid(self.pid, 0)
        self._channel.close()
        self._trace.close()
        self.pid = self._channel = None
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            return f"the process was ended by {signal.Signals(-code).name}"
        return f"the process exited with {code}"


def available() -> bool:
    """Whether this platform can fork."""
    return hasattr(os, "fork")
