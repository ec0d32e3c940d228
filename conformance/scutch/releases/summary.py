"""What an upgrade changes, gravest first: refused programs, the interface, then requirements.

print(text(summarize(record("flax", "0.12.3"), record("flax", "0.12.4"))))
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scutch.releases import NotRecorded, Record, interface, programs
from scutch.releases.changes import KINDS, Upgrade, compare, in_words, summed_up
from scutch.releases.interface import InterfaceChange
from scutch.releases.programs import ProgramChange

SHOWN = 12
"""Lines of one group; the rest is shown on request."""

FAIL_ON = ("breaking", "deprecated", "any")
"""What may make a comparison fail: code that worked is refused or means another thing; that, or a
use is deprecated; any change at all."""


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
    def breaking(self) -> list[tuple[str, str, str]]:
        """Kind, sentence and first release of each change that ends or alters code that worked."""
        refused = [
            (each.kind, f"{each.program.title} {each.text}", each.since)
            for each in self.programs
            if each.kind in ("refused", "result")
        ]
        refused.sort(key=lambda row: row[0] != "refused")
        names = [(each.kind, _sentence(each), each.since) for each in self.interface if each.breaks]
        keys = [row for row in names if row[1].startswith("the metadata key")]
        return [*keys, *refused, *(row for row in names if row not in keys)]

    @property
    def deprecated(self) -> list[tuple[str, str, str]]:
        """Kind, sentence and first release of each use that the new release warns of."""
        names = [each for each in self.interface if each.kind == "deprecated"]
        return [
            *((each.kind, _sentence(each), each.since) for each in names),
            *(
                (each.kind, f"{each.program.title} {each.text}", each.since)
                for each in self.programs
                if each.kind == "warns"
            ),
        ]

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
                {"kind": each.kind, "name": each.name, "text": each.text, "old": each.old,
                 "new": each.new, "since": each.since}
                for each in self.interface
            ],
            "programs": [
                {"kind": each.kind, "name": each.program.name, "title": each.program.title,
                 "text": each.text, "since": each.since, "source": each.program.text}
                for each in self.programs
            ],
            "requirements": [
                {"kind": each.kind, "id": each.requirement, "old": each.old.verdict,
                 "new": each.new.verdict, "since": each.since,
                 "calls": [call.input for call in each.shown_by]}
                for each in self.upgrade.changes
            ],
            "uncompared": list(self.upgrade.uncompared),
        }  # fmt: skip


def summarize(old: Record, new: Record) -> Summary:
    """Compare two releases of one implementation.

    Args:
      old: The record of the one that code was written for.
      new: The record of the other one.
    """
    package = new.implementation
    try:
        names = interface.between(
            interface.interface(package, old.release), interface.interface(package, new.release)
        )
        recorded = True
    except NotRecorded:
        names, recorded = (), False
    ran = programs.changes(old.release, new.release) if package == "flax" else ()
    return Summary(compare(old, new), names, ran, recorded)


def _sentence(change: InterfaceChange) -> str:
    if change.name.startswith("metadata["):
        return change.text
    return f"{change.name}: {change.text}"


def text(summary: Summary, *, everything: bool = False) -> str:
    """The changes for people, gravest first.

    Args:
      summary: Of two releases.
      everything: Whether to show all lines of every group, and each new name.
    """
    old, new = summary.upgrade.old, summary.upgrade.new
    lines = [f"{old} -> {new}    jax {old.jax} -> {new.jax}"]
    groups = {
        "Code that worked is refused, or means another thing": summary.breaking,
        "Deprecated": summary.deprecated,
        "Defaults and base classes": [
            (each.kind, _sentence(each), each.since)
            for each in summary.interface
            if each.kind in ("default", "base")
        ],
        "Accepted now": [
            (each.kind, f"{each.program.title} {each.text}", each.since)
            for each in summary.programs
            if each.kind == "accepted"
        ],
    }
    for heading, rows in groups.items():
        lines += _group(heading, rows, everything)
    added = [each for each in summary.interface if each.kind == "new"]
    if everything:
        rows = [("new", f"{each.name}: {each.text}", each.since) for each in added]
        lines += _group("New names", rows, everything)
    elif added:
        lines.append(f"\nNew names: {len(added)}; --all lists them")
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
    lines += ["", f"Requirements: {summed_up(summary.upgrade)}"]
    return "\n".join(lines)


def _group(heading: str, rows: Sequence[tuple[str, str, str]], everything: bool) -> list[str]:
    if not rows:
        return []
    shown = rows if everything else rows[:SHOWN]
    lines = ["", f"{heading} ({len(rows)})"]
    for kind, sentence, since in shown:
        lines.append(f"  {kind:10} {sentence[:150]}  [{since}]")
    if len(shown) < len(rows):
        lines.append(f"  and {len(rows) - len(shown)} more; --all lists them")
    return lines
