"""Commands about releases: what changes between two, and which lines of code that affects.

scutch changes flax 0.12.6
scutch upgrade --to flax==0.12.12 src
"""

import argparse
import json
import sys
from pathlib import Path

from scutch.commands.command import Add, UsageError, put
from scutch.report.text import count


def add(command: Add) -> None:
    """Add the commands about releases.

    Args:
      command: Adds one; see `command.adder`.
    """
    added = command(
        "changes",
        "say what a release changes: refused programs, the interface, requirements",
        _changes,
        "Nothing is judged: releases were, each with the JAX of its day, and what was found comes "
        "with scutch. `scutch upgrade` says which of the changes your code meets.",
    )
    added.add_argument("implementation", metavar="NAME", help="such as flax")
    added.add_argument("old", metavar="OLD", nargs="?", help="a release, such as 0.12.6")
    added.add_argument(
        "new", metavar="NEW", nargs="?", help="a later one (default: the newest that is recorded)"
    )
    added.add_argument("--all", action="store_true", help="show every line and the calls, too")
    added.add_argument("--json", action="store_true", help="print the changes as JSON")
    added.add_argument("--html", metavar="FILE", help="also write them as a page")
    added.add_argument(
        "--history", action="store_true", help="also since when each known failure is one"
    )
    added.add_argument(
        "--fail-on",
        choices=("breaking", "deprecated", "any"),
        help="exit with 1 where there are changes of this gravity, or graver ones",
    )
    added.add_argument(
        "--scripts",
        type=Path,
        metavar="DIR",
        help="write a stand-alone script for each change there; it takes seconds to minutes each",
    )
    added.add_argument(
        "--python",
        metavar="PATH",
        default=sys.executable,
        help="the interpreter of an environment with one of both releases, which runs the scripts "
        "(default: this one)",
    )

    added = command(
        "upgrade",
        "list the places in your code that an upgrade of Flax changes",
        _upgrade,
        "It reads the code and runs nothing. Exit code 1 where something breaks. It does not see "
        "names made at run time, nor the attributes of objects whose class it cannot tell.",
    )
    added.add_argument(
        "--from",
        dest="old",
        metavar="flax==OLD",
        help="the release that the code works with (default: the installed one)",
    )
    added.add_argument(
        "--to",
        dest="new",
        metavar="flax==NEW",
        help="the release to go to (default: the newest that is recorded)",
    )
    added.add_argument(
        "--format",
        choices=("text", "json", "sarif", "github"),
        default="text",
        help="how the places are listed (default: %(default)s)",
    )
    added.add_argument(
        "--run",
        metavar="COMMAND",
        help="run this, such as 'pytest -q', and say which of the places it reaches",
    )
    added.add_argument(
        "--fix",
        action="store_true",
        help="rename keywords and metadata keys in the files: in all of them, or in none",
    )
    added.add_argument("--diff", action="store_true", help="show the renames of --fix as a diff")
    added.add_argument("paths", metavar="PATH", nargs="+", type=Path, help="files and folders")


def _changes(arguments: argparse.Namespace) -> int:
    from scutch import releases
    from scutch.releases import changes, summary

    name = arguments.implementation
    try:
        newest = releases.newest(name)
        old = releases.record(name, arguments.old) if arguments.old else None
        new = releases.record(name, arguments.new) if arguments.new else newest
    except releases.NotRecorded as error:
        raise UsageError(str(error)) from error
    code = 0
    if old is None:
        print(changes.recorded(name))
    else:
        found = summary.summarize(old, new)
        code = int(arguments.fail_on is not None and found.fails(arguments.fail_on))
        if arguments.html is not None:
            from scutch.report.changes import page

            put(page(found), arguments.html, "page")
        if arguments.json:
            print(json.dumps(found.to_json(), indent=1, ensure_ascii=False))
            return code
        print(summary.text(found, everything=arguments.all))
        if arguments.scripts is not None:
            from scutch.reproduce import upgrades

            lines = upgrades.write(found.upgrade, arguments.scripts, arguments.python)
            print("", *lines, sep="\n")
    if arguments.history or old is None:
        from scutch.judging import known  # which imports JAX: a comparison alone does without

        entries = [each for each in known.shipped() if each.implementation == name]
        rows = [(each.requirement, each.test, each.reason) for each in entries]
        print(f"\n{changes.history(name, rows)}")
    return code


def _upgrade(arguments: argparse.Namespace) -> int:
    from scutch import releases
    from scutch.upgrades import code, findings, fixing, observing, report

    try:
        old, new = findings.releases_of(arguments.old, arguments.new)
    except releases.NotRecorded as error:
        raise UsageError(str(error)) from error
    missing = [path for path in arguments.paths if not path.exists()]
    if missing:
        raise UsageError(f"upgrade: {missing[0]} does not exist; expected a file or a folder")
    read = code.read(arguments.paths, new.package)
    found = findings.find(read, old, new)
    if arguments.run:
        try:
            observation = observing.observed(found, arguments.run)
        except observing.NothingObserved as error:
            raise UsageError(f"upgrade: {error}") from error
        found = observation.findings
        if observation.code:
            print(f"scutch: {arguments.run!r} ended with {observation.code}", file=sys.stderr)
    edits = fixing.fixes(found) if arguments.fix or arguments.diff else {}
    if arguments.diff and edits:
        print(fixing.diff(edits))
    if arguments.fix and edits:
        try:
            fixing.apply(edits)
        except OSError as error:
            raise UsageError(f"upgrade: nothing was written: {error}") from error
        print(f"renamed in {count(len(edits), 'file')}: {', '.join(map(str, edits))}")
        found = findings.find(code.read(arguments.paths, new.package), old, new)
    print(report.FORMATS[arguments.format](found))
    return int(found.breaks)
