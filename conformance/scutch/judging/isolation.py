"""Laws run in a process of their own, so that a crash or a hang costs one law only.

A *runner* is a fork of the collecting process: it has every law already, and starts in
milliseconds. It is forked before JAX has looked for devices, when no thread holds a lock, runs one
law at a time on request and sends back its trial. When the runner ends, the law that it ran counts
as crashed or timed out, and the next law gets a new runner.

The *channel* between the two carries JSON, never a pickle: the runner holds the judged code, which
must not choose the code that the judge executes. `multiprocessing.connection` frames the messages;
forking, waiting and ending are our own, because a
`multiprocessing.Process` trusts its child to end by itself.

    runner = Runner(lambda number: {"squared": number**2})
    runner.ask(3, timeout=10)     # {'squared': 9}
    runner.close()
"""

import contextlib
import faulthandler
import json
import os
import resource
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
from typing import Any, NoReturn

from scutch.judging.keeper import PATIENCE, Ending, keep
from scutch.judging.readable import readable, visible
from scutch.lawkit.domain import THE_JUDGE

_GRACE = 0.3
"""Seconds in which a hanging runner writes where it hangs."""

_STALL = 10
"""Seconds in which the rest of a message must come, once it has begun."""

_LAST_BREATH = 1.0
"""Seconds in which a runner whose channel is closed must end by itself."""

_TWIN = 71
"""The exit code of a fork of a runner, which returned from a law as its parent did."""

_LEAST_MEMORY = 4 << 30
"""Bytes that a runner may always have, on however small a machine."""

_NESTED = 500
"""How deep lists are nested to see whether a runner can still call functions in functions."""

_KEPT = 1 << 16
"""Bytes that are kept of a note, of a trace, and of a runner's output."""


@dataclass(frozen=True)
class Lost:
    """A law whose runner ended before it answered.

    Args:
      outcome: `crashed` or `timeout`; `untried` where the judge itself was at fault.
      reason: How it ended.
      doing: The call that the runner noted last; empty if none.
      output: The text that the runner printed.
      found: The counterexample that stood in that note, as JSON; empty if none.
    """

    outcome: str
    reason: str
    doing: str = ""
    output: str = ""
    found: str = ""


