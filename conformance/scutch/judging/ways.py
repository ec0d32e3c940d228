"""The way in which a law was broken, as a text that is equal for inputs that break it alike.

    ValueError: An auto mesh context or metadata at `variable = bridge.to_nnx_var(col, box)`
    AssertionError at `_check(subject, placed)` > `assert found == expected`

It has the type of the error and, but for assertions, the plain words that its message begins with;
the statement of the law; and the statement of the judge's that ran last, if that is another. No
input, line number or version stands in it, so that it can be kept with a known failure.
"""

import ast
import functools
import itertools
import linecache
import os
import re
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import scutch
from scutch.judging import hypothesis_parts, leaving
from scutch.judging.readable import inert, line, without_folders
from scutch.judging.trials import head

_HOME = str(Path(scutch.__file__).parent)
_WORD = re.compile("[A-Za-z']+[.,:;]?")
_LIBRARIES = sys.stdlib_module_names | {"jax", "jaxlib", "numpy", "hypothesis"}
"""Packages that raise errors because of how an implementation has called them."""
_ROOMS = ("lawkit", "inputs", "engine", "adapters")
"""The rooms with functions that laws call."""
WORDS = 6
"""Words of a message that are kept at most: later ones are more often about the input."""


def way(error: BaseException, function: Callable[..., Any]) -> str:
    """The way in which an error broke a law.

    Args:
      error: The exception that left the law.
      function: The law, as it was written.
    """
    law = last = ""
    for step in leaving.steps(error):
        code = step.tb_frame.f_code
        if code.co_filename == function.__code__.co_filename or code.co_filename.startswith(_HOME):
            last = statements(code.co_filename).get(step.tb_lineno, "")
        if code is function.__code__:
            law = last
    name, _, message = hypothesis_parts.describe(error).partition(": ")
    words = "" if issubclass(type(error), AssertionError) else _first_words(message)
    places = " > ".join(f"`{each}`" for each in dict.fromkeys((law, last)) if each)
    return f"{name}{words and ': '}{words}{places and ' at '}{places}"


def is_among(way: str, known: Collection[str], function: Callable[..., Any]) -> bool:
    """Whether a law is known to break in a way.

    Args:
      way: The way in which it was broken now.
      known: The ways in which it is known to break.
      function: The law, as it was written.

    Returns:
      Whether the way is one of the known ones. A known way whose statements are no longer in the
      law and the rooms that it uses was recorded before the law was edited: it stands for every way
      in which the same is raised.
    """
    if way in known:
        return True
    alike = [each for each in known if head(each) == head(way)]
    return not all(_is_written(each, function.__code__.co_filename) for each in alike)


@functools.cache
def _is_written(way: str, file: str) -> bool:
    """Whether the statements that a way names are in the file of its law, or in `_ROOMS`."""
    named = way.removeprefix(f"{head(way)} at `").removesuffix("`").split("` > `")
    files = [Path(file)]
    files += [each for room in _ROOMS for each in Path(_HOME, room).rglob("*.py")]
    texts = (statements(str(each)).values() for each in files)
    return not set(named).difference(itertools.chain.from_iterable(texts))


def place(error: BaseException, function: Callable[..., Any]) -> str:
    """Where the implementation raised an error, or called a library that raised it.

    Args:
      error: The exception that left the law.
      function: The law, as it was written.

    Returns:
      File and line, such as `my_fork/meta.py:31`, from the working directory where the file lies in
      it. Empty where the judge's own code ran last, as in an assertion of a law.
    """
    file, number = "", 0
    for step in leaving.steps(error):
        frame = step.tb_frame
        name = frame.f_code.co_filename
        if name.startswith(_HOME) or name == function.__code__.co_filename:
            file = ""
        elif not _is_of_library(dict.get(frame.f_globals, "__name__")):
            file, number = name, step.tb_lineno
    shown = without_folders(file.removeprefix(os.getcwd() + os.sep))
    return f"{inert(line(shown))}:{number}" if file else ""


def _is_of_library(module: Any) -> bool:
    """Whether `module`, which may be anything, is the name of a module of `_LIBRARIES`."""
    return type(module) is str and module.partition(".")[0] in _LIBRARIES


def _first_words(message: str) -> str:
    """The words that a message begins with, up to the first that is not of letters alone."""
    return " ".join(itertools.takewhile(_WORD.fullmatch, message.split()[:WORDS]))


@functools.cache
def statements(file: str) -> Mapping[int, str]:
    """The statement at each line of a Python file, on one line; of a compound one, its head.

    Args:
      file: The path of the file.
    """
    lines = linecache.getlines(file)
    found = {}
    for node in ast.walk(ast.parse("".join(lines))):  # the outer ones come first
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            span = range(node.lineno, max(end, node.lineno) + 1)
            text = " ".join(" ".join(lines[n - 1].partition("  # ")[0] for n in span).split())
            found.update(dict.fromkeys(span, text))
    return found
