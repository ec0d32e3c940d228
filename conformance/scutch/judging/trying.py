"""The one driver of a law: `try_law`.

Strategies draw *descriptions* of inputs, not values. The driver notes the call that it is about to
make (in the *journal*, which outlives a crash), builds its inputs for the implementation, calls the
law, and keeps the last call that broke it: Hypothesis ends with the smallest one, so that is the
*counterexample*. The result is a `Trial`.

The plugin, `judge_box`, a replay and the trials of the judge all try laws through `try_law`:

    law = next(law for law in suite.laws() if law.requirement == "BOX-5")
    trial = try_law(law, implementation, examples=100)
    trial.outcome, trial.counterexample
"""

import json
import signal
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from scutch.implementation import Implementation
from scutch.inputs.calls import parse_call
from scutch.inputs.descriptions import Box, Builder, Copies, Foreign, build, parts
from scutch.inputs.subjects import PARTITIONED, SUBJECTS, Subject
from scutch.judging import costs, hypothesis_parts, leaving
from scutch.judging.exchange import Exchange
from scutch.judging.hypothesis_parts import Diverted, describe
from scutch.judging.profiles import PROFILES
from scutch.judging.suite import Law
from scutch.judging.verdicts import Counterexample, Retry, Trial
from scutch.judging.ways import is_among, place, way
from scutch.lawkit import marks
from scutch.lawkit.agreement import comparing
from scutch.lawkit.domain import NotAvailable, OutOfDomain, TooFewDevices, Untried
from scutch.namespaces import CAPABILITIES, Unclaimed, UnclaimedOption

Inputs = Mapping[str, Any]
NOT_TRIED = (NotAvailable, Unclaimed)
"""A law that is left by one of these is skipped, and its requirement is unclaimed."""

ANOTHER_WAY = "it is known to fail, but not so"


def no_journal(call: str) -> None:
    """Keep no note of a call."""


def call_text(name: str, inputs: Inputs) -> str:
    """The call of a law as `inputs.calls.parse_call` reads it.

    Args:
      name: Of the law.
      inputs: Descriptions by name.
    """
    return f"{name}({', '.join(f'{each}={value!r}' for each, value in inputs.items())})"


ROUNDS = 12
"""How often a law is searched at most, each time with another seed, until it was tried on every
input that its mark lists, or until as many inputs were passed over for want of an option as are to
be tried. All searches but the first end with the input that was missing. A law is searched once
where another law, which is broken, may forbid such inputs."""
FEWEST = PROFILES["quick"].examples
"""A search of fewer inputs, as the trials and `ci/mutants` make, is not repeated."""


