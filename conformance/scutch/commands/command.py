"""One command of `scutch`: its parser, its errors, and its output.

added = adder(subparsers)("badge", "draw one report as a small SVG", run)
added.add_argument("report")
"""

import argparse
from collections.abc import Callable
from pathlib import Path

from scutch.examples import shown
from scutch.report.text import publish


class UsageError(Exception):
    """The command line names something that does not exist; the message names valid choices.

    Wrong: `scutch explain BOX-99`.
    Right, after `scutch list objects/graphs` has shown the ids:

        scutch explain objects/graphs/merge-undoes-split
    """


class Help(argparse.HelpFormatter):
    """Fills texts, and leaves the lines of examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return text
        return super()._fill_text(text, width, indent)


Add = Callable[..., argparse.ArgumentParser]
"""Adds a command by its name, its summary in the list of commands, the function that carries it out
and returns the exit code, and `more` sentences for its own help; returns its parser."""


def adder(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> Add:
    """The function that adds commands.

    Args:
      commands: The subparsers of a parser.
    """

    def command(
        name: str, summary: str, run: Callable[[argparse.Namespace], int], more: str = ""
    ) -> argparse.ArgumentParser:
        added = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.{' ' if more else ''}{more}",
            epilog=shown(name),
            formatter_class=Help,
            allow_abbrev=False,
        )
        added.set_defaults(command=run)
        return added

    return command


def put(text: str, output: str | None, kind: str) -> int:
    """Write a text to a file, or print it where none is named.

    Args:
      text: The text.
      output: The path of the file, or `None`.
      kind: The kind of text, such as `badge`, for the error.

    Returns:
      The exit code 0.

    Raises:
      UsageError: The file cannot be written.
    """
    if output is None:
        print(text, end="")
        return 0
    try:
        publish(text, Path(output))
    except OSError as error:
        raise UsageError(f"cannot write the {kind} to {output}: {error.strerror}") from error
    return 0
