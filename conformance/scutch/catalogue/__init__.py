"""The requirements: what a conforming implementation does, one row for each law.

The rows are in one file for each area, beside this one. An identifier is a row of the contract,
with a letter where that row holds several laws: `BOX-2a`. A file may *inherit* another area:
`LOG-9.BOX-2a` is BOX-2a, tried on logically partitioned boxes.
"""

import functools
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import Any

from scutch.implementation import CAPABILITIES, SetupError

AREAS = ("BOX", "LOG", "LIN", "OBJ", "JIT", "SHM", "BRG", "EXP", "DST")
LEVELS = ("must", "should")


@dataclass(frozen=True)
class Document:
    """A document that requirements rest on.

    Args:
      title: What it is about.
      address: Where the public can read it; another release may have moved a sentence.
    """

    title: str
    address: str


@dataclass(frozen=True)
class Requirement:
    """One requirement of the catalogue, as its TOML file has it.

    Args:
      id: Such as `BOX-2a`, or `LOG-9.BOX-2a`.
      level: `must` or `should`.
      title: One line for tables.
      text: What holds, precisely.
      source: The document and the place in it.
      domain: Inside which it is claimed; empty if everywhere.
      capability: The namespace that it judges.
      needs: Rows whose failure explains a failure of this one.
      since: The version of the suite that first had it.
      quote: The document's own sentence, or line of code, on which the row rests; empty if it rests
        on plain JAX's behaviour or on a silent loss, which `source` says.
    """

    id: str
    level: str
    title: str
    text: str
    source: str
    domain: str
    capability: str
    needs: tuple[str, ...]
    since: str
    quote: str = ""

    @property
    def area(self) -> str:
        """The chapter: the letters that the identifier begins with."""
        return self.id[:3]

    @property
    def row(self) -> str:
        """The row of the contract: the identifier without what tells the laws of a row apart."""
        return re.match(r"[A-Z]+-\d+", self.id)[0]  # type: ignore[index]

    @property
    def documents(self) -> tuple[Document, ...]:
        """The documents that `source` cites, in its order."""
        cited = dict.fromkeys(re.findall(r"\b\d{3}_", self.source))
        return tuple(documents()[name] for name in cited)

    @property
    def capabilities(self) -> tuple[str, ...]:
        """Everything that an implementation must claim for this to be tried."""
        others: tuple[str, ...] = ("logical", "meta") if self.area in ("LOG", "LIN") else ()
        others += ("nnx",) if self.capability == "transforms" else ()
        others += ("meta", "logical", "nnx") if self.capability == "bridge" else ()
        return tuple(dict.fromkeys((self.capability, *others)))


@functools.cache
def load() -> tuple[Requirement, ...]:
    """Every requirement, in the order of the contract."""
    rows: list[Requirement] = []
    for area in AREAS:
        file = tomllib.loads((files(__name__) / f"{area.lower()}.toml").read_text("utf-8"))
        rows += [_row(entry) for entry in file["requirement"]]
        if "inherits" in file:
            rows += _inherited(rows, **file["inherits"])
    return tuple(rows)


@functools.cache
def documents() -> dict[str, Document]:
    """Every document, by the beginning of its name, such as `000_`."""
    file = tomllib.loads((files(__name__) / "documents.toml").read_text("utf-8"))
    return {name: Document(**entry) for name, entry in file.items()}


def by_id() -> dict[str, Requirement]:
    """Every requirement, by its identifier."""
    return {row.id: row for row in load()}


def select(patterns: str | Iterable[str]) -> tuple[Requirement, ...]:
    """The requirements that any of the patterns names.

    A pattern is an identifier, a row of the contract (`BOX-2` is BOX-2a, BOX-2b, ...), an area, or
    a shell-style pattern over identifiers.

    Raises:
      SetupError: A pattern names none.
    """
    patterns = (patterns,) if isinstance(patterns, str) else tuple(patterns)
    for pattern in patterns:
        if not any(_matches(row, pattern) for row in load()):
            raise SetupError(
                f"no requirement matches {pattern!r}",
                "expected an identifier (BOX-5), a row (BOX-2), an area (BOX) or a pattern "
                "(LOG-*): `scutch list` shows all",
            )
    return tuple(row for row in load() if any(_matches(row, p) for p in patterns))


def _matches(row: Requirement, pattern: str) -> bool:
    return pattern in (row.row, row.area) or fnmatchcase(row.id, pattern)


def _row(entry: dict[str, Any]) -> Requirement:
    row = Requirement(**{**entry, "needs": tuple(entry["needs"])})
    if row.level not in LEVELS or row.capability not in CAPABILITIES:
        raise ValueError(f"{row.id}: unknown level {row.level!r} or capability {row.capability!r}")
    return row


def _inherited(rows: list[Requirement], **spec: Any) -> list[Requirement]:
    return [
        replace(
            row,
            id=f"{spec['id']}.{row.id}",
            title=f"{row.title} (logical box)",
            capability=spec["capability"],
            needs=(
                row.id,
                *(f"{spec['id']}.{need}" for need in row.needs),
                *spec["further_needs"].get(row.id, ()),
            ),
        )
        for row in rows
        if row.area == spec["area"] and row.id not in spec["except"]
    ]
