"""Requirements by implementations, for the terminal table and the site.

A `Matrix` lines several reports up. Its rows are all requirements that any of them holds, in the
contract's order; a `Column` is one report with its headline. The headline counts root causes: a
requirement that is `blocked` fell with another one, and is not counted as one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from scutch.catalogue import about, groups, in_order
from scutch.judging.verdicts import CONFORMING, FAULTS, GRAVITY
from scutch.report.document import Outcome, Report
from scutch.report.text import count

MARKS: Final = {
    "passed": "✓",
    "failed": "✗",
    "known": "≈",
    "fixed": "↑",
    "blocked": "⊘",
    "unclaimed": "○",
    "untested": "?",
    "crashed": "‼",
    "timeout": "◷",
    "absent": "·",
}

MEANINGS: Final = {
    "passed": "The laws hold on every input tried.",
    "failed": "A law is broken.",
    "known": "A law is broken, as the known failures say.",
    "fixed": "Expected to fail, and passes: the entry among the known failures must go.",
    "blocked": "A law is broken, and only on inputs that also break what it needs, or just "
    "as another requirement is: with the same error at the same place.",
    "unclaimed": "The implementation does not claim this capability.",
    "untested": "Ran, but the inputs that make it meaningful never came up.",
    "crashed": "A law ended the process.",
    "timeout": "A law did not end in time.",
    "absent": "Not in this report.",
}


@dataclass(frozen=True)
class Column:
    """One report as a column of the table, beside other reports.

    Args:
      label: Names it; no other column has it.
      report: The report.
    """

    label: str
    report: Report

    @cached_property
    def outcomes(self) -> Mapping[str, Outcome]:
        """The outcomes of this report, by the id of the requirement."""
        return {outcome.id: outcome for outcome in self.report.requirements}

    def verdict(self, identifier: str) -> str:
        """The verdict on a requirement, or `absent`."""
        return self.outcomes[identifier].verdict if identifier in self.outcomes else "absent"

    @property
    def root_causes(self) -> tuple[Outcome, ...]:
        """The faults that keep the run from conforming and that do not follow from others."""
        return tuple(one for one in self.weighing("error") if one.verdict in FAULTS)

    @property
    def departures(self) -> tuple[Outcome, ...]:
        """Broken shoulds that do not follow from others, where the run does not ask for shoulds."""
        return tuple(one for one in self.weighing("warning") if one.verdict in FAULTS)

    def weighing(self, severity: str) -> tuple[Outcome, ...]:
        """The requirements of one `severity`, in the order of the report."""
        return tuple(one for one in self.report.requirements if self.severity(one) == severity)

    def severity(self, outcome: Outcome) -> str:
        """How grave an outcome is.

        Returns:
          `error` for a must that is broken, untested or unexpectedly passes, and `warning` for such
          a should; where the run asks for shoulds, these are errors, too. `note` for a known
          failure and for a blocked requirement. Nothing if it passed or is not claimed.
        """
        if outcome.verdict in ("known", "blocked"):
            return "note"
        if outcome.verdict in CONFORMING:
            return ""
        counts = outcome.level == "must" or self.report.level == "should"
        return "error" if counts else "warning"

    def tally(self, verdict: str) -> int:
        """How many requirements got this verdict."""
        return sum(one.verdict == verdict for one in self.report.requirements)

    def claimed(self, level: str) -> int:
        """How many requirements of a level the implementation claims to meet."""
        return sum(
            one.level == level and one.verdict != "unclaimed" for one in self.report.requirements
        )

    def passed(self, level: str) -> int:
        """How many requirements of a level are `passed` or `fixed`."""
        return sum(
            one.level == level and one.verdict in ("passed", "fixed")
            for one in self.report.requirements
        )

    @property
    def headline(self) -> str:
        """The run in one line: how many requirements hold, root causes, and other verdicts."""
        parts = [f"{self.passed('must')} of {self.claimed('must')} must"]
        if self.claimed("should"):
            parts.append(f"{self.passed('should')} of {self.claimed('should')} should")
        parts.append(count(len(self.root_causes), "root cause"))
        if self.departures:
            parts.append(f"departs from {len(self.departures)} should")
        rest = ("known", "blocked", "untested", "unclaimed")
        parts += [f"{self.tally(one)} {one}" for one in rest if self.tally(one)]
        if not self.report.complete:
            parts.append("the run was not complete")
        return ", ".join(parts)


@dataclass(frozen=True)
class Row:
    """One requirement across all columns.

    Args:
      id: Such as `metadata/box-axes/removing-undoes-adding`.
      level: `must` or `should`.
      title: One line.
      needs: Identifiers of the requirements that it needs.
      verdicts: One for each column; `absent` where a report does not have it.
    """

    id: str
    level: str
    title: str
    needs: tuple[str, ...]
    verdicts: tuple[str, ...]

    @property
    def agreed(self) -> bool:
        """Whether every column has the same verdict."""
        return len(set(self.verdicts)) == 1

    @property
    def settled(self) -> bool:
        """Whether there is nothing to look into: every column passes or does not claim it."""
        return set(self.verdicts) <= {"passed", "unclaimed", "absent"}


@dataclass(frozen=True)
class Group:
    """The rows of one group of the catalogue.

    Args:
      name: Such as `objects/graphs`.
      rows: Its requirements.
    """

    name: str
    rows: tuple[Row, ...]

    @property
    def title(self) -> str:
        """The subject of the group, in a few words."""
        return about(self.name)

    @property
    def part(self) -> str:
        """The part of the catalogue that it is in."""
        return self.name.partition("/")[0]

    @property
    def gravest(self) -> list[tuple[str, int]]:
        """For each column the gravest verdict of the group, and how many requirements have it."""
        found = []
        for verdicts in zip(*(row.verdicts for row in self.rows), strict=True):
            worst = next((one for one in GRAVITY if one in verdicts), "absent")
            found.append((worst, verdicts.count(worst)))
        return found


@dataclass(frozen=True)
class Matrix:
    """Several reports, lined up by requirement.

    Args:
      columns: One for each report.
      groups: The groups that have a row.
    """

    columns: tuple[Column, ...]
    groups: tuple[Group, ...]

    @property
    def parts(self) -> dict[str, list[Group]]:
        """The groups by part, in order."""
        found: dict[str, list[Group]] = {}
        for group in self.groups:
            found.setdefault(group.part, []).append(group)
        return found

    @property
    def rows(self) -> Iterator[Row]:
        """Every row, in order."""
        return (row for group in self.groups for row in group.rows)


def matrix(reports: Sequence[Report]) -> Matrix:
    """Line the reports up: groups and requirements in the order of the catalogue.

    A row takes its level and its title from the first report that has the requirement.
    """
    columns = tuple(map(Column, _labels(reports), reports))
    outcomes: dict[str, Outcome] = {}
    for report in reports:
        for outcome in report.requirements:
            outcomes.setdefault(outcome.id, outcome)
    rows = [
        Row(
            outcome.id,
            outcome.level,
            outcome.title,
            outcome.needs,
            tuple(column.verdict(outcome.id) for column in columns),
        )
        for outcome in map(outcomes.__getitem__, in_order(outcomes))
    ]
    names = dict.fromkeys([*groups(), *sorted(one.group for one in outcomes.values())])
    lined_up = (
        Group(name, tuple(row for row in rows if outcomes[row.id].group == name)) for name in names
    )
    return Matrix(columns, tuple(group for group in lined_up if group.rows))


def _labels(reports: Sequence[Report]) -> list[str]:
    """Name and version, made different by JAX and Python, and in the end by a number."""
    labels: list[str] = []
    for report in reports:
        label = str(report.implementation)
        if sum(other.implementation == report.implementation for other in reports) > 1:
            label += f" (jax {report.environment.jax}, python {report.environment.python})"
        labels.append(label)
    return [
        f"{label} #{labels[:index].count(label) + 1}" if labels.count(label) > 1 else label
        for index, label in enumerate(labels)
    ]
