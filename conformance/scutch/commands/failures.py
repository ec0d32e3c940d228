"""Commands about the failures of a run, as known ones and as scripts.

scutch known failures.toml --from report.json
scutch reproduce objects/graphs/merge-undoes-split
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from scutch.commands.command import Add, UsageError, put
from scutch.report.document import Outcome, load
from scutch.report.text import publish

if TYPE_CHECKING:
    from scutch.judging.known import Known


def add(command: Add) -> None:
    """Add the commands about failures.

    Args:
      command: Adds one; see `command.adder`.
    """
    added = command(
        "known",
        "write the failures of a run as a file of known failures",
        _known,
        "Each entry has the smallest input and the error as its reason: read them, say why the "
        "implementation departs, and give the file to `scutch run --known FILE`.",
    )
    added.add_argument("file", metavar="FILE.toml", help="must not be there yet")
    added.add_argument(
        "--update",
        action="store_true",
        help="it is there: add to its entries the ways in which the run broke their laws",
    )
    added.add_argument(
        "--from", dest="report", metavar="REPORT.json", required=True, help="written by the judge"
    )

    added = command(
        "reproduce",
        "write a stand-alone script that shows a failure",
        _reproduce,
        "The script imports the judged library, JAX and NumPy, and nothing of this suite; it exits "
        "with 1 while the fault is there, with 0 when it is gone, and with 2 for any other error. "
        "It is run before it is written. For an identifier it is about the witness of a known "
        "failure, or else about the smallest input that a search finds.",
    )
    added.add_argument(
        "failure",
        metavar="ID|CALL",
        nargs="?",
        help="a requirement, or the call of a law as reports show it",
    )
    added.add_argument(
        "--report", metavar="REPORT.json", help="put one into a report for each failure in it"
    )
    added.add_argument(
        "--implementation", default="flax", metavar="WHERE", help="as for `scutch run` (flax)"
    )
    added.add_argument("--issue", action="store_true", help="as the text of an upstream issue")
    added.add_argument("-o", "--output", metavar="FILE", help="(default: standard output)")


def _known(arguments: argparse.Namespace) -> int:
    from scutch.judging import known

    report, file = load(arguments.report), Path(arguments.file)
    name, version = report.implementation.name, report.implementation.version
    broken = [o for o in report.requirements if o.verdict in ("failed", "blocked", "known")]
    entries = [entry for outcome in broken for entry in _known_failures(outcome, name, version)]
    if arguments.update:
        ways = {(entry.requirement, entry.test): entry.errors for entry in entries}
        before = known.read(file)
        text = known.with_errors(file.read_bytes().decode(), str(file), (name, version), ways)
        publish(text, file)
        for old, new in zip(before, known.read(file), strict=True):
            for each in new.errors[len(old.errors) :]:
                print(f"{new.place}: {new.requirement} also breaks by {each}")
        return 0
    if file.exists():
        raise UsageError(
            f"{file} is there already; expected the name of a new file, or --update to add to its "
            "entries the ways in which the run broke them"
        )
    publish(known.toml(name, entries), file)
    print(f"{file}: {len(entries)} known failures of {report.implementation}")
    left_out = [o.id for o in report.requirements if o.verdict in ("crashed", "timeout")]
    left_out += sorted({o.id for o in broken} - {entry.requirement for entry in entries})
    if left_out:
        print(f"left out, for no input breaks them in the same way again: {', '.join(left_out)}")
    return 0


def _known_failures(outcome: Outcome, name: str, version: str) -> Iterator["Known"]:
    """The known failures of a broken requirement, one entry for each broken law."""
    from scutch.judging import known

    broken = [c for c in (outcome.counterexample, *outcome.also) if c is not None and c.input]
    for test in dict.fromkeys(each.test for each in broken):
        ways = [each for each in broken if each.test == test]
        yield known.Known(
            name,
            outcome.id,
            f"=={version}",
            ways[0].error,
            ways[0].input,
            outcome.upstream,
            "",
            tuple(dict.fromkeys(each.way for each in ways if each.way)),
        )


def _reproduce(arguments: argparse.Namespace) -> int:
    from scutch import reproduce
    from scutch.judging import known
    from scutch.reproduce import failures, process

    if (arguments.failure is None) is (arguments.report is None):
        raise UsageError("reproduce: expected either ID|CALL or --report REPORT.json")
    if arguments.report is not None:
        return _reproduce_all(arguments.report, arguments.implementation)
    try:
        requirement, call = failures.failure(arguments.failure, arguments.implementation)
        told = f"{requirement}: the program is made shorter for {process.SECONDS:.0f} s at most"
        print(told, file=sys.stderr, flush=True)
        text = reproduce.script(requirement, call, arguments.implementation)
    except reproduce.NotReproducible as error:
        raise UsageError(str(error)) from error
    if arguments.issue:
        shipped = {(each.requirement, each.witness): each.cause for each in known.shipped()}
        text = reproduce.issue(requirement, text, shipped.get((requirement, call)))
    return put(text, arguments.output, "script")


def _reproduce_all(path: str, implementation: str) -> int:
    """Put a script into a report for each failure with a counterexample that has none yet."""
    from scutch import reproduce
    from scutch.report.document import write

    report, missing = load(path), 0
    for outcome in report.requirements:
        if outcome.counterexample is None or not outcome.counterexample.input or outcome.script:
            continue
        try:
            text = reproduce.script(outcome.id, outcome.counterexample.input, implementation)
        except reproduce.NotReproducible as error:
            print(error)
            missing += 1
            continue
        others = [each for each in report.requirements if each.id != outcome.id]
        report = replace(report, requirements=(*others, replace(outcome, script=text)))
        write(report, path)
        print(f"{outcome.id}: {len(text.splitlines())} lines")
    return int(missing > 0)
