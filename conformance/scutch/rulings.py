"""The rulings of a run, once its laws were tried.

found = with_retries(executor, run.requirements, trials, say=print)
found, complete = final(run, found, complete=True)
"""

import functools
import time
from collections.abc import Callable, Sequence

from scutch.catalogue import Requirement
from scutch.judging import changed
from scutch.judging.executor import Executor
from scutch.judging.faults import of_one_fault
from scutch.judging.run import Run
from scutch.judging.trials import Trial
from scutch.judging.verdicts import Retry, Ruling, left_out, of_all_laws, rule
from scutch.report.text import count, publish

RETRYING = 60.0
"""Seconds after the last law in which broken laws are tried again, all together at most."""


def ruled(
    run: Run, rows: Sequence[Requirement], trials: Sequence[Trial], retry: Retry = lambda *_: None
) -> tuple[Ruling, ...]:
    """The rulings on requirements, as `verdicts.rule` gives them for a run.

    Args:
      run: The run.
      rows: The requirements.
      trials: The trials of their laws.
      retry: Tries a broken law again where others hold; none is tried again where left out.

    Returns:
      A ruling for each requirement, in order.
    """
    return rule(rows, trials, claims=run.claims, expectations=run.expectations, retry=retry)


def with_retries(
    executor: Executor,
    own: Sequence[Requirement],
    trials: Sequence[Trial],
    *,
    say: Callable[[str], None],
) -> tuple[Ruling, ...]:
    """The rulings on requirements, once broken laws were tried again where others hold.

    Args:
      executor: Tries the laws.
      own: The requirements that the run judges.
      trials: The trials of the run.
      say: Prints a line.

    Returns:
      As many rulings. A law that was not tried again within `RETRYING` keeps its failure.
    """
    others = needed_elsewhere(executor.run, trials)
    rows = [*own, *others]
    trials = [*trials, *(t for r in others for t in executor.tried_for(r))]
    wanted: list[Trial] = []

    def count_only(broken: Trial, needed: Sequence[Trial]) -> None:
        if not executor.law_named(broken.test).in_job:
            wanted.append(broken)

    rulings = ruled(executor.run, rows, trials, count_only)
    if wanted:
        say(f"trying again {count(len(wanted), 'broken law')} where what they need holds")
        until = time.monotonic() + RETRYING
        retry = functools.partial(executor.retry, until=until)
        rulings = ruled(executor.run, rows, trials, retry)
        if time.monotonic() > until:
            say(f"no more are tried again after {RETRYING:g} s; the others stay failed")
    return rulings[: len(own)]


def needed_elsewhere(run: Run, trials: Sequence[Trial]) -> list[Requirement]:
    """The requirements of other shards that the broken ones of this shard build on.

    Whether a failure is a consequence depends on these, so the answer is the same in every
    division. None without shards.

    Args:
      run: The run.
      trials: Its trials.
    """
    if not run.shard:
        return []
    rows = {row.id: row for row in run.asked}
    broken = {t.requirement for t in trials if t.outcome == "failed" and not t.broke}
    found = dict.fromkeys(sorted(broken & rows.keys()))
    for name in list(found):
        reached = [name]
        for each in reached:  # which grows meanwhile
            reached += [n for n in rows[each].needs if n in rows and n not in reached]
        found |= dict.fromkeys(reached)
    own, claims = {row.id for row in run.requirements}, set(run.claims)
    return [
        rows[name]
        for name in found
        if name not in own and claims.issuperset(rows[name].capabilities)
    ]


def final(
    run: Run, rulings: tuple[Ruling, ...], *, complete: bool
) -> tuple[tuple[Ruling, ...], bool]:
    """The rulings that a run reports: those of laws that it has left out are untested.

    Args:
      run: The run.
      rulings: As `Run.weighed` gives them.
      complete: Whether every law was tried.

    Returns:
      The rulings, and whether the run has left no law of them out.
    """
    if run.until:
        rulings = tuple(ruling for ruling in rulings if not left_out(ruling))
    if not (run.replay or run.launched):
        complete &= not any(map(left_out, rulings))
        rulings = tuple(map(of_all_laws, rulings))
    return (rulings if run.shard else of_one_fault(rulings)), complete


def keep_calls(run: Run, rulings: Sequence[Ruling]) -> None:
    """Keep which functions the laws of each requirement have called, for later runs.

    Args:
      run: The run.
      rulings: Before those of laws that were left out are changed.

    Raises:
      OSError: They cannot be written.
    """
    calls: dict[str, list[str] | None] = {}
    for ruling in rulings:
        called = [name for trial in ruling.trials for name in trial.calls]
        seen = called or ruling.verdict == "unclaimed"  # the calls of a job are not noted
        held = seen and ruling.conforms and not left_out(ruling)
        calls[ruling.requirement.id] = called if held else None
    file, text = changed.noted(run.where, calls)
    publish(text, file)
