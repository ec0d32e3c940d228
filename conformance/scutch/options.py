"""The options of a conformance run, and the run that they ask for.

add_options(parser.add_argument)
run = settled(parser.parse_args(), isolate=True)
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scutch.implementation import SetupError
from scutch.judging import profiles
from scutch.judging.run import Run, settle
from scutch.judging.verdicts import CONFORMING
from scutch.progress import seed_in
from scutch.report import Report
from scutch.report.document import broken_by
from scutch.report.document import load as load_report

Refused: Any = type("scutch", (pytest.exit.Exception,), {"__module__": "builtins"})
"""Ends pytest with a sentence and an exit code; pytest prints its name before the sentence."""


def add_options(add: Callable[..., Any]) -> None:
    """Add the options of a conformance run.

    Args:
      add: The method of a parser that adds one option.
    """
    tries = "; ".join(
        f"{n}: {p.summary}, {p.examples} inputs" for n, p in profiles.PROFILES.items()
    )
    add(
        "--implementation",
        default="reference",
        metavar="NAME|MODULE:ATTR|FILE",
        help="what to judge: an installed name (reference, flax), module:attribute, or a .py file "
        "that defines `implementation` (default: reference)",
    )
    add("--profile", default=profiles.DEFAULT, metavar="NAME", help=f"how hard to try: {tries}")
    add(
        "--within",
        metavar="TIME",
        help="judge the requirements that find the most faults in this time, such as 30s or 5m, "
        "and list the parts that are left out; the start takes some 5 s of it",
    )
    add(
        "--changed",
        default="",
        metavar="COMMIT",
        help="judge only requirements whose laws call a function that has changed since a commit "
        "of the repository here; the first such run judges all, and notes the calls",
    )
    add("--examples", metavar="N", help="inputs for each law (default: the profile's)")
    add(
        "--requirement",
        action="append",
        default=[],
        metavar="PATTERN",
        help="judge only these: a part, a group (objects/graphs), an id or a pattern; repeatable",
    )
    add(
        "--from",
        dest="again",
        default="",
        metavar="REPORT.json",
        help="judge again the requirements that failed in this report, on the inputs that broke "
        "laws there first",
    )
    add(
        "--skip",
        action="append",
        default=[],
        metavar="'PATTERN: REASON'",
        help="do not judge these requirements, which are unclaimed for the reason; repeatable",
    )
    add(
        "--edition",
        default="",
        metavar="EDITION",
        help="the edition of the catalogue that must hold, such as 0.1: newer requirements count "
        "as shoulds (default: the newest)",
    )
    add(
        "--level",
        default="must",
        metavar="must|should",
        help="what must hold for exit code 0; with must (the default) a departure from a should "
        "is reported and does not fail the run",
    )
    add(
        "--known",
        action="append",
        default=[],
        metavar="FILE|shipped|none|NAME",
        help="expected failures: a file, or the name of what a fork descends from (flax); "
        "repeatable (default: shipped, those that come with scutch)",
    )
    add(
        "--against",
        default="",
        metavar="NAME==RELEASE",
        help="also say what is not as it was in a release that was recorded, such as flax==0.12.6",
    )
    add("--report", dest="scutch_report", metavar="PATH.json", help="write the JSON report here")
    add("--seed", metavar="N", help="seed of the search (default: the profile's)")
    add(
        "--resume",
        metavar="FILE",
        help="keep in this file what each law did, and do not try again what an earlier part of "
        "this run has tried, which was cut off",
    )
    add(
        "--replay",
        default="",
        metavar="CALL",
        help="try one law on one input, as the replay command of a failure has it",
    )
    add(
        "--law-timeout",
        metavar="SECONDS",
        help="time that one law may take (default: the profile's, and in proportion more for more "
        "--examples)",
    )
    add(
        "--platform",
        metavar="NAME",
        help="the platform of JAX that laws run on: cpu (the default, with eight fake devices), "
        "cuda, tpu; what needs more devices than there are is unclaimed",
    )
    add(
        "--processes",
        metavar="N",
        help="processes of the job in which laws of several processes are tried: 2, 4 or 8, or 1 "
        "for none (default: 2)",
    )
    add(
        "--launched",
        action="store_true",
        help="a launcher (SLURM, Kubernetes, Cloud TPU) has started this command in each process "
        "of a job: try the laws of several processes in it; process 0 reports",
    )
    add(
        "--no-traces",
        action="store_true",
        help="compile and run both routes of a law on every input; without this option, two routes "
        "with equal traces agree, and only a sample of them is run",
    )
    add(
        "--shard",
        default="",
        metavar="N/M",
        help="judge the Nth of M parts of the requirements, divided alike on every machine; "
        "`scutch merge` makes one report of all",
    )
    add(
        "--no-cache",
        action="store_true",
        help="compile everything anew, and keep nothing; without this option, compiled programs "
        "are kept in ~/.cache/scutch (or $XDG_CACHE_HOME/scutch) for the next run on the same "
        "implementation, JAX and platform",
    )
    add(
        "--in-process",
        action="store_true",
        help="run laws in this process, for debuggers; a crash then ends the run",
    )


def settled(option: Any, *, isolate: bool) -> Run:
    """The run that options ask for.

    Args:
      option: Holds the values of the options of `add_options`.
      isolate: Whether laws are tried in processes of their own.

    Raises:
      SetupError: A value is refused.
      ReportError: The report of `--from` is none.
      Refused: Nothing failed in that report.
    """
    seed = _number("--seed", option.seed)
    if option.resume and seed is None:
        seed = seed_in(Path(option.resume))
    patterns, first = option.requirement, {}
    if option.again:
        first = broken_by(option.again)
        rows = _read(option.again).requirements
        patterns = [one.id for one in rows if one.verdict not in CONFORMING]
        if not patterns:
            raise Refused(f"nothing is to be judged: nothing failed in {option.again}", 0)
    return settle(
        option.implementation,
        profile=option.profile,
        examples=_number("--examples", option.examples),
        seed=seed,
        level=option.level,
        patterns=patterns,
        known_files=option.known,
        replay=option.replay,
        timeout=_number("--law-timeout", option.law_timeout, float),
        isolate=isolate,
        processes=_number("--processes", option.processes),
        launched=option.launched,
        by_traces=not option.no_traces,
        keep_compiled=not option.no_cache,
        shard=option.shard,
        within=_seconds(option.within),
        since=option.changed,
        skip=option.skip,
        edition=option.edition,
        first=first,
        workers=getattr(option, "numprocesses", None) or 1,  # pytest-xdist's
    )


def _read(path: str) -> Report:
    """The report at a path.

    Raises:
      ReportError: There is no file, or it is no report.
      SetupError: A package that checks reports is not installed.
    """
    try:
        return load_report(path)
    except ModuleNotFoundError as error:
        needed = f'it needs {error.name}: pip install "scutch[report]"'
        raise SetupError(f"--from {path}", needed) from None


def _seconds(text: str | None) -> float | None:
    """The seconds of a time such as `30s`, `5m` or `2h`; without a letter, seconds."""
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smh]?)", text)
    if found is None:
        raise SetupError(f"--within {text!r}", "expected a time such as 30s, 5m or 2h")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def _number(option: str, text: str | None, kind: type = int) -> Any:
    """The number that an option has, or `None`."""
    try:
        return None if text is None else kind(text)
    except ValueError:
        raise SetupError(f"{option} {text!r}", "expected a number") from None
