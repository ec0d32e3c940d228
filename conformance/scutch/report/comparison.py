"""What changed between two reports, and whether it is a regression.

A verdict has one of four standings:

- it *holds*: `passed`, and `fixed`, which passes against expectation;
- it is *excused*: `known`;
- it is *broken*: `failed`, `crashed`, `timeout`;
- it is *open*: `blocked`, `unclaimed`, `untested`.

**A regression is something that the old report vouched for and the new one does not**:

- a law that held and does not any more, whatever became of it. Excusing it does not make it hold
  (`allow_known` takes the excuse); neither does dropping the claim or ceasing to test it. If the
  law is blocked by another regression, it is listed as its consequence and not counted again;
- a known failure that is broken in a way nobody expected (`known` to a broken verdict);
- a new report that is not complete.

Only what both runs were asked for is compared: a requirement that one report does not have, because
the run was over a selection or the catalogue has changed, is listed and is no regression.

What was broken or open and is still one of the two is never a regression, so a gate made of this
comparison can guard an implementation that has far to go. What is still
broken but by another input or error is listed, because another fault may hide behind it.

Regressions of a should are listed, and count only when the level asked for is should.
"""

from dataclasses import dataclass
from typing import Final

from scutch.catalogue import in_order
from scutch.judging.verdicts import ROOTS
from scutch.report.document import Outcome, Report
from scutch.report.text import count, line

HOLDS: Final = ("passed", "fixed")


@dataclass(frozen=True)
class Change:
    """One requirement whose verdict or level is not what it was.

    Args:
      old: Its outcome in the old report; `None` if it is not in it.
      new: Its outcome in the new report; `None` if it is not in it.
    """

    old: Outcome | None
    new: Outcome | None

    @property
    def latest(self) -> Outcome:
        """The newer of the two that is there.

        Raises:
          ValueError: Neither is.
        """
        outcome = self.new or self.old
        if outcome is None:
            raise ValueError("a change needs an old or a new outcome, and has neither")
        return outcome

    @property
    def level(self) -> str:
        """Must if either report says so: a requirement is not excused by lowering its level."""
        levels = {one.level for one in (self.old, self.new) if one}
        return "must" if "must" in levels else "should"

    def __str__(self) -> str:
        """One line: id, level, what became of the verdict, title, and what it waits for."""
        old, new = (one.verdict if one else "absent" for one in (self.old, self.new))
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
      old: What is vouched for.
      new: What is to be accepted.
      regressions: What the old report vouched for and the new one does not.
      consequences: Regressions that wait for another one.
      improvements: What holds now and did not.
      added: Requirements that the old report does not have.
      gone: Requirements that the new report does not have.
      witnesses: What is broken as before, by another input or with another error.
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

    def text(self, level: str = "must") -> str:
        """The comparison for people: both runs, the groups, and a last line that sums up."""
        lines = [f"old: {_facts(self.old)}", f"new: {_facts(self.new)}"]
        groups = {
            "Regressions": self.regressions,
            "Consequences of these regressions": self.consequences,
            "Improvements": self.improvements,
            "Only in the new report": self.added,
            "Only in the old report": self.gone,
            "Broken in another way": self.witnesses,
            "Other changes": self.other,
        }
        for title, changes in groups.items():
            if changes:
                lines += ["", f"{title} ({len(changes)}):", *(f"  {change}" for change in changes)]
        failures = len(self.failures(level))
        verdict = count(failures, "regression") if failures else "no regression"
        if spared := len(self.regressions) - failures:
            verdict += f" ({count(spared, 'regression')} of a should not counted)"
        if not self.new.complete:
            verdict += "; the new report is not complete, and that counts as one"
        elif not any(groups.values()):
            verdict += ", no change"
        return "\n".join([*lines, "", verdict])


def compare(old: Report, new: Report, *, allow_known: bool = False) -> Comparison:
    """Sort what changed from `old` to `new` into groups; the module says what a regression is.

    Args:
      old: What is vouched for: the last release, or the main branch.
      new: What is to be accepted.
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
