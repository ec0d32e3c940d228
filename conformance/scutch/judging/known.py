"""Known failures: which laws a released implementation is expected to break, and why.

A file names the implementation and has one `[[known]]` table for each law that fails, with a
`reason` or the name of a cause (see `scutch.judging.causes`):

    implementation = "flax"

    [[known]]
    requirement = "metadata/box-axes/removal-works-without-assertions"
    versions = ">=0.6.9"
    reason = "remove_axis pops inside an assert, which Python drops under -O"
    upstream = "https://..."
    witness = "test_a_mismatch_is_refused_without_assertions()"
    errors = ["AssertionError at `assert left is None`"]

The witness is the smallest call of a law that breaks, and is tried first, alone. The errors are
the ways (see `scutch.judging.ways`) in which the law breaks, on this and on other inputs: whatever
breaks it in another way is a new failure. A way that was recorded before the law was edited stands
for every way with its error, so that no entry is lost. `scutch known FILE --from REPORT.json`
writes them. A `script` shows the failure where no program can be made from the law; see `scutch
reproduce`.
"""

import functools
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from scutch.catalogue import by_id, current, retired
from scutch.implementation import Implementation, SetupError
from scutch.judging import causes
from scutch.judging.calls import NotACall, parse_call
from scutch.judging.causes import Cause
from scutch.judging.verdicts import Expectation

KEYS = {
    "requirement": True,
    "versions": True,
    "reason": False,
    "cause": False,
    "witness": True,
    "upstream": False,
    "script": False,
}
"""The keys of an entry that are strings, and whether it must have them."""

ERRORS = "errors"
"""The key of an entry that is a list of strings, which may be left out."""


@dataclass(frozen=True)
class Known:
    """A requirement that some releases of an implementation are known to break.

    Args:
      implementation: The name that it is about.
      requirement: The id that fails; a file may have its old id.
      versions: A version range, such as `>=0.12,<0.13`; empty for all.
      reason: Why the implementation departs: effect and fault of the cause, where it has one.
      witness: The smallest call that breaks the law.
      upstream: Address of an issue, if there is one.
      place: File and line, for messages.
      errors: The ways in which the law is known to break; empty for that of the witness.
      script: A program that shows it, for where `scutch reproduce` cannot write one: without a
        heading, and with exit code 1 while the fault is there.
      cause: The fault that it comes from, where the file says so.
    """

    implementation: str
    requirement: str
    versions: str
    reason: str
    witness: str
    upstream: str | None
    place: str
    errors: tuple[str, ...] = ()
    script: str | None = None
    cause: Cause | None = None

    def applies(self, name: str, version: str) -> bool:
        """Whether the entry is about a release.

        Args:
          name: Of the implementation.
          version: Of the release; where it is no version of PyPA's form, such as `main`, only an
            entry for all versions applies.
        """
        try:
            release = Version(version)
        except InvalidVersion:
            return self.implementation == name and not self.versions
        range_ = SpecifierSet(self.versions)
        return self.implementation == name and range_.contains(release, prereleases=True)

    @property
    def test(self) -> str:
        """The law that the witness breaks."""
        return parse_call(self.witness)[0]

    @property
    def expectation(self) -> Expectation:
        """The parts of the entry that a verdict is made from."""
        return Expectation(self.requirement, self.witness, self.reason, self.upstream)


@functools.cache
def shipped() -> tuple[Known, ...]:
    """The entries that come with the suite."""
    folder = files("scutch").joinpath("known")
    names = sorted(f.name for f in folder.iterdir() if f.name.endswith(".toml"))
    return tuple(k for name in names for k in parse((folder / name).read_text("utf-8"), name))


def read(file: Path) -> tuple[Known, ...]:
    """The entries of a file.

    Raises:
      SetupError: The file cannot be read or is malformed; the message has file and line.
    """
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"known failures {str(file)!r}", str(error)) from None
    return parse(text, str(file))


