"""The choices of whoever starts a run: which are possible, and the known failures they name.

    check(profile="ci", level="must", examples=0)

is a `SetupError`, whose message has the option, its value and the expected one.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from scutch import catalogue
from scutch.implementation import SetupError
from scutch.judging import known, profiles, suite
from scutch.judging.calls import NotACall, parse_call

_PROCESSES = (1, 2, 4, 8)


def check(
    *,
    profile: str,
    level: str,
    examples: int | None = None,
    seed: int | None = None,
    timeout: float | None = None,
    within: float | None = None,
    processes: int | None = None,
    edition: str = "",
    shard: str = "",
    replay: str = "",
) -> None:
    """Refuse a value that an option of a run cannot have.

    Args:
      profile: As `run.settle` takes it, and so are the others.
      level: `must` or `should`.
      examples: Inputs for each law.
      seed: Of the search.
      timeout: Seconds that one law may take.
      within: Seconds that the run may take.
      processes: Of a job.
      edition: Of the catalogue.
      shard: A part of the requirements.
      replay: A call to try.

    Raises:
      SetupError: There is one.
    """
    _one_of("--profile", profile, profiles.PROFILES)
    _one_of("--level", level, catalogue.LEVELS)
    if examples is not None and examples < 1:
        raise SetupError(f"--examples {examples}", "expected at least 1")
    if timeout is not None and not 0 < timeout < math.inf:
        raise SetupError(f"--law-timeout {timeout:g}", "expected a number of seconds above 0")
    if seed is not None and seed < 0:
        raise SetupError(f"--seed {seed}", "expected a number from 0")
    if processes is not None:
        _one_of("--processes", processes, _PROCESSES)
    if edition:
        editions = sorted({one.since for one in catalogue.load()}, key=catalogue.edition)
        _one_of("--edition", edition, editions)
    if within is not None and not 0 < within < math.inf:
        raise SetupError(f"--within {within:g}", "expected a time above 0, such as 30s or 5m")
    if shard and seed is None and profiles.PROFILES[profile].seed is None:
        raise SetupError(
            f"--shard {shard}",
            f"profile {profile} draws a new seed for each run; expected --seed "
            "with one number for all shards",
        )
    if replay:
        try:
            parse_call(replay)
        except NotACall as error:
            raise SetupError("--replay", str(error)) from None


def _one_of(option: str, value: object, choices: Collection[object]) -> None:
    if value not in choices:
        raise SetupError(f"{option} {value!r}", f"expected one of {', '.join(map(str, choices))}")


def skipped(skip: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The requirements that are skipped, each with its reason.

    Args:
      skip: Entries, as `PATTERN: REASON`.

    Yields:
      The id of a requirement, and the reason.

    Raises:
      SetupError: An entry has no reason, or no requirement fits its pattern.
    """
    for entry in skip:
        pattern, colon, reason = entry.partition(":")
        if not colon or not reason.strip():
            raise SetupError(f"--skip {entry!r}", "expected PATTERN: REASON")
        yield from ((one.id, reason.strip()) for one in catalogue.select([pattern.strip()]))


def known_failures(file: str) -> tuple[known.Known, ...]:
    """The known failures that `--known` names.

    Args:
      file: The path of a file, `shipped`, `none`, or the name of an implementation.

    Raises:
      SetupError: A witness is no call of today's law.
    """
    match file:
        case "shipped":
            return known.shipped()
        case "none":
            return ()
        case name if name in known.shipped_names():
            return tuple(entry for entry in known.shipped() if entry.implementation == name)
    entries = known.read(Path(file))
    for entry in entries:
        law = suite.named(entry.test)
        if law is not None and not law.takes(entry.witness):
            # The suite was edited since: such a call would break every implementation.
            raise SetupError(
                f"known failures {entry.place}",
                f"{law.name} takes the inputs {', '.join(law.inputs)}, and the witness is "
                f"{entry.witness}; expected a call of today's law",
            )
    return entries
