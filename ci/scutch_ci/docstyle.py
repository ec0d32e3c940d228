"""The check `docstyle` of `ci/test`: the rules for public docstrings that ruff cannot say.

Ruff checks the form of a docstring, in `ci/test lint`; `pyproject.toml` switches its rules on:

- Every public module, class, method and function has a docstring (`D100` to `D104`). It begins with
  one line that ends in a full stop, then a blank line (`D205`, `D212`, `D400`, `D415`).
- `Args:` names no parameter that the function lacks (`DOC102`), and `Returns:` and `Yields:` stand
  only where something is returned or yielded (`DOC202`, `DOC403`).
- `Raises:` of a docstring that has several lines names each exception that the function raises
  (`DOC501`).

This module adds the rules below. It reads both packages with `ast`, without the laws, whose
docstrings have another form, and reports `file:line: name: fault`. A name is *public* if no part of
it begins with an underscore. Pytest documents its hooks.

- A module says its idea in two lines or more. One line is enough for a package's `__init__`, and
  for a module of fewer than ten statements.
- The first line of a docstring is one sentence.
- With two or more parameters, `Args:` names each of them; one entry may name several. (Ruff's
  `D417` refuses such an entry, and reads neither a class nor a docstring without `Args:`.) The
  parameters of a class are those of its `__init__`, or the fields of a dataclass. `*args` and
  `**kwargs` may appear anywhere in the docstring. Hypothesis passes `draw`, so it needs no entry.
- With three or more parameters, a function that returns a value has `Returns:` or `Yields:`.
  (Ruff's `DOC201` and `DOC402` ask for it with any number.)
- A docstring of one line belongs to a function that raises no exception of its own. (`DOC501`
  passes over one line; otherwise it would ask for `Raises:` in private functions.)
- An error class shows `Wrong` code and `Right` code, in an indented block or a doctest. A class
  that other errors extend needs no example.

```python
def scale(value, factor, axis):
    '''`value` times `factor` along an axis.

    Args:
      value: An array of shape `[n, m]`.
      factor: A number.
      axis: 0 or 1.

    Returns:
      An array of the same shape and dtype.

    Raises:
      ValueError: `axis` is neither 0 nor 1.
    '''
```
"""  # noqa: D214

import ast
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from scutch_ci.checkout import ROOT

PACKAGES = ("reference/scutch_reference", "conformance/scutch")
LAWS = ROOT / "conformance/scutch/laws"
TINY_MODULE = 10
ARGS_FROM = 2
RETURNS_FROM = 3
Function = ast.FunctionDef | ast.AsyncFunctionDef
_CODE = re.compile(r"`[^`]*`")
_ARGS = re.compile(r"^(?:Args|Attributes):\n((?: .*\n?|\n)*)", re.MULTILINE)
_ENTRY = re.compile(r"^  ([*\w`, ]+)(?: \(.*\))?:", re.MULTILINE)
_RETURNS = re.compile(r"^(Returns|Yields):$", re.MULTILINE)
_EXAMPLE = re.compile(r"^(?: {4,}|>>> )\S", re.MULTILINE)
_ERRORS = ("Error", "Exception", "Warning")
_NOT_GIVEN = {"self", "cls", "draw"}
_NO_VALUE = {"None", "NoReturn"}


def findings(files: Sequence[Path], root: Path) -> list[str]:
    """The faults in the docstrings of Python files, as `file:line: name: fault`.

    Args:
      files: Python files; the classes that other classes extend are looked up among them.
      root: The folder that paths are reported from.

    Returns:
      A line for each fault, in the order of `files`.
    """
    trees = {file: ast.parse(file.read_text("utf-8")) for file in files}
    nodes = (node for tree in trees.values() for node in ast.walk(tree))
    extended = {
        _last_name(b) for node in nodes if isinstance(node, ast.ClassDef) for b in node.bases
    }
    return [
        f"{file.relative_to(root).as_posix()}:{getattr(node, 'lineno', 1)}: {name}: {fault}"
        for file, tree in trees.items()
        for name, node in _public(tree, file.stem)
        for fault in _faults(name, node, extended)
    ]


