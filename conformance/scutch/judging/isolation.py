"""Laws run in a process of their own, so that a crash or a hang costs one law only.

A *runner* is a fork of the collecting process: it has every law already, and starts in
milliseconds. It is forked before JAX has looked for devices, when no thread holds a lock, runs one
law at a time on request and sends back what it did. When it ends, the law that it ran is told apart
as crashed or timed out, and the next law gets a new runner.

What goes through a *channel* between the two is JSON, never a pickle: the runner holds code that is
judged, and must not choose what the judge executes. The framing is that of
`multiprocessing.connection`; forking, waiting and ending are our own, because a
`multiprocessing.Process` trusts its child to end by itself.

    runner = Runner(lambda number: {"squared": number**2})
    runner.ask(3, timeout=10)     # {'squared': 9}
    runner.close()
"""

import faulthandler
import json
import os
import signal
import socket
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

_GRACE = 0.3
"""Seconds in which a hanging runner writes where it hangs."""

_STALL = 10
"""Seconds in which the rest of a message must come, once it has begun."""

_KEPT = 1 << 16
"""Bytes that are kept of a note, of a trace, and of what a runner prints."""


@dataclass(frozen=True)
class Lost:
    """A law whose runner ended before it answered.

    Args:
      outcome: `crashed` or `timeout`.
      reason: How it ended.
      doing: What the runner noted last; empty if nothing.
      output: What it printed.
    """

    outcome: str
    reason: str
    doing: str = ""
    output: str = ""


class Closed(Exception):
    """The other end of a channel is gone, or what it said is no message.

    Wrong, for the end that waits:

        while True:
            answer(channel.receive())

    Right:

        try:
            request = channel.receive()
        except Closed:
            return
    """


class Channel:
    """JSON in both directions, through one end of a pair of sockets."""

    def __init__(self, descriptor: int) -> None:
        """Own the end with this file descriptor."""
        self._connection = Connection(descriptor)

    @classmethod
    def pair(cls) -> "tuple[Channel, Channel]":
        """Both ends of a new channel.

        An end gives up on a message of which no more comes for `_STALL` seconds.
        """
        ends = socket.socketpair()
        for end in ends:
            stall = struct.pack("ll", _STALL, 0)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, stall)
        one, other = (cls(end.detach()) for end in ends)
        return one, other

    def fileno(self) -> int:
        """The file descriptor."""
        return self._connection.fileno()

    def send(self, message: Any) -> None:
        """Write one message.

        Raises:
          Closed: The other end is gone.
        """
        try:
            self._connection.send_bytes(json.dumps(message).encode())
        except OSError:
            raise Closed from None

    def receive(self, timeout: float | None = None) -> Any:
        """Read one message.

        Args:
          timeout: Seconds to wait for it to begin; `None` waits for ever.

        Raises:
          TimeoutError: It did not begin within `timeout`, or stopped in the middle.
          Closed: The other end is gone, also in the middle of a message, or sent no JSON.
        """
        try:
            if not self._connection.poll(timeout):
                raise TimeoutError
            return json.loads(self._connection.recv_bytes())
        except (BlockingIOError, TimeoutError):
            raise TimeoutError from None
        except (EOFError, OSError, ValueError):
            raise Closed from None

    def close(self) -> None:
        """Close this end."""
        self._connection.close()


@dataclass
class Runner:
    """A forked process that answers requests.

    Args:
      answer: Called in the runner with each request, which is JSON; its result is sent back, so it
        must be JSON, too.
      capture: Whether what the runner prints is kept for `output` instead of printed.
      pid: Of the process; `None` while there is none.
    """

    answer: Callable[[Any], Any]
    capture: bool = True
    pid: int | None = None
    _channel: Channel | None = field(default=None, repr=False)
    _files: dict[str, Any] = field(default_factory=dict, repr=False)

    def ask(self, request: Any, timeout: float) -> Any:
        """The answer to a request, or `Lost` when the runner ends or takes too long.

        Args:
          request: JSON.
          timeout: In seconds, above zero.
        """
        channel = self._channel or self._fork()
        self.note("")
        self._files["output"].seek(0)  # for the runner as well: they share the open file
        self._files["output"].truncate()
        try:
            channel.send(request)
            return channel.receive(timeout)
        except TimeoutError:
            outcome, reason = "timeout", f"no end after {timeout:g} s{self._where()}"
            self._end(signal.SIGKILL)
        except Closed:
            outcome, reason = "crashed", self._end()
        doing = self._read("notes").partition("\0")[0]
        lost = Lost(outcome, reason, doing, self.output())
        self._forget()
        return lost

    def note(self, call: str) -> None:
        """Keep the call that the runner is about to make, where the collecting process reads it."""
        if self._files:
            text = call.encode(errors="backslashreplace")[: _KEPT - 1] + b"\0"
            os.pwrite(self._files["notes"].fileno(), text, 0)

    def output(self) -> str:
        """What the runner has printed since the last request, or its first 64 KiB."""
        sys.stdout.flush()
        return self._read("output") if self._files else ""

    def close(self) -> None:
        """End the process, if there is one."""
        if self.pid is not None:
            self._end(signal.SIGTERM)
            self._forget()

    def _fork(self) -> Channel:
        here, there = Channel.pair()
        names = ("notes", "trace", "output")  # open for the life of the runner
        self._files = {name: tempfile.TemporaryFile() for name in names}  # noqa: SIM115
        with warnings.catch_warnings():
            # Python 3.12 warns of any second thread. NumPy's worker threads are fork-safe, and
            # JAX has started none of its own yet.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            here.close()
            self._serve(there)
        there.close()
        self.pid, self._channel = pid, here
        return here

    def _serve(self, channel: Channel) -> None:
        """The life of a runner: it never returns."""
        code = 70
        try:
            faulthandler.register(signal.SIGUSR1, file=self._files["trace"], all_threads=False)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the collecting process
            if self.capture:
                for descriptor in (1, 2):
                    os.dup2(self._files["output"].fileno(), descriptor)
                sys.stdout = sys.stderr = open(1, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115
            while True:
                channel.send(self.answer(channel.receive()))
        except Closed:
            code = 0
        except BaseException:  # a fault of the judge's own: laws cannot get here
            traceback.print_exc()
        finally:
            os._exit(code)

    def _where(self) -> str:
        """The innermost line of a hanging runner, as ` in f (file:line)`."""
        if self.pid is None:
            return ""
        os.kill(self.pid, signal.SIGUSR1)
        time.sleep(_GRACE)
        lines = self._read("trace").splitlines()
        inner = next((line.strip() for line in lines if line.lstrip().startswith("File ")), "")
        return f", in {inner.removeprefix('File ')}" if inner else ""

    def _read(self, file: str) -> str:
        return os.pread(self._files[file].fileno(), _KEPT, 0).decode(errors="replace")

    def _end(self, with_signal: int | None = None) -> str:
        """Reap the process; say how it ended."""
        if self.pid is None:
            return "the runner is gone"
        if with_signal is not None:
            os.kill(self.pid, with_signal)
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            return f"the process was ended by {signal.Signals(-code).name}"
        return f"the process exited with {code}"

    def _forget(self) -> None:
        """Close what belonged to the process that ended."""
        if self._channel is not None:
            self._channel.close()
        for file in self._files.values():
            file.close()
        self.pid, self._channel, self._files = None, None, {}


def available() -> bool:
    """Whether this platform can fork."""
    return hasattr(os, "fork")
