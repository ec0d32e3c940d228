"""The unmet requirements of a run, each at a line of a file, for tools that read a checkout.

A *finding* is a requirement that was not met, with a message and a place in the reader's own files:
the line of the implementation that raised the error, where that lies in the checkout; else the line
that stands for the implementation, in an adapter or in a file such as `requirements.txt`.

    for each in findings(load("fork.json"), Place.of("my_fork.py", "my-fork")):
        print(each.place, each.severity, each.message)
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scutch.report.document import Outcome, Report, ReportError
from scutch.report.matrix import Column
from scutch.report.text import visible

_WEIGHT: Final = ("error", "warning", "note")
_LONGEST: Final = 1_000
"""Characters of an input or an error that are shown; the report has all."""


@dataclass(frozen=True)
class Place:
    """A line of a file of the checkout.

    Args:
      file: From the folder that the command is run in, with `/` between folders.
      line: From 1.
    """

    file: str
    line: int = 1

    @classmethod
    def of(cls, where: str, name: str) -> "Place":
        """The place in a file that stands for an implementation.

        Args:
          where: A file, such as an adapter or `requirements.txt`; `file.py:attribute` also does.
          name: Of the implementation.

        Returns:
          The first line that begins with `implementation`, the attribute or the name; else line 1.

        Raises:
          ReportError: There is no such text file.
        """
        path, _, attribute = where.rpartition(":") if ":" in where else (where, "", "")
        words = "|".join(map(re.escape, filter(None, ("implementation", attribute, name))))
        begins = re.compile(rf"\s*[\"']?({words})(?![\w.-])", re.IGNORECASE)
        try:
            lines = Path(path).read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ReportError(path, f"{error}; expected a text file", "--at ") from error
        found = (number for number, line in enumerate(lines, 1) if begins.match(line))
        return cls(Path(os.path.relpath(path)).as_posix(), next(found, 1))

    @classmethod
    def raising(cls, outcome: Outcome) -> "Place | None":
        """The line that raised the error of an outcome; `None` where the checkout has no such file.

        Args:
          outcome: Of any verdict.
        """
        found = outcome.counterexample
        file, _, line = found.place.rpartition(":") if found else ("", "", "")
        path = Path(file)
        inside = bool(file) and not path.is_absolute() and ".." not in path.parts
        return cls(path.as_posix(), int(line)) if inside and path.is_file() else None


@dataclass(frozen=True)
class Finding:
    """One requirement that was not met.

    Args:
      outcome: The outcome of the requirement.
      severity: `error`, `warning` or `note`, as `Column.severity` has it.
      place: The line at which it is shown; `None` for no line.
    """

    outcome: Outcome
    severity: str
    place: Place | None

    @property
    def title(self) -> str:
        """Identifier, title and verdict, in one line."""
        return visible(f"{self.outcome.id} {self.outcome.title}: {self.outcome.verdict}")

    @property
    def message(self) -> str:
        """Why, with the input that breaks it and the command that breaks it again, in lines."""
        found = self.outcome.counterexample
        reason = self.outcome.reason
        parts = {
            "": None if found and found.error == reason else reason,
            "follows from ": ", ".join(self.outcome.blocked_by),
            "input: ": found and found.input,
            "error: ": found and found.error,
            "replay: ": self.outcome.replay if self.severity != "note" else None,
        }
        lines = [f"{name}{_cut(text)}" for name, text in parts.items() if text]
        return visible("\n".join(lines)) or self.outcome.verdict


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def findings(report: Report, place: Place | None) -> Iterator[Finding]:
    """The requirements that were not met, errors first, then in the contract's order.

    Args:
      report: Of one run.
      place: The line for findings whose error no file of the checkout raised.
    """
    column = Column(str(report.implementation), report)
    for severity in _WEIGHT:
        for outcome in column.weighing(severity):
            yield Finding(outcome, severity, Place.raising(outcome) or place)
