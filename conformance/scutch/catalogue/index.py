"""Which laws try a requirement, read from their marks without importing them.

The command line and the report name laws, and must not import JAX to do so: the index is made from
the text of `scutch.laws`.

    laws_of("BOX-22")     # ('test_box_axes.py::test_axes_commute_with_replacing',)
"""

import ast
import functools
from importlib import resources


def laws_of(identifier: str) -> tuple[str, ...]:
    """The laws of a requirement, as `file::function`, in the order of files and of their text.

    Those of LOG-9.BOX-2a are BOX-2a's own, tried on the other box class.
    """
    return _index().get(identifier.rpartition(".")[2], ())


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


@functools.cache
def _index() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    folder = resources.files("scutch").joinpath("laws")
    files = [file for file in folder.iterdir() if file.name.endswith(".py")]
    for file in sorted(files, key=lambda file: file.name):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                for identifier in _marked(node):
                    laws = found.get(identifier, ())
                    found[identifier] = (*laws, f"{file.name}::{node.name}")
    return found


def _marked(law: ast.FunctionDef | ast.ClassDef) -> list[str]:
    """The identifiers in the marks of a law."""
    return [
        argument.value
        for mark in law.decorator_list
        if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith("requirement")
        for argument in mark.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
