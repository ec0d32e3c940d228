"""Runs that judge only the requirements affected by changes since a commit (`--changed BASE`).

The first such run judges all requirements, and keeps which functions of the repository each law
calls. A later run compares the files with their versions in the commit, and judges the requirements
whose laws call a changed function. It keeps the calls of the laws that it tried anew.

A function is named `path:qualname`. A new function of a module is seen by those who call it, and a
new name by those who use it: they have changed, too. A new or dropped method is seen by every law
that calls a function of its file. Any other statement, such as a constant with another value or a
decorator of a class, is seen by all laws: they have met it when the module was imported.

    changes = changed("main", files())
    changes.functions      # frozenset({'fork/graph.py:GraphDef.merge'})
"""

import ast
import contextlib
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

from scutch.implementation import SetupError
from scutch.judging.compiled import kept_in

Calls = Mapping[str, Collection[str] | None]


@dataclass(frozen=True)
class Changes:
    """The differences between the Python files now and in a commit.

    Args:
      base: The commit, as the user has named it.
      functions: Functions, as `path:qualname`: changed ones, and deleted ones that are no methods.
      files: Files that gained or lost a method.
      statements: Files in which a statement outside all functions has changed, other than by
        binding a new name.
    """

    base: str
    functions: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    statements: frozenset[str] = frozenset()

    def reach(self, called: Iterable[str]) -> bool:
        """Whether a law that calls these functions can see a change."""
        if self.statements:
            return True
        return any(
            each in self.functions or each.partition(":")[0] in self.files for each in called
        )

    def __str__(self) -> str:
        """For people, in one line."""
        names = [
            *sorted(self.functions),
            *(f"methods of {one}" for one in sorted(self.files)),
            *(f"statements of {one}" for one in sorted(self.statements)),
        ]
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        return f"changed since {self.base}: {', '.join(names[:5]) or 'nothing'}{more}"


def repository() -> Path:
    """The root of the repository that the command runs in.

    Raises:
      SetupError: It runs in none, or there is no git.
    """
    return Path(_git("rev-parse", "--show-toplevel").strip())


