"""The messages between the processes of a job while they try a law.

A *job* is several processes that `jax.distributed` has joined; process 0 *leads*, the others
*follow*. Hypothesis draws in the leader alone. The leader publishes each input as the text of a
call, such as `test_x(mesh=Mesh((8,), ('data',)))`; then every process tries the law on it at the
same time, because a computation on a mesh of all their devices only runs when all of them start it.
At the end each follower says whether the law held there:

    leader    together: publish a call    try the law    collect answers   ...   end: publish END
    follower  follow:   receive the call  try the law    answer            ...   receive END

The messages go through the key-value store of `jax.distributed`, which every launcher starts, so
they need no port and no shared folder of their own.
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
    """A law was broken in a following process, and held in the leading one.

    Wrong, in a law that is tried in a job: reading the parts of an array in other processes.

        np.asarray(array)                          # fails where the array has parts elsewhere

    Right:

        assert_parts(array, mesh, spec, expected)  # compares the parts of this process

    Args:
      rank: The number of the process.
      error: The error that broke the law there, as text.
    """

    def __init__(self, rank: int, error: str) -> None:
        """Keep which process it was, and its error."""
        self.rank, self.error = rank, error
        super().__init__(f"in process {rank} of the job: {error}")


class JobBroken(BaseException):
    """A follower gave no answer: it hangs in a computation that the leader has left.

    The job cannot be used again, so this is no `Exception`, after which Hypothesis would look for a
    smaller input. An implementation breaks a job when it raises in one process and computes on in
    the others, which then wait for that process for ever.

    Wrong, in an implementation, because only process 0 leaves the computation:

        if jax.process_index() == 0 and bad(array.addressable_shards):
            raise ValueError(...)

    Right, because all processes know the shape and decide alike:

        if bad(array.shape):
            raise ValueError(...)

    Args:
      rank: The number of the process.
      seconds: How long the leader waited for it.
      error: The exception that broke the law in the leader; None if it held there.
    """

    def __init__(self, rank: int, seconds: float, error: Exception | None) -> None:
        """Keep which process it was, and the error of the leader."""
        self.rank = rank
        self.seconds = seconds
        self.error = error
        here = "the law held here" if error is None else f"here: {type(error).__name__}: {error}"
        super().__init__(f"process {rank} gave no answer within {seconds:g} s; {here}")


@dataclass
class Exchange:
    """The messages that one process of a job sends and receives.

    Args:
      rank: The number of this process; 0 leads.
      processes: How many there are.
      is_broken: Whether a process gave no answer, so that the job cannot be used again.
    """

    rank: int
    processes: int
    is_broken: bool = False
    _input: int = field(default=0, repr=False)

    def together(self, text: str, attempt: Callable[[], None]) -> None:
        """In the leader: try a law on an input in every process.

        Args:
          text: The input, as the text of a call.
          attempt: Tries the law on it in this process.

        Raises:
          Exception: The law was broken in this process; it is the exception of `attempt`.
          PeerError: The law held here, and was broken in another process.
          JobBroken: A process did not answer.
        """
        self._input += 1
        key_value_store().key_value_set(self._key("call"), text)
        error = None
        try:
            attempt()
        except Exception as broken:
            error = broken
        answers = [self._answer(rank, error) for rank in range(1, self.processes)]
        if error is not None:
            raise error
        for rank, answer in enumerate(answers, 1):
            if answer != HELD:
                raise PeerError(rank, answer)

    def follow(self, attempt: Callable[[str], str | None]) -> None:
        """In a follower: try each input that the leader publishes, until it publishes the end.

        Args:
          attempt: Tries a law on an input, given as text; returns the error as text, or None.
        """
        while True:
            self._input += 1
            while (text := self._value("call")) is None:
                continue
            if text == END:
                return
            broken = attempt(text)
            key_value_store().key_value_set(self._key(str(self.rank)), broken or HELD)

    def end(self) -> None:
        """In the leader: let the followers end."""
        self._input += 1
        key_value_store().key_value_set(self._key("call"), END)

    def _answer(self, rank: int, error: Exception | None) -> str:
        """A follower's answer for this input; `error` is the leader's, for `JobBroken`."""
        started = time.monotonic()
        while (answer := self._value(str(rank))) is None:
            if time.monotonic() - started > ANSWER_TIMEOUT:
                self.is_broken = True
                raise JobBroken(rank, ANSWER_TIMEOUT, error)
        return answer

    def _value(self, name: str) -> str | None:
        """The value of a key; None if it was not set within a few seconds."""
        try:
            value = key_value_store().blocking_key_value_get(self._key(name), _ROUND_MILLISECONDS)
        except Exception as error:
            if "DEADLINE_EXCEEDED" not in str(error):
                raise
            return None
        return str(value)

    def _key(self, name: str) -> str:
        return f"scutch/{self._input}/{name}"
