"""The changes between two reports, and which of them are regressions.

A verdict has one of four standings:

- it *holds*: `passed`, and `fixed`, which passes against expectation;
- it is *excused*: `known`;
- it is *broken*: `failed`, `crashed`, `timeout`;
- it is *open*: `blocked`, `unclaimed`, `untested`.

**A regression is one of three changes**:

- a requirement held and does not any more, whatever its new verdict. Excusing it does not make it
  hold (`allow_known` takes the excuse); neither does dropping the claim or ceasing to test it. If
  the requirement is blocked by another regression, it is listed as a consequence and not counted;
- a known failure is broken in a way nobody expected (`known` to a broken verdict);
- the new report is not complete.

Only requirements that both reports have are compared. A requirement that one report lacks, because
the run was over a selection or the catalogue has changed, is listed and is no regression.

A requirement that was broken or open, and is still one of the two, is never a regression. So a gate
made of this comparison can guard an implementation that has far to go. A requirement whose verdict
is the same but whose counterexample is another is listed, because another fault may hide behind it.

Regressions of a should are listed, and count only when the level asked for is should.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scutch.catalogue import in_order
from scutch.judging.verdicts import ROOTS
from scutch.report.document import Outcome, Report
from scutch.report.text import count, line

HOLDS: Final = ("passed", "fixed")
FEW: Final = 5
"""So many requirements that one report lacks are listed one by one."""


@dataclass(frozen=True)
class Change:
    """One requirement whose outcome in two reports differs, or that one of them lacks.

    Args:
      old: Its outcome in the old report; `None` if the report lacks it.
      new: Its outcome in the new report; `None` if the report lacks it.
    """

    old: Outcome | None
    new: Outcome | None

    @property
    def latest(self) -> Outcome:
        """The new outcome, or the old one if the new report lacks the requirement.

        Raises:
          ValueError: Both are `None`.
        """
        outcome = self.new or self.old
        if outcome is None:
            raise ValueError("a change needs an old or a new outcome, and has neither")
        return outcome

    @property
    def level(self) -> str:
        """`must` if it is a must in either report, so that lowering a level excuses nothing."""
        return "must" if "must" in {o.level for o in (self.old, self.new) if o} else "should"

    @property
    def verdicts(self) -> tuple[str, str]:
        """The old and the new verdict; `absent` from a report that lacks the requirement."""
        old, new = (one.verdict if one else "absent" for one in (self.old, self.new))
        return old, new

    def __str__(self) -> str:
        """One line: id, level, old and new verdict, title, and the requirements that block it."""
        old, new = self.verdicts
        step = old if old == new else f"{old} -> {new}"
        if self.old and self.new and self.old.level != self.new.level:
            step += f" ({self.old.level} -> {self.new.level})"
        text = f"{self.latest.id}  {self.level}  {step}  {line(self.latest.title)}"
        if self.new and self.new.blocked_by:
            text += f"  [needs {', '.join(self.new.blocked_by)}]"
        return text


@dataclass(frozen=True)
class Comparison:
    """The changes from one report to the next, each in exactly one group.

    Args:
      old: The report to compare with.
      new: The report to be accepted.
      regressions: Requirements that held and do not now, and known failures that are broken now.
      consequences: Regressions that are blocked by another one.
      improvements: Requirements that hold now and did not.
      added: Requirements that the old report lacks.
      gone: Requirements that the new report lacks.
      witnesses: Requirements with the same verdict but another counterexample.
      other: All other changes.
    """

    old: Report
    new: Report
    regressions: tuple[Change, ...]
    consequences: tuple[Change, ...]
    improvements: tuple[Change, ...]
    added: tuple[Change, ...]
    gone: tuple[Change, ...]
    witnesses: tuple[Change, ...]
    other: tuple[Change, ...]

    def failures(self, level: str = "must") -> tuple[Change, ...]:
        """The regressions that count at this level."""
        return tuple(one for one in self.regressions if level == "should" or one.level == "must")

    def regressed(self, level: str = "must") -> bool:
        """Whether a gate at this level must refuse the new report."""
        return bool(self.failures(level)) or not self.new.complete

    @property
    def groups(self) -> Mapping[str, tuple[Change, ...]]:
        """The groups that have changes, by their titles."""
        groups = {
            "Regressions": self.regressions,
            "Consequences of these regressions": self.consequences,
            "Improvements": self.improvements,
            "Only in the new report": self.added,
            "Only in the old report": self.gone,
            "Broken in another way": self.witnesses,
            "Other changes": self.other,
        }
        return {title: changes for title, changes in groups.items() if changes}

    def text(self, level: str = "must") -> str:
        """The comparison for people: both runs, the groups, and the verdict."""
        lines = [f"old: {_facts(self.old)}", f"new: {_facts(self.new)}"]
        for title, changes in self.groups.items():
            lines += ["", f"{title} ({len(changes)}):", *_listed(changes)]
        return "\n".join([*lines, "", self.verdict(level)])

    def verdict(self, level: str = "must") -> str:
        """The number of regressions at this level, in one line."""
        failures = len(self.failures(level))
        verdict = count(failures, "regression") if failures else "no regression"
        if spared := len(self.regressions) - failures:
            verdict += f" ({count(spared, 'regression')} of a should not counted)"
        if not self.new.complete:
            verdict += "; the new report is not complete, and that counts as one"
        elif not self.groups:
            verdict += ", no change"
        return verdict


def _listed(changes: Sequence[Change]) -> list[str]:
    """A line for each change.

    If one report lacks more than `FEW` requirements, those that are not broken are counted by group
    and verdict.
    """
    lines, counted = [], Counter[tuple[str, ...]]()
    for change in changes:
        both = change.old and change.new
        if both or len(changes) <= FEW or change.latest.verdict in ROOTS:
            lines.append(f"  {change}")
        else:
            counted[change.latest.group, *change.verdicts] += 1
    for (group, old, new), number in counted.items():
        lines.append(f"  {group}: {count(number, 'requirement')} {old} -> {new}")
    return lines


def compare(old: Report, new: Report, *, allow_known: bool = False) -> Comparison:
    """Sort the changes from `old` to `new` into groups; the module defines a regression.

    Args:
      old: The report to compare with, such as one of the last release or of the main branch.
      new: The report to be accepted.
      allow_known: Take a law that held and is now a known failure for no regression.

    Returns:
      Every change, in the order of the contract.
    """
    before, after = ({one.id: one for one in report.requirements} for report in (old, new))
    groups: dict[str, list[Change]] = {
        name: [] for name in Comparison.__dataclass_fields__ if name not in ("old", "new")
    }
    for identifier in in_order(before.keys() | after.keys()):
        change = Change(before.get(identifier), after.get(identifier))
        if group := _group(change, allow_known=allow_known):
            groups[group].append(change)
    _follow(groups["regressions"], groups["consequences"])
    return Comparison(old, new, **{name: tuple(members) for name, members in groups.items()})


def _group(change: Change, *, allow_known: bool) -> str | None:
    """The group of a change, with consequences still among the regressions; `None`: no change."""
    old, new = change.old, change.new
    if old is None:
        return "added"
    if new is None:
        return "gone"
    if (old.verdict, old.level) == (new.verdict, new.level):
        return None if old.counterexample == new.counterexample else "witnesses"
    if old.verdict in HOLDS:
        if new.verdict in HOLDS or (new.verdict == "known" and allow_known):
            return "other"
        return "regressions"
    if old.verdict == "known" and new.verdict in ROOTS:
        return "regressions"
    return "improvements" if new.verdict in HOLDS else "other"


def _follow(regressions: list[Change], consequences: list[Change]) -> None:
    """Move each regression that only waits for another one to the consequences."""
    causes = {change.latest.id for change in regressions if change.latest.verdict != "blocked"}
    while found := [
        change
        for change in regressions
        if change.latest.verdict == "blocked" and not causes.isdisjoint(change.latest.blocked_by)
    ]:
        consequences += found
        regressions[:] = [change for change in regressions if change not in found]
        causes |= {change.latest.id for change in found}


def _facts(report: Report) -> str:
    environment = report.environment
    facts = (
        f"{report.implementation}, {report.suite}, jax {environment.jax}, "
        f"python {environment.python}, {environment.platform} x {environment.devices}, "
        f"profile {report.profile}, seed {report.seed}"
    )
    return line(facts if report.complete else f"{facts}, not complete")
