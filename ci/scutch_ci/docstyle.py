"""The check `docstyle` of `ci/test`: every public docstring of both packages is a contract.

It reads the source with `ast`, imports nothing, and reports `file:line: name: fault`. A name is
*public* if no part of it begins with an underscore. Laws are left out, because their docstrings are
sentences of another form. The rules:

- A module says its idea in two lines or more. One line is enough for a package's `__init__`, and
  for a module of fewer than ten statements.
- The docstring of a function, method or class begins with one sentence, on one line.
- With two or more parameters, `Args:` names each of them. The parameters of a class are those of
  its `__init__`, or the fields of a dataclass. `*args` or `**kwargs` need no entry if they appear
  anywhere in the docstring, or if the function has no other parameters and passes them on.
  A field is documented as well by a string below it.
- With three or more parameters, a function that returns a value has `Returns:`, or `Yields:`.
- `Raises:` names each exception that the function's own body raises by `raise X(...)`.
- An error class shows `Wrong` code and `Right` code, in an indented block or a doctest. A class
  that other errors extend needs no example.
- A method that overrides a documented method of these packages needs no docstring. If it has one,
  it need not repeat `Args:`, `Returns:` and the `Raises:` entries of the other one.
- Special methods, such as `__eq__`, need no docstring. Neither do pytest's hooks: pytest documents
  them. The parameters of a fixture need no entry, because pytest passes them. Neither does `draw`
  of a composite strategy, which Hypothesis passes.

```python
def scale(value, factor, axis):
    \"\"\"`value` times `factor` along an axis.

    Args:
      value: An array of shape `[n, m]`.
      factor: A number.
      axis: 0 or 1.

    Returns:
      An array of the same shape and dtype.

    Raises:
      ValueError: `axis` is neither 0 nor 1.
    \"\"\"
```
"""

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scutch_ci.checkout import ROOT

PACKAGES = ("reference/scutch_reference", "conformance/scutch")
LEFT_OUT = ("conformance/scutch/laws",)
TINY_MODULE = 10
ARGS_FROM = 2
RETURNS_FROM = 3
Function = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_CODE = re.compile(r"`[^`]*`")
_HEADING = re.compile(r"^(Args|Attributes|Returns|Yields|Raises):$", re.MULTILINE)
_ENTRY = re.compile(r"^ {1,4}([*\w][^:\n]*?)(?: \([^)]*\))?:(?:\s|$)", re.MULTILINE)
_EXAMPLE = re.compile(r"^(?: {4,}|>>> )\S", re.MULTILINE)


@dataclass(frozen=True)
class Finding:
    """A rule that a docstring breaks.

    Args:
      file: The path, from the root of the checkout.
      line: The line that defines the name.
      name: The name, with its class.
      text: The fault, such as `has no docstring`.
    """

    file: str
    line: int
    name: str
    text: str

    def __str__(self) -> str:
        """One line that editors can jump from."""
        return f"{self.file}:{self.line}: {self.name}: {self.text}"


@dataclass(frozen=True)
class Contract:
    """A docstring, taken apart.

    Args:
      text: The whole docstring; empty where there is none.
      sections: The text of each section, such as `Args`.
    """

    text: str
    sections: dict[str, str]

    @classmethod
    def of(cls, node: ast.Module | ast.ClassDef | Function) -> "Contract":
        """The contract of a definition or of a module."""
        text = ast.get_docstring(node) or ""
        _, *parts = _HEADING.split(text)
        return cls(text, dict(zip(parts[::2], parts[1::2], strict=True)))

    def entries(self, *sections: str) -> set[str]:
        """The names that have an entry in one of these sections."""
        text = "\n".join(self.sections.get(name, "") for name in sections)
        names = (name for found in _ENTRY.findall(text) for name in found.split(","))
        return {name.strip().strip("`*") for name in names}


@dataclass(frozen=True)
class Class:
    """The bases and the methods of one class.

    Args:
      bases: The last parts of the names of its bases.
      methods: The functions in its body, by name.
    """

    bases: tuple[str, ...]
    methods: dict[str, Function]


