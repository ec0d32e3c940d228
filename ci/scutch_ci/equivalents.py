"""The faults that no law can notice, as `ci/mutants.toml` lists them.

Each entry gives a reason and matches one fault or several. `ci/mutants` does not plant them.
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


@dataclass(frozen=True)
class Listed:
    """One entry of `ci/mutants.toml`, which matches faults that no law can notice.

    Args:
      implementation: The implementation that holds the faults, as in `Subject.where`.
      file: The file that holds them, relative to its package, or a pattern such as `*`.
      reason: Why no law can notice them.
      function: A function or class around them, or `*`; with `taken` it may be empty.
      holds: A regular expression that matches somewhere in the text that the fault replaces.
      under: A regular expression that matches in the first line of a block around the fault, such
        as `if x is None:`.
      taken: The lines that the fault removes, joined as in `Fault.changed_lines`; empty for any.
      added: The lines that the fault adds, joined in the same way; ignored without `taken`.
    """

    implementation: str
    file: str
    reason: str
    function: str = ""
    holds: str = ""
    under: str = ""
    taken: str = ""
    added: str = ""


def listed(file: Path = LISTED) -> tuple[Listed, ...]:
    """Read the entries of `ci/mutants.toml`."""
    content = tomllib.loads(file.read_text("utf-8"))
    return tuple(Listed(**each) for each in content.get("equivalent", ()))


def is_listed(fault: Fault, subject: Subject, entries: Sequence[Listed]) -> bool:
    """Whether one of the entries matches a fault."""
    source = subject.sources[fault.file]
    replaced = source.encode()[slice(*fault.span)].decode()
    about = [
        each for each in entries
        if each.implementation == subject.where and fnmatch(fault.file, each.file)
        and (
            each.function in ("*", fault.scope, *fault.scope.split("."))
            or (each.taken and not each.function)
        )
        and re.search(each.holds, replaced) is not None
    ]  # fmt: skip
    # A comparison of whole files, and a walk up the file: once for all entries, if one asks.
    changed = fault.changed_lines(source) if any(each.taken for each in about) else ("", "")
    above = blocks(source, fault.line) if any(each.under for each in about) else [""]
    return any(
        (not each.taken or changed == (each.taken, each.added))
        and any(re.search(each.under, line) is not None for line in above)
        for each in about
    )


def blocks(source: str, number: int) -> list[str]:
    """The first lines of the blocks around line `number` (from 1), innermost first, then `""`."""
    *before, line = source.splitlines()[:number]
    indent, found = len(line) - len(line.lstrip()), []
    for each in reversed(before):
        if each.strip() and len(each) - len(each.lstrip()) < indent:
            indent = len(each) - len(each.lstrip())
            found.append(each.strip())
    return [*found, ""]