def try_law(
    law: Law,
    implementation: Implementation,
    *,
    examples: int,
    seed: int = 0,
    subject: Subject | None = None,
    unasserted: Callable[..., Any] | None = None,
    witness: str | None = None,
    known: Collection[str] = (),
    replay: Iterable[Inputs] | None = None,
    first: Iterable[Inputs] = (),
    shrink: bool = True,
    journal: Callable[[str], None] = no_journal,
    exchange: Exchange | None = None,
    unless: Iterable[tuple[Law, str]] = (),
    by_traces: bool = True,
) -> Trial:
    """Try one law on an implementation.

    Nothing that the implementation raises ends the trial as anything but a failure.

    Args:
      law: The law.
      implementation: The implementation under judgment, which claims the law's capabilities.
      examples: On how many inputs a law of ordinary cost is tried, at least 1.
      seed: Of the search.
      subject: The box class that is tried, where it is not the implementation's own.
      unasserted: Removes axes in a process without assertions; needed by laws that take it.
      witness: A call that is known to break the law. It is tried first, alone.
      known: The ways, as `ways.way` has them, in which the law is known to break. Inputs that break
        it in a known way are passed over; if no input breaks it in another way, `Trial.broke` is
        true. If there is a witness and no way, the known way is the one in which the witness breaks
        the law. If the law holds on the witness, no way is known, so every failure is a new one. If
        the witness needs more devices than there are, the ways stay known.
      replay: Inputs to try, one after the other, instead of drawing any.
      first: Inputs to try before any is drawn; where one breaks the law, none is drawn.
      shrink: Whether a broken law is broken again by smaller inputs.
      journal: Told the text of each call before it is made; once the law is broken, with a null
        character and the last counterexample as JSON after it.
      exchange: In process 0 of a job: lets every process of it try each input at the same time.
      unless: Other laws, each with a call that breaks it. An input is out of domain if the call,
        with parts of the input put into it (see `mixed`), still breaks the other law.
      by_traces: Whether a law that compares two routes may take equal traces for agreement.

    Returns:
      The trial, with the exception that broke the law as its `error`.

    Raises:
      KeyboardInterrupt: Somebody pressed Ctrl-C.
    """
    attempt = prepared(law, implementation, unasserted, subject)
    attempt.journal, attempt.exchange = journal, exchange
    attempt.known = frozenset(known)
    for other, call in unless:
        named = parse_call(call)[1]
        attempt.unless.append((prepared(other, implementation, unasserted, subject), named))
    meter, started, error = costs.Meter(), time.perf_counter(), None
    with (
        warnings.catch_warnings(), marks.noting_reached() as reached,
        comparing(by_traces=by_traces, seed=seed),
    ):  # fmt: skip
        warnings.simplefilter("ignore")

        def was_tried_on_all() -> bool:
            return reached.issuperset(law.must_reach) and not attempt.ways

        def was_passed_over() -> bool:
            return attempt.passed_over >= examples and not attempt.ways

        def is_enough() -> bool:
            return was_tried_on_all() or was_passed_over()

        try:
            for option in law.options:
                implementation.need(option)
            if replay is not None:
                attempt.replay(replay)
            else:
                if witness is not None:
                    attempt.begin_with(witness)
                attempt.replay(first)
                once = examples < FEWEST or attempt.unless
                for number in range(1 if once else ROUNDS):
                    hypothesis_parts.search(
                        law.function, attempt.call, fixtures=attempt.fixtures,
                        examples=examples, seed=seed + number, shrink=shrink,
                        enough=is_enough if number else was_passed_over,
                    )  # fmt: skip
                    if is_enough():
                        break
        except KeyboardInterrupt:
            raise
        except BaseException as raised:
            error = raised
    ways = sorted(attempt.ways.values(), key=lambda way: _gravity(*way))
    found = ways[0][0] if ways else None
    if ways and not hypothesis_parts.is_flaky(error):
        error = ways[0][1]  # a later error does not undo the counterexample
    also = [way[0] for way in ways[1:]]
    left = error is None or issubclass(type(error), NOT_TRIED)
    if broke := attempt.expected is not None and left:
        found, error = attempt.expected
    elif attempt.expected is not None:
        also.append(attempt.expected[0])
    outcome = "passed" if error is None else "failed"
    reason = None if error is None else found.error if found else describe(error)
    if error is not None and issubclass(type(error), NOT_TRIED):
        outcome, reason = "skipped", error.reason  # type: ignore[attr-defined]
        outcome = "untried" if isinstance(error, Untried) else outcome
    elif reason is not None and found is None:
        found = Counterexample(law.name, "", reason)
    if (attempt.expected is not None and not broke) or attempt.begun_in_another_way:
        reason = f"{ANOTHER_WAY}: {reason}"
    return Trial(
        law.name, law.requirement, outcome, len(attempt.held),
        time.perf_counter() - started,
        () if replay is not None else tuple(n for n in law.must_reach if n not in reached),
        expected=witness, broke=broke, counterexample=found, also=tuple(also),
        reason=reason, error=error, beyond=attempt.beyond,
        witness_untried=attempt.witness_untried, cost=meter.cost(),
    )  # fmt: skip


