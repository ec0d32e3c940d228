"""The changes in behaviour from one release to another, by requirement, and since when.

    compare(record("flax", "0.12.2"), record("flax", "0.12.4")).of("broken")

A requirement is *broken* by an upgrade if a tried call breaks it now and none did before. It is
*mended* if a tried call broke it before and none does now; a call that was not tried may still
break it. It is *otherwise* broken if other laws of it are broken, *new* if the old release did not
claim it, and *gone* if the new one does not. A requirement for which either release was tried on
too few inputs is not compared.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scutch.catalogue import HARMS, by_id, in_order
from scutch.judging.readable import quoted
from scutch.judging.trials import Counterexample
from scutch.releases import BROKEN, Finding, Record, everything, records

KINDS = {
    "broken": "Broken: not broken before",
    "mended": "Mended: not broken any more",
    "otherwise": "Broken in another way",
    "new": "New: not claimed before",
    "gone": "Gone: no longer claimed",
}
"""The kinds of changes, in the order in which they are shown."""

_UNTESTED = Finding("untested")
_ABSENT = Finding("unclaimed", reason="not in the catalogue of its day")


@dataclass(frozen=True)
class Change:
    """One requirement about which two releases do not do the same.

    Args:
      requirement: Its identifier.
      kind: A key of `KINDS`.
      old: The finding about the old release.
      new: The finding about the new release.
      since: The first recorded release that behaves as the new one; empty for the new one itself.
      origin: `Flax` or `JAX`, whichever makes the change; empty where no record tells.
    """

    requirement: str
    kind: str
    old: Finding
    new: Finding
    since: str = ""
    origin: str = ""

    @property
    def shown_by(self) -> tuple[Counterexample, ...]:
        """The calls that tell the releases apart: of laws that are broken in only one of them."""
        both = self.old.witnesses.keys() & self.new.witnesses.keys()
        return tuple(c for c in (*self.new.broken, *self.old.broken) if c.test not in both)


@dataclass(frozen=True)
class Upgrade:
    """Everything that changes from one release to another.

    Args:
      old: The record of the old release.
      new: The record of the new release.
      changes: In the order of the contract.
      uncompared: Requirements that were not tried on enough inputs in one of the two.
    """

    old: Record
    new: Record
    changes: tuple[Change, ...]
    uncompared: tuple[str, ...]

    def of(self, kind: str) -> tuple[Change, ...]:
        """The changes of one kind, the gravest harm first."""
        found = [change for change in self.changes if change.kind == kind]
        return tuple(sorted(found, key=lambda change: _harm(change.requirement)))


def _harm(identifier: str) -> int:
    """The index of a requirement's harm in `HARMS`; `len(HARMS)` if the catalogue lacks it."""
    row = by_id().get(identifier)
    return HARMS.index(row.harm) if row else len(HARMS)


def compare(old: Record, new: Record) -> Upgrade:
    """The requirements about which two releases differ.

    Args:
      old: Of any release.
      new: Of another release, or of the same as it was judged now.
    """
    recorded = records(new.implementation)
    between = [each for each in recorded if old.version < each.version < new.version]
    changes, uncompared = [], []
    for identifier in in_order(old.requirements.keys() | new.requirements.keys()):
        before = old.requirements.get(identifier, _ABSENT)
        after = new.requirements.get(identifier, _ABSENT)
        if "untested" in (before.verdict, after.verdict):
            uncompared.append(identifier)
        elif kind := kind_of(before, after):
            since = _since(between, identifier, before, after)
            origin = _origin([old, *between, new], identifier, since)
            changes.append(Change(identifier, kind, before, after, since, origin))
    return Upgrade(old, new, tuple(changes), tuple(uncompared))


def kind_of(old: Finding, new: Finding) -> str:
    """The kind of change from one finding to another.

    Args:
      old: The finding about one release.
      new: The finding about another release.

    Returns:
      A key of `KINDS`; empty if nothing has changed.
    """
    if old.verdict == "unclaimed" or new.verdict == "unclaimed":
        if old.verdict == new.verdict:
            return ""
        return "new" if old.verdict == "unclaimed" else "gone"
    if (old.verdict in BROKEN) != (new.verdict in BROKEN):
        return "broken" if new.verdict in BROKEN else "mended"
    return "otherwise" if old.witnesses.keys() != new.witnesses.keys() else ""


def _since(between: Sequence[Record], identifier: str, old: Finding, new: Finding) -> str:
    """The first release from which on all behave as the new one; empty for the new one itself."""
    since = ""
    for record in reversed(between):
        finding = record.requirements.get(identifier, _ABSENT)
        if finding.verdict != "untested":
            if kind_of(old, finding) != kind_of(old, new) or kind_of(finding, new):
                break
            since = record.release
    return since


def _origin(steps: Sequence[Record], identifier: str, since: str) -> str:
    """Whether the library or JAX makes a change, at the step to the first release that has it.

    Where the two releases of the step were judged with the same JAX, it is the library. Else a
    record of the older release with the JAX of the newer one tells, if there is one.
    """
    place = next((n for n, each in enumerate(steps) if each.release == since), len(steps) - 1)
    old, new = steps[place - 1], steps[place]
    is_jax = old.release == new.release or new.implementation == "jax"
    name = "JAX" if is_jax else new.implementation.capitalize()
    if is_jax or old.jax == new.jax:
        return name
    between = (
        each.requirements.get(identifier, _ABSENT)
        for each in everything()
        if each.implementation == old.implementation
        and (each.release, each.jax) == (old.release, new.jax)
    )
    bridge = next(between, _UNTESTED)
    before, after = (each.requirements.get(identifier, _ABSENT) for each in (old, new))
    if bridge.verdict == "untested":
        return ""
    if kind_of(before, bridge) == kind_of(before, after):
        return "JAX"
    return name if not kind_of(before, bridge) else ""


