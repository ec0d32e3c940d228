r"""Faults that can be planted in a Python file, each one small change of its text.

A *fault* is an error that a programmer might have made: a comparison turned round, a condition left
out, an update forgotten. `faults_in` lists the faults of a file in the order of its text. No fault
changes a type annotation, a docstring, a warning or the message of an error, because no law could
notice it.

Some keyword arguments stay unchanged for the same reason. `strict` of `zip` checks a length that
the code before has already made sure of. `slots` of a dataclass saves memory. `repr` changes how an
object prints. The `encoding` of a file is UTF-8 by default wherever laws are tried. `autograph`
converts branches and loops on TensorFlow's tensors, which a function of JAX does not have.

    source = "def longest(a, b):\n    return a if len(a) > len(b) else b\n"
    [fault.new for fault in faults_in(source, "example.py")]
    # ['return None', 'len(a) <= len(b)']

We use no library for this: the existing ones rewrite the installed files, run one test command for
each change, or need a parser that is not among the pins. Python's `ast` gives the position of each
expression, and nothing else is needed.
"""

import ast
import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeGuard

from scutch_ci.conditions import CONDITIONS

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
INVERTED = (ast.Compare, ast.UnaryOp)
"""Conditions that are inverted as expressions of their own, not as the test of an `if`."""
LEFT_OUT = (ast.JoinedStr, ast.Raise, ast.Assert)
"""Nodes whose parts are not changed; a whole `raise` statement can become `pass`."""
UNSEEN = ("overload", "dataclass_transform", "cast", "TypeVar", "warn")
"""Decorators and functions that only type checkers and people read, so that no law can notice."""
KEYWORDS_UNSEEN = ("strict", "slots", "repr", "encoding", "autograph", "maxsize")
"""Keyword arguments that do not change the values that a program computes."""

HOLDS = "scutch_ci.conditions"
"""The module whose function `holds` a conditional fault calls."""

Span = tuple[int, int]


@dataclass(frozen=True)
class Fault:
    """One change of one file.

    Args:
      file: The file, relative to its package.
      line: Its first changed line, from 1.
      scope: The classes and functions around it, such as `Variable.set_value`; empty outside. A
        class without functions adds no name.
      in_function: Whether it stands in a function, so that only a caller of that function sees it.
      span: The position of the replaced text: its first byte, and the first byte after it.
      new: The text that replaces it.
      condition: The one of `conditions` under which it is active; empty if it always is.
    """

    file: str
    line: int
    scope: str
    in_function: bool
    span: Span
    new: str
    condition: str = ""

    @property
    def name(self) -> str:
        """Unique among the faults of one version of the package."""
        return f"{self.file}:{self.line} {self.span[0]}-{self.span[1]} {self.new}"

    @property
    def place(self) -> str:
        """The function that it stands in, as `file:scope`."""
        return f"{self.file}:{self.scope}"

    def planted_in(self, source: str) -> str:
        """The text of the file with the fault in it."""
        text = source.encode()
        return (text[: self.span[0]] + self.new.encode() + text[self.span[1] :]).decode()

    def diff(self, source: str) -> str:
        """The change as a unified diff."""
        lines = source.splitlines(), self.planted_in(source).splitlines()
        return "\n".join(difflib.unified_diff(*lines, self.file, self.file, n=2, lineterm=""))

    def changed_lines(self, source: str) -> tuple[str, str]:
        """The removed lines and the added lines, each side stripped and joined by spaces."""
        changed = self.diff(source).splitlines()[2:]
        taken, added = (
            " ".join(line[1:].strip() for line in changed if line[0] == sign) for sign in "-+"
        )
        return taken, added


def faults_in(source: str, file: str) -> tuple[Fault, ...]:
    """Every fault of a file, in the order of its text.

    Args:
      source: The text of the file.
      file: Its path, relative to its package.
    """
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = {}
    for node, scope, in_function in _nodes(ast.parse(source), "", False):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and not in_function:
            continue  # the union of types of an alias
        for changed, new in _changes(node):
            first, last = starts[changed.lineno - 1], starts[(changed.end_lineno or 1) - 1]
            span = first + changed.col_offset, last + (changed.end_col_offset or 0)
            found[span, new] = Fault(file, changed.lineno, scope, in_function, span, new)
    return tuple(found[key] for key in sorted(found))


