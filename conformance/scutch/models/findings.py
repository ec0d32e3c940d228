"""The results of `check`, with findings, untried laws, and findings that the owner accepts.

A file of suppressions has the form of known failures:

    [[known]]
    requirement = "models/annotations/each-name-has-a-rule"
    path = "decoder/embed/*"
    reason = "the vocabulary is small"
"""

import fnmatch
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scutch.implementation import SetupError
from scutch.models.laws import GRAVITY, LAWS, Law, by_id
from scutch.models.layout import folded_path, pattern
from scutch.report.text import count

SHOWN = 3
"""How many findings of one law a text shows in full."""

_KEYS = frozenset({"requirement", "path", "reason"})


@dataclass(frozen=True)
class Finding:
    """One breach of a law.

    Args:
      law: The law.
      path: Of the parameter, or the place in the step.
      problem: The fault as a sentence about the axis, the rule and the values.
      remedy: The change that repairs the model.
      mesh: The mesh shape, as text; empty if the fault occurs on every mesh.
      bytes: Of the array; among equals, larger ones come first.
      reason: Why the owner accepts it; empty for a finding that no suppression covers.
    """

    law: Law
    path: str
    problem: str
    remedy: str
    mesh: str = ""
    bytes: int = 0
    reason: str = ""

    @property
    def fails(self) -> bool:
        """Whether the check fails because of this finding."""
        return self.law.level == "must" and not self.reason


@dataclass(frozen=True)
class Suppression:
    """A pattern of findings that the owner accepts.

    Args:
      requirement: A pattern of ids of laws.
      path: A pattern of paths.
      reason: Why the owner accepts them.
    """

    requirement: str
    path: str
    reason: str

    def covers(self, finding: Finding) -> bool:
        """Whether the patterns match the id and the path of a finding."""
        return fnmatch.fnmatchcase(finding.law.id, self.requirement) and fnmatch.fnmatchcase(
            finding.path, self.path
        )


@dataclass(frozen=True)
class Verdict:
    """The result of a check.

    Args:
      findings: Gravest first, suppressed ones at the end.
      held: Laws that were tried and hold.
      not_applied: Laws that were not tried, with the reason for each.
      unused: Suppressions that cover nothing.
    """

    findings: tuple[Finding, ...]
    held: tuple[Law, ...]
    not_applied: tuple[tuple[Law, str], ...]
    unused: tuple[Suppression, ...] = ()

    @property
    def passes(self) -> bool:
        """Whether no finding fails the check, and every suppression covers a finding."""
        return not any(finding.fails for finding in self.findings) and not self.unused

    def of(self, law: Law) -> tuple[Finding, ...]:
        """The findings of one law."""
        return tuple(finding for finding in self.findings if finding.law == law)


def read_suppressions(path: str | Path) -> tuple[Suppression, ...]:
    """The suppressions in a TOML file.

    Raises:
      SetupError: The file cannot be read, or an entry lacks a key, or names no law.
    """
    try:
        tables = tomllib.loads(Path(path).read_text("utf-8")).get("known", [])
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise SetupError(f"suppressions {path}", f"{error}; expected a TOML file") from error
    found = []
    for number, table in enumerate(tables, 1):
        where = f"suppressions {path}, entry {number}"
        if table.keys() != _KEYS or not all(isinstance(v, str) and v for v in table.values()):
            raise SetupError(
                where, f"it has {sorted(table)}; expected texts for {', '.join(sorted(_KEYS))}"
            )
        entry = Suppression(**table)
        if not any(fnmatch.fnmatchcase(law.id, entry.requirement) for law in LAWS):
            raise SetupError(
                where, f"no law has the id {entry.requirement!r}; see scutch.models.laws"
            )
        found.append(entry)
    return tuple(found)


