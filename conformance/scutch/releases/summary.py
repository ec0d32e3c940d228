"""The changes of an upgrade, gravest first: refused programs, the interface, then requirements.

print(text(summarize(record("flax", "0.12.3"), record("flax", "0.12.4"))))
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from scutch.releases import NotRecorded, Record, interface, interface_changes, programs
from scutch.releases.changes import KINDS, Upgrade, compare, in_words, summed_up
from scutch.releases.interface_changes import InterfaceChange
from scutch.releases.programs import Program, ProgramChange

SHOWN = 12
"""Lines of one group; the rest is shown on request."""

WIDTH = 150
"""Characters of a sentence in the text."""

NEW_NAMES = "New names"
"""The heading of names that there were not before."""

UNKNOWN = "the older release was not tried with the newer JAX, or does a third thing with it"
"""Why it is not known whether the library or JAX makes a change."""

FAIL_ON = ("breaking", "deprecated", "any")
"""The levels at which a comparison fails: if code that worked is refused or means another thing; if
so, or if a use is deprecated; if anything changes at all."""


@dataclass(frozen=True)
class Row:
    """One line of a summary.

    Args:
      kind: Of the change.
      sentence: The change, in words.
      since: The first recorded release with the change.
      origin: Whether Flax or JAX makes it, in words; empty for the interface, which is the
        library's.
      program: The shortest program that the sentence is about, if it is about one.
    """

    kind: str
    sentence: str
    since: str
    origin: str = ""
    program: Program | None = None


@dataclass(frozen=True)
class Summary:
    """Everything that changes from one release to another.

    Args:
      upgrade: The requirements about which the releases differ.
      interface: The names, parameters and metadata keys that differ, gravest first.
      programs: The programs that the releases do not treat alike, gravest first.
      has_interface: Whether the interface of both releases is recorded.
    """

    upgrade: Upgrade
    interface: tuple[InterfaceChange, ...]
    programs: tuple[ProgramChange, ...]
    has_interface: bool

    @property
    def breaking(self) -> list[Row]:
        """The changes that end or alter code that worked, gravest first.

        A metadata key that is read under its old name is silently missing, so it comes first; then
        come programs that are refused, programs with another result, and names.
        """
        keys = [each for each in self.interface if each.breaks and _is_key(each)]
        names = [each for each in self.interface if each.breaks and not _is_key(each)]
        return [
            *(Row(each.kind, each.text, each.since) for each in keys),
            *self._ran("refused"),
            *self._ran("result"),
            *_joined(names),
        ]

    @property
    def deprecated(self) -> list[Row]:
        """The uses that the new release warns of."""
        names = [each for each in self.interface if each.kind == "deprecated"]
        return [*_rows(names), *self._ran("warns")]

    @property
    def accepted(self) -> list[Row]:
        """The programs that the old release refuses and the new one accepts."""
        return self._ran("accepted")

    def _ran(self, kind: str) -> list[Row]:
        """A row for each program; where several end alike, the shortest stands for all."""
        groups: dict[tuple[str, str, str], list[ProgramChange]] = {}
        for each in self.programs:
            if each.kind == kind:
                groups.setdefault((each.text, each.since, each.origin), []).append(each)
        rows = []
        for (ends, since, origin), group in groups.items():
            shortest = min(group, key=lambda each: len(each.program.text))
            others = f" (and {len(group) - 1} more)" if len(group) > 1 else ""
            sentence = f"{shortest.program.title}{others} {ends}"
            from_ = f"from {origin or 'Flax or JAX'}"
            rows.append(Row(kind, sentence, since, from_, shortest.program))
        return rows

    @property
    def groups(self) -> dict[str, list[Row]]:
        """The rows by heading, gravest first; new names come last, and groups may be empty."""
        added = [each for each in self.interface if each.kind == "new"]
        return {
            "Code that worked is refused, or means another thing": self.breaking,
            "Deprecated": self.deprecated,
            "Defaults and base classes": _rows(
                each for each in self.interface if each.kind in ("default", "base")
            ),
            "Accepted now": self.accepted,
            NEW_NAMES: _rows(added),
        }

    @property
    def told_apart(self) -> str:
        """How many changes of programs and requirements are the library's, and how many JAX's."""
        origins = [each.origin for each in self.programs]
        found = Counter([*origins, *(each.origin for each in self.upgrade.changes)])
        unknown = found.pop("", 0)
        told = [f"{number} from {origin}" for origin, number in sorted(found.items())]
        if unknown:
            told.append(f"{unknown} from either: {UNKNOWN}")
        return f"Programs and requirements: {', '.join(told) or 'no change'}"

    def fails(self, on: str) -> bool:
        """Whether the changes are as grave as asked.

        Args:
          on: One of `FAIL_ON`.
        """
        if self.breaking or self.upgrade.of("broken"):
            return True
        if on == "deprecated":
            return bool(self.deprecated)
        return on == "any" and bool(self.interface or self.programs or self.upgrade.changes)

    def to_json(self) -> dict[str, Any]:
        """The changes as data: lists of mappings under `interface`, `programs`, `requirements`."""
        return {
            "implementation": self.upgrade.new.implementation,
            "old": {"release": self.upgrade.old.release, "jax": self.upgrade.old.jax},
            "new": {"release": self.upgrade.new.release, "jax": self.upgrade.new.jax},
            "interface": [
                {
                    "kind": each.kind,
                    "name": each.name,
                    "text": each.text,
                    "old": each.old,
                    "new": each.new,
                    "since": each.since,
                }
                for each in self.interface
            ],
            "programs": [
                {
                    "kind": each.kind,
                    "name": each.program.name,
                    "title": each.program.title,
                    "text": each.text,
                    "since": each.since,
                    "origin": each.origin,
                    "source": each.program.text,
                }
                for each in self.programs
            ],
            "requirements": [
                {
                    "kind": each.kind,
                    "id": each.requirement,
                    "old": each.old.verdict,
                    "new": each.new.verdict,
                    "since": each.since,
                    "origin": each.origin,
                    "calls": [call.input for call in each.shown_by],
                }
                for each in self.upgrade.changes
            ],
            "uncompared": list(self.upgrade.uncompared),
        }


def summarize(old: Record, new: Record) -> Summary:
    """Compare two releases of one implementation.

    Args:
      old: The record of the release that the code was written for.
      new: The record of the release to go to.
    """
    package = new.implementation
    try:
        names = interface_changes.between(
            interface.interface(package, old.release), interface.interface(package, new.release)
        )
        recorded = True
    except NotRecorded:
        names, recorded = (), False
    ran = programs.changes(package, old.key, new.key)
    return Summary(compare(old, new), names, ran, recorded)


def _is_key(change: InterfaceChange) -> bool:
    return change.name.startswith("metadata[")


def _rows(found: Iterable[InterfaceChange]) -> list[Row]:
    return [
        Row(each.kind, each.text if _is_key(each) else f"{each.name}: {each.text}", each.since)
        for each in found
    ]


def _joined(found: Iterable[InterfaceChange]) -> list[Row]:
    """A row for all names that a module loses at once, and one for all parameters of a function."""
    groups: dict[tuple[str, str, str], list[InterfaceChange]] = {}
    for each in found:
        is_gone = each.kind == "removed"
        owner = each.name.rpartition(".")[0] if is_gone else each.name
        groups.setdefault((each.kind, owner, each.since), []).append(each)
    rows = []
    for (kind, owner, since), group in groups.items():
        if kind == "removed" and len(group) > 1:
            names = ", ".join(each.name.rpartition(".")[2] for each in group)
            sentence = f"{owner}: {names} are gone"
        else:
            sentence = f"{group[0].name}: {', '.join(each.text for each in group)}"
        rows.append(Row(kind, sentence, since))
    return rows


def text(summary: Summary, *, everything: bool = False) -> str:
    """The changes for people, gravest first.

    Args:
      summary: Of two releases.
      everything: Whether to show all lines of every group, and each new name.
    """
    old, new = summary.upgrade.old, summary.upgrade.new
    beside = f"    jax {old.jax} -> {new.jax}" if new.implementation != "jax" else ""
    lines = [f"{old} -> {new}{beside}"]
    for heading, rows in summary.groups.items():
        if heading != NEW_NAMES or everything:
            lines += _group(heading, rows, everything)
        elif rows:
            lines.append(f"\n{heading}: {len(rows)}; --all lists them")
    if not summary.has_interface:
        lines.append(f"\nThe interface of {old.implementation} is not recorded.")
    for kind, heading in KINDS.items():
        changed = summary.upgrade.of(kind)
        shown = changed if everything or kind in ("broken", "mended") else ()
        if shown:
            lines += ["", f"Requirements: {heading.lower()} ({len(changed)})"]
            lines += in_words(summary.upgrade, shown, calls=everything or kind == "broken")
        elif changed:
            lines.append(f"\nRequirements: {heading.lower()} ({len(changed)}); --all lists them")
    lines += ["", f"Requirements: {summed_up(summary.upgrade)}", summary.told_apart]
    return "\n".join(lines)


def _group(heading: str, rows: Sequence[Row], everything: bool) -> list[str]:
    if not rows:
        return []
    shown = rows if everything else rows[:SHOWN]
    lines = ["", f"{heading} ({len(rows)})"]
    for row in shown:
        since = ", ".join(filter(None, (row.since, row.origin)))
        sentence = row.sentence if len(row.sentence) <= WIDTH else f"{row.sentence[: WIDTH - 3]}..."
        lines.append(f"  {row.kind:10} {sentence}  [{since}]")
    if len(shown) < len(rows):
        lines.append(f"  and {len(rows) - len(shown)} more; --all lists them")
    return lines
