"""Records of judged releases, one file for each release.

`ci/matrix` judges releases, each with the JAX of its day, and writes the files beside this module.
They come with the package, so that a user can look up the requirements that a release breaks
without judging it:

    record("flax", "0.12.8").requirements["objects/graphs/merge-undoes-split"]
    [each.release for each in records("flax")]

A *record* has a finding for each requirement: `passed`, `failed`, `blocked`, `crashed`, `timeout`,
`unclaimed` or `untested`, with the calls that break it. A known failure is `failed` here, because a
record holds observations only, and people write the list of known failures.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from packaging.version import InvalidVersion, Version

from scutch.catalogue import current, retired
from scutch.judging.readable import without_folders
from scutch.judging.verdicts import GRAVITY
from scutch.judging.trials import Counterexample, Trial

BROKEN = frozenset({"failed", "blocked", "crashed", "timeout"})
"""The verdicts on a requirement that a release does not fulfil."""

WITH_INTERFACE = ("flax", "jax")
"""Libraries whose public names and results of programs are recorded, for each release."""

FACTS = (
    "implementation",
    "release",
    "jax",
    "python",
    "suite",
    "profile",
    "examples",
    "seed",
    "date",
    "seconds",
)


class NotRecorded(Exception):
    """A release is not recorded; the message lists the recorded ones.

    Wrong: `record("flax", "0.12.11")`, which was never released.
    Right, with a release that is listed:

        record("flax", "0.12.12")
    """


@dataclass(frozen=True)
class Finding:
    """The verdict of a release on one requirement, with the calls that break it.

    Args:
      verdict: `passed`, `unclaimed`, `untested`, or one of `BROKEN`.
      broken: The call that breaks each law that is broken, with the first line of the error.
      reason: Why it is unclaimed, untested or blocked; empty otherwise.
    """

    verdict: str
    broken: tuple[Counterexample, ...] = ()
    reason: str = ""

    @property
    def witnesses(self) -> dict[str, str]:
        """The call that breaks a law, by the law's name."""
        return {each.test: each.input for each in self.broken}

    def to_json(self) -> Any:
        """The verdict alone if the finding has no call and no reason, else a mapping."""
        calls = [
            ({"input": each.input} if each.input else {"law": each.test}) | {"error": each.error}
            for each in self.broken
        ]
        more = {"broken": calls, "reason": self.reason}
        more = {name: value for name, value in more.items() if value}
        return {"verdict": self.verdict, **more} if more else self.verdict

    @classmethod
    def from_json(cls, data: Any) -> "Finding":
        """The finding that `to_json` turned into `data`."""
        if isinstance(data, str):
            return cls(data)
        broken = (
            Counterexample(
                each.get("law") or each["input"].partition("(")[0],
                each.get("input", ""),
                each["error"],
            )
            for each in data.get("broken", ())
        )
        return cls(data["verdict"], tuple(broken), data.get("reason", ""))

    def joined(self, other: "Finding") -> "Finding":
        """The finding about a requirement that two older ones were merged into.

        It has the graver of both verdicts, with its reason, and the calls that break either one.
        """
        gravest = min((self, other), key=lambda each: GRAVITY.index(each.verdict))
        return replace(gravest, broken=(*self.broken, *other.broken))

    @classmethod
    def of(cls, verdict: str, trials: Iterable[Trial], reason: str | None = None) -> "Finding":
        """The finding of a run.

        Args:
          verdict: One of `judging.verdicts.VERDICTS`.
          trials: The trials of the requirement's laws.
          reason: Why the verdict is not `passed`.

        Returns:
          The finding without regard to known failures: `known` and `fixed` become `failed`,
          `untested`, `passed` or `unclaimed`, by the trials.
        """
        trials = tuple(trials)
        broken = [t for t in trials if t.broke or t.outcome in BROKEN]
        if verdict in ("known", "fixed"):  # as if nothing had been expected
            unmet = [name for trial in trials for name in trial.unmet]
            reason = f"never came up: {', '.join(unmet)}"
            verdict = "failed" if broken else "untested" if unmet else "passed"
            if all(trial.outcome == "skipped" for trial in trials):
                verdict, reason = "unclaimed", next((t.reason for t in trials if t.reason), "")
        calls = [
            replace(each, error=first_line(each.error), way="")
            for t in broken
            for each in t.shown or [Counterexample(t.test, "", t.reason or t.outcome)]
        ]
        quiet = verdict in ("passed", "failed", "crashed", "timeout")
        return cls(verdict, tuple(calls), "" if quiet else first_line(reason or ""))


def first_line(text: str) -> str:
    """The first line of a message, cut after 200 characters, without the folders of a machine."""
    line = without_folders(next(iter(text.strip().splitlines()), ""))
    return line if len(line) <= 200 else f"{line[:197]}..."


