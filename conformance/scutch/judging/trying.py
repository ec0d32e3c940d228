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

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from scutch.engine.agreement import comparing
from scutch.implementation import Implementation
from scutch.judging import costs, hypothesis_parts
from scutch.judging.attempt import ALONE, Attempt, Inputs, Setting, prepared
from scutch.judging.calls import parse_call
from scutch.judging.hypothesis_parts import describe
from scutch.judging.known import NOTHING, Expected
from scutch.judging.profiles import PROFILES
from scutch.judging.suite import Law
from scutch.judging.trials import Counterexample, Trial
from scutch.judging.verdicts import Retry
from scutch.lawkit import marks
from scutch.lawkit.domain import NotAvailable, Untried
from scutch.namespaces import Unclaimed

NOT_TRIED = (NotAvailable, Unclaimed)
"""A law that is left by one of these is skipped, and its requirement is unclaimed."""

ANOTHER_WAY = "it is known to fail, but not so"


ROUNDS = 12
"""How often a law is searched at most, each time with another seed, until it was tried on every
input that its mark lists, or until as many inputs were passed over for want of an option as are to
be tried. All searches but the first end with the input that was missing. A law is searched once
where another law, which is broken, may forbid such inputs."""
MOST_TURNED_AWAY = 10
"""A law is not searched again once so many times as many inputs as are to be tried were out of
domain: where a class refuses most values, the missing input may be one that it cannot hold."""
FEWEST = PROFILES["quick"].examples
"""A search of fewer inputs, as the trials and `ci/mutants` make, is not repeated."""


def try_law(
    law: Law,
    implementation: Implementation,
    *,
    examples: int,
    seed: int = 0,
    shrink: bool = True,
    known: Expected = NOTHING,
    first: Iterable[Inputs] = (),
    replay: Iterable[Inputs] | None = None,
    unless: Iterable[tuple[Law, str]] = (),
    setting: Setting = ALONE,
) -> Trial:
    """Try one law on an implementation.

    Nothing that the implementation raises ends the trial as anything but a failure.

    Args:
      law: The law.
      implementation: The implementation under judgment, which claims the law's capabilities.
      examples: On how many inputs a law of ordinary cost is tried, at least 1.
      seed: Of the search.
      shrink: Whether a broken law is broken again by smaller inputs.
      known: How the law is known to break.
      first: Inputs to try before any is drawn; where one breaks the law, none is drawn.
      replay: Inputs to try, one after the other, instead of drawing any.
      unless: Other laws, each with a call that breaks it. An input is out of domain if the call,
        with parts of the input put into it (see `mixed`), still breaks the other law.
      setting: What the laws of a run have in common.

    Returns:
      The trial, with the exception that broke the law as its `error`.

    Raises:
      KeyboardInterrupt: Somebody pressed Ctrl-C.
    """
    attempt = prepared(law, implementation, setting)
    attempt.known = frozenset(known.ways)
    for other, call in unless:
        attempt.unless.append((prepared(other, implementation, setting), parse_call(call)[1]))
    meter, started, error = costs.Meter(), time.perf_counter(), None
    with (
        warnings.catch_warnings(),
        marks.noting_reached() as reached,
        comparing(by_traces=setting.by_traces, seed=seed),
    ):
        warnings.simplefilter("ignore")
        try:
            for option in law.options:
                implementation.need(option)
            if replay is not None:
                attempt.replay(replay)
            else:
                if known.witness is not None:
                    attempt.begin_with(known.witness)
                attempt.replay(first)
                _search(law, attempt, reached, examples=examples, seed=seed, shrink=shrink)
        except KeyboardInterrupt:
            raise
        except BaseException as raised:
            error = raised
    trial = Trial(
        law.name,
        law.requirement,
        "passed",
        len(attempt.held),
        time.perf_counter() - started,
        () if replay is not None else tuple(n for n in law.must_reach if n not in reached),
        expected=known.witness,
        beyond=attempt.beyond,
        witness_untried=attempt.witness_untried,
        cost=meter.cost(),
    )
    return _with_result(trial, attempt, error)


def _search(
    law: Law, attempt: Attempt, reached: set[str], *, examples: int, seed: int, shrink: bool
) -> None:
    """Draw inputs until there were enough, in as many searches as that takes."""

    def was_passed_over() -> bool:
        return attempt.passed_over >= examples and not attempt.ways

    def is_enough() -> bool:
        reached_all = reached.issuperset(law.must_reach) and not attempt.ways
        turned_away = attempt.turned_away >= MOST_TURNED_AWAY * examples
        return reached_all or turned_away or was_passed_over()

    once = examples < FEWEST or attempt.unless
    for number in range(1 if once else ROUNDS):
        hypothesis_parts.search(
            law.function,
            attempt.call,
            fixtures=attempt.fixtures,
            examples=examples,
            seed=seed + number,
            shrink=shrink,
            enough=is_enough if number else was_passed_over,
        )
        if is_enough():
            break


def _with_result(trial: Trial, attempt: Attempt, error: BaseException | None) -> Trial:
    """The trial with its outcome, its counterexample, and the reason.

    Args:
      trial: As of a law that holds.
      attempt: The calls that were made.
      error: The error that ended the search.
    """
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
        found = Counterexample(trial.test, "", reason)
    if (attempt.expected is not None and not broke) or attempt.begun_in_another_way:
        reason = f"{ANOTHER_WAY}: {reason}"
    return replace(
        trial,
        outcome=outcome,
        broke=broke,
        counterexample=found,
        also=tuple(also),
        reason=reason,
        error=error,
    )


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
