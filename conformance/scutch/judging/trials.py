"""The result of one law, tried once in a run: it passed, failed, crashed or ran out of time.

It is plain data, which one process sends to another.
"""

import json
from dataclasses import asdict, dataclass, field, replace


def head(way: str) -> str:
    """The type of the error in a way, and the words that its message begins with.

    >>> head("TypeError: no array at `f(x)`")
    'TypeError: no array'
    """
    return way.partition(" at `")[0]


@dataclass(frozen=True)
class Counterexample:
    """The smallest input that was found to break a law.

    Args:
      test: The law.
      input: The call that breaks it, as `calls.parse_call` reads it; may be empty.
      error: The type and the message of the error that it raised.
      way: The way in which it breaks the law, as `ways.way` has it: equal for inputs that break it
        alike.
      place: File and line where the implementation raised the error, as `ways.place` has it; empty
        where a law has found something wrong.
    """

    test: str
    input: str
    error: str
    way: str = ""
    place: str = field(default="", compare=False)

    @property
    def fault(self) -> tuple[str, str] | None:
        """The error, as `head` has it, and its place; `None` where a law raised the error."""
        return (head(self.way), self.place) if self.place else None


@dataclass(frozen=True)
class Cost:
    """The time, the programs and the memory that a trial used.

    Args:
      cpu: Seconds of the processor, in the process that tried the law.
      compiled: Programs that XLA compiled.
      reused: Programs that were read from the folder of compiled ones.
      saved: Seconds that it takes to compile so many, by the average of their folder, without the
        time to read them. On a busy machine it is more: it is time of the clock.
      peak: The most bytes of memory that the process has had, in this trial or before.
    """

    cpu: float = 0.0
    compiled: int = 0
    reused: int = 0
    saved: float = 0.0
    peak: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        """The cost of both trials."""
        return Cost(
            round(self.cpu + other.cpu, 3),
            self.compiled + other.compiled,
            self.reused + other.reused,
            round(self.saved + other.saved, 3),
            max(self.peak, other.peak),
        )

    def __str__(self) -> str:
        """Seconds, memory and programs, for people."""
        return (
            f"{self.cpu:.0f} CPU s, peak of a process {self.peak / 1e9:.2f} GB; programs: "
            f"{self.compiled:,} compiled, {self.reused:,} reused (saved {max(self.saved, 0):.0f} s)"
        )


NO_COST = Cost()


@dataclass(frozen=True)
class Trial:
    """The result of one law in one run: its outcome, and its counterexample if it broke.

    Args:
      test: The name of the law, unique in the suite.
      requirement: The identifier that it tries.
      outcome: `passed`, `failed`, `crashed`, `timeout`, `skipped`, or `untried` where the judge
        could not do its part.
      examples: Inputs on which it ran to its end, each counted once.
      seconds: How long it took.
      unmet: Names of inputs that it must reach and never did.
      expected: The witness of the known failure that it was first tried on, if any.
      broke: Whether it failed as it is known to, and in no other way.
      counterexample: The input that broke it; in the gravest way, if there are several.
      also: Inputs that broke it in other ways: on another line, or with another type of error.
      reason: Why it was skipped, crashed or timed out.
      error: The exception that broke it, in the process that tried it; it is not sent along.
      beyond: Why some input was not tried, where that was for want of devices or of an option.
      witness_untried: Why `expected` was not tried, likewise.
      cost: The time, the programs and the memory that it used.
      calls: Functions of the user's repository that it called, where the run notes them.
    """

    test: str
    requirement: str
    outcome: str
    examples: int = 0
    seconds: float = 0.0
    unmet: tuple[str, ...] = ()
    expected: str | None = None
    broke: bool = False
    counterexample: Counterexample | None = None
    also: tuple[Counterexample, ...] = ()
    reason: str | None = None
    error: BaseException | None = field(default=None, compare=False)
    beyond: str = ""
    witness_untried: str = ""
    cost: Cost = field(default=NO_COST, compare=False)
    calls: tuple[str, ...] = field(default=(), compare=False)

    @property
    def shown(self) -> tuple[Counterexample, ...]:
        """The gravest counterexample, and the witness if that broke the law in another way."""
        others = (each for each in self.also if each.input == self.expected)
        return (self.counterexample, *others) if self.counterexample else ()

    def to_data(self) -> str:
        """The trial as text, which every channel and report of pytest can carry."""
        data = asdict(replace(self, error=None))
        del data["error"]
        return json.dumps(data)

    @classmethod
    def from_data(cls, text: str) -> "Trial":
        """The trial that `to_data` turned into text."""
        data = json.loads(text)
        found = data["counterexample"] and Counterexample(**data["counterexample"])
        also = tuple(Counterexample(**each) for each in data["also"])
        cost, calls = Cost(**data.pop("cost", {})), tuple(data.pop("calls", ()))
        return cls(
            **{**data, "unmet": tuple(data["unmet"]), "counterexample": found, "also": also},
            cost=cost,
            calls=calls,
        )