@dataclass(frozen=True)
class Record:
    """The findings about one release of an implementation, for every requirement.

    Args:
      implementation: Its name.
      release: Its version.
      jax: The version of JAX that it was judged with.
      python: The version of Python.
      suite: The version of scutch.
      profile: How hard it was judged.
      examples: On how many inputs each law was tried.
      seed: Of the search.
      date: When it was last judged, as `2026-11-22`.
      seconds: How long it took.
      requirements: The finding of each requirement, by identifier.
      held: Digests of the calls that break another release, and do not break this one.
      beside: Whether the JAX is another one than the JAX of the release's day.
    """

    implementation: str
    release: str
    jax: str
    python: str
    suite: str
    profile: str
    examples: int
    seed: int
    date: str
    seconds: int
    requirements: Mapping[str, Finding]
    held: tuple[str, ...] = ()
    beside: bool = False

    def __str__(self) -> str:
        """Name and version, and the JAX where that is another than the release's own."""
        return f"{self.implementation} {self.release}" + self._beside(" with JAX ")

    @property
    def key(self) -> str:
        """The release, and the JAX where that is another than the release's own."""
        return self.release + self._beside("-jax-")

    @property
    def version(self) -> Version:
        """The release, to be compared with others."""
        return Version(self.release)

    @property
    def tally(self) -> list[tuple[str, int]]:
        """The verdicts, each with the number of requirements that have it."""
        return sorted(Counter(each.verdict for each in self.requirements.values()).items())

    @property
    def file(self) -> str:
        """The name of the file that it is kept in."""
        return f"{self.implementation}-{self.key}.json"

    def _beside(self, words: str) -> str:
        return f"{words}{self.jax}" if self.beside else ""

    def to_text(self) -> str:
        """The text of the record's file, in JSON."""
        data: dict[str, Any] = {name: getattr(self, name) for name in FACTS}
        data |= {"beside": True} if self.beside else {}
        data["requirements"] = {name: each.to_json() for name, each in self.requirements.items()}
        data["held"] = " ".join(sorted(self.held))
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_text(cls, text: str) -> "Record":
        """The record that `to_text` wrote, with today's identifiers of requirements."""
        data = json.loads(text)
        found: dict[str, Finding] = {}
        for old, each in data["requirements"].items():
            name, finding = current(old), Finding.from_json(each)
            if old not in retired():
                found[name] = found[name].joined(finding) if name in found else finding
        return cls(**data | {"requirements": found, "held": tuple(data["held"].split())})

    def holds(self, call: str) -> bool:
        """Whether a call that breaks another release was tried on this one and did not break it."""
        return digest(call) in self.held


def digest(call: str) -> str:
    """Eight hexadecimal digits that tell a call from others."""
    return hashlib.sha256(call.encode()).hexdigest()[:8]


@cache
def everything() -> tuple[Record, ...]:
    """All records that come with the package, by implementation, then by release."""
    folder = files(__name__)
    texts = [each.read_text("utf-8") for each in folder.iterdir() if each.name.endswith(".json")]
    return ordered(map(Record.from_text, texts))


def ordered(found: Iterable[Record]) -> tuple[Record, ...]:
    """Records by implementation, then by release, then by JAX."""
    return tuple(
        sorted(found, key=lambda r: (r.implementation, r.version, r.beside, Version(r.jax)))
    )


def records(implementation: str) -> tuple[Record, ...]:
    """The records of an implementation, oldest release first, each with the JAX of its day."""
    return tuple(r for r in everything() if r.implementation == implementation and not r.beside)


def newest(implementation: str) -> Record:
    """The record of the newest release.

    Raises:
      NotRecorded: The implementation has no record; the message lists those that have one.
    """
    found = records(implementation)
    if not found:
        names = ", ".join(dict.fromkeys(each.implementation for each in everything()))
        raise NotRecorded(f"no release of {implementation!r} is recorded; expected one of {names}")
    return found[-1]


def named(text: str) -> Record:
    """The record that a text such as `flax==0.12.6` names.

    Raises:
      NotRecorded: The release has no record, or the text does not have this form.
    """
    name, equals, release = text.partition("==")
    if not equals:
        raise NotRecorded(f"{text!r} names no release; expected one like 'flax==0.12.6'")
    return record(name, release)


def record(implementation: str, release: str) -> Record:
    """The record of one release.

    Args:
      implementation: Such as `flax`.
      release: Such as `0.12.8`, or `0.12.10-jax-0.12.0.1` for one with another JAX.

    Raises:
      NotRecorded: The release has no record; the message lists those that have one.
    """
    newest(implementation)
    found = [each for each in everything() if each.implementation == implementation]
    beside = {each.key: each for each in found if each.beside}
    if release in beside:
        return beside[release]
    try:
        return next(each for each in records(implementation) if each.version == Version(release))
    except (StopIteration, InvalidVersion):
        known = ", ".join(each.key for each in found)
        raise NotRecorded(
            f"{implementation} {release} is not recorded; expected one of {known}"
        ) from None
