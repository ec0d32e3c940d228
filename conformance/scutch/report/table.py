"""The terminal table: requirements by implementations, the headlines, and commands to run next.

show([load("reference.json"), load("flax.json")])
"""

import os
import sys
from collections.abc import Sequence
from typing import IO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scutch.catalogue import sentence_of
from scutch.judging.verdicts import ROOTS
from scutch.report.document import Report
from scutch.report.matrix import Column, matrix
from scutch.report.text import count, line

_LEVEL, _TITLE, _VERDICT = 10, 24, 14

_STYLES = {
    "passed": "green",
    "known": "blue",
    "fixed": "bold yellow",
    "blocked": "dim",
    "unclaimed": "dim",
    "untested": "bold yellow",
    "absent": "dim",
} | dict.fromkeys(ROOTS, "bold red")


def show(reports: Sequence[Report], file: IO[str] | None = None) -> None:
    """Print the reports side by side, then a headline and the root causes of each.

    A group that nobody claims is one line. Colours follow the terminal and `NO_COLOR`; where there
    is no terminal, lines are 120 wide, unless `COLUMNS` says otherwise.

    Args:
      reports: At least one, in the order of the columns.
      file: Where to print; standard output where left out.
    """
    file = file or sys.stdout
    wide = None if file.isatty() or "COLUMNS" in os.environ else 120
    console = Console(file=file, highlight=False, markup=False, emoji=False, width=wide)
    lined_up = matrix(reports)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("id", no_wrap=True)
    table.add_column("level", no_wrap=True)
    table.add_column("requirement", no_wrap=True, overflow="ellipsis")
    for column in lined_up.columns:
        table.add_column(Text(line(column.label)), width=_VERDICT)
    ids = max(
        [len(group.name) for group in lined_up.groups]
        + [len(sentence_of(row.id)) + 2 for row in lined_up.rows]
    )
    rest = ids + _LEVEL + (_VERDICT + 2) * len(lined_up.columns)
    console.width = max(console.width, rest + _TITLE)  # a narrow window folds, and loses nothing
    table.columns[2].max_width = console.width - rest
    for group in lined_up.groups:
        head = Text(f"{group.title} ({count(len(group.rows), 'requirement')})", "bold")
        unclaimed = all({*row.verdicts} == {"unclaimed"} for row in group.rows)
        table.add_row(
            Text(line(group.name), "bold"),
            "",
            head,
            *(map(_verdict, group.rows[0].verdicts) if unclaimed else ()),
        )
        for row in () if unclaimed else group.rows:
            verdicts = map(_verdict, row.verdicts)
            table.add_row(f"  {sentence_of(row.id)}", row.level, Text(line(row.title)), *verdicts)
    console.print(table)
    for column in lined_up.columns:
        console.print()
        console.print(_summary(column), soft_wrap=True)


def _verdict(verdict: str) -> Text:
    return Text(verdict, _STYLES[verdict])


def _summary(column: Column) -> Text:
    text = Text.assemble((f"{line(column.label)}: ", "bold"), column.headline)
    if column.report.cost.peak:
        text.append(f"\n  took {column.report.cost}")
    for cause in (*column.weighing("error"), *column.weighing("warning")):
        style = _STYLES[cause.verdict]
        text.append("\n  ").append(f"{cause.id} {cause.verdict}", style)
        text.append(f"  {line(cause.title)}")
        if cause.reason:
            text.append(f"\n    {line(cause.reason.splitlines()[0])}")
        if cause.replay:
            text.append(f"\n    replay: {line(cause.replay)}")
    return text
