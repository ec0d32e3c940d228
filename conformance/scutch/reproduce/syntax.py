"""Syntax trees of programs: statements and names, and one node in the place of another.

put(node, other, copied(tree))
closed(tree)    # every name that is read is given somewhere
"""

import ast
import builtins
import pickle
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

CHECK = "check"
"""The attribute of a syntax node that marks the statements with which a program ends."""
SCRIPT = "script.py"
"""The name under which a program is compiled."""
NOTE = "_note_"
"""The function by which a program notes the value of an expression."""
_BLOCKS = ("body", "orelse", "finalbody")
_BUILTINS = frozenset(dir(builtins))
Function = ast.FunctionDef | ast.Lambda


def copied(tree: ast.Module) -> ast.Module:
    """A copy, with its marks; `copy.deepcopy` takes five times as long."""
    made: ast.Module = pickle.loads(pickle.dumps(tree, pickle.HIGHEST_PROTOCOL))
    return made


def blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every list of statements, the outermost first."""
    waiting: list[Any] = [tree]
    for node in waiting:
        for name in _BLOCKS:
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                yield block
                waiting += block
        waiting += (*getattr(node, "handlers", ()), *getattr(node, "cases", ()))


def statements(tree: ast.AST) -> Iterator[tuple[list[ast.stmt], ast.stmt]]:
    """Every statement with the block that it stands in."""
    return ((block, node) for block in blocks(tree) for node in block)


def fill(tree: ast.AST) -> None:
    """Put `pass` into bodies that are empty, and take it out of others."""
    for _, node in list(statements(tree)):
        for each in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            body = getattr(each, "body", None)
            if isinstance(body, list):
                body[:] = [e for e in body if not isinstance(e, ast.Pass)] or [ast.Pass()]


def names_of(node: ast.AST) -> tuple[Counter[str], Counter[str]]:
    """How often each name is read below a node, and how often it is given."""
    read, given = Counter[str](), Counter[str]()
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name, ctx=ast.Load()):
                read[name] += 1
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                given[name] += 1
            case _:
                given.update(_given_here(each))
    return read, given


def closed(tree: ast.Module) -> bool:
    """Delete definitions that nothing reads; whether each name that is read is given somewhere."""
    while True:
        read, given = names_of(tree)
        kept = [each for each in tree.body if _is_read(each, read)]
        if len(kept) == len(tree.body):
            return read.keys() <= given.keys() | _BUILTINS
        tree.body = kept


def _is_read(node: ast.stmt, read: Counter[str]) -> bool:
    """Whether something reads what a statement defines; True for statements that define nothing."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return read[node.name] > names_of(node)[0][node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return any(read[name] for name in _given_here(node))
    return True


def relined(tree: ast.Module) -> ast.Module:
    """The program with the line numbers of its own text, in which each head has one line."""
    text = ast.parse(ast.unparse(tree))
    for (_, node), (_, there) in zip(statements(tree), statements(text), strict=True):
        for each in ast.walk(node):
            each.lineno = each.end_lineno = there.lineno  # type: ignore[attr-defined]
        node.end_lineno = there.end_lineno
    return tree


def free_nodes(tree: ast.AST, *, outside: Collection[str] = ()) -> Iterator[ast.AST]:
    """The nodes that may be changed: all but the statements that end the program.

    Args:
      tree: The program.
      outside: Names of functions whose nodes are left out, too.
    """
    yield tree
    for each in ast.iter_child_nodes(tree):
        left_out = isinstance(each, ast.FunctionDef) and each.name in outside
        ends = getattr(each, CHECK, False) and not isinstance(each, ast.If | ast.Try | ast.expr)
        if not ends and not left_out:
            yield from free_nodes(each, outside=outside)