Definition = ast.Module | ast.ClassDef | Function


def _public(node: Definition, name: str) -> Iterator[tuple[str, Definition]]:
    """A module or a class, and the public classes and functions in it, with their names."""
    yield name, node
    for each in node.body if isinstance(node, ast.Module | ast.ClassDef) else ():
        if isinstance(each, ast.ClassDef | Function) and not each.name.startswith(("_", "pytest_")):
            yield from _public(each, f"{name}.{each.name}")


def _faults(name: str, node: Definition, extended: Collection[str]) -> Iterator[str]:
    """The faults in one docstring; `extended` are the names of the classes that others extend."""
    text = ast.get_docstring(node) or ""
    if isinstance(node, ast.Module):
        tiny = sum(isinstance(each, ast.stmt) for each in ast.walk(node)) < TINY_MODULE
        if "\n" not in text and not tiny and name != "__init__":
            yield "says its idea in one line: expected two or more, with an example"
        return
    if not text or "overload" in map(_last_name, node.decorator_list):
        return
    first = text.partition("\n")[0]
    if re.search(r"[.!?] +[A-Z]", _CODE.sub("code", first)):
        yield f"begins with {first!r}: expected one sentence"
    given, starred = _parameters(node)
    entries = re.findall(r"\w+", " ".join(_ENTRY.findall("".join(_ARGS.findall(text)))))
    missing = [each for each in given if each not in entries]
    missing += [f"*{each}" for each in starred if each not in re.findall(r"\w+", text)]
    if given and missing and len([*given, *starred]) >= ARGS_FROM:
        yield f"`Args:` lacks {', '.join(missing)}"
    if isinstance(node, ast.ClassDef):
        is_error = any(_last_name(base).endswith(_ERRORS) for base in node.bases)
        shown = _EXAMPLE.search(text) and "Wrong" in text and "Right" in text
        if is_error and node.name not in extended and not shown:
            yield "shows no `Wrong` code beside `Right` code"
        return
    returns = node.returns and ast.unparse(node.returns) not in _NO_VALUE
    if returns and len([*given, *starred]) >= RETURNS_FROM and not _RETURNS.search(text):
        yield "has no `Returns:`"
    raises = (
        isinstance(each, ast.Raise) and isinstance(each.exc, ast.Call) for each in ast.walk(node)
    )
    if "\n" not in text and any(raises):
        yield "raises an exception, and has no `Raises:`"


def _parameters(node: ast.ClassDef | Function) -> tuple[list[str], list[str]]:
    """The names of the parameters that a caller gives, and those with stars; no private ones."""
    if isinstance(node, ast.ClassDef):
        return _constructor_parameters(node)
    all_given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    given = [each.arg for each in all_given if each.arg not in _NOT_GIVEN]
    starred = [each.arg for each in (node.args.vararg, node.args.kwarg) if each]
    return [name for name in given if not name.startswith("_")], starred


def _constructor_parameters(node: ast.ClassDef) -> tuple[list[str], list[str]]:
    """The parameters of `__init__`, or the fields of a dataclass; no private ones."""
    for each in node.body:
        if isinstance(each, Function) and each.name == "__init__":
            return ([], []) if ast.get_docstring(each) else _parameters(each)
    if "dataclass" not in map(_last_name, node.decorator_list):
        return [], []
    fields = [
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        if "ClassVar" not in ast.unparse(each.annotation)
    ]
    return [name for name in fields if not name.startswith("_")], []


def _last_name(node: ast.expr) -> str:
    """The last part of a dotted name, without call and subscript."""
    return re.split(r"[\[(]", ast.unparse(node))[0].rpartition(".")[2]


def checked_files() -> list[Path]:
    """The Python files of both packages, without the laws."""
    files = (file for folder in PACKAGES for file in sorted((ROOT / folder).rglob("*.py")))
    return [file for file in files if LAWS not in file.parents]


def main() -> int:
    """Print the findings in all files; returns 1 if there are any."""
    found = findings(files := checked_files(), ROOT)
    print("".join(f"{each}\n" for each in found), end="")
    print(f"{len(found)} findings in {len(files)} files")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
