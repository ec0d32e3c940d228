"""The calls of one law in one trial, and their results.

    attempt = prepared(law, implementation)
    attempt.call(inputs)

Then `attempt.held` has the inputs on which the law held, and `attempt.ways` how others broke it.
"""

import json
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from scutch.implementation import Implementation
from scutch.inputs.descriptions import Box, Builder, Copies, Foreign, build, parts
from scutch.inputs.subjects import PARTITIONED, SUBJECTS, Subject
from scutch.judging import hypothesis_parts, leaving
from scutch.judging.calls import parse_call
from scutch.judging.exchange import Exchange
from scutch.judging.hypothesis_parts import Diverted, describe
from scutch.judging.suite import Law
from scutch.judging.trials import Counterexample
from scutch.judging.ways import is_among, place, way
from scutch.lawkit import marks
from scutch.lawkit.domain import OutOfDomain, TooFewDevices
from scutch.namespaces import CAPABILITIES, UnclaimedOption

Inputs = Mapping[str, Any]


def no_journal(call: str) -> None:
    """Keep no note of a call."""


def call_text(name: str, inputs: Inputs) -> str:
    """The call of a law as `judging.calls.parse_call` reads it.

    Args:
      name: Of the law.
      inputs: Descriptions by name.
    """
    return f"{name}({', '.join(f'{each}={value!r}' for each, value in inputs.items())})"


@dataclass(frozen=True)
class Setting:
    """What the laws of a run are tried with.

    Args:
      subject: The box class that is tried, where it is not the implementation's own.
      unasserted: Removes axes in a process without assertions; needed by laws that take it.
      journal: Told the text of each call before it is made; once the law is broken, with a null
        character and the last counterexample as JSON after it.
      exchange: In process 0 of a job: lets every process of it try each input at the same time.
      by_traces: Whether a law that compares two routes may take equal traces for agreement.
    """

    subject: Subject | None = None
    unasserted: Callable[..., Any] | None = None
    journal: Callable[[str], None] = no_journal
    exchange: Exchange | None = None
    by_traces: bool = True


ALONE = Setting()


@dataclass
class Attempt:
    """The calls of one law in one trial, and their results.

    Args:
      name: Of the law.
      function: The law, below `@given`.
      builder: Builds its inputs from their descriptions.
      fixtures: Its arguments that are not drawn, by name.
      claimed: The implementation, and its namespaces.
      setting: What the laws of a run are tried with. Its journal is told `noted` after each call.
      noted: The last counterexample as JSON, after a null character; empty if there is none.
      held: The calls on which the law held.
      ways: By type of error and place, the last counterexample, with its exception.
      classes: The class of errors that Hypothesis is shown for each of `ways`.
      unless: Other laws, each with inputs that break it.
      known: The ways in which it is known to break.
      expected: The first counterexample in one of these ways, with its exception.
      begun_in_another_way: Whether its witness breaks it in a way that is not known.
      beyond: Why an input was not tried, where that was for want of devices or of an option.
      passed_over: How many inputs were not tried for want of an option.
      turned_away: How many inputs were out of domain, as those that an owner's maker refuses.
      witness_untried: Why its witness was not tried, likewise.
    """

    name: str
    function: Callable[..., Any]
    builder: Builder
    fixtures: Inputs
    claimed: tuple[Any, ...] = ()
    setting: Setting = ALONE
    noted: str = ""
    held: set[str] = field(default_factory=set)
    ways: dict[Any, tuple[Counterexample, BaseException]] = field(default_factory=dict)
    classes: dict[Any, type[AssertionError]] = field(default_factory=dict)
    unless: list[tuple["Attempt", Inputs]] = field(default_factory=list)
    known: frozenset[str] = frozenset()
    expected: tuple[Counterexample, BaseException] | None = None
    begun_in_another_way: bool = False
    beyond: str = ""
    passed_over: int = 0
    turned_away: int = 0
    witness_untried: str = ""

    def call(self, inputs: Inputs) -> None:
        """Build the inputs, call the law, and keep account.

        Raises:
          OutOfDomain: The law is not about such inputs, or they pass an unclaimed option.
          NotAvailable: The environment lacks a feature or a device that the law needs.
          AssertionError: The law broke in a way that is not known; `ways` has the counterexample.
          JobBroken: The job in which it was tried cannot be used again.
        """
        text, error = call_text(self.name, inputs), None
        self.setting.journal(text + self.noted)
        try:
            if self.setting.exchange is None:
                self.try_here(inputs)
            else:
                self.setting.exchange.together(text, lambda: self.try_here(inputs))
        except BaseException as raised:
            if self.is_left_by(raised):
                self.turned_away += isinstance(raised, OutOfDomain)
                if isinstance(raised, TooFewDevices | UnclaimedOption):
                    self.beyond = str(raised)
                if isinstance(raised, UnclaimedOption):
                    marks.reached_by(inputs)
                    self.passed_over += 1
                    raise OutOfDomain from raised
                raise
            if _from_keyboard(raised):
                raise
            error = raised
        marks.reached_by(inputs)
        if error is not None:
            self.broken_by(error, text)
        elif not self.ways:
            self.held.add(text)

    def broken_by(self, error: BaseException, text: str) -> None:
        """Keep the counterexample, and raise unless the law is known to break in this way.

        Args:
          error: The exception that the call raised.
          text: The call.

        Raises:
          AssertionError: The way is not known. Its class is the same for errors of one type from
            one line, so that Hypothesis tells ways apart.
          JobBroken: The job cannot be used again.
        """
        ends_job = self.setting.exchange is not None and self.setting.exchange.is_broken
        order = hypothesis_parts.is_order(error) and not ends_job
        shown = Diverted(error) if order else error
        reason = describe(shown) if order else hypothesis_parts.told(error, self.function)
        found = Counterexample(
            self.name, text, reason, way(error, self.function), place(error, self.function)
        )
        if is_among(found.way, self.known, self.function) and not ends_job:
            self.expected = self.expected or (found, shown)
            return
        line = hypothesis_parts.broken_at(error, self.function)
        key = id(type(error)), line, hypothesis_parts.innermost(error)
        self.ways[key] = found, shown
        self.noted = f"\0{json.dumps(asdict(found))}"
        if ends_job:
            raise error
        raise self.classes.setdefault(key, type("Broken", (AssertionError,), {}))()

    def try_here(self, inputs: Inputs) -> None:
        """Build the inputs and call the law, in this process.

        Raises:
          OutOfDomain: The law is not about such inputs, or they break a law in `unless`.
          Exception: The law was broken; it is the exception of the law or of a builder.
        """
        for other, broken_by in self.unless:
            calls = mixed(broken_by, inputs, owned=self.builder.owned)
            if any(other.is_broken(each) for each in calls):
                raise OutOfDomain
        self.function(**self.fixtures, **{n: build(v, self.builder) for n, v in inputs.items()})

    def is_left_by(self, error: BaseException) -> bool:
        """Whether the judge or the law, and not the implementation, has left the law so."""
        return leaving.is_left(error, Attempt.try_here.__code__, self.function, self.claimed)

    def is_broken(self, inputs: Inputs) -> bool:
        """Whether inputs break the law; inputs out of its domain do not."""
        try:
            self.try_here(inputs)
        except BaseException as error:
            if _from_keyboard(error):
                raise
            return not self.is_left_by(error)
        return False

    def replay(self, several: Iterable[Inputs]) -> None:
        """Call the law on each of several inputs; those out of its domain are passed over."""
        for inputs in several:
            try:
                self.call(inputs)
            except OutOfDomain:
                continue

    def begin_with(self, witness: str) -> None:
        """Call the law on its witness; if the law holds there, no way is known any more.

        If it needs more devices than there are, or an option that is not claimed, it cannot be
        tried, and the ways stay known.

        Raises:
          AssertionError: The witness breaks the law in a way that is not known.
        """
        known, self.known = self.known, frozenset()
        try:
            self.replay([parse_call(witness)[1]])
        except AssertionError:
            ((found, error),) = self.ways.values()
            if known and not is_among(found.way, known, self.function):
                self.begun_in_another_way = True
                raise
            self.known, self.expected = known or frozenset({found.way}), (found, error)
            self.ways.clear()
        if self.beyond:  # of the witness: nothing else was tried so far
            self.known, self.witness_untried = known, self.beyond
        self.held.clear()


