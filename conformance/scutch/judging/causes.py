"""Causes: the faults of an implementation that its known failures come from.

A file of known failures has a table for each cause, and its entries name theirs:

    [cause.remove-axis-in-assert]
    at = "flax/core/meta.py:Partitioned.remove_axis"
    fault = "`remove_axis` removes the name inside an `assert` statement."
    effect = "Under `python -O` no name is removed, so the names no longer fit the axes."
    harm = "wrong-placement"
    stance = "bug"

One fault may break several requirements. So summaries count causes, and each has a page.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scutch.catalogue import HARMS
from scutch.implementation import SetupError

STANCES = {
    "bug": "The implementation departs from its documents, from JAX, or loses something.",
    "reported": "As a bug, and its maintainers were told: `upstream` is the address.",
    "design": "The implementation differs on purpose: `document` says where.",
    "disputed": "A reasonable implementer could do it this way.",
}
"""The values of a cause's `stance`, each with its meaning."""

_KEYS = {
    "at": True,
    "fault": True,
    "effect": True,
    "harm": True,
    "stance": True,
    "document": False,
    "upstream": False,
}
"""The keys of a cause, all strings, and whether it must have them."""


@dataclass(frozen=True)
class Cause:
    """A fault of an implementation.

    Args:
      name: Its name in the file, such as `remove-axis-in-assert`.
      at: File and name of the code, such as `flax/core/meta.py:Partitioned.remove_axis`.
      fault: One sentence about the code.
      effect: One sentence about the harm to its users.
      harm: One of `scutch.catalogue.HARMS`.
      stance: One of `STANCES`.
      document: Title and address of the document that makes it a design decision.
      upstream: Address of the report.
    """

    name: str
    at: str
    fault: str
    effect: str
    harm: str
    stance: str
    document: str | None = None
    upstream: str | None = None

    @property
    def reason(self) -> str:
        """Effect and fault, as a reason for a verdict."""
        return f"{self.effect} {self.fault}"


def parse(content: Any, file: str) -> Mapping[str, Cause]:
    """The causes of a file, by name.

    Args:
      content: The value of `cause` in the file.
      file: The name of the file, for messages.

    Raises:
      SetupError: The content is malformed; the message names the cause and the key.
    """
    if not isinstance(content, dict):
        raise SetupError(f"known failures {file}", f"cause is {content!r}; expected tables")
    return {name: _cause(name, table, file) for name, table in content.items()}


def _cause(name: str, table: Any, file: str) -> Cause:
    def refuse(why: str) -> SetupError:
        return SetupError(f"known failures {file}, cause {name}", why)

    if not isinstance(table, dict):
        raise refuse(f"got {table!r}; expected a table")
    for key, required in _KEYS.items():
        if required and key not in table:
            raise refuse(f"{key!r} is missing")
        if key in table and not isinstance(table[key], str):
            raise refuse(f"{key} is {table[key]!r}; expected a string")
    if extra := sorted(set(table) - set(_KEYS)):
        raise refuse(f"unknown key {extra[0]!r}; expected {', '.join(_KEYS)}")
    for key, values in {"harm": HARMS, "stance": STANCES}.items():
        if table[key] not in values:
            raise refuse(f"{key} is {table[key]!r}; expected one of {', '.join(values)}")
    for stance, key in {"design": "document", "reported": "upstream"}.items():
        if table["stance"] == stance and key not in table:
            raise refuse(f"{key!r} is missing, which the stance {stance!r} needs")
    return Cause(name, **table)


def counted(causes: Iterable[Cause]) -> str:
    """The number of causes by stance, such as `9 known causes: 8 bugs (1 reported), 1 by design`.

    A bug that spoils a message alone is minor.

    Args:
      causes: Each once.
    """
    kinds = Counter(
        "minor" if each.harm == "message" and each.stance in ("bug", "reported") else each.stance
        for each in causes
    )
    bugs = kinds["bug"] + kinds["reported"]
    told = f" ({kinds['reported']} reported)" if kinds["reported"] else ""
    numbers = {
        f"bug{'' if bugs == 1 else 's'}{told}": bugs,
        "minor": kinds["minor"],
        "disputed": kinds["disputed"],
        "by design": kinds["design"],
    }
    parts = ", ".join(f"{number} {noun}" for noun, number in numbers.items() if number)
    return f"{kinds.total()} known cause{'' if kinds.total() == 1 else 's'}: {parts}"