def files() -> tuple[str, ...]:
    """The Python files of the repository that git does not ignore, relative to its root."""
    listed = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard", ":/*.py")
    return tuple(sorted({name for name in listed.split("\0") if name}))


def changed(base: str, names: Iterable[str]) -> Changes:
    """Compare the Python files of the repository with their versions in a commit.

    Args:
      base: The commit, as git takes it.
      names: The Python files of today, relative to the root of the repository.

    Raises:
      SetupError: Git does not know the commit, or a file is no Python.
    """
    root = repository()
    try:
        _git("rev-parse", "--verify", "--quiet", f"{base}^{{commit}}")
    except SetupError:
        expected = f"expected a commit of the repository in {root}"
        raise SetupError(f"--changed {base!r}", expected) from None
    told = _git("diff", "--name-only", "-z", "--no-renames", base, "--", ":/*.py").split("\0")
    before = {*_git("ls-tree", "-r", "-z", "--name-only", "--full-tree", base).split("\0")}
    functions, files, statements = set(), set(), set()
    for name in sorted({*filter(None, told), *names} - (before - {*told})):
        old = _Text.of(name, _git("show", f"{base}:{name}") if name in before else "")
        new = _Text.of(name, (root / name).read_text("utf-8") if (root / name).is_file() else "")
        for scope in old.functions.keys() | new.functions.keys():
            if old.functions.get(scope) == new.functions.get(scope):
                continue
            if scope in old.functions and (scope in new.functions or "." not in scope):
                functions.add(f"{name}:{scope}")
            elif "." in scope:
                files.add(name)
        if name in before and old.differs_outside(new):
            statements.add(name)
    return Changes(base, frozenset(functions), frozenset(files), frozenset(statements))


@dataclass(frozen=True)
class _Text:
    """A file of Python, taken apart.

    Args:
      functions: The code of each function, by its qualified name.
      statements: The code of each other statement, with the names that it binds if it does no more.
    """

    functions: Mapping[str, str]
    statements: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, name: str, text: str) -> "_Text":
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            where = f"--changed: {name}:{error.lineno}"
            raise SetupError(where, f"expected Python, and got {error.msg}") from None
        functions: dict[str, str] = {}
        statements: dict[str, frozenset[str]] = {}

        def visit(body: Iterable[ast.stmt], scope: str) -> None:
            for node in body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    node.body = _undocumented(node.body)
                    place = f"{scope}{node.name}"
                    functions[place] = functions.get(place, "") + ast.dump(node)
                elif isinstance(node, ast.ClassDef):
                    inner, node.body = _undocumented(node.body), []
                    statements[scope + ast.dump(node)] = frozenset([node.name])
                    visit(inner, f"{scope}{node.name}.")
                else:
                    statements[scope + ast.dump(node)] = frozenset() if scope else _bound(node)

        visit(_undocumented(tree.body), "")
        return cls(functions, statements)

    def differs_outside(self, new: "_Text") -> bool:
        """Whether a statement is gone, or a new one does more than to bind new names."""
        if self.statements.keys() - new.statements.keys():
            return True
        names = {name for bound in self.statements.values() for name in bound}
        names |= {scope.partition(".")[0] for scope in self.functions}
        added = [new.statements[each] for each in new.statements.keys() - self.statements.keys()]
        return any(not bound or bound & names for bound in added)


def _bound(node: ast.stmt) -> frozenset[str]:
    """The names that an import or an assignment binds; none for any other statement."""
    match node:
        case ast.Import(names) | ast.ImportFrom(_, names):
            found = [each.asname or each.name.partition(".")[0] for each in names]
        case ast.Assign(targets) if all(isinstance(each, ast.Name) for each in targets):
            found = [each.id for each in targets if isinstance(each, ast.Name)]
        case ast.AnnAssign(ast.Name(name)):
            found = [name]
        case _:
            found = []
    return frozenset(found)


def _undocumented(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements without the docstring that they begin with."""
    match body:
        case [ast.Expr(ast.Constant(str())), *rest]:
            return rest
    return body


def places(root: Path, names: Collection[str]) -> Callable[[CodeType], str]:
    """Names the functions in some files for `calls_noted`, a function inside another as the other.

    Args:
      root: The folder that the paths are relative to.
      names: The paths.

    Returns:
      A function from code to `path:qualname`, or to an empty text for code in other files.
    """
    listed = {str(root / name): name for name in names}

    def place_of(code: CodeType) -> str:
        name = listed.get(code.co_filename, "")
        return f"{name}:{code.co_qualname.partition('.<locals>')[0]}" if name else ""

    return place_of


@contextlib.contextmanager
def calls_noted(place_of: Callable[[CodeType], str]) -> Iterator[set[str]]:
    """The functions that are called inside the `with` block, in all threads.

    Args:
      place_of: The name of a function by its code; an empty one is not noted. Asked once for each.
    """
    called: set[str] = set()
    known: set[CodeType] = set()

    def call(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code not in known:
            known.add(code)
            called.add(place_of(code))

    before = sys.gettrace()
    threading.settrace(call)
    sys.settrace(call)
    try:
        yield called
    finally:
        sys.settrace(before)
        threading.settrace(None)
        called.discard("")


def _file(subject: str) -> Path:
    text = f"{subject}\n{repository()}"
    return kept_in().with_name("calls") / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def kept(subject: str) -> dict[str, list[str]]:
    """By requirement, the functions that its laws called when they last held.

    Args:
      subject: The implementation, as `Run.where` names it.

    Returns:
      Functions as `path:qualname`; an empty dictionary if no earlier run has kept any.
    """
    try:
        found = json.loads(_file(subject).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def noted(subject: str, calls: Calls) -> tuple[Path, str]:
    """The file that keeps the functions called by each requirement's laws, and its new text.

    Args:
      subject: The implementation, as `Run.where` names it.
      calls: By requirement, the functions. Where they are None, because a law did not hold or its
        calls are not known, the entry is removed, and the next run judges the requirement anyway.
    """
    found = {**kept(subject), **calls}
    return _file(subject), json.dumps(
        {name: sorted({*each}) for name, each in found.items() if each is not None}
    )


def _git(*arguments: str) -> str:
    environment = {name: each for name, each in os.environ.items() if name != "GIT_DIR"}
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, env=environment, check=False
        )
    except OSError as error:
        raise SetupError("--changed", f"git cannot be run: {error.strerror}") from None
    if done.returncode:
        said = done.stderr.strip() or f"git {' '.join(arguments)} ended with {done.returncode}"
        raise SetupError("--changed", f"{said}; expected to be run in a git repository")
    return done.stdout