def prepared(law: Law, implementation: Implementation, setting: Setting = ALONE) -> Attempt:
    """A law with everything that its calls need, before any call.

    Args:
      law: The law.
      implementation: The implementation under judgment, which claims the law's capabilities.
      setting: What the laws of a run are tried with.

    Returns:
      The attempt: the law, the builder of its inputs, its fixtures, and no results yet.
    """
    subject = setting.subject or SUBJECTS[law.subject or PARTITIONED](implementation)
    builder = Builder(
        implementation.meta,
        subject.make,
        implementation.nnx,
        implementation.linen,
        owned=subject.owned,
    )
    fixtures = law.arguments(implementation, subject, setting.unasserted)
    function = hypothesis_parts.written(law.function)
    leaving.remember(function)
    spaces = (fixtures.get(name, getattr(implementation, name)) for name in CAPABILITIES)
    return Attempt(law.name, function, builder, fixtures, (implementation, *spaces), setting)


def mixed(broken_by: Inputs, inputs: Inputs, *, owned: bool = False) -> Iterator[Inputs]:
    """A call that breaks one law, with parts of the inputs of another in the place of its own.

    Args:
      broken_by: The inputs that break the one law.
      inputs: Of the other law.
      owned: Whether one box class is judged for its owner, so that every box is of that class.

    Yields:
      The call with the inputs of the same names; then, for each description inside `inputs`, the
      call with that description in place of every input of its type. If the two laws share no name
      and no type, it yields no call, and no failure of the other follows from the one.
    """

    def kind(part: Any) -> type:
        return Box if owned and isinstance(part, Foreign) else type(part)

    same = {name: inputs.get(name, value) for name, value in broken_by.items()}
    if not broken_by.keys().isdisjoint(inputs):
        yield same
    for part in parts(list(inputs.values())):
        put = {
            name: Copies(part) if isinstance(value, Copies) else part
            for name, value in broken_by.items()
            if kind(value.of if isinstance(value, Copies) else value) is kind(part)
        }
        if put:
            yield {**same, **put}


def _from_keyboard(error: BaseException) -> bool:
    """Whether a `KeyboardInterrupt` may be the user's: a runner ignores the signal behind it."""
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    return issubclass(type(error), KeyboardInterrupt) and not ignored
