"""The command `scutch`: run the judge, ask the catalogue, and show, compare and draw reports.

Exit codes: 0 is fine, 1 says that something does not conform or got worse, 2 that the input is
bad, with one message that names the input, its place, and the expected one. A command that Ctrl-C,
SIGTERM or SIGHUP has interrupted exits with 2, too.
"""

import argparse
import difflib
import importlib.util
import io
import json
import os
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scutch import catalogue, configuration
from scutch.catalogue import Requirement, index
from scutch.examples import shown
from scutch.implementation import SetupError, find
from scutch.judging.interruptions import FROM_OTHERS, heeded
from scutch.report import badge, comparison, github, junit, sarif
from scutch.report.document import Outcome, Report, ReportError, load, suite
from scutch.report.findings import Place
from scutch.report.text import count, publish
from scutch.shadowing import stranger

if TYPE_CHECKING:
    from scutch.judging.known import Known

_EXIT_CODES: Final = """\
exit codes:
  0  fine
  1  something does not conform, or got worse
  2  bad input or set-up; the message says what was expected
     or interrupted (Ctrl-C, SIGTERM, SIGHUP); a report has what was tried until then
"""

_AT: Final = (
    "the file that findings stand at: an adapter, or what names the release that was judged"
)
_EXTRA: Final = ("jinja2", "jsonschema", "markupsafe", "rich", "shtab", "tomlkit")


_TAKES_A_PATH: Final = re.compile(r"DIR|FILE|PATH|WHERE|\.json")
"""Occurs in the metavar of an argument that takes a folder (`DIR`) or a file."""


