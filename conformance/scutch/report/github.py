"""A run in a job of GitHub Actions: annotations at lines of files, and a summary with tables.

print(annotations(report, Place.of("my_fork.py", "my-fork")))
print(summary(report, vouched))

Both hold text that the implementation chose. So annotations are escaped as the runner of jobs
unescapes them, and the summary, which is Markdown, holds such text as HTML only.
"""

from collections import Counter
from html import escape
from typing import Final

from scutch.catalogue import PARTS
from scutch.judging.verdicts import VERDICTS
from scutch.report.comparison import Comparison, compare
from scutch.report.document import Report
from scutch.report.findings import Finding, Place, findings
from scutch.report.matrix import Column, matrix
from scutch.report.text import command_message, command_property, line

MOST: Final = 10
"""Annotations of one severity that GitHub shows for a step."""

_MARKDOWN: Final = r"|*_`[]\~$@#"
_COMMANDS: Final = {"error": "error", "warning": "warning", "note": "notice"}


def annotations(report: Report, place: Place | None) -> str:
    """Errors, warnings and notes as workflow commands, a line for each; empty if all is well.

    Args:
      report: Of one run.
      place: The line for findings whose error no file of the checkout raised; with `None` these
        stand at the job.
    """
    found = list(findings(report, place))
    lines = []
    for severity in _COMMANDS:
        those = [each for each in found if each.severity == severity]
        lines += [_annotation(each) for each in those[:MOST]]
    return "".join(f"{each}\n" for each in lines)


def _annotation(finding: Finding) -> str:
    where = (
        {}
        if finding.place is None
        else {"file": finding.place.file, "line": str(finding.place.line)}
    )
    properties = where | {"title": line(finding.title)}
    listed = ",".join(f"{name}={command_property(value)}" for name, value in properties.items())
    return f"::{_COMMANDS[finding.severity]} {listed}::{command_message(finding.message)}"


def summary(report: Report, vouched: Report | None = None) -> str:
    """The headline, a table of the parts, and tables of the unmet requirements, in Markdown.

    Args:
      report: Of one run.
      vouched: An earlier report. Tables of the changes since then follow the headline.
    """
    column = Column(str(report.implementation), report)
    verdicts = [each for each in VERDICTS if column.tally(each)]
    rows = []
    for part, groups in matrix([report]).parts.items():
        counts = Counter(row.verdicts[0] for group in groups for row in group.rows)
        cells = (str(counts[verdict] or "") for verdict in verdicts)
        rows.append([_html(part), PARTS.get(part, ""), *cells])
    text = [
        f"### scutch: {_html(column.label)}\n",
        f"{_html(column.headline)}\n",
        *([] if vouched is None else _changes(compare(vouched, report))),
        _table(["part", "what it is about", *verdicts], rows),
    ]
    broken = list(findings(report, None))
    for title, chosen in (
        ("Root causes", [each for each in broken if each.severity == "error"]),
        ("Departures from a should", [each for each in broken if each.severity == "warning"]),
        ("Known failures and consequences", [each for each in broken if each.severity == "note"]),
    ):
        if chosen:
            table = _table(
                ["requirement", "verdict", "what it says, and what broke it"],
                [_cells(each) for each in chosen],
            )
            text.append(_details(title, len(chosen), table, opened=chosen[0].severity != "note"))
    environment = report.environment
    text.append(
        f"{report.suite}, JAX {_html(environment.jax)}, Python {_html(environment.python)}, "
        f"profile {_html(report.profile)}, seed {report.seed}"
    )
    return "\n".join(text) + "\n"


def _changes(compared: Comparison) -> list[str]:
    """The regressions since the old report in one line, and a table of each group of changes."""
    verdict = compared.verdict(compared.new.level)
    text = [f"Since the vouched report of {_html(str(compared.old.implementation))}: {verdict}\n"]
    for title, changes in compared.groups.items():
        rows = [
            [_html(one.latest.id), *one.verdicts, one.level, _html(one.latest.title)]
            for one in changes
        ]
        table = _table(["requirement", "was", "is", "level", "what it says"], rows)
        text.append(_details(title, len(rows), table, opened=title == "Regressions"))
    return text


def _details(title: str, rows: int, table: str, *, opened: bool) -> str:
    """A table that a reader can fold; `opened` shows it at first."""
    heading = f"<summary>{title}: {rows}</summary>"
    return f"<details{' open' if opened else ''}>{heading}\n\n{table}\n</details>\n"


def _cells(finding: Finding) -> list[str]:
    lines = "<br>".join(f"<code>{_html(each)}</code>" for each in finding.message.splitlines())
    return [
        finding.outcome.id,
        finding.outcome.verdict,
        f"{_html(finding.outcome.title)}<br>{lines}",
    ]


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(each)} |\n" for each in lines)


def _html(text: str) -> str:
    """Text as HTML that Markdown leaves alone, on one line."""
    return "".join(f"&#{ord(each)};" if each in _MARKDOWN else escape(each) for each in line(text))