# ---------------------------------------------------------------- over all releases


@dataclass(frozen=True)
class Span:
    """Releases in a row that break a requirement.

    Args:
      first: The first of them.
      last: The last of them.
      is_oldest: Whether no older release was judged for it: it may be broken for longer.
      is_newest: Whether no newer release is recorded.
      mended: The next release, which does not break it; empty for the newest.
    """

    first: str
    last: str
    is_oldest: bool
    is_newest: bool
    mended: str = ""

    def __str__(self) -> str:
        """Since when until when, in words."""
        since = f"in {self.first} or before" if self.is_oldest else f"since {self.first}"
        if self.is_newest:
            return since
        until = self.last if self.first != self.last else "there alone"
        return f"{since}, until {until}; not in {self.mended}"


def spans(found: Sequence[Record], requirement: str, law: str | None = None) -> tuple[Span, ...]:
    """Since when until when a requirement is broken.

    Args:
      found: Records of one implementation, oldest first.
      requirement: Its identifier.
      law: The name of a law; any of the requirement's where left out.

    Returns:
      One for each row of releases that break it; those in which it was not tried count for neither.
    """
    states = [
        (record.release, _is_broken(finding, law))
        for record in found
        for finding in [record.requirements.get(requirement, _ABSENT)]
        if finding.verdict not in ("unclaimed", "untested")
    ]
    rows: list[Span] = []
    judged = 0
    for broken, row in itertools.groupby(states, key=lambda state: state[1]):
        releases = [release for release, _ in row]
        if broken:
            mended = next((release for release, _ in states[judged + len(releases) :]), "")
            rows.append(Span(releases[0], releases[-1], judged == 0, not mended, mended))
        judged += len(releases)
    return tuple(rows)


def _is_broken(finding: Finding, law: str | None) -> bool:
    return finding.verdict in BROKEN if law is None else law in finding.witnesses


def timeline(implementation: str) -> dict[str, list[str]]:
    """The verdict of every recorded release on each requirement.

    Args:
      implementation: Such as `flax`.

    Returns:
      By identifier, in the order of the contract, the verdicts in the order of `records`.
    """
    found = records(implementation)
    identifiers = in_order({name for record in found for name in record.requirements})
    return {
        name: [record.requirements.get(name, _ABSENT).verdict for record in found]
        for name in identifiers
    }


# ---------------------------------------------------------------- for people


def in_words(upgrade: Upgrade, changes: Sequence[Change], *, calls: bool = True) -> list[str]:
    """Lines for people about changes of one kind.

    Args:
      upgrade: That they belong to.
      changes: Of one kind.
      calls: Whether to show the calls that tell the two releases apart.

    Returns:
      One line for each requirement, and more for its calls.
    """
    lines = []
    for change in changes:
        facts = [f"since {change.since}"] if change.since else []
        facts += [f"from {change.origin}"] if change.origin else []
        since = f"  [{', '.join(facts)}]" if facts else ""
        lines.append(f"  {change.requirement}  {title(change.requirement)}{since}")
        if change.kind == "new":
            word = "broken" if change.new.verdict in BROKEN else "not broken"
            lines[-1] += f"  ({word})"
        for call in change.shown_by if calls else ():
            breaks = upgrade.new if call in change.new.broken else upgrade.old
            holds = upgrade.old if breaks is upgrade.new else upgrade.new
            lines.append(f"      {breaks.release}: {call.error}")
            if call.input and holds.holds(call.input):
                lines.append(f"      {holds.release}: the same call does not break it")
            if call.input:
                lines.append(f"      {replay(breaks.implementation, call.input)}")
        if calls and change.new.verdict == "blocked":
            lines.append(f"      {change.new.reason}")
    return lines


def replay(implementation: str, call: str) -> str:
    """The command that tries a call on the installed release.

    Args:
      implementation: Its name.
      call: Of a law.
    """
    return f"scutch run --implementation {implementation} --replay {quoted(call)}"


def title(identifier: str) -> str:
    """Level and title of a requirement."""
    row = by_id().get(identifier)
    return f"{row.level:6} {row.title}" if row else "not in the catalogue any more"


def summed_up(upgrade: Upgrade) -> str:
    """The number of requirements by kind of change, in one line."""
    counts = [f"{len(upgrade.of(kind))} {kind}" for kind in KINDS if upgrade.of(kind)]
    said = ", ".join(counts) or "no change"
    left = len(upgrade.uncompared)
    return said + (f"; {left} not compared, tried on too few inputs" if left else "")


def recorded(implementation: str) -> str:
    """The recorded releases of an implementation, with the number of requirements by verdict."""
    lines = []
    for each in (one for one in everything() if one.implementation == implementation):
        numbers = (f"{number:4} {verdict}" for verdict, number in each.tally)
        lines.append(f"{each!s:16} jax {each.jax:9} {each.date} {','.join(numbers)}")
    return "\n".join(lines)


def history(implementation: str, known: Iterable[tuple[str, str, str]]) -> str:
    """Since when until when each known failure is one, for people.

    Args:
      implementation: Such as `flax`.
      known: Of each, the requirement, the law and the reason.
    """
    found = records(implementation)
    lines = [f"Known failures of {implementation}, over {len(found)} releases"]
    for requirement, law, reason in known:
        rows = spans(found, requirement, law)
        when = "; ".join(map(str, rows)) or "in no recorded release"
        lines += [f"  {requirement}  {when}", f"             {reason.splitlines()[0]}"]
    return "\n".join(lines)