class Closed(Exception):
    """The other end of a channel is gone, or it sent no valid message.

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
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _STALL, 0))
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
    """A forked process that answers requests, and its keeper.

    Args:
      answer: Called in the runner with each request, which is JSON; its result is sent back, so it
        must be JSON, too.
      capture: Whether the runner's output is kept for `output` instead of printed.
      bounded: Whether the runner gets at most half of the machine's memory, or 4 GiB if that is
        more.
      folder: Where the runner keeps temporary files, and Keras its settings; made again where it is
        gone. Empty where the judge's own will do.
      pid: Of the keeper; `None` while there is none.
    """

    answer: Callable[[Any], Any]
    capture: bool = True
    bounded: bool = True
    folder: str = ""
    pid: int | None = None
    _channel: Channel | None = field(default=None, repr=False)
    _files: dict[str, Any] = field(default_factory=dict, repr=False)
    _asked: int = 0
    _me: int = 0
    _spent: bool = False

    def ask(self, request: Any, timeout: float) -> Any:
        """The answer to a request, or `Lost` when the runner ends or takes too long.

        Every text in the answer is made visible.

        Args:
          request: JSON.
          timeout: In seconds, above zero.
        """
        os.makedirs(self.folder or tempfile.gettempdir(), mode=0o700, exist_ok=True)
        if self._spent:
            self.close()
        channel = self._channel or self._fork()
        self.note("")
        self._files["output"].seek(0)  # for the runner as well: they share the open file
        self._files["output"].truncate()
        self._asked += 1
        try:
            channel.send([self._asked, request])
            match channel.receive(timeout):
                case [self._asked, answer, bool(spent)]:
                    self._spent = spent
                    return readable(answer)
                case [self._asked, None, str(fault)]:
                    outcome, reason = "untried", visible(f"{THE_JUDGE}: {fault}")
                case _:
                    outcome, reason = "crashed", "it sent what is no answer"
            self._end(at_once=True)
        except TimeoutError:
            outcome, reason = "timeout", f"no end after {timeout:g} s{self._where()}"
            self._end(at_once=True)
        except Closed:
            outcome, reason = "crashed", self._end()
        doing, found, *_ = f"{self._read('notes')}\0\0".split("\0", 2)
        lost = Lost(outcome, reason, visible(doing), readable(self.output()), found)
        self._forget()
        return lost

    def note(self, call: str) -> None:
        """Keep the call that the runner is about to make, where the collecting process reads it.

        A fork of the runner, which returned from a law for a second time, ends here.

        Args:
          call: The text of the call; where the law is broken already, also a null character and
            the counterexample as JSON.
        """
        if self._me not in (0, os.getpid()):
            os._exit(_TWIN)
        if self._files:
            text = call.encode(errors="backslashreplace")[: _KEPT - 2] + b"\0\0"
            os.pwrite(self._files["notes"].fileno(), text, 0)

    def output(self) -> str:
        """The first 64 KiB that the runner has printed since the last request."""
        sys.stdout.flush()
        return self._read("output") if self._files else ""

    def close(self) -> None:
        """End the process, if there is one, and all that it started."""
        if self.pid is not None:
            self._end()
            self._forget()

    def _fork(self) -> Channel:
        here, there = Channel.pair()
        names = ("notes", "trace", "output", "ending")  # open for the life of the runner
        self._files = {name: tempfile.TemporaryFile() for name in names}  # noqa: SIM115
        judge = os.getpid()
        with warnings.catch_warnings():
            # Python 3.12 warns of any second thread. NumPy's worker threads are fork-safe, and
            # JAX has started none of its own yet.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
            if pid == 0:
                here.close()
                keep(
                    judge,
                    lambda: self._serve(there),
                    there.close,
                    self._files["ending"].fileno(),
                )
        there.close()
        self.pid, self._channel = pid, here
        return here

    def _serve(self, channel: Channel) -> NoReturn:
        """The life of a runner."""
        code = 70
        try:
            self._me = os.getpid()
            faulthandler.register(signal.SIGUSR1, file=self._files["trace"], all_threads=False)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the collecting process
            _bound(memory=self.bounded)
            if self.folder:  # a runner ends without the handlers that would delete its files
                os.environ |= {"TMPDIR": self.folder, "KERAS_HOME": self.folder}
                tempfile.tempdir = self.folder
            if self.capture:
                for descriptor in (1, 2):
                    os.dup2(self._files["output"].fileno(), descriptor)
                sys.stdout = sys.stderr = open(1, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115
            while True:
                number, request = channel.receive()
                try:
                    answer = [number, self.answer(request), _is_spent()]
                except BaseException as error:  # a fault of the judge's own: laws cannot get here
                    traceback.print_exc()
                    answer = [number, None, traceback.format_exception_only(error)[-1].strip()]
                if os.getpid() != self._me:  # a fork that returned from the law, too
                    os._exit(_TWIN)
                channel.send(answer)
        except Closed:
            code = 0
        except BaseException:  # the answer is no JSON
            traceback.print_exc()
        finally:
            os._exit(code)

    def _where(self) -> str:
        """The innermost line of a hanging runner, as ` in f (file:line)`."""
        if self.pid is None:
            return ""
        os.kill(self.pid, signal.SIGUSR1)  # the keeper hands it on
        time.sleep(_GRACE)
        lines = self._read("trace").splitlines()
        inner = next((line.strip() for line in lines if line.lstrip().startswith("File ")), "")
        return f", in {visible(inner.removeprefix('File '))}" if inner else ""

    def _read(self, file: str) -> str:
        return os.pread(self._files[file].fileno(), _KEPT, 0).decode(errors="replace")

    def _end(self, *, at_once: bool = False) -> str:
        """End the runner and all that it started, by its keeper; say how it ended.

        Args:
          at_once: Whether it gets no time to end by itself, now that its channel is closed.
        """
        if self.pid is None or self._channel is None:
            return "the runner is gone"
        self._channel.close()
        if at_once or not self._gone(_LAST_BREATH):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
        ending = Ending.read(self._files["ending"].fileno())
        if not self._gone(2 * PATIENCE):
            os.kill(self.pid, signal.SIGKILL)
            self._gone(PATIENCE)
        ending = Ending.read(self._files["ending"].fileno()) or ending
        if ending is None:
            return "its keeper was ended"
        if not ending.over:  # the keeper was ended
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(ending.runner, signal.SIGKILL)
        if ending.code is None:
            return ending.reason or "it closed its channel and was ended"
        if ending.code < 0:
            return f"the process was ended by {signal.Signals(-ending.code).name}"
        return f"the process exited with {ending.code}"

    def _gone(self, seconds: float) -> bool:
        """Whether the keeper ends within some seconds."""
        limit = time.monotonic() + seconds
        while self.pid is not None and os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > limit:
                return False
            time.sleep(0.002)
        self.pid = None
        return True

    def _forget(self) -> None:
        """Close the channel and the files of the process that ended."""
        if self._channel is not None:
            self._channel.close()
        for file in self._files.values():
            file.close()
        self.pid, self._channel, self._files = None, None, {}
        self._spent = False


def _is_spent() -> bool:
    """Whether this process can no longer nest calls, so that another one must take its place.

    JAX's functions of trees count each level of an endless tree, and never count back.
    """
    nested: list[Any] = []
    for _ in range(_NESTED):
        nested = [nested]
    try:
        repr(nested)
    except RecursionError:
        sys.setrecursionlimit(sys.getrecursionlimit() + _NESTED)  # enough to send the answer
        return True
    return False


def _bound(*, memory: bool) -> None:
    """Forbid core files, and bound this process's memory, where the system allows it."""
    limits = {resource.RLIMIT_CORE: 0}
    if memory:
        half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
        limits[resource.RLIMIT_DATA] = max(half, _LEAST_MEMORY)
    for what, limit in limits.items():
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(what, (limit, limit))