class Classes:
    """All classes of the packages, to tell which methods override and which classes are errors.

    Args:
      trees: The modules.
    """

    def __init__(self, trees: Sequence[ast.Module]):
        self._known: dict[str, Class] = {}
        for tree in trees:
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    functions = [each for each in node.body if isinstance(each, _FUNCTIONS)]
                    bases = tuple(map(_last_name, node.bases))
                    self._known[node.name] = Class(bases, {each.name: each for each in functions})
        self._extended = {base for each in self._known.values() for base in each.bases}

    def _ancestors(self, name: str, seen: tuple[str, ...] = ()) -> Iterator[str]:
        """The names of all bases, of these packages or not, nearest first."""
        known = self._known.get(name)
        for base in known.bases if known and name not in seen else ():
            yield base
            yield from self._ancestors(base, (*seen, name))

    def overridden(self, owner: str, method: str) -> Contract | None:
        """The contract of the nearest documented method that `owner.method` overrides, or None."""
        for base in self._ancestors(owner):
            found = self._known[base].methods.get(method) if base in self._known else None
            if found and ast.get_docstring(found):
                return Contract.of(found)
        return None

    def is_error(self, name: str) -> bool:
        """Whether a class is an exception that no class of these packages extends."""
        ends = ("Error", "Exception", "Warning")
        return name not in self._extended and any(b.endswith(ends) for b in self._ancestors(name))


def findings(files: Sequence[Path], root: Path) -> list[Finding]:
    """The faults in the docstrings of Python files.

    Args:
      files: Python files; bases of classes are looked up among them.
      root: The folder that paths are reported from.

    Returns:
      A finding for each fault, in the order of `files`.
    """
    trees = {file: ast.parse(file.read_text("utf-8")) for file in files}
    classes = Classes(list(trees.values()))
    return [
        Finding(file.relative_to(root).as_posix(), line, name, text)
        for file, tree in trees.items()
        for line, name, text in _of_module(file, tree, classes)
    ]


Complaint = tuple[int, str, str]
"""Line, name and text of a finding."""


def _of_module(file: Path, tree: ast.Module, classes: Classes) -> Iterator[Complaint]:
    """The faults in the docstrings of a module and of the public names that it defines."""
    lines = [line for line in (ast.get_docstring(tree) or "").splitlines() if line.strip()]
    tiny = sum(isinstance(node, ast.stmt) for node in ast.walk(tree)) < TINY_MODULE
    if not lines:
        yield 1, file.stem, "has no docstring"
    elif len(lines) < 2 and not tiny and file.stem not in ("__init__", "__main__"):
        yield 1, file.stem, "says its idea in one line: expected two or more, with an example"
    for node in tree.body:
        if isinstance(node, _FUNCTIONS) and not node.name.startswith(("_", "pytest_")):
            yield from _of_function(node, node.name, None)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _of_class(node, classes)


def _of_class(node: ast.ClassDef, classes: Classes) -> Iterator[Complaint]:
    """The faults in the docstrings of a class and of its public methods."""
    contract = Contract.of(node)
    problems = [*_first_sentence(contract), *_args(contract, _constructor_parameters(node))]
    if contract.text and classes.is_error(node.name):
        shown = _EXAMPLE.search(contract.text)
        if not shown or "Wrong" not in contract.text or "Right" not in contract.text:
            problems.append("shows no `Wrong` code beside `Right` code")
    yield from ((node.lineno, node.name, text) for text in problems)
    for method in node.body:
        if isinstance(method, _FUNCTIONS) and not method.name.startswith(("_", "pytest_")):
            inherited = classes.overridden(node.name, method.name)
            yield from _of_function(method, f"{node.name}.{method.name}", inherited)


def _of_function(node: Function, name: str, inherited: Contract | None) -> Iterator[Complaint]:
    """The faults in the docstring of a function or a method.

    `inherited` is the contract of the method that it overrides; None if it overrides none.
    """
    contract = Contract.of(node)
    decorators = set(map(_last_name, node.decorator_list))
    if decorators & {"overload", "setter", "deleter"} or (inherited and not contract.text):
        return
    problems = list(_first_sentence(contract))
    if contract.text and not inherited:
        parameters = _parameters(node)
        problems += _args(contract, parameters)
        enough = len(parameters) >= RETURNS_FROM
        if enough and _returns_value(node) and not {"Returns", "Yields"} & contract.sections.keys():
            problems.append("has no `Returns:`")
    if contract.text:
        documented = contract.entries("Raises")
        documented |= inherited.entries("Raises") if inherited else set()
        problems += [f"`Raises:` lacks {each}" for each in _raised(node) if each not in documented]
    yield from ((node.lineno, name, text) for text in problems)


