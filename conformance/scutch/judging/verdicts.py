"""One verdict for each requirement, from the trials of its laws.

A *trial* is one law, tried once in a run: it passed, failed, crashed the process or ran out of
time. A requirement's *verdict* follows from its trials, from whether the implementation claims
it, and from the *known failures*:

    passed      every law holds, and reached every input that gives it meaning
    failed      a law does not hold
    known       it fails as the known failures expect, and in no other way; or the input that is
                known to break it needs more devices than there are
    fixed       it is expected to fail, and does not: the entry must go
    blocked     a law fails, but not on inputs on which a failed requirement that it needs holds;
                or it fails with the error of another requirement at the same place
    unclaimed   the implementation does not claim it, or it cannot be tried: the JAX at hand lacks
                a feature, there are too few devices, or the suite has no law for it yet
    untested    no input that gives it meaning came up
    crashed     a law ended the process
    timeout     a law did not end
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from scutch.catalogue import Requirement
from scutch.catalogue.index import laws_of
from scutch.judging.trials import Counterexample, Trial

VERDICTS = (
    "passed",
    "failed",
    "known",
    "fixed",
    "blocked",
    "unclaimed",
    "untested",
    "crashed",
    "timeout",
)
GRAVITY = (
    "crashed",
    "timeout",
    "failed",
    "blocked",
    "fixed",
    "untested",
    "known",
    "passed",
    "unclaimed",
)
"""The verdicts, gravest first: the first counts of several older requirements that became one, and
of the requirements of a group."""

CONFORMING = frozenset({"passed", "known", "unclaimed"})
FIXED_UPSTREAM = "fails in what it descends from, and passes here"
ROOTS = frozenset({"failed", "crashed", "timeout"})
FAULTS = ROOTS | {"fixed"}
"""Verdicts that keep a run from conforming as causes of their own: not `blocked` or `untested`."""


@dataclass(frozen=True)
class Ruling:
    """The verdict on one requirement, with the trials and the reason behind it.

    Args:
      requirement: The row of the catalogue.
      verdict: One of `VERDICTS`.
      trials: Of its laws.
      blocked_by: Identifiers of the failed requirements that it follows from.
      reason: Why it is not `passed`.
      upstream: Address of the issue of a known failure.
    """

    requirement: Requirement
    verdict: str
    trials: tuple[Trial, ...] = ()
    blocked_by: tuple[str, ...] = ()
    reason: str | None = None
    upstream: str | None = None

    @property
    def id(self) -> str:
        """Of the requirement."""
        return self.requirement.id

    @property
    def level(self) -> str:
        """Of the requirement."""
        return self.requirement.level

    @property
    def counterexample(self) -> Counterexample | None:
        """The counterexample of the first law that has one, known failures last."""
        return next(iter(self._broken), None)

    @property
    def also(self) -> tuple[Counterexample, ...]:
        """The other ways in which the requirement was broken, by all its laws.

        Each has another input, error or place: a way that differs in the line of a law is left out.
        """
        first = {(c.input, c.error, c.place): c for c in reversed(self._broken)}
        return tuple(c for c in self._broken[1:] if first[c.input, c.error, c.place] is c)

    @property
    def _broken(self) -> tuple[Counterexample, ...]:
        ordered = sorted(self.trials, key=lambda trial: trial.broke)
        return tuple(found for t in ordered for found in (t.counterexample, *t.also) if found)

    @property
    def untried(self) -> bool:
        """Whether it has no verdict because the judge could not do its part."""
        return self.verdict == "untested" and any(t.outcome == "untried" for t in self.trials)

    @property
    def conforms(self) -> bool:
        """Whether a run with this ruling may exit with 0, were the requirement a must."""
        return self.verdict in CONFORMING


@dataclass(frozen=True)
class Expectation:
    """A known failure, as far as verdicts are concerned.

    Args:
      requirement: The identifier that fails.
      witness: The call that breaks it.
      reason: Why the implementation departs.
      upstream: Address of an issue, if there is one.
      inherited: Whether it is one of the implementation that the judged one descends from. If the
        law holds, that is `passed`, not `fixed`.
    """

    requirement: str
    witness: str
    reason: str
    upstream: str | None = None
    inherited: bool = False


Retry = Callable[[Trial, Sequence[Trial]], Trial | None]
"""Tries a broken law again, on inputs that do not break some other broken laws; returns the new
trial, or `None` where the law cannot be tried again."""


def _no_retry(broken: Trial, needed: Sequence[Trial]) -> None:
    """None, because no law can be tried again."""


def rule(
    requirements: Iterable[Requirement],
    trials: Iterable[Trial],
    *,
    claims: Sequence[str],
    expectations: Iterable[Expectation] = (),
    tolerated: Mapping[str, str] = MappingProxyType({}),
    retry: Retry = _no_retry,
) -> tuple[Ruling, ...]:
    """The ruling on each requirement, in order.

    Args:
      requirements: The requirements that were to be judged.
      trials: The trial of every law that ran.
      claims: Capabilities of the implementation.
      expectations: Its known failures.
      tolerated: Requirements that it is expected to break in whatever way, with the reason.
      retry: Tries a broken law on inputs on which other broken laws hold; needed to call a failure
        a consequence.

    Returns:
      As many rulings as there are requirements.
    """
    trials, expectations = tuple(trials), tuple(expectations)
    rulings = [
        _rule_one(
            row,
            tuple(trial for trial in trials if trial.requirement == row.id),
            claims,
            [known for known in expectations if known.requirement == row.id],
        )
        for row in requirements
    ]
    return _blocked([_tolerated(r, tolerated.get(r.requirement.id)) for r in rulings], retry)


def _tolerated(ruling: Ruling, reason: str | None) -> Ruling:
    """An expected failure as `known`, and as `fixed` if the requirement passed."""
    verdicts = {"failed": "known", "passed": "fixed"}
    if reason is None or ruling.verdict not in verdicts:
        return ruling
    return replace(ruling, verdict=verdicts[ruling.verdict], reason=reason)


def _rule_one(
    requirement: Requirement,
    trials: tuple[Trial, ...],
    claims: Sequence[str],
    known: Sequence[Expectation],
) -> Ruling:
    reason = upstream = None
    unclaimed = [c for c in requirement.capabilities if c not in claims]
    outcomes = [t.outcome for t in trials if not t.broke]
    tried = [t for t in trials if t.outcome != "skipped"]
    skipped = "; ".join(dict.fromkeys(t.reason or "skipped" for t in trials if t not in tried))
    unmet = [name for t in tried for name in t.unmet]
    beyond = dict.fromkeys(t.witness_untried for t in trials if t.witness_untried and not t.broke)
    held = [
        t.expected
        for t in trials
        if t in tried and t.expected and not t.broke and not t.witness_untried
    ]
    inherited = {e.witness for e in known if e.inherited}
    untried = [t for t in tried if t.beyond and (t.unmet or not t.examples)]
    if unclaimed:
        verdict, reason = "unclaimed", f"does not claim {', '.join(unclaimed)}"
    elif not trials and not laws_of(requirement.id):
        verdict, reason = "unclaimed", "the suite has no law for it yet"
    elif not trials:
        verdict, reason = "untested", "no law tried it"
    elif bad := next((o for o in ("crashed", "timeout", "failed") if o in outcomes), None):
        verdict = bad
        reason = next(t.reason for t in trials if t.outcome == bad and not t.broke)
    elif any(t.outcome == "untried" for t in trials):
        verdict = "untested"
        reason = next(t.reason for t in trials if t.outcome == "untried")
    elif fixed := [w for w in held if w not in inherited]:
        verdict, reason = "fixed", f"expected to fail, and passes: {'; '.join(fixed)}"
    elif beyond or any(t.broke for t in trials):
        verdict = "known"
        reasons = (
            *dict.fromkeys(e.reason for e in known),
            *(f"not tried: {why}" for why in beyond),
        )
        reason = "; ".join(reasons).replace(".; ", "; ")
        upstream = next((e.upstream for e in known if e.upstream), None)
    elif not tried:
        verdict, reason = "unclaimed", skipped
    elif few := "; ".join(dict.fromkeys(t.beyond for t in untried)):
        verdict, reason = "unclaimed", few
    elif not all(t.examples for t in tried):
        verdict, reason = "untested", "no input was in its domain"
    elif unmet:
        verdict, reason = "untested", f"never came up: {', '.join(unmet)}"
    else:
        verdict, reason = "passed", FIXED_UPSTREAM if held else skipped or None
    return Ruling(requirement, verdict, trials, reason=reason, upstream=upstream)


def left_out(ruling: Ruling) -> tuple[str, ...]:
    """The laws of a requirement that were not tried, as where `-k` has chosen some of them.

    Args:
      ruling: On the requirement; where that is unclaimed, no law is left out.
    """
    tried = {trial.test.partition("[")[0] for trial in ruling.trials}
    every = [law.partition("::")[2] for law in laws_of(ruling.requirement.id)]
    return () if ruling.verdict == "unclaimed" else tuple(n for n in every if n not in tried)


def of_all_laws(ruling: Ruling) -> Ruling:
    """The ruling, as `untested` if it holds for some laws of the requirement, and others are left.

    Args:
      ruling: Of a run that was to try every law of the requirement.
    """
    left = left_out(ruling)
    if not left or ruling.verdict not in ("passed", "known", "fixed"):
        return ruling
    return replace(ruling, verdict="untested", reason=f"not tried: {', '.join(left)}")


def _blocked(rulings: Sequence[Ruling], retry: Retry) -> tuple[Ruling, ...]:
    """Turn failures that were shown to follow from others into `blocked`, naming the roots."""
    given = {r.requirement.id: r for r in rulings}
    decided: dict[str, Ruling] = {}

    def decide(ruling: Ruling) -> Ruling:
        row = ruling.requirement
        if row.id not in decided:
            needed = broken(row) if ruling.verdict == "failed" else []
            needed = [n for n in needed if row.level == "should" or n.requirement.level == "must"]
            decided[row.id] = _consequence(ruling, needed, retry) if needed else ruling
        return decided[row.id]

    def broken(row: Requirement) -> list[Ruling]:
        """The rulings on failed needs of a row; for a need that did not fail, on its own needs."""
        found: dict[str, Ruling] = {}
        for need in (given[each] for each in row.needs if each in given):
            fell = need.verdict in ROOTS
            for each in [decide(need)] if fell else broken(need.requirement):
                found[each.requirement.id] = each
        return list(found.values())

    return tuple(map(decide, rulings))


def _consequence(ruling: Ruling, needed: Sequence[Ruling], retry: Retry) -> Ruling:
    """A failure as `blocked`, if no input breaks its laws on which the laws in `needed` hold.

    Else it stays `failed`, with a counterexample on which those laws hold, if `retry` gave one.
    """
    others = [
        t
        for n in needed
        for t in n.trials
        if _failed(t) and t.counterexample is not None and t.counterexample.input
    ]
    trials = list(ruling.trials)
    shown = bool(others)
    for place, trial in enumerate(trials):
        again = retry(trial, others) if _failed(trial) and others else None
        if again is not None and again.counterexample is not None and not again.broke:
            also = tuple(c for c in (trial.counterexample, *trial.also) if c is not None)
            trials[place] = replace(
                trial,
                counterexample=again.counterexample,
                reason=again.reason,
                also=also,
                error=again.error or trial.error,
            )
        held = again is not None and (again.outcome == "passed" or again.broke)
        shown &= held or not _failed(trial)
    if not shown:
        return replace(ruling, trials=tuple(trials))
    roots = tuple(dict.fromkeys(r for n in needed for r in n.blocked_by or (n.requirement.id,)))
    reason = f"follows from {', '.join(roots)}: no input breaks it on which that holds"
    return replace(ruling, verdict="blocked", blocked_by=roots, reason=reason)


def _failed(trial: Trial) -> bool:
    """Whether a law failed, and not as it is known to."""
    return trial.outcome == "failed" and not trial.broke


@dataclass(frozen=True)
class Summary:
    """The counts of verdicts in a run, and its root causes.

    Args:
      counts: Requirements by verdict, for each level.
      roots: The root causes: requirements that neither conform nor follow from another.
      untested: Requirements whose verdict is `untested`; none of them is a root cause.
      tested: How many requirements a law was tried for, and not left as unclaimed.
    """

    counts: Mapping[str, Mapping[str, int]]
    roots: tuple[Ruling, ...]
    untested: tuple[Ruling, ...]
    tested: int


def summarize(rulings: Sequence[Ruling]) -> Summary:
    """The number of requirements with each verdict, and the root causes."""
    counts = {
        level: Counter(r.verdict for r in rulings if r.requirement.level == level)
        for level in dict.fromkeys(r.requirement.level for r in rulings)
    }
    return Summary(
        counts,
        roots=tuple(r for r in rulings if r.verdict in FAULTS),
        untested=tuple(r for r in rulings if r.verdict == "untested"),
        tested=sum(bool(r.trials) and r.verdict != "unclaimed" for r in rulings),
    )


def exit_code(rulings: Sequence[Ruling], *, level: str) -> int:
    """0 conforms, 1 does not, 2 nothing was tested, or the judge could not do its part.

    Args:
      rulings: Of every requirement that was asked for.
      level: `must`: departures from `should` are reported, not failed. `should`: they fail too.
    """
    untried = ("skipped", "untried", "passed")  # a law that passed on no input was not tried
    trials = [trial for ruling in rulings for trial in ruling.trials]
    if not any(t.examples or t.broke or t.outcome not in untried for t in trials):
        return 2
    enforced = [r for r in rulings if level == "should" or r.requirement.level == "must"]
    broken = [r for r in enforced if not r.conforms]
    if broken and all(r.untried for r in broken):
        return 2
    return int(bool(broken))
