"""Statements without what did not run.

    Pruned(ran, check, file).kept(statement)

Docstrings, annotations and assertions that held are left out, too. The assertion that failed
becomes the end of the program: it prints both values and exits with 1.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from scutch.reproduce.running import Ran, lines_of
from scutch.reproduce.syntax import CHECK, statements

PACKAGE = "scutch."
"""How the names of the suite's modules begin."""
_NOTES = ("reached", "assume", "need_devices")
"""Functions of the suite that keep account of inputs; a program for one input needs none."""


class Pruned(ast.NodeTransformer):
    """Leaves out what did not run, and what only people or type checkers read."""

    def __init__(
        self, ran: Ran, check: tuple[str, int] | None, file: str, *, stubs: bool = False
    ) -> None:
        """Take the lines that ran.

        Args:
          ran: The lines that ran.
          check: The file and line of the assertion with which the program ends.
          file: The file of the statements.
          stubs: Whether methods that did not run stay, without a body.
        """
        self.ran, self.file, self.check, self.stubs = ran, file, check, stubs

    def has_run(self, node: Any) -> bool:
        """Whether a node ran."""
        return self.ran.has(self.file, node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Keep the fields, and the methods that ran."""
        kept = [each for each in node.body if not _is_text(each) and not self.is_idle(each)]
        node.body = [self.visit(each) for each in kept] or [ast.Pass()]
        node.keywords = [each for each in node.keywords if each.arg != "metaclass"]
        return node

    def is_idle(self, node: ast.stmt) -> bool:
        """Whether a statement of a class is a method that may be left out."""
        if self.stubs or not isinstance(node, ast.FunctionDef):
            return False
        return not any(map(self.has_run, node.body))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """A field keeps an annotation, of no meaning."""
        node.annotation = ast.Name("object", ast.Load())
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Keep what ran."""
        node.returns = None
        arguments = node.args
        for each in [
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            arguments.vararg,
            arguments.kwarg,
        ]:
            if each is not None:
                each.annotation = None
        node.body = self.block(node.body)
        return node

    def is_end(self, node: ast.stmt) -> bool:
        """Whether the program ends where a statement stands."""
        file, line = self.check or ("", 0)
        return file == self.file and line in lines_of(node)

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements that ran; `pass` where none did."""
        return [one for each in statements for one in self.kept(each)] or [ast.Pass()]

    def kept(self, node: ast.stmt) -> Iterator[ast.stmt]:
        """What is left of a statement."""
        if getattr(node, CHECK, False):
            yield node
            return
        if _is_text(node) or not self.has_run(node):
            return
        if _is_note(node):
            yield from _asked_in(node)
            return
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(PACKAGE):
            return
        if isinstance(node, ast.Assert | ast.Raise) and self.is_end(node):
            yield from ending(node)
            return
        if isinstance(node, ast.Assert):
            if any(file == self.file and n in lines_of(node) for file, n in self.ran.left):
                yield ast.copy_location(ast.Expr(node.test), node)
            return
        if isinstance(node, ast.If):
            yield from self.branches(node)
            return
        if isinstance(node, ast.Try) and not any(map(self.has_run, node.handlers)):
            for each in [*node.body, *node.orelse, *node.finalbody]:
                yield from self.kept(each)
            return
        if isinstance(node, ast.AnnAssign):
            if node.value is None:
                return
            node = ast.copy_location(ast.Assign([node.target], node.value), node)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield self.visit(node)
            return
        for name in ("body", "orelse", "finalbody"):
            if inner := getattr(node, name, None):
                rest = [one for each in inner for one in self.kept(each)]
                setattr(node, name, rest or ([ast.Pass()] if name == "body" else []))
        for each in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            each.body = self.block(each.body)
        yield node

    def branches(self, node: ast.If) -> Iterator[ast.stmt]:
        """The branch of an `if` that ran always; the statement where each ran at times."""
        body = [one for each in node.body for one in self.kept(each)]
        other = [one for each in node.orelse for one in self.kept(each)]
        true, false = self.ran.taken(self.file, node)
        ends = any(getattr(n, CHECK, False) for each in body + other for n in ast.walk(each))
        if ends or any(isinstance(each, ast.NamedExpr) for each in ast.walk(node.test)):
            true = false = True
        if true and false:
            node.body, node.orelse = body or [ast.Pass()], other
            yield node
        else:
            yield from body if true else other


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_note(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    function = call.func if isinstance(call, ast.Call) else None
    return isinstance(function, ast.Name) and function.id in _NOTES


def _asked_in(note: ast.stmt) -> Iterator[ast.stmt]:
    """The calls whose results a note takes: they are a part of the law."""
    inner = [n for n in ast.iter_child_nodes(note) for n in getattr(n, "args", ())]
    for each in inner:
        if any(isinstance(n, ast.Call) for n in ast.walk(each)):
            yield ast.copy_location(ast.Expr(each), note)


def ending(node: ast.Assert | ast.Raise) -> Iterator[ast.stmt]:
    """The end of a program in the place of an assertion that failed."""
    if isinstance(node, ast.Raise):
        arguments = node.exc.args if isinstance(node.exc, ast.Call) else []
        said = ast.unparse(arguments[0]) if arguments else "'expected no such value'"
        found = ast.parse(f"print({said})\nsys.exit(1)").body
        marked: Iterable[ast.AST] = found
    else:
        found = _comparison(node.test)
        marked = ast.walk(found[-1])
    for each in marked:
        setattr(each, CHECK, True)
    yield from (ast.copy_location(each, node) for each in found)


def _comparison(test: ast.expr) -> list[ast.stmt]:
    """Statements that end a program with 1 unless a test holds, and print what came."""
    match test:
        case ast.Compare(left=got, ops=[ast.Eq() | ast.Is() as sign], comparators=[expected]):
            word = "==" if isinstance(sign, ast.Eq) else "is"
            text = (
                f"got = {ast.unparse(got)}\nexpected = {ast.unparse(expected)}\n"
                f"if not got {word} expected:\n    print(f'expected {{expected}}, got {{got}}')"
            )
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            text = (
                f"got = {ast.unparse(inner)}\nif got:\n    print(f'expected nothing, got {{got}}')"
            )
        case _:
            said = f"expected {ast.unparse(test)}"
            text = f"if not ({ast.unparse(test)}):\n    print({said!r})"
    return ast.parse(f"{text}\n    sys.exit(1)").body


def compared(tree: ast.Module) -> ast.Module:
    """A program that prints both sides of the equality with which it ends."""
    for block, node in list(statements(tree)):
        match node:
            case ast.If(test=ast.UnaryOp(operand=ast.Compare(ops=[ast.Eq()]) as test)) if getattr(
                node, CHECK, False
            ):
                index = block.index(node)
                block[index : index + 1] = list(ending(ast.Assert(test)))
    return ast.fix_missing_locations(tree)
