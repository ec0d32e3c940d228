"""The version ranges of the shipped known failures, written from the records of releases.

The range of an entry covers the recorded releases that its witness breaks. A call that breaks a
recorded release and has no entry yet is only printed: an entry needs a reason, which people write.
"""

from collections.abc import Sequence
from pathlib import Path

from scutch.judging import known
from scutch.releases import Record
from scutch.report.text import count, publish

from scutch_ci.checkout import ROOT

KNOWN = ROOT / "conformance" / "scutch" / "known"


def update(recorded: Sequence[Record], folder: Path = KNOWN) -> int:
    """Write the ranges into the files of known failures; returns 0."""
    for file in sorted(folder.glob("*.toml")):
        text = file.read_text("utf-8")
        entries = known.parse(text, file.name)
        name = entries[0].implementation
        found = [r for r in recorded if r.implementation == name and not r.beside]
        if not found:
            print(f"{file.name}: no release of {name} is recorded; it stays as it is")
            continue
        changed, unseen = with_ranges(text, entries, found)
        publish(changed, file)
        print(f"{file.name}: {count(len(entries), 'range')} from {count(len(found), 'record')}")
        for entry in unseen:
            print(f"  {entry.requirement}: in no record, and left as it is: {entry.witness}")
        for entry in not_entered(entries, found):
            print(f"  {entry.requirement} {entry.versions}: no entry yet: {entry.witness}")
    return 0


def with_ranges(
    text: str, entries: Sequence[known.Known], found: Sequence[Record]
) -> tuple[str, list[known.Known]]:
    """A file's text with the ranges from the records, and the entries that no record shows.

    Args:
      text: The text of the file; all but the ranges stays as it is.
      entries: The entries of the file, in the order of the text.
      found: The records of the implementation, oldest first.
    """
    parts = text.split("[[known]]\n")
    unseen = []
    for place, entry in enumerate(entries, 1):
        range_ = range_of(entry.requirement, entry.witness, found)
        if not range_:
            unseen.append(entry)
            continue
        lines = parts[place].split("\n")
        at = next(n for n, line in enumerate(lines) if line.startswith("versions ="))
        lines[at] = f'versions = "{range_}"'
        parts[place] = "\n".join(lines)
    return "[[known]]\n".join(parts), unseen


def not_entered(entries: Sequence[known.Known], found: Sequence[Record]) -> list[known.Known]:
    """New entries, for the calls that break a recorded release and are no entry's witness."""
    there = {(entry.requirement, entry.witness) for entry in entries}
    calls = {
        (requirement, each.input): each.error
        for record in found
        for requirement, finding in record.requirements.items()
        for each in finding.broken
        if finding.verdict in ("failed", "blocked") and each.input
    }
    return [
        known.Known(
            found[0].implementation,
            requirement,
            range_of(requirement, call, found),
            error,
            call,
            None,
            "",
        )
        for (requirement, call), error in calls.items()
        if (requirement, call) not in there
    ]


def range_of(requirement: str, call: str, found: Sequence[Record]) -> str:
    """The releases that a call breaks, as a version range; empty for none.

    Args:
      requirement: The requirement that the call breaks.
      call: A call of its law, as a witness.
      found: Records of one implementation, oldest first.

    Returns:
      A range from the first to the last release that the call breaks. It excludes the releases
      between them that were judged for the requirement and that the call did not break. It ends at
      a recorded release, so the next release is not in it.
    """
    broken = [r for r in found if breaks(r, requirement, call)]
    if not broken:
        return ""
    first, last = broken[0], broken[-1]
    others = [
        r
        for r in found[found.index(first) : found.index(last)]
        if r not in broken and was_tried(r, requirement)
    ]
    return ",".join(
        [f">={first.release}", f"<={last.release}", *(f"!={each.release}" for each in others)]
    )


def breaks(record: Record, requirement: str, call: str) -> bool:
    """Whether a call breaks a requirement in a release."""
    finding = record.requirements.get(requirement)
    return finding is not None and any(each.input == call for each in finding.broken)


def was_tried(record: Record, requirement: str) -> bool:
    """Whether a release was judged for a requirement."""
    finding = record.requirements.get(requirement)
    return finding is not None and finding.verdict != "unclaimed"