def conditional(source: str, faults: Iterable[Fault]) -> Iterator[Fault]:
    """The faults in the bodies of functions, once for each condition under which they are active.

    Args:
      source: The text of the file.
      faults: Some faults of the file, none of them conditional.
    """
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    lines = {n for f in functions for n in range(f.body[0].lineno, (f.end_lineno or 0) + 1)}
    for fault in faults:
        old = source.encode()[slice(*fault.span)].decode()
        for condition in CONDITIONS if fault.line in lines and fault.new != "break" else ():
            held = f"__import__('{HOLDS}', fromlist='_').holds({condition!r}, locals())"
            changed = {
                "pass": f"if not {held}: {old}",
                "return None": f"return None if {held} else ({old.removeprefix('return')})",
            }.get(fault.new, f"({fault.new} if {held} else {old})")
            yield replace(fault, new=changed, condition=condition)


def _nodes(node: ast.AST, scope: str, in_function: bool) -> Iterator[tuple[ast.AST, str, bool]]:
    """A node and the nodes below it that can be changed, each with its scope and `in_function`."""
    called = node.value if isinstance(node, ast.Expr) else node
    if isinstance(called, ast.Call) and _name(called) in UNSEEN:
        return
    if isinstance(node, ast.keyword) and node.arg in KEYWORDS_UNSEEN:
        return
    yield node, scope, in_function
    if isinstance(node, LEFT_OUT):
        return
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    if isinstance(node, ast.FunctionDef) and (
        set(map(_name, node.decorator_list)) & {*UNSEEN}
        or list(map(ast.unparse, node.body)) == ["..."]
    ):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        inside = scope, in_function
        # The defaults and decorators of a function are in its scope: its callers notice a fault in
        # them. The decorators and bases of a class are in the scope of the class: the callers of
        # its functions notice a fault in them.
        if isinstance(node, ast.FunctionDef) or _has_functions(node):
            path = f"{scope}.{node.name}".removeprefix(".")
            inside = path, in_function or isinstance(node, ast.FunctionDef)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST):
                yield from _nodes(each, *inside)


def _has_functions(node: ast.AST) -> TypeGuard[ast.ClassDef]:
    """Whether a node is a class with functions of its own."""
    functions = (each for each in ast.walk(node) if isinstance(each, ast.FunctionDef))
    return isinstance(node, ast.ClassDef) and next(functions, None) is not None


def _changes(node: ast.AST) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    """The changes of one node, each as the node that is replaced and the text that replaces it."""
    match node:
        case ast.Raise() | ast.Delete() | ast.AugAssign() | ast.Expr(value=ast.Call()):
            yield node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, "pass"
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) not in ("None", "False"):
            yield node, "return None"
        case ast.Continue():
            yield node, "break"
        case ast.If() | ast.While() | ast.IfExp() if not isinstance(node.test, INVERTED):
            yield node.test, f"(not {ast.unparse(node.test)})"
        case ast.comprehension():
            for condition in node.ifs:
                yield condition, "True"
        case ast.Compare(ops=[operator]):
            yield node, _with(node, ops=[COMPARISONS[type(operator)]()])
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield node, f"({_with(node, op=other)})"
        case ast.UnaryOp(op=ast.Not()):
            yield node, f"({ast.unparse(node.operand)})"
        case ast.BinOp() if type(node.op) in OPERATORS and _is_number(node):
            yield node, _with(node, op=OPERATORS[type(node.op)]())
        case ast.BinOp(op=ast.Add() | ast.BitOr()):
            yield node, f"({ast.unparse(node.left)})"
        case ast.Constant(value=bool()):
            yield node, str(not node.value)
        case ast.Constant(value=int() as number):
            yield node, str(number + 1)
        case ast.Call():
            for keyword in [each for each in node.keywords if each.arg not in KEYWORDS_UNSEEN]:
                rest = [each for each in node.keywords if each is not keyword]
                yield node, _with(node, keywords=rest)


def _name(node: ast.expr) -> str:
    """The last part of the name of a decorator or of the function that a call calls."""
    called = node.func if isinstance(node, ast.Call) else node
    return ast.unparse(called).rpartition(".")[2]


def _with(node: ast.expr, **fields: object) -> str:
    """The text of an expression with other fields."""
    return ast.unparse(type(node)(**{**dict(ast.iter_fields(node)), **fields}))


def _is_number(node: ast.BinOp) -> bool:
    """Whether an operation is on numbers; `+` also joins texts and tuples."""
    if not isinstance(node.op, ast.Add):
        return True
    for side in (node.left, node.right):
        if isinstance(side, ast.Constant) and isinstance(side.value, int):
            return True
        if isinstance(side, ast.Call) and ast.unparse(side.func) in ("len", "sum", "max", "min"):
            return True
    return False