def _first_sentence(contract: Contract) -> Iterator[str]:
    """The fault that a docstring is missing, or does not begin with one sentence on one line."""
    first = contract.text.partition("\n")[0]
    bare = _CODE.sub("code", first)
    if not contract.text:
        yield "has no docstring"
    elif not bare.endswith(".") or re.search(r"[.!?] +[A-Z]", bare):
        yield f"begins with {first!r}: expected one sentence on one line"


def _args(contract: Contract, parameters: Sequence[str]) -> Iterator[str]:
    """The fault that `Args:` lacks parameters, if there are enough of them to need entries."""
    documented = contract.entries("Args", "Attributes")
    missing = [
        name
        for name in parameters
        if name.strip("*") not in documented
        and not (name.startswith("*") and re.search(rf"\b{name.strip('*')}\b", contract.text))
    ]
    passed_on = all(name.startswith("*") for name in parameters)
    if contract.text and missing and len(parameters) >= ARGS_FROM and not passed_on:
        yield f"`Args:` lacks {', '.join(missing)}"


def _parameters(node: Function) -> list[str]:
    """The names of the parameters that a caller gives, with stars; no private ones."""
    decorators = set(map(_last_name, node.decorator_list))
    if "fixture" in decorators:
        return []
    given = node.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    names += [f"*{given.vararg.arg}"] if given.vararg else []
    names += [f"**{given.kwarg.arg}"] if given.kwarg else []
    not_given = ["self", "cls", *(["draw"] if "composite" in decorators else [])]
    rest = names[1:] if names[:1] and names[0] in not_given else names
    return [name for name in rest if not name.strip("*").startswith("_")]


def _constructor_parameters(node: ast.ClassDef) -> list[str]:
    """The parameters of `__init__`, or a dataclass's fields that no string documents."""
    for each in node.body:
        if isinstance(each, _FUNCTIONS) and each.name == "__init__":
            return [] if ast.get_docstring(each) else _parameters(each)
    if not any(_last_name(each).endswith("dataclass") for each in node.decorator_list):
        return []
    return [
        each.target.id
        for each, following in zip(node.body, [*node.body[1:], None], strict=True)
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        if not each.target.id.startswith("_") and "ClassVar" not in ast.unparse(each.annotation)
        if not (isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant))
    ]


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without the functions, classes and lambdas that it defines."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
            yield child
            yield from _own_nodes(child)


def _returns_value(node: Function) -> bool:
    """Whether a function returns or yields something other than None."""
    if isinstance(node.returns, ast.Constant) and node.returns.value is None:
        return False
    values = (each for each in _own_nodes(node) if isinstance(each, ast.Return | ast.Yield))
    return any(
        each.value is not None
        and not (isinstance(each.value, ast.Constant) and each.value.value is None)
        for each in values
    )


def _raised(node: Function) -> list[str]:
    """The exceptions that a function's own body raises by calling their class, in order."""
    called = (
        _last_name(each.exc.func)
        for each in _own_nodes(node)
        if isinstance(each, ast.Raise) and isinstance(each.exc, ast.Call)
    )
    return list(dict.fromkeys(name for name in called if name[:1].isupper()))


def _last_name(node: ast.expr) -> str:
    """The last part of a dotted name, without call and subscript; empty for anything else."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def checked_files() -> list[Path]:
    """The Python files of both packages, without the laws."""
    left_out = [ROOT / folder for folder in LEFT_OUT]
    return [
        file
        for folder in PACKAGES
        for file in sorted((ROOT / folder).rglob("*.py"))
        if not any(each in file.parents for each in left_out)
    ]


def main(arguments: Sequence[str]) -> int:
    """Print the findings in the named files, or in all files; returns 1 if there are any."""
    named = [Path(each).resolve() for each in arguments]
    files = checked_files()
    found = findings(files, ROOT)
    shown = [each for each in found if not named or ROOT / each.file in named]
    print("".join(f"{each}\n" for each in shown), end="")
    print(f"{len(shown)} findings in {len(named or files)} files")
    return int(bool(shown))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
