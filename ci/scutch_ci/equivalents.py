"""Faults that nobody could tell, as ci/mutants.toml lists them with the reason; none is planted."""

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
    """An entry of ci/mutants.toml: what nobody could tell, with the reason.

    Args:
      implementation: The one that it is about.
      file: Of its package, or a pattern: `*` for all.
      reason: Why no law can tell.
      function: A function or class in which no fault counts, or, with `taken`, this one does not.
      holds: A regular expression; only a fault that replaces a text with it does not count.
      under: A regular expression; only a fault in a block does not count that begins with a line
        with it, such as `if x is None:`.
      taken: The lines that the fault takes away, joined, for one fault.
      added: The lines that it adds.
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
    """The entries of ci/mutants.toml."""
    content = tomllib.loads(file.read_text("utf-8"))
    return tuple(Listed(**each) for each in content.get("equivalent", ()))


def is_listed(fault: Fault, subject: Subject, entries: Sequence[Listed]) -> bool:
    """Whether a fault is one that nobody could tell."""
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
    """The lines that begin the blocks in which a line stands, from 1; last, an empty one."""
    *before, line = source.splitlines()[:number]
    indent, found = len(line) - len(line.lstrip()), []
    for each in reversed(before):
        if each.strip() and len(each) - len(each.lstrip()) < indent:
            indent = len(each) - len(each.lstrip())
            found.append(each.strip())
    return [*found, ""]
