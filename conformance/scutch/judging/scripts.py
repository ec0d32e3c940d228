"""The scripts of known failures that come with the suite, so that no report must write them.

    script_of("flax", "BOX-11", entry.witness)      # the text of a program, or None

A file `known/NAME.scripts.json` has the scripts of one implementation, and the exit code of each
script on each release. Only `ci/matrix --scripts` writes it.
"""

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from scutch.catalogue import current

SUFFIX = ".scripts.json"
LONGEST = 25
"""The most lines of the program of a script that comes with the suite, blank ones left out."""


@dataclass(frozen=True)
class Script:
    """A program that shows one known failure without the suite.

    Args:
      requirement: The identifier that fails.
      witness: The call of a law that the program stands for.
      text: The program, with a newline at its end.
      exits: The exit code on each release on which it was run.
    """

    requirement: str
    witness: str
    text: str
    exits: Mapping[str, int]

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Script":
        """The script that `data` has stored."""
        text = "".join(f"{line}\n" for line in data["text"])
        return cls(current(data["requirement"]), data["witness"], text, data["exits"])

    @property
    def program(self) -> list[str]:
        """The lines below the heading."""
        return self.text.partition('\n"""\n')[2].splitlines()

    @property
    def length(self) -> int:
        """How many lines of the program are not blank."""
        return sum(map(bool, self.program))

    @property
    def data(self) -> Mapping[str, Any]:
        """The script as data for JSON, with its text as a list of lines."""
        return {
            "requirement": self.requirement,
            "witness": self.witness,
            "exits": self.exits,
            "text": self.text.splitlines(),
        }


def to_text(scripts: Iterable[Script]) -> str:
    """The text of a file; `from_text` reads it back."""
    return json.dumps([each.data for each in scripts], indent=1, ensure_ascii=False) + "\n"


def from_text(text: str) -> tuple[Script, ...]:
    """The scripts of a file."""
    return tuple(map(Script.of, json.loads(text)))


@functools.cache
def shipped(implementation: str) -> Mapping[tuple[str, str], Script]:
    """The scripts that come with the suite, by requirement and witness.

    Args:
      implementation: The name of the implementation that they are about; it may have no scripts.
    """
    file = files("scutch").joinpath("known", f"{implementation}{SUFFIX}")
    found = from_text(file.read_text("utf-8")) if file.is_file() else ()
    return {(each.requirement, each.witness): each for each in found}


def script_of(implementation: str, requirement: str, call: str) -> str | None:
    """The script for a call of a law, if one comes with the suite.

    Args:
      implementation: The name of the implementation that it is about.
      requirement: The identifier that fails.
      call: The witness of a known failure.

    Returns:
      Its text, or `None`.
    """
    found = shipped(implementation).get((current(requirement), call))
    return found.text if found else None
