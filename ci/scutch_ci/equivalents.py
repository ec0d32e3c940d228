"""The faults that are not tried, as `ci/mutants.toml` lists them.

Each entry gives a reason and matches one fault or several. Its table says the kind of the reason:

    equivalent         no call shows a difference
    error-kind         the call is refused as before, with another error
    out-of-contract    a user can see the difference, and the contract leaves the behaviour open
"""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from scutch_ci.checkout import ROOT
from scutch_ci.faults import Fault
from scutch_ci.subjects import Subject

LISTED = ROOT / "ci" / "mutants.toml"
EQUIVALENT = "equivalent"
EXCLUDED = ("error-kind", "out-of-contract")
"""The kinds of listed faults that a user can see."""


@dataclass(frozen=True)
class Listed:
    """One entry of `ci/mutants.toml`, which matches faults that are not tried.

    Args:
      implementation: The implementation that holds the faults, as in `Subject.where`.
      file: The file that holds them, relative to its package, or a pattern such as `*`.
      reason: Why they are not tried.
      function: A function or class around them, or `*`; with `taken` it may be empty.
      holds: A regular expression that matches somewhere in the text that the fault replaces.
      under: A regular expression that matches in the first line of a block around the fault, such
        as `if x is None:`.
      taken: The lines that the fault removes, joined as in `Fault.changed_lines`; empty for any.
      added: The lines that the fault adds, joined in the same way; ignored without `taken`.
      kind: The kind of the reason, which is the name of the entry's table.
    """

    implementation: str
    file: str
    reason: str
    function: str = ""
    holds: str = ""
    under: str = ""
    taken: str = ""
    added: str = ""
    kind: str = EQUIVALENT


def listed(file: Path = LISTED) -> tuple[Listed, ...]:
    """Read the entries of `ci/mutants.toml`."""
    content = tomllib.loads(file.read_text("utf-8"))
    return tuple(Listed(**each, kind=kind) for kind, table in content.items() for each in table)


def kind_of(fault: Fault, subject: Subject, entries: Sequence[Listed]) -> str:
    """The kind of the first entry that matches a fault; empty if none does."""
    source = subject.sources[fault.file]
    replaced = source.encode()[slice(*fault.span)].decode()
    about = [
        each
        for each in entries
        if each.implementation == subject.where
        and fnmatch(fault.file, each.file)
        and (
            each.function in ("*", fault.scope, *fault.scope.split("."))
            or (each.taken and not each.function)
        )
        and re.search(each.holds, replaced) is not None
    ]
    # A comparison of whole files, and a walk up the file: once for all entries, if one asks.
    changed = fault.changed_lines(source) if any(each.taken for each in about) else ("", "")
    above = blocks(source, fault.line) if any(each.under for each in about) else [""]
    matching = (
        each.kind
        for each in about
        if (not each.taken or changed == (each.taken, each.added))
        and any(re.search(each.under, line) is not None for line in above)
    )
    return next(matching, "")


def blocks(source: str, number: int) -> list[str]:
    """The first lines of the blocks around line `number` (from 1), innermost first, then `""`."""
    *before, line = source.splitlines()[:number]
    indent, found = len(line) - len(line.lstrip()), []
    for each in reversed(before):
        if each.strip() and len(each) - len(each.lstrip()) < indent:
            indent = len(each) - len(each.lstrip())
            found.append(each.strip())
    return [*found, ""]