def verdict(
    findings: Iterable[Finding],
    not_applied: Iterable[tuple[str, str]],
    suppressions: Sequence[Suppression] = (),
    tried: Iterable[Law] = LAWS,
) -> Verdict:
    """Put findings in order, mark suppressed ones, and collect the laws that hold.

    Args:
      findings: In any order; of those with equal law, path and problem the first is kept.
      not_applied: Ids of laws, each with the reason.
      suppressions: The suppressions of the owner.
      tried: The laws that the check was about.

    Returns:
      The verdict.
    """
    found: dict[tuple[str, str, str], Finding] = {}
    used = set()
    for finding in findings:
        for entry in suppressions:
            if entry.covers(finding):
                finding = replace(finding, reason=entry.reason)
                used.add(entry)
        found.setdefault((finding.law.id, finding.path, finding.problem), finding)
    skipped = {by_id(law): reason for law, reason in not_applied}
    broken = {finding.law for finding in found.values()}
    ordered = sorted(found.values(), key=_grave)
    return Verdict(
        tuple(ordered),
        tuple(law for law in tried if law not in broken and law not in skipped),
        tuple((law, reason) for law, reason in skipped.items() if law not in broken),
        tuple(entry for entry in suppressions if entry not in used),
    )


def _grave(finding: Finding) -> tuple[object, ...]:
    return (
        bool(finding.reason),
        finding.law.level != "must",
        GRAVITY.index(finding.law.harm),
        -finding.bytes,
        finding.law.id,
        finding.path,
    )


def text(found: Verdict) -> str:
    """A verdict for a terminal: findings, gravest first, then the laws that were not tried.

    Findings of repeated layers are merged, and for each law only three are shown in full.
    """
    findings = folded(found.findings)
    failing = [finding for finding in findings if finding.fails]
    lines = _lines(findings)
    lines += [
        f"delete the suppression of {each.requirement} at {each.path}: it covers nothing"
        for each in found.unused
    ]
    untried: dict[str, list[str]] = {}
    for law, reason in found.not_applied:
        untried.setdefault(reason, []).append(law.title)
    lines += [f"not tried ({reason}): {'; '.join(laws)}" for reason, laws in untried.items()]
    held = f"{count(len(found.held), 'law')} hold"
    other = len(findings) - len(failing)
    lines.append(
        f"{held}, {count(len(failing), 'finding')} to mend"
        + f", {count(other, 'other')}" * bool(other)
    )
    return "\n".join(lines).strip()


def folded(findings: Iterable[Finding]) -> list[Finding]:
    """Merge findings of repeated layers, which differ only in the numbers in their paths.

    Args:
      findings: In order; a group stands where its first finding does.
    """
    groups: dict[Finding, list[str]] = {}
    for finding in findings:
        one = replace(finding, path=pattern(finding.path), bytes=0)
        groups.setdefault(one, []).append(finding.path)
    return [replace(one, path=folded_path(paths)) for one, paths in groups.items()]


def _lines(findings: Sequence[Finding]) -> list[str]:
    """The lines of some findings, grouped by law."""
    of_law: dict[tuple[Law, str], list[Finding]] = {}
    for finding in findings:
        of_law.setdefault((finding.law, finding.reason), []).append(finding)
    lines = []
    for (law, _), some in of_law.items():
        lines += [line for finding in some[:SHOWN] for line in _finding_lines(finding)]
        if rest := list(dict.fromkeys(finding.path for finding in some[SHOWN:])):
            left = count(len(some) - SHOWN, "more finding")
            lines += [f"{left} of {law.id}, at {', '.join(rest)}; --json shows all", ""]
    return lines


def _finding_lines(finding: Finding) -> list[str]:
    mesh = f" on the mesh {finding.mesh}" * bool(finding.mesh)
    state = f"accepted: {finding.reason}" if finding.reason else finding.law.level
    return [
        f"{finding.path}{mesh}: {finding.problem}",
        f"    write: {finding.remedy}",
        f"    {finding.law.id} ({finding.law.harm}, {state})",
        "",
    ]


def lines_of(some: Iterable[Finding]) -> str:
    """Some findings as text."""
    return "\n".join(_lines(folded(some))).strip()


def document(found: Verdict) -> dict[str, object]:
    """A verdict for JSON."""
    return {
        "passes": found.passes,
        "findings": [
            {
                "law": finding.law.id,
                "harm": finding.law.harm,
                "level": finding.law.level,
                "path": finding.path,
                "problem": finding.problem,
                "remedy": finding.remedy,
                "mesh": finding.mesh,
                "bytes": finding.bytes,
                "reason": finding.reason,
            }
            for finding in found.findings
        ],
        "held": [law.id for law in found.held],
        "not_applied": {law.id: reason for law, reason in found.not_applied},
        "unused_suppressions": [
            {"requirement": each.requirement, "path": each.path} for each in found.unused
        ],
    }
