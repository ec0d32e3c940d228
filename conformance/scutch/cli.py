"""The command `scutch`: run the judge, ask the catalogue, and show, compare and draw reports.

Exit codes: 0 is fine, 1 says that something does not conform or got worse, 2 that the input is
bad, with one message that names the input, its place, and the expected one. A command that Ctrl-C,
SIGTERM or SIGHUP has interrupted exits with 2, too.
"""

import argparse
import importlib.util
import io
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scutch import configuration
from scutch.commands import failures, own, reports, requirements, upgrading
from scutch.commands.command import Help, UsageError, adder
from scutch.examples import shown
from scutch.implementation import SetupError
from scutch.judging.interruptions import FROM_OTHERS, heeded
from scutch.report.document import ReportError, suite
from scutch.shadowing import stranger

_EXIT_CODES: Final = """\
exit codes:
  0  fine
  1  something does not conform, or got worse
  2  bad input or set-up; the message says what was expected
     or interrupted (Ctrl-C, SIGTERM, SIGHUP); a report has what was tried until then
"""

_EXTRA: Final = ("jinja2", "jsonschema", "markupsafe", "rich", "shtab", "tomlkit")


_TAKES_A_PATH: Final = re.compile(r"DIR|FILE|PATH|WHERE|\.json")
"""Occurs in the metavar of an argument that takes a folder (`DIR`) or a file."""


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
        formatter_class=Help,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=str(suite()))
    command = adder(parser.add_subparsers(title="commands", metavar="COMMAND", required=True))
    added = command(
        "run",
        "judge an implementation",
        lambda arguments: _run(arguments.rest),
        "`scutch run --help` lists the options; those of pytest work, too.",
    )
    added.add_argument("rest", nargs="*", metavar="ARGUMENT", help="an argument of pytest")
    if options_of_run:
        from scutch import options

        options.add_options(added.add_argument)
    for subject in (requirements, reports, failures, upgrading, own):
        subject.add(command)
    added = command(
        "completion", "print a script for a shell that completes the command line", _completion
    )
    added.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="the shell that reads it")
    return parser


def _help_of_run() -> int:
    from scutch import options

    parser = argparse.ArgumentParser(
        prog="scutch run",
        usage="scutch run [OPTION ...] [an option of pytest ...]",
        description="Judge an implementation: `pytest -p scutch.plugin --pyargs scutch` with the "
        "options below. Those of pytest work too, such as -n 2, -x, -v and --junitxml.",
        epilog=shown("run"),
        formatter_class=Help,
        add_help=False,
    )
    options.add_options(parser.add_argument)
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


def _completion(arguments: argparse.Namespace) -> int:
    import shtab

    parser = _parser(options_of_run=True)
    (commands,) = (each.choices for each in parser._actions if isinstance(each.choices, dict))
    for action in (each for command in commands.values() for each in command._actions):
        if found := _TAKES_A_PATH.search(str(action.metavar)):
            action.complete = shtab.DIRECTORY if found[0] == "DIR" else shtab.FILE
    print(shtab.complete(parser, arguments.shell))
    return 0
