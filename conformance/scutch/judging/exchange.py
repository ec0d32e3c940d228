"""What the processes of a job tell each other while they try a law.

A *job* is several processes that `jax.distributed` has joined; process 0 *leads*, the others
*follow*. Hypothesis draws in the leader alone. The leader publishes each input as the text of a
call, such as `test_x(mesh=Mesh((8,), ('data',)))`; then every process tries the law on it at the
same time, because a computation on a mesh of all their devices only runs when all of them start it.
At the end each follower says whether the law held there:

    leader    publish(1, text)   try the law    collect(1)   ...   publish(n, END)
    follower  receive(1)         try the law    answer(1)    ...   receive(n)

It goes through the key-value store of `jax.distributed`, which every launcher starts, so that it
needs no port and no shared folder of its own.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from scutch.judging.jax_parts import key_value_store

END = ""
"""Published instead of a call: the followers are done."""

HELD = "held"
ANSWER_TIMEOUT = 20.0
"""Seconds that a follower may take longer than the leader for one input."""

_ROUND_MILLISECONDS = 5_000


class PeerError(AssertionError):
    """A law was broken in a process that follows, and not in the one that leads.

    Wrong, in a law that is tried in a job: reading what other processes hold.

        np.asarray(array)                          # fails where the array has parts elsewhere

    Right:

        assert_parts(array, mesh, spec, expected)  # compares the parts of this process

    Args:
      rank: The number of the process.
      error: What broke the law there, as text.
    """

    def __init__(self, rank: int, error: str) -> None:
        """Keep which process it was, and its error."""
        self.rank = rank
        self.error = error
        super().__init__(f"in process {rank} of the job: {error}")


class JobBrokenError(Exception):
    """A follower did not answer: it ended, or hangs in a computation that the leader has left.

    The job cannot be used again. Nothing is wrong in how it was called; a law that raises in one
    process and computes on in another ends so.

    Args:
      rank: The number of the process.
      seconds: How long the leader waited for it.
    """

    def __init__(self, rank: int, seconds: float) -> None:
        """Keep which process it was."""
        self.rank = rank
        super().__init__(f"process {rank} of the job gave no answer within {seconds:g} s")


@dataclass
class Exchange:
    """The part of one process in the conversation.

    Args:
      rank: The number of this process; 0 leads.
      processes: How many there are.
    """

    rank: int
    processes: int
    _input: int = field(default=0, repr=False)

    def together(self, text: str, attempt: Callable[[], None]) -> None:
        """In the leader: try a law on an input in every process.

        Args:
          text: The input, as the text of a call.
          attempt: Tries the law on it in this process.

        Raises:
          Exception: What broke the law here.
          PeerError: What broke it in another process.
          JobBrokenError: A process did not answer, and the law held here.
        """
        self._input += 1
        store = key_value_store()
        store.key_value_set(self._key("call"), text)
        error = None
        try:
            attempt()
        except Exception as broken:
            error = broken
        answers = [] if error is not None else self._answers()
        if error is not None:
            raise error
        for rank, answer in enumerate(answers, 1):
            if answer != HELD:
                raise PeerError(rank, answer)

    def follow(self, attempt: Callable[[str], str | None]) -> None:
        """In a follower: try what the leader publishes until it publishes the end.

        Args:
          attempt: Tries a law on an input, given as text; returns what broke it, or None.
        """
        while True:
            self._input += 1
            text = self._wait("call", None)
            if text == END:
                return
            broken = attempt(text)
            key_value_store().key_value_set(self._key(str(self.rank)), broken or HELD)

    def end(self) -> None:
        """In the leader: let the followers end."""
        self._input += 1
        key_value_store().key_value_set(self._key("call"), END)

    def _answers(self) -> list[str]:
        return [self._wait(str(rank), rank) for rank in range(1, self.processes)]

    def _wait(self, name: str, rank: int | None) -> str:
        """The value of a key, when it is there; for a call there is no limit of time."""
        started = time.monotonic()
        while True:
            try:
                return str(
                    key_value_store().blocking_key_value_get(self._key(name), _ROUND_MILLISECONDS)
                )
            except Exception as error:
                if "DEADLINE_EXCEEDED" not in str(error):
                    raise
            if rank is not None and time.monotonic() - started > ANSWER_TIMEOUT:
                raise JobBrokenError(rank, ANSWER_TIMEOUT)

    def _key(self, name: str) -> str:
        return f"scutch/{self._input}/{name}"
