"""A job: several processes on this machine that try laws together, joined by `jax.distributed`.

A law about a mesh that spans processes needs them. `Job` starts the processes, each with its part
of eight fake devices, and is asked like a runner: it is given the name of a law, and answers with
the trial. Process 0 *leads*: it has the connection to the judge, and Hypothesis draws there.
The others *follow* (see `scutch.judging.exchange`).

    judge ── request ──> process 0 ── the input, as text ──> processes 1, 2, ...
          <── answer ──            <── held, or the error ──

A process that ends, or a law that takes too long, ends the whole job: that law has crashed or timed
out, and the next law gets a new job. A job whose judge is gone ends by itself, because the standard
input of its processes closes.

Under a launcher (SLURM, Kubernetes, Cloud TPU) that has started one judge in each process already,
a job is *launched*: each judge starts one process of the job, which finds the others by
`jax.distributed.initialize()`. The judge of process 0 asks and reports; the others wait for theirs.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import jax

from scutch.implementation import SetupError
from scutch.judging.exchange import Exchange
from scutch.judging.isolation import Lost
from scutch.lawkit.domain import THE_JUDGE

DEVICES = 8
"""The devices of a job, all its processes together."""

_POLL_SECONDS = 0.1
_GRACE_SECONDS = 2.0
START_SECONDS = 60.0
"""Seconds more that a job gets for its first law, as it has to start."""

_LAST_WORDS = 1500


class JobNotJoinedError(SetupError):
    """A judge that is said to be launched found no job to join.

    Wrong, since nothing has started the other processes:

        scutch run --implementation flax --launched

    Right, where SLURM starts the same command in each process of a job:

        srun scutch run --implementation flax --launched

    Args:
      how: How the process that was to join ended.
    """

    def __init__(self, how: str) -> None:
        """Keep how the process ended."""
        self.how = how
        super().__init__(
            "--launched",
            "jax.distributed.initialize() found no job; expected this command to be started in "
            f"each process by a launcher, such as srun; {how}",
        )


@dataclass
class Job:
    """Processes that try laws together.

    Args:
      processes: How many; 2, 4 or 8. Of a launched job the launcher knows.
      launched: Whether a launcher has started a judge in each process.
      settings: The settings that each process gets, as data for JSON: see `serve` and `member`.
    """

    processes: int
    settings: dict[str, Any]
    launched: bool = False
    _members: list[subprocess.Popen[bytes]] = field(default_factory=list, repr=False)
    _connection: Any = field(default=None, repr=False)
    _output: Any = field(default=None, repr=False)

    def ask(self, request: Any, timeout: float) -> Any:
        """The answer of process 0 to a request, or `Lost` when the job ends or takes too long.

        Args:
          request: Data for JSON.
          timeout: Seconds until an answer must be there; a job that has to start gets more.
        """
        if not self._members:
            if self.launched:
                return Lost(
                    "crashed", "the launched job has ended, and only its launcher can start another"
                )
            self._start()
            timeout += START_SECONDS
        try:
            self._connection.send_bytes(json.dumps(request).encode())
            ended = time.monotonic() + timeout
            while not self._connection.poll(_POLL_SECONDS):
                if (rank := self._first_ended()) is not None:
                    return Lost("crashed", self._end(rank))
                if time.monotonic() > ended:
                    self._end()
                    return Lost(
                        "timeout", f"no end after {timeout:g} s in {self.processes} processes"
                    )
            answer = json.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            return Lost("crashed", self._end(self._wait_for_an_end()))
        if answer["error"] is not None:
            self._end()
            words = answer["error"].strip()[-_LAST_WORDS:]
            said = f"{THE_JUDGE}: process 0 of {self.processes} could not answer:\n{words}"
            return Lost("untried", said)
        if answer["broken"]:
            self._end()
        return answer["answer"]

    def join_launched(self) -> int:
        """Start this judge's process of a launched job; returns its number.

        Raises:
          JobNotJoinedError: `jax.distributed.initialize()` found no job, or the process ended.
        """
        self._start()
        while not self._connection.poll(_POLL_SECONDS):
            if self._first_ended() is not None:
                raise JobNotJoinedError(self._end(0))
        try:
            return int(json.loads(self._connection.recv_bytes())["rank"])
        except EOFError:
            raise JobNotJoinedError(self._end(self._wait_for_an_end())) from None

    def follow_to_the_end(self) -> None:
        """In a launched job: wait until this judge's process, which follows, has ended."""
        self._members[0].wait()
        self._end(0)

    def close(self) -> None:
        """End the processes, if they were started; a launched job ends in every process."""
        if self._members and self.launched:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                self._connection.send_bytes(json.dumps(None).encode())
                self._members[0].wait(START_SECONDS)
        if self._members:
            self._end()

    def _start(self) -> None:
        """Start the processes; each has its part of the devices."""
        self._connection, theirs = Pipe()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the job)
        port = _free_port()
        flags = os.environ.get("XLA_FLAGS", "").split()
        count = "--xla_force_host_platform_device_count"
        flags = [flag for flag in flags if not flag.startswith(count)]
        fake_devices = {
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": " ".join([*flags, f"{count}={DEVICES // self.processes}"]),
        }
        environment = {
            **os.environ,
            **({} if self.launched else fake_devices),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        with theirs:
            for rank in range(1 if self.launched else self.processes):
                place = {
                    "rank": rank,
                    "processes": self.processes,
                    "port": port,
                    "launched": self.launched,
                    "connection": theirs.fileno(),  # in process 0 alone it is open
                }
                told = json.dumps({**self.settings, **place})
                member = subprocess.Popen(
                    [sys.executable, "-P", "-m", "scutch.judging.member", told],
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=self._output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=[theirs.fileno()] if rank == 0 else [],
                )
                self._members.append(member)

    def _first_ended(self) -> int | None:
        """The process that ended: one that a signal ended before the others, if there is one."""
        codes = {rank: member.poll() for rank, member in enumerate(self._members)}
        ended = {rank: code for rank, code in codes.items() if code is not None}
        return min(ended, key=lambda rank: (ended[rank] >= 0, rank)) if ended else None

    def _wait_for_an_end(self) -> int:
        """The process that closed its connection, once it has ended, or is ended for it."""
        limit = time.monotonic() + _GRACE_SECONDS
        while (rank := self._first_ended()) is None and time.monotonic() < limit:
            time.sleep(_POLL_SECONDS)
        return 0 if rank is None else rank

    def _end(self, rank: int | None = None) -> str:
        """End all processes and their children; say how the one of this number ended."""
        code = None if rank is None else self._members[rank].poll()
        for member in self._members:
            # JAX traps SIGTERM and waits for the other processes, so nothing less ends them.
            with contextlib.suppress(ProcessLookupError):  # it has ended already
                os.killpg(member.pid, signal.SIGKILL)
            member.wait()
            if member.stdin is not None:
                member.stdin.close()
        self._connection.close()
        self._output.seek(0)
        words = self._output.read().decode(errors="replace").strip()[-_LAST_WORDS:]
        self._output.close()
        count, self._members = len(self._members), []
        if code is None:
            how = "did not answer and was ended"
        elif code < 0:
            how = f"was ended by {signal.Signals(-code).name}"
        else:
            how = f"exited with {code}"
        return f"process {rank} of {count} {how}" + (
            f"; the last output:\n{words}" if words else ""
        )


def serve(answer: Callable[[Exchange, Any], Any], follow: Callable[[Exchange], None]) -> None:
    """The life of one process of a job: join the others, then lead or follow.

    The only argument of the process is a JSON object with `rank`, `processes`, `port`, `launched`,
    in process 0 also `connection`, a file descriptor, and the entries of the job's `settings`.
    Process 0 answers requests until it is sent null, or the judge is gone.

    Args:
      answer: In process 0: answers a request with data for JSON.
      follow: In the others: tries each input that process 0 publishes, until the end.
    """
    place = json.loads(sys.argv[1])
    threading.Thread(target=_end_with_the_judge, daemon=True).start()
    exchange = join(place)
    connection = None
    if place["launched"] or exchange.rank == 0:
        connection = Connection(place["connection"])
    if connection is not None and place["launched"]:
        connection.send_bytes(json.dumps({"rank": exchange.rank}).encode())
    if exchange.rank > 0 or connection is None:
        follow(exchange)
    else:
        while (request := json.loads(connection.recv_bytes())) is not None:
            reply: dict[str, Any] = {"error": None}
            try:
                reply |= {"answer": answer(exchange, request), "broken": exchange.is_broken}
            except Exception:  # Else JAX would wait at the end of this process for the others.
                reply["error"] = traceback.format_exc()
            connection.send_bytes(json.dumps(reply).encode())
        exchange.end()
    jax.distributed.shutdown()  # type: ignore[no-untyped-call]


def join(place: Mapping[str, Any]) -> Exchange:
    """Join the job, by gloo where its devices are CPUs.

    Args:
      place: `launched`, and of a job on this machine also `port`, `processes` and `rank`.

    Returns:
      The part of this process in the conversation.
    """
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        chosen = "jax_cpu_collectives_implementation", "gloo"
        jax.config.update(*chosen)  # type: ignore[no-untyped-call]
    if place["launched"]:
        jax.distributed.initialize()
        return Exchange(jax.process_index(), jax.process_count())
    jax.distributed.initialize(f"127.0.0.1:{place['port']}", place["processes"], place["rank"])
    return Exchange(place["rank"], place["processes"])


def _end_with_the_judge() -> None:
    """End this process when its standard input closes, as it does when the judge is gone."""
    sys.stdin.buffer.read()
    os._exit(1)


def _free_port() -> int:
    """A port of this machine that nobody listens to."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])
