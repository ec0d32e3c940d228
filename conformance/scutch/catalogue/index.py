"""Which laws try a requirement, read from their marks without importing them.

The command line and the report name laws, and must not import JAX to do so: the index is made from
the text of `scutch.laws`.

    laws_of("metadata/box-axes/axes-commute-with-replacing")
    # ('metadata/test_box_axes.py::test_axes_commute_with_replacing',)
"""

import ast
import fnmatch
import functools
import re
from collections.abc import Iterable
from importlib import resources

from scutch.catalogue import current, plain

_MARK_OR_LAW = re.compile(
    r'^(?:@(?:pytest\.mark\.)?requirement\(\s*("[^"]+"(?:,\s*"[^"]+")*)|def (\w+))', re.MULTILINE
)
"""Finds marks and functions in the text of a file with laws. Parsing the files takes a second."""


def laws_of(identifier: str) -> tuple[str, ...]:
    """The laws of a requirement, as `file::function`, in the order of files and of their text.

    A variant on logical boxes has the laws of the plain requirement, tried on the other box class.
    """
    return _index().get(plain(identifier), ())


def code_of(law: str) -> str:
    """The text of a law, its marks included.

    Args:
      law: As `laws_of` gives it.
    """
    file, _, name = law.partition("::")
    text = resources.files("scutch").joinpath("laws", file).read_text(encoding="utf-8")
    node = next(n for n in ast.walk(ast.parse(text)) if getattr(n, "name", None) == name)
    first = min(mark.lineno for mark in node.decorator_list)  # type: ignore[attr-defined]
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno])  # type: ignore[attr-defined]


def files_of(identifiers: Iterable[str]) -> tuple[str, ...]:
    """The files with the laws of any of these requirements, in the order of their names.

    Args:
      identifiers: Of requirements; one that no law tries has no file.
    """
    return tuple(sorted({law.partition("::")[0] for one in identifiers for law in laws_of(one)}))


def file_of(law: str) -> str | None:
    """The file with a law; `None` where no file has it.

    Args:
      law: Its name, such as `test_boxes_survive_pickling[logical]`.
    """
    ending = f"::{law.partition('[')[0]}"
    found = (each for laws in _index().values() for each in laws if each.endswith(ending))
    return next((each.partition("::")[0] for each in found), None)


def files() -> tuple[str, ...]:
    """Every file with laws, as `part/file`, in the order of these names."""
    folder = resources.files("scutch").joinpath("laws")
    parts = (part for part in folder.iterdir() if part.is_dir())
    names = (f"{part.name}/{file.name}" for part in parts for file in part.iterdir())
    return tuple(sorted(fnmatch.filter(names, "*/test_*.py")))


@functools.cache
def _index() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for file in files():
        text = resources.files("scutch").joinpath("laws", file).read_text(encoding="utf-8")
        marked: list[str] = []
        for identifiers, law in _MARK_OR_LAW.findall(text):
            marked += re.findall(r'"([^"]+)"', identifiers)
            if law:
                for each in marked:
                    own = current(each)
                    found[own] = (*found.get(own, ()), f"{file}::{law}")
                marked = []
    return found