class UsageError(Exception):
    """The command line names something that does not exist; the message names valid choices.

    Wrong: `scutch explain BOX-99`.
    Right, after `scutch list objects/graphs` has shown the ids:

        scutch explain objects/graphs/merge-undoes-split
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command line and return its exit code.

    Args:
      argv: The arguments after the program's name; `None` takes them from `sys.argv`.
    """
    try:
        with heeded(FROM_OTHERS):
            return _main(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt as interrupted:
        return _refuse(str(interrupted) or "interrupted")


def _main(words: list[str]) -> int:
    """Carry out one command line, up to an interruption."""
    if found := stranger():
        return _refuse(found)
    if isinstance(sys.stdout, io.TextIOWrapper):  # it escapes characters that it cannot encode
        sys.stdout.reconfigure(errors="backslashreplace")
    if words[:1] == ["run"]:
        return _help_of_run() if words[1:2] in (["-h"], ["--help"]) else _run(words[1:])
    try:
        arguments = _parser().parse_args(words)
    except SystemExit as stop:  # argparse has printed its help or its complaint
        return int(stop.code or 0)
    try:
        code = int(arguments.command(arguments))
        sys.stdout.flush()
        return code
    except (ReportError, SetupError, UsageError) as error:
        return _refuse(str(error))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRA:
            raise
        return _refuse(
            f"`scutch {words[0]}` needs {package}, which is not installed: "
            'pip install "scutch[report]"'
        )
    except BrokenPipeError:  # the reader of our output, like `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _refuse(message: str) -> int:
    print(f"scutch: {message}", file=sys.stderr)
    return 2


class _Help(argparse.HelpFormatter):
    """Fills texts, and leaves the lines of examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return text
        return super()._fill_text(text, width, indent)


def _parser(options_of_run: bool = False) -> argparse.ArgumentParser:
    """The parser of all commands.

    Args:
      options_of_run: Add the options of `scutch run`, which pytest parses.
    """
    parser = argparse.ArgumentParser(
        prog="scutch",
        description="Judge implementations of Flax-style sharding metadata, lifted "
        "transformations and the Linen-NNX bridge against one contract.",
        epilog=f"{shown()}\n\n{_EXIT_CODES}",
        formatter_class=_Help,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=str(suite()))
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(
        name: str, summary: str, run: Callable[[argparse.Namespace], int], more: str = ""
    ) -> argparse.ArgumentParser:
        added = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.{' ' if more else ''}{more}",
            epilog=shown(name),
            formatter_class=_Help,
            allow_abbrev=False,
        )
        added.set_defaults(command=run)
        return added

    added = command(
        "run",
        "judge an implementation",
        lambda arguments: _run(arguments.rest),
        "`scutch run --help` lists the options; those of pytest work, too.",
    )
    added.add_argument("rest", nargs="*", metavar="ARGUMENT", help="an argument of pytest")
    if options_of_run:
        from scutch import plugin

        plugin.add_options(added.add_argument)

    added = command(
        "list", "list the parts and groups of the catalogue, or the requirements of one", _list
    )
    what = "a part, a group or ids: objects, objects/graphs or 'metadata/box-*'; old ids do, too"
    added.add_argument("pattern", metavar="PATTERN", nargs="?", help=what)
    added.add_argument("--requirement", metavar="PATTERN", help="the same")

    added = command("explain", "say what a requirement asks for, why, and what tests it", _explain)
    added.add_argument("id", metavar="ID", help="a requirement or a group; an old id does, too")

    added = command(
        "report",
        "show reports side by side",
        _report,
        "It shows what was found and exits with 0, whatever that was; `scutch run` is the judge.",
    )
    added.add_argument("reports", metavar="REPORT.json", nargs="+", help="written by the judge")
    added.add_argument("--html", metavar="DIR", help="also write a static site to this folder")

    added = command(
        "merge",
        "make one report of the reports of shards",
        _merge,
        "`scutch run --shard 3/8` writes one of eight. A shard that is missing, that was run twice "
        "or that was cut short is said; then the merged report is not complete, and the exit code "
        "is 2.",
    )
    added.add_argument("reports", metavar="REPORT.json", nargs="+", help="one for each shard")
    added.add_argument(
        "-o", "--output", metavar="WHOLE.json", required=True, help="where the merged one goes"
    )

    added = command(
        "diff",
        "say what changed between two reports, and fail on a regression",
        _diff,
        "A regression is a law that held and does not any more, whatever became of it: failed, "
        "blocked, known, untested, unclaimed or gone; a known failure that now breaks in another "
        "way; or a new report that is not complete.",
    )
    added.add_argument("old", metavar="OLD.json", help="what is vouched for")
    added.add_argument("new", metavar="NEW.json", help="what is to be accepted")
    added.add_argument(
        "--level",
        choices=("must", "should"),
        default="must",
        help="the level whose regressions fail (default: %(default)s)",
    )
    added.add_argument(
        "--allow-known", action="store_true", help="passed to known is not a regression"
    )

    added = command(
        "new-adapter",
        "write a first adapter for a package, from the names that are found in it",
        _new_adapter,
        "It is printed.",
    )
    added.add_argument("package", metavar="PACKAGE", help="its import name")

    added = command(
        "known",
        "write what failed in a run as a file of known failures",
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
        "--from", dest="old", metavar="flax==OLD",
        help="the release that the code works with (default: the installed one)",
    )  # fmt: skip
    added.add_argument(
        "--to", dest="new", metavar="flax==NEW",
        help="the release to go to (default: the newest that is recorded)",
    )  # fmt: skip
    added.add_argument(
        "--format", choices=("text", "json", "sarif", "github"), default="text",
        help="how the places are listed (default: %(default)s)",
    )  # fmt: skip
    added.add_argument(
        "--run", metavar="COMMAND",
        help="run this, such as 'pytest -q', and say which of the places it reaches",
    )  # fmt: skip
    added.add_argument(
        "--fix", action="store_true",
        help="rename keywords and metadata keys in the files: in all of them, or in none",
    )  # fmt: skip
    added.add_argument("--diff", action="store_true", help="show the renames of --fix as a diff")
    added.add_argument("paths", metavar="PATH", nargs="+", type=Path, help="files and folders")

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

    added = command("badge", "draw one report as a small SVG", _badge)
    added.add_argument("report", metavar="REPORT.json", help="written by the judge")
    added.add_argument("-o", "--output", metavar="FILE.svg", help="(default: standard output)")
    added.add_argument(
        "--endpoints",
        metavar="DIR",
        help="also write JSON for shields.io to this folder: scutch.json, and one for each part of "
        "the catalogue, such as bridge.json",
    )

    added = command("sarif", "write what one report found as SARIF 2.1.0", _sarif)
    added.add_argument("report", metavar="REPORT.json", help="written by the judge")
    added.add_argument("--at", metavar="FILE", help=_AT)
    added.add_argument("-o", "--output", metavar="FILE.sarif", help="(default: standard output)")

    added = command("junit", "write one report as JUnit XML", _junit)
    added.add_argument("report", metavar="REPORT.json", help="written by the judge")
    added.add_argument("-o", "--output", metavar="FILE.xml", help="(default: standard output)")

    added = command(
        "github",
        "say in a job of GitHub Actions what one report found",
        _github,
        "Annotations are printed, and a summary in Markdown is added to $GITHUB_STEP_SUMMARY, or "
        "printed where that is not set.",
    )
    added.add_argument("report", metavar="REPORT.json", help="written by the judge")
    added.add_argument("--at", metavar="FILE", help=_AT)
    added.add_argument(
        "--vouched", metavar="OLD.json", help="the summary also says what changed since this report"
    )

    added = command(
        "box",
        "judge box classes, as scutch.judge_box does",
        _box,
        "A class is judged by what every box class owes, in this process. `scutch.judge_box` in a "
        "test takes more options.",
    )
    added.add_argument(
        "classes", metavar="FILE.py:CLASS|MODULE:CLASS", nargs="+", help="what is judged"
    )
    added.add_argument("--make", metavar="FILE.py:NAME|MODULE:NAME",
                       help="what makes a box of value and names (default: the class)")  # fmt: skip
    added.add_argument("--names", default="names", metavar="ATTRIBUTE",
                       help="where a box has its names (default: %(default)s)")  # fmt: skip
    added.add_argument("--known", action="append", default=[], metavar="ID=REASON",
                       help="a requirement that it is known to break; repeatable")  # fmt: skip
    added.add_argument("--replay", default="", metavar="CALL",
                       help="try one law on one input, as a failure shows it")  # fmt: skip
    added.add_argument("--implementation", default="flax", metavar="NAME",
                       help="whose AxisMetadata it extends (default: %(default)s)")  # fmt: skip
    added.add_argument("--requirement", action="append", default=[], metavar="PATTERN",
                       help="judge only these; repeatable")  # fmt: skip
    added.add_argument("--exclude", action="append", default=[], metavar="PATTERN",
                       help="do not judge these; repeatable")  # fmt: skip
    added.add_argument("--profile", default="quick", help="how hard to try (default: %(default)s)")
    added.add_argument("--seed", type=int, default=0, help="of the search (default: %(default)s)")

    added = command(
        "model",
        "show where the arrays of your own model lie, check its training, lock both, compare two",
        _model,
        "`show` computes nothing: shapes suffice. `check` takes some steps on eight fake devices. "
        "`lock` writes a file of layout and cost, and tells what differs from one. `compare` tells "
        "how another model differs in parameters, placement, values from equal weights, and costs.",
    )
    added.add_argument("model", metavar="FILE.py:NAME|MODULE:NAME", help="a scutch.Model")
    added.add_argument("action", choices=("show", "check", "lock", "compare"), help="what to do")
    added.add_argument("other", nargs="?", metavar="FILE.py:NAME|MODULE:NAME",
                       help="compare: the second model")  # fmt: skip
    added.add_argument("--mesh", action="append", default=[], metavar="AXIS=SIZE,...",
                       help="a mesh shape; repeatable (default: those of the model)")  # fmt: skip
    added.add_argument("--json", action="store_true", help="print JSON in the place of text")
    added.add_argument("--html", metavar="FILE", help="show: also write a page")
    added.add_argument("--array", action="append", default=[], metavar="ARRAY",
                       help="show: add JAX's picture of this array; repeatable")  # fmt: skip
    added.add_argument("--steps", type=int, default=3,
                       help="check: on each mesh, 0 for none (default: %(default)s)")  # fmt: skip
    added.add_argument("--seed", type=int, default=0, help="check, compare: of all that is drawn")
    added.add_argument("--devices", type=int, metavar="N",
                       help="lock: for N fake devices along the first axis")  # fmt: skip
    added.add_argument("--tpu", metavar="KIND:SHAPE",
                       help="lock: for absent TPUs, such as v5e:16x16")  # fmt: skip
    added.add_argument("--file", metavar="FILE",
                       help="lock: where it is written (default: NAME.lock.json)")  # fmt: skip
    added.add_argument("--against", metavar="FILE",
                       help="lock: tell what differs from FILE, and fail on it")  # fmt: skip
    added.add_argument("--reason", help="lock: accept what differs from the file that is there")
    added.add_argument("--map", action="append", default=[], metavar="OLD=NEW",
                       help="compare: a path, or its beginning, in both; repeatable")  # fmt: skip
    added.add_argument("--skip", action="append", default=[], metavar="PART",
                       help="compare: no parameters, placement, values or costs")  # fmt: skip
    added.add_argument("--python", metavar="PATH",
                       help="compare: a Python with another Flax, for the second")  # fmt: skip

    added = command(
        "completion", "print a script for a shell that completes the command line", _completion
    )
    added.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="the shell that reads it")
    return parser


def _help_of_run() -> int:
    from scutch import plugin

    parser = argparse.ArgumentParser(
        prog="scutch run",
        usage="scutch run [OPTION ...] [an option of pytest ...]",
        description="Judge an implementation: `pytest -p scutch.plugin --pyargs scutch` with the "
        "options below. Those of pytest work too, such as -n 2, -x, -v and --junitxml.",
        epilog=shown("run"),
        formatter_class=_Help,
        add_help=False,
    )
    plugin.add_options(parser.add_argument)
    print(parser.format_help(), end="")
    return 0


def _run(rest: Sequence[str]) -> int:
    import pytest

    parallel = [word for word in rest if re.match(r"-n|--numprocesses|--dist", word)]
    if parallel and importlib.util.find_spec("xdist") is None:
        return _refuse(f'{parallel[0]} needs pytest-xdist: pip install "scutch[report]"')
    try:
        file, settings = configuration.project(Path.cwd())
    except SetupError as error:
        return _refuse(str(error))
    if file is not None:
        print(f"settings: [tool.scutch] of {file}")
    own = Path(__file__).with_name("judge.toml")  # not the settings of the folder that it is run in
    words = ["-p", "scutch.plugin", "-c", str(own), "--noconftest"]
    words += ["-p", "no:tmpdir"]  # which makes a folder
    if importlib.util.find_spec("xdist") is not None:
        words += ["-p", "xdist"]
    if "no:cacheprovider" not in rest:
        words += ["-o", f"cache_dir={Path.cwd() / '.pytest_cache'}"]
    words += ["--pyargs", "scutch", *configuration.words(settings, rest, file), *rest]
    told = {
        "SCUTCH_COMMAND": "scutch run",  # the beginning of replay commands
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # other plugins are loaded if `-p` names them
    }
    added = told.keys() - os.environ.keys()
    os.environ |= {name: told[name] for name in added}
    try:
        code = int(pytest.main(words))
    finally:
        for name in added:
            del os.environ[name]
    return code if code in (0, 1) else 2  # pytest's codes 3 to 5 are no verdict


def _report(arguments: argparse.Namespace) -> int:
    from scutch.report import table

    reports = [load(path) for path in arguments.reports]
    table.show(reports)
    if arguments.html:
        from scutch.report import site

        page = site.write(reports, catalogue.load(), arguments.html)
        print(f"\nsite: {page}")
    return 0


def _merge(arguments: argparse.Namespace) -> int:
    from scutch.report import merging
    from scutch.report.document import write
    from scutch.report.matrix import matrix

    if again := [path for path, n in Counter(arguments.reports).items() if n > 1]:
        raise UsageError(f"merge: {again[0]} is named twice; expected one report for each shard")
    whole, problems = merging.merged({path: load(path) for path in arguments.reports})
    write(whole, arguments.output)
    for problem in problems:
        print(f"scutch: {problem}; {arguments.output} is not complete", file=sys.stderr)
    (column,) = matrix([whole]).columns
    print(f"{arguments.output}: {count(len(whole.requirements), 'requirement')}, {column.headline}")
    return 2 if problems else int(bool(column.weighing("error")))


def _diff(arguments: argparse.Namespace) -> int:
    old, new = load(arguments.old), load(arguments.new)
    compared = comparison.compare(old, new, allow_known=arguments.allow_known)
    print(compared.text(arguments.level))
    return int(compared.regressed(arguments.level))


def _new_adapter(arguments: argparse.Namespace) -> int:
    from scutch.adapters.draft import draft

    sys.path.insert(0, "")  # a package beside the reader, as `python -m` finds it
    try:
        text = draft(arguments.package)
    except ImportError as error:
        raise UsageError(f"importing {arguments.package} failed: {error}") from error
    if not text:
        raise UsageError(
            f"new-adapter: {arguments.package} has no name of the standard, such as "
            "`logical_to_mesh_axes`, in itself or in a module where Flax has it; the README shows "
            "an adapter for names of your own"
        )
    print(text, end="")
    return 0


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

            _put(page(found), arguments.html, "page")
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


def _known_failures(outcome: Outcome, name: str, version: str) -> Iterator["Known"]:
    """The known failures of a broken requirement, one entry for each broken law."""
    from scutch.judging import known

    broken = [c for c in (outcome.counterexample, *outcome.also) if c is not None and c.input]
    for test in dict.fromkeys(each.test for each in broken):
        ways = [each for each in broken if each.test == test]
        yield known.Known(
            name, outcome.id, f"=={version}", ways[0].error, ways[0].input, outcome.upstream, "",
            tuple(dict.fromkeys(each.way for each in ways if each.way)),
        )  # fmt: skip


def _reproduce(arguments: argparse.Namespace) -> int:
    from scutch import reproduce
    from scutch.judging import known
    from scutch.reproduce import failures

    if (arguments.failure is None) is (arguments.report is None):
        raise UsageError("reproduce: expected either ID|CALL or --report REPORT.json")
    if arguments.report is not None:
        return _reproduce_all(arguments.report, arguments.implementation)
    try:
        requirement, call = failures.failure(arguments.failure, arguments.implementation)
        text = reproduce.script(requirement, call, arguments.implementation)
    except reproduce.NotReproducible as error:
        raise UsageError(str(error)) from error
    if arguments.issue:
        shipped = {(each.requirement, each.witness): each.cause for each in known.shipped()}
        text = reproduce.issue(requirement, text, shipped.get((requirement, call)))
    return _put(text, arguments.output, "script")


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


def _badge(arguments: argparse.Namespace) -> int:
    report = load(arguments.report)
    if arguments.endpoints:
        for name, text in badge.endpoints(report).items():
            _put(text, f"{arguments.endpoints}/{name}.json", "badge")
    return _put(badge.svg(report), arguments.output, "badge")


def _sarif(arguments: argparse.Namespace) -> int:
    report = load(arguments.report)
    return _put(sarif.text(report, _place(arguments, report)), arguments.output, "SARIF file")


def _junit(arguments: argparse.Namespace) -> int:
    return _put(junit.text(load(arguments.report)), arguments.output, "JUnit file")


def _put(text: str, output: str | None, what: str) -> int:
    """Write a text to a file, or print it where none is named."""
    if output is None:
        print(text, end="")
        return 0
    try:
        publish(text, Path(output))
    except OSError as error:
        raise UsageError(f"cannot write the {what} to {output}: {error.strerror}") from error
    return 0


def _place(arguments: argparse.Namespace, report: Report) -> Place | None:
    """The place that `--at` names."""
    return Place.of(arguments.at, report.implementation.name) if arguments.at else None


def _github(arguments: argparse.Namespace) -> int:
    report = load(arguments.report)
    summary = github.summary(report, load(arguments.vouched) if arguments.vouched else None)
    print(github.annotations(report, _place(arguments, report)), end="")
    if not (path := os.environ.get("GITHUB_STEP_SUMMARY")):
        print(summary, end="")
        return 0
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(summary)
    except OSError as error:
        raise UsageError(f"cannot add the summary to {path}: {error.strerror}") from error
    return 0


def _completion(arguments: argparse.Namespace) -> int:
    import shtab

    parser = _parser(options_of_run=True)
    (commands,) = (each.choices for each in parser._actions if isinstance(each.choices, dict))
    for action in (each for command in commands.values() for each in command._actions):
        if found := _TAKES_A_PATH.search(str(action.metavar)):
            action.complete = shtab.DIRECTORY if found[0] == "DIR" else shtab.FILE
    print(shtab.complete(parser, arguments.shell))
    return 0


def _box(arguments: argparse.Namespace) -> int:
    from scutch.owners import BOX_LAWS, Nonconforming, judge_box

    known = dict(each.partition("=")[::2] for each in arguments.known)
    if without := [each for each, why in known.items() if not why.strip()]:
        raise UsageError(f"--known {without[0]}: expected ID=REASON, with the reason for it")
    code = 0
    try:
        make = find(arguments.make) if arguments.make else None
        for where in arguments.classes:
            again = ["scutch", "box", where]
            for option, default in (("make", None), ("names", "names"), ("implementation", "flax")):
                given = getattr(arguments, option)
                again += [f"--{option}", given] if given != default else []
            try:
                found = judge_box(
                    find(where),
                    make=make,
                    names=arguments.names,
                    known=known,
                    implementation=arguments.implementation,
                    requirements=arguments.requirement or BOX_LAWS,
                    exclude=arguments.exclude,
                    profile=arguments.profile,
                    seed=arguments.seed,
                    replay=arguments.replay,
                )
            except Nonconforming as broken:
                print(broken.told(where, [*again, "--replay"]))
                code = 1
            else:
                lacks = f"; it has not: {', '.join(found.lacks)}" if found.lacks else ""
                print(f"{where} conforms in {count(len(found.rulings), 'requirement')}{lacks}")
                if found.untried:
                    print(f"not judged: {', '.join(found.untried)}")
    except SystemExit as error:
        raise UsageError(f"importing what is judged raised SystemExit: {error}") from error
    return code


def _model(arguments: argparse.Namespace) -> int:
    from scutch.judging.profiles import prepare_devices
    from scutch.models import command

    if (arguments.action == "compare") != (arguments.other is not None):
        raise UsageError(
            f"model {arguments.model} {arguments.action} {arguments.other or ''}: expected a "
            "second model after `compare`, and none after another action"
        )
    if arguments.action == "compare":
        command.prepare_fake_devices(command.wanted_devices(arguments.mesh, None, None))
        text, code = command.compare(
            arguments.model, arguments.other, meshes=arguments.mesh, maps=arguments.map,
            skip=arguments.skip, seed=arguments.seed, python=arguments.python,
            as_json=arguments.json,
        )  # fmt: skip
        print(text)
        return code
    if arguments.action == "show":
        print(command.show(
            arguments.model, meshes=arguments.mesh, as_json=arguments.json,
            arrays=arguments.array, html=arguments.html,
        ))  # fmt: skip
        return 0
    if arguments.action == "lock":
        if arguments.devices and arguments.tpu:
            raise UsageError("--devices and --tpu: expected one of them")
        devices = command.wanted_devices(arguments.mesh, arguments.devices, arguments.against)
        command.prepare_fake_devices(devices)
        text, code = command.lock(
            arguments.model, meshes=arguments.mesh, devices=arguments.devices, tpu=arguments.tpu,
            file=arguments.file, against=arguments.against, reason=arguments.reason,
        )  # fmt: skip
        print(text)
        return code
    prepare_devices()
    text, code = command.check(
        arguments.model, meshes=arguments.mesh, steps=arguments.steps, seed=arguments.seed,
        as_json=arguments.json,
    )  # fmt: skip
    print(text)
    return code


def _list(arguments: argparse.Namespace) -> int:
    pattern = arguments.pattern or arguments.requirement
    if pattern is None:
        return _list_groups()
    chosen = catalogue.select(pattern)
    width = max(len(requirement.id) for requirement in chosen)
    for requirement in chosen:
        print(f"{requirement.id:{width}}  {requirement.level:6}  {requirement.title}")
    return 0


def _list_groups() -> int:
    """Print the parts and groups, each with the number of its requirements."""
    everything = catalogue.load()
    of_part = Counter(one.part for one in everything)
    of_group = Counter(one.group for one in everything)
    names = {group: group.partition("/")[2] for group in of_group}
    width = max(map(len, [*catalogue.PARTS, *(f"  {name}" for name in names.values())]))
    for part in of_part:
        print(f"{part:{width}}  {of_part[part]:3}  {catalogue.PARTS.get(part, '')}")
        for group in (each for each in of_group if each.startswith(f"{part}/")):
            print(f"{'  ' + names[group]:{width}}  {of_group[group]:3}  {catalogue.about(group)}")
    print(f"{count(len(everything), 'requirement')}; `scutch list objects/graphs` lists a group")
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    everything = catalogue.load()
    chosen = catalogue.named(arguments.id)
    retired = {old.lower(): reason for old, reason in catalogue.retired().items()}
    if reason := retired.get(arguments.id.lower()):
        print(textwrap.fill(f"{arguments.id} is not asked for any more. {reason}", 90))
        return 0
    if not chosen:
        ids = {old.lower(): one.id for one in everything for old in (one.id, *one.was)}
        close = [ids[name] for name in difflib.get_close_matches(arguments.id.lower(), ids)]
        remedy = f"did you mean {' or '.join(close)}?" if close else "`scutch list` shows all"
        raise UsageError(f"no requirement {arguments.id!r}; {remedy}")
    print("\n\n".join(_explanation(one, everything) for one in chosen))
    return 0


def _explanation(requirement: Requirement, everything: Sequence[Requirement]) -> str:
    facts = {
        "level": requirement.level,
        "harm": requirement.harm,
        "domain": requirement.domain,
        "source": requirement.source,
        "documents": "\n".join(f"{d.title}\n{d.address}" for d in requirement.documents),
        "quote": requirement.quote,
        "loss": requirement.loss,
        "capability": requirement.capability,
        "since": requirement.since,
        "until 0.1": ", ".join(requirement.was),
        "needs": ", ".join(requirement.needs),
        "needed by": ", ".join(one.id for one in everything if requirement.id in one.needs),
        "laws": "\n".join(index.laws_of(requirement.id)) or "none yet",
    }
    lines = [f"{requirement.id}  {requirement.title}", ""]
    for paragraph in requirement.text.strip().split("\n\n"):
        lines += [textwrap.fill(" ".join(paragraph.split()), 90), ""]
    for name, value in facts.items():
        for number, part in enumerate(value.splitlines()):
            filled = textwrap.wrap(part, 90, break_long_words=False, break_on_hyphens=False)
            for again, piece in enumerate(filled):
                lines.append(f"  {name if number == again == 0 else '':12}{piece}")
    if requirement.jax:
        lines += ["", "  JAX does so:", "", textwrap.indent(requirement.jax.rstrip(), "    ")]
    for law in index.laws_of(requirement.id):
        lines += ["", textwrap.indent(index.code_of(law), "    ")]
    return "\n".join(lines)