def bound(node: Any) -> set[str]:
    """The names that a function or class gives itself, without those of functions inside."""
    found: set[str] = set()
    if isinstance(node, Function):
        found |= {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
    inner = list(node.body) if isinstance(node.body, list) else [node.body]
    while inner:
        each = inner.pop()
        match each:
            case ast.FunctionDef() | ast.ClassDef():
                found.add(each.name)
                inner += each.decorator_list
                continue
            case ast.Lambda():
                continue
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                walrus = (n for n in ast.walk(each) if isinstance(n, ast.NamedExpr))
                found |= {n.target.id for n in walrus}
                continue
        found |= set(_given_here(each))
        inner += ast.iter_child_nodes(each)
    return found


def _given_here(node: ast.AST) -> Iterator[str]:
    """The names that a node gives by itself, but for those of definitions and parameters."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case (
            ast.ExceptHandler(name=str(name))
            | ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
            | ast.MatchMapping(rest=str(name))
        ):
            yield name
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            yield from map(alias_of, aliases)


def alias_of(imported: ast.alias) -> str:
    """The name that an import gives."""
    return (imported.asname or imported.name).partition(".")[0]


def arguments_of(call: ast.Call, parameters: ast.arguments) -> dict[str, ast.expr] | None:
    """What a call gives for each parameter.

    Args:
      call: The call.
      parameters: Those of the function that it calls.

    Returns:
      The expression for each parameter; None if the call spreads arguments, or does not fit.
    """
    if any(isinstance(a, ast.Starred) for a in call.args) or any(
        k.arg is None for k in call.keywords
    ):
        return None
    names = [a.arg for a in (*parameters.posonlyargs, *parameters.args)]
    keys = [a.arg for a in parameters.kwonlyargs]
    if len(call.args) > len(names) or parameters.vararg or parameters.kwarg:
        return None
    defaults = parameters.defaults
    found = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    found |= {n: d for n, d in zip(keys, parameters.kw_defaults, strict=True) if d}
    found |= dict(zip(names, call.args, strict=False))
    found |= {str(k.arg): k.value for k in call.keywords}
    return found if found.keys() == {*names, *keys} else None


class Replaced(ast.NodeTransformer):
    """Puts expressions in the place of names that are read."""

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        """Take the expression for each name."""
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replace it."""
        value = self.values.get(node.id) if isinstance(node.ctx, ast.Load) else None
        return node if value is None else replaced(value, {})


def replaced(node: ast.expr, values: Mapping[str, ast.expr]) -> ast.expr:
    """A copy of an expression, with others in the place of names.

    Args:
      node: The expression.
      values: The expression for each name.
    """
    made: ast.expr = Replaced(values).visit(pickle.loads(pickle.dumps(node)))
    return made


class Folded(ast.NodeTransformer):
    """Makes one text of an f-string and the texts in it: Python 3.11 has no quotes in quotes."""

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        """Return the text alone, if the value is one."""
        self.generic_visit(node)
        is_plain = node.conversion == -1 and node.format_spec is None
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return node.value if is_plain and is_text else node


class Renamed(ast.NodeTransformer):
    """Gives names of variables and of definitions other texts."""

    def __init__(self, names: Mapping[str, str]) -> None:
        """Take the new text of each name."""
        self.names = names

    def generic_visit(self, node: Any) -> Any:
        """Rename it."""
        for field in ("id", "arg", "name"):
            text = getattr(node, field, None)
            if isinstance(text, str) and not isinstance(node, ast.keyword | ast.alias):
                setattr(node, field, self.names.get(text, text))
        return super().generic_visit(node)


class _Put(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else super().visit(node)


def put(old: ast.AST, new: ast.AST, tree: Any) -> Any:
    """A tree with one node in the place of another.

    Args:
      old: A node of the tree.
      new: The node that takes its place.
      tree: The tree; it is changed.

    Returns:
      The tree; `new` if the tree is `old`.
    """
    return _Put(old, new).visit(tree)


def unused(name: str, taken: set[str]) -> str:
    """A name like another that is not taken.

    Args:
      name: The other.
      taken: The names that are taken; the new one is added.
    """
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found