@dataclass
class Attempt:
    """The calls of one law in one trial, and their results.

    Args:
      name: Of the law.
      function: The law, below `@given`.
      builder: Builds its inputs from their descriptions.
      fixtures: Its arguments that are not drawn, by name.
      claimed: The implementation, and its namespaces.
      journal: Told the text of each call before it is made, and `noted`.
      noted: The last counterexample as JSON, after a null character; empty if there is none.
      exchange: In process 0 of a job, as in `try_law`.
      held: The calls on which the law held.
      ways: By type of error and place, the last counterexample, with its exception.
      classes: The class of errors that Hypothesis is shown for each of `ways`.
      unless: Other laws, each with inputs that break it.
      known: The ways in which it is known to break.
      expected: The first counterexample in one of these ways, with its exception.
      begun_in_another_way: Whether its witness breaks it in a way that is not known.
      beyond: Why an input was not tried, where that was for want of devices or of an option.
      passed_over: How many inputs were not tried for want of an option.
      witness_untried: Why its witness was not tried, likewise.
    """

    name: str
    function: Callable[..., Any]
    builder: Builder
    fixtures: Inputs
    claimed: tuple[Any, ...] = ()
    journal: Callable[[str], None] = no_journal
    noted: str = ""
    exchange: Exchange | None = None
    held: set[str] = field(default_factory=set)
    ways: dict[Any, tuple[Counterexample, BaseException]] = field(default_factory=dict)
    classes: dict[Any, type[AssertionError]] = field(default_factory=dict)
    unless: list[tuple["Attempt", Inputs]] = field(default_factory=list)
    known: frozenset[str] = frozenset()
    expected: tuple[Counterexample, BaseException] | None = None
    begun_in_another_way: bool = False
    beyond: str = ""
    passed_over: int = 0
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
        self.journal(text + self.noted)
        try:
            if self.exchange is None:
                self.try_here(inputs)
            else:
                self.exchange.together(text, lambda: self.try_here(inputs))
        except BaseException as raised:
            if self.is_left_by(raised):
                if isinstance(raised, TooFewDevices | UnclaimedOption):
                    self.beyond = str(raised)
                if isinstance(raised, UnclaimedOption):
                    self.passed_over += 1
                    raise OutOfDomain from raised
                raise
            if _from_keyboard(raised):
                raise
            error = raised
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
        ends_job = self.exchange is not None and self.exchange.is_broken
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
        since = Attempt.try_here.__code__
        return leaving.is_left(error, since, self.function, self.claimed)

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


def prepared(
    law: Law, implementation: Implementation, unasserted: Any, subject: Subject | None = None
) -> Attempt:
    """A law with everything that its calls need, before any call.

    Args:
      law: The law.
      implementation: The implementation under judgment, which claims the law's capabilities.
      unasserted: Removes axes in a process without assertions; needed by laws that take it.
      subject: As in `try_law`.

    Returns:
      The attempt: the law, the builder of its inputs, its fixtures, and no results yet.
    """
    subject = subject or SUBJECTS[law.subject or PARTITIONED](implementation)
    builder = Builder(
        implementation.meta, subject.make, implementation.nnx, implementation.linen,
        owned=subject.owned,
    )  # fmt: skip
    fixtures = law.arguments(implementation, subject, unasserted)
    function = hypothesis_parts.written(law.function)
    leaving.remember(function)
    claimed = (implementation, *(getattr(implementation, name) for name in CAPABILITIES))
    return Attempt(law.name, function, builder, fixtures, claimed)


def retrying(laws: Iterable[Law], attempt: Callable[..., Trial]) -> Retry:
    """The `retry` of `verdicts.rule`: it tries a broken law again where others hold.

    Args:
      laws: All that were tried.
      attempt: `try_law` with everything but the law and `unless`.

    Returns:
      A function of the trial of the broken law, and the trials of the others.
    """
    by_name = {law.name: law for law in laws}

    def retry(broken: Trial, needed: Sequence[Trial]) -> Trial:
        return attempt(
            by_name[broken.test],
            unless=[(by_name[t.test], t.counterexample.input) for t in needed if t.counterexample],
        )

    return retry


def _gravity(found: Counterexample, error: BaseException) -> int:
    """Sorts ways to break a law: a wrong result, an error, a word that a message lacks."""
    if not issubclass(type(error), AssertionError):
        return 1
    return 2 if "does not mention" in found.error else 0


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