def parse(text: str, file: str) -> tuple[Known, ...]:
    """The entries of a text; an entry about a requirement that is retired is left out.

    Args:
      text: TOML, as the module describes it.
      file: Where it is from, for messages.

    Raises:
      SetupError: As `read`.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SetupError(f"known failures {file}", str(error)) from None
    if extra := sorted(set(content) - {"implementation", "cause", "known"}):
        raise SetupError(
            f"known failures {file}",
            f"unknown key {extra[0]!r} at the top; expected implementation, [cause.NAME] and "
            "[[known]]",
        )
    if not content:
        return ()
    name = content.get("implementation")
    if not isinstance(name, str):
        raise SetupError(
            f"known failures {file}:1", f'expected implementation = "NAME", got {name!r}'
        )
    entries = content.get("known", [])
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise SetupError(f"known failures {file}", "expected [[known]] tables")
    lines = [n for n, line in enumerate(text.splitlines(), 1) if line.strip() == "[[known]]"]
    lines += [1] * (len(entries) - len(lines))
    placed = zip(entries, lines, strict=False)
    faults = causes.parse(content.get("cause", {}), file)
    return tuple(
        _entry(name, e, f"{file}:{n}", faults)
        for e, n in placed
        if e.get("requirement") not in retired()
    )


def _entry(name: str, entry: dict[str, Any], place: str, faults: Mapping[str, Cause]) -> Known:
    def refuse(why: str) -> SetupError:
        return SetupError(f"known failures {place}", why)

    for key, required in KEYS.items():
        if required and key not in entry:
            raise refuse(f"{key!r} is missing")
        if key in entry and not isinstance(entry[key], str):
            raise refuse(f"{key} is {entry[key]!r}; expected a string")
    if ("reason" in entry) is ("cause" in entry):
        raise refuse("expected either 'reason' or 'cause'")
    if "cause" in entry and entry["cause"] not in faults:
        raise refuse(f"cause is {entry['cause']!r}; the file has no [cause.{entry['cause']}]")
    errors = entry.get(ERRORS, [])
    if not isinstance(errors, list) or not all(isinstance(each, str) for each in errors):
        raise refuse(f"{ERRORS} is {errors!r}; expected a list of strings")
    if ERRORS in entry and not errors:
        raise refuse(f"{ERRORS} is empty; expected a string at least, or no such key")
    if extra := sorted(set(entry) - {*KEYS, ERRORS}):
        raise refuse(f"unknown key {extra[0]!r}; expected {', '.join([*KEYS, ERRORS])}")
    if current(entry["requirement"]) not in by_id():
        raise refuse(f"unknown requirement {entry['requirement']!r}; `scutch list` shows all")
    try:
        SpecifierSet(entry["versions"])
    except InvalidSpecifier:
        raise refuse(f"versions {entry['versions']!r} is no range such as '>=0.12,<0.13'") from None
    try:
        parse_call(entry["witness"])
    except NotACall as error:
        raise refuse(f"witness: {error}") from None
    cause = faults.get(entry.get("cause", ""))
    return Known(
        name,
        current(entry["requirement"]),
        entry["versions"],
        cause.reason if cause else entry["reason"],
        entry["witness"],
        entry.get("upstream", cause.upstream if cause else None),
        place,
        tuple(errors),
        entry.get("script"),
        cause,
    )


class Expected(NamedTuple):
    """What is known of how a law breaks.

    Attributes:
      witness: A call that breaks it. It is tried first, alone. If the law holds on it, no way is
        known, so every failure is a new one. If it needs more devices than there are, the ways stay
        known.
      ways: The ways in which it breaks, as `ways.way` has them. Inputs that break it in one of them
        are passed over; if no input breaks it in another way, `Trial.broke` is true. If there is a
        witness and no way, the known way is the one in which the witness breaks the law.
    """

    witness: str | None = None
    ways: tuple[str, ...] = ()


NOTHING = Expected()


def expected(entries: Iterable[Known], requirement: str, test: str) -> Expected:
    """The call that is known to break a law, if there is one, and the ways in which it breaks.

    Args:
      entries: Those that apply, one for each law.
      requirement: The identifier that the law tries.
      test: The name of the law.

    Returns:
      The call and the ways of its entry; `None` and no ways where it has no entry.
    """
    found = (e for e in entries if (e.requirement, e.test) == (requirement, test))
    return next((Expected(entry.witness, entry.errors) for entry in found), NOTHING)


def toml(implementation: str, entries: Iterable[Known]) -> str:
    """The text of a file of known failures; `parse` reads it back.

    Args:
      implementation: The name that they are about.
      entries: The entries; their `implementation` and `place` are not written.
    """
    import tomlkit  # of the extra `report`: a run does without

    tables = []
    for entry in entries:
        values = {key: getattr(entry, key) for key in KEYS if key != "cause"}
        table: dict[str, Any] = {
            key: _plain(text) for key, text in values.items() if text is not None
        }
        if entry.errors:
            table[ERRORS] = tomlkit.item(list(map(_plain, entry.errors))).multiline(True)
        tables.append(table)
    return tomlkit.dumps({"implementation": _plain(implementation), "known": tables})


def with_errors(
    text: str, file: str, release: tuple[str, str], broken: Mapping[tuple[str, str], Sequence[str]]
) -> str:
    """The text of a file, with the ways in which a run broke the laws of its entries.

    All else in the text stays as it is.

    Args:
      text: As `parse` reads it.
      file: Where it is from, for messages.
      release: Name and version of the implementation that was judged.
      broken: The ways, by requirement and law. Those that an entry has already stay.

    Returns:
      The new text of the file.

    Raises:
      SetupError: As `read`.
    """
    import tomlkit

    entries = parse(text, file)
    document = tomlkit.parse(text)
    tables = [t for t in document.get("known", []) if t["requirement"] not in retired()]
    for entry, table in zip(entries, tables, strict=True):
        ways = dict.fromkeys(map(_plain, broken.get((entry.requirement, entry.test), ())))
        new = [way for way in ways if way not in entry.errors and entry.applies(*release)]
        if new and entry.errors:
            table[ERRORS].extend(new)
        elif new:
            table.add(ERRORS, tomlkit.item(new).multiline(True))
            body = table.value.body
            last = max(n for n, (key, _) in enumerate(body[:-1]) if key)
            body.insert(last + 1, body.pop())  # before a comment that may be about the next table
    written = tomlkit.dumps(document)
    return re.sub(r"\r?\n", "\r\n", written) if "\r\n" in text else written


def _plain(text: str) -> str:
    """A text with escapes for the halves of characters, which UTF-8 cannot hold."""
    return text.encode(errors="backslashreplace").decode()


def of(implementation: Implementation) -> tuple[Known, ...]:
    """The suite's own entries about an implementation, or about its upstream."""
    release = implementation.name, implementation.version
    return applicable(shipped(), release, *filter(None, [implementation.upstream]))


def shipped_names() -> tuple[str, ...]:
    """The implementations with known failures that come with the suite."""
    return tuple(dict.fromkeys(entry.implementation for entry in shipped()))


def applicable(entries: Iterable[Known], *releases: tuple[str, str]) -> tuple[Known, ...]:
    """The entries about a release, and about the upstream releases that it descends from.

    Args:
      entries: Entries about any implementations and releases.
      releases: Name and version of the implementation, and then of its upstream, if any. Where two
        releases have entries about the same law, the entry of the earlier one in this order counts.

    Returns:
      The entries that apply, one for each pair of a requirement and a law.

    Raises:
      SetupError: Two of them are about the same law.
    """
    chosen: dict[tuple[str, str], Known] = {}
    everything = tuple(entries)
    for name, version, entry in ((*r, e) for r in releases for e in everything if e.applies(*r)):
        twin = chosen.setdefault((entry.requirement, entry.test), entry)
        if twin is not entry and twin.implementation == name:
            raise SetupError(
                f"known failures {entry.place}",
                f"{entry.requirement} of {name} {version} is known already, from {twin.place}; "
                "expected one entry for each law and release",
            )
    return tuple(chosen.values())
