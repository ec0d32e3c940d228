"""Steps that make a program shorter. Each is tried, and kept if the program still shows its fault.

A step takes a program and yields a change for each place where it fits. A change takes the same
program, changes it, and returns it. It need not keep the program's meaning.
"""

import ast
import functools
from collections.abc import Callable, Collection, Iterator
from typing import Any

from scutch.reproduce.syntax import (
    CHECK,
    Function,
    Renamed,
    Replaced,
    arguments_of,
    blocks,
    bound,
    fill,
    free_nodes,
    names_of,
    put,
    replaced,
    statements,
    unused,
)

Step = Callable[[ast.Module], Iterator["Change"]]
Change = Callable[[ast.Module], ast.Module]


# ------------------------------------------------------------------ calls


def _functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """The functions of a program that can stand in the place of their calls."""
    return {
        node.name: node for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.decorator_list
        and not any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(node))
    }  # fmt: skip


def _is_recursive(function: ast.FunctionDef) -> bool:
    return names_of(function)[0][function.name] > 0


def returned(tree: ast.Module) -> Iterator[Change]:
    """A value that a function returns, in the place of a call."""
    found = _functions(tree)
    for node in _outside(tree, {name for name, each in found.items() if _is_recursive(each)}):
        match node:
            case ast.Call(func=ast.Lambda() as made):
                function: Function | None = made
            case ast.Call(func=ast.Name(id=name)):
                function = found.get(name)
            case _:
                continue
        values = arguments_of(node, function.args) if function is not None else None
        if function is not None and values is not None:
            for result in _results(function):
                yield functools.partial(put, node, replaced(result, values))


def _outside(node: ast.AST, recursive: set[str]) -> Iterator[ast.AST]:
    """The nodes of a program that are not inside recursive functions, and may be changed."""
    yield node
    for each in ast.iter_child_nodes(node):
        ends = getattr(each, CHECK, False) and not isinstance(each, ast.If | ast.Try | ast.expr)
        if not ends and not (isinstance(each, ast.FunctionDef) and each.name in recursive):
            yield from _outside(each, recursive)


def _results(function: Function) -> list[ast.expr]:
    """The values of a function that does nothing but return one of them."""
    if isinstance(function, ast.Lambda):
        return [function.body]
    found = []
    for each in function.body:
        if isinstance(each, ast.If) and len(each.body) == 1 and not each.orelse:
            (each,) = each.body
        if not isinstance(each, ast.Return) or each.value is None:
            return []
        found.append(each.value)
    return found


def methods(tree: ast.Module) -> Iterator[Change]:
    """The value of a method or a field of an object that is made right there."""
    kinds = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in free_nodes(tree):
        match node:
            case ast.Attribute(value=ast.Call(func=ast.Name(id=name)) as made, attr=wanted):
                values = _fields(kinds[name], made) if name in kinds else None
                if values and wanted in values:
                    yield functools.partial(put, node, values[wanted])
            case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id=name)) as made)):
                change = _method(kinds[name], made, node) if name in kinds else None
                if change is not None:
                    yield change


def _fields(kind: ast.ClassDef, made: ast.Call) -> dict[str, ast.expr] | None:
    """The expression for each field of an object that a call of its class makes."""
    fields = [e for e in kind.body if isinstance(e, ast.AnnAssign)]
    names = [ast.arg(e.target.id) for e in fields if isinstance(e.target, ast.Name)]
    defaults = [e.value for e in fields if e.value is not None]
    return arguments_of(made, ast.arguments([], names, None, [], [], None, defaults))


def _method(kind: ast.ClassDef, made: ast.Call, call: ast.Call) -> Change | None:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    method = next((e for e in kind.body if isinstance(e, ast.FunctionDef) and e.name == name), None)
    values = _fields(kind, made)
    if method is None or values is None or method.decorator_list:
        return None
    own = method.args.args[0].arg
    whole = ast.Call(call.func, [ast.Name(own, ast.Load()), *call.args], call.keywords)
    given, results = arguments_of(whole, method.args), _results(method)
    if given is None or len(results) != 1:
        return None
    value = replaced(results[0], {n: v for n, v in given.items() if n != own})
    return functools.partial(put, call, _Fields(own, values).visit(value))


class _Fields(ast.NodeTransformer):
    """Puts expressions in the place of the fields of an object."""

    def __init__(self, own: str, values: dict[str, ast.expr]) -> None:
        self.own, self.values = own, values

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        of_own = isinstance(node.value, ast.Name) and node.value.id == self.own
        value = self.values.get(node.attr) if of_own else None
        return self.generic_visit(node) if value is None else replaced(value, {})


def spliced(tree: ast.Module) -> Iterator[Change]:
    """The statements of a function before the one that calls it, if nothing else does."""
    found = _functions(tree)
    read, _ = names_of(tree)
    for block, statement in statements(tree):
        for node in _once(statement):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            function = found.get(node.func.id)
            if function is None or read[function.name] != 1 or not _returns_last(function):
                continue
            values = arguments_of(node, function.args)
            if values is not None:
                yield functools.partial(_splice, block, statement, node, function, values)


def _once(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement that run when it runs, once."""
    heads: list[Any] = [statement]
    if hasattr(statement, "body"):
        heads = [getattr(statement, n) for n in ("test", "iter") if hasattr(statement, n)]
        heads += [item.context_expr for item in getattr(statement, "items", ())]
    waiting = [] if isinstance(statement, ast.While) or (getattr(statement, CHECK, False) and (
        not isinstance(statement, ast.If))) else heads  # fmt: skip
    for node in waiting:
        yield node
        if not isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp
                          | ast.GeneratorExp):  # fmt: skip
            waiting += ast.iter_child_nodes(node)


def _returns_last(function: ast.FunctionDef) -> bool:
    """Whether a function returns with its last statement alone."""
    inner = [n for each in ast.walk(function) if isinstance(each, ast.FunctionDef)
             and each is not function for n in ast.walk(each)]  # fmt: skip
    returns = [n for n in ast.walk(function) if isinstance(n, ast.Return) and n not in inner]
    return all(each is function.body[-1] for each in returns)


def _splice(
    block: list[ast.stmt], statement: ast.stmt, call: ast.Call, function: ast.FunctionDef,
    values: dict[str, ast.expr], tree: ast.Module,
) -> ast.Module:  # fmt: skip
    tree.body.remove(function)
    read, given = names_of(tree)
    taken = {*read, *given}
    same = {n for n, v in values.items() if isinstance(v, ast.Name) and v.id == n}
    fresh = {n: unused(n, taken) for n in sorted(bound(function) - same) if n in taken}
    body = [Renamed(fresh).visit(each) for each in function.body]
    before: list[ast.stmt] = [
        ast.Assign([ast.Name(fresh.get(n, n), ast.Store())], v) for n, v in values.items()
        if n not in same
    ]  # fmt: skip
    value: ast.expr = ast.Constant(None)
    if isinstance(body[-1], ast.Return):
        value = body.pop().value or value
    index = block.index(statement)
    put(call, value, statement)
    is_nothing = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    block[index : index + is_nothing] = [*before, *body]
    return tree


# ------------------------------------------------------------------ expressions


def variables(tree: ast.Module) -> Iterator[Change]:
    """An expression in the place of a variable that is used once, or of one that is a name."""
    read, given = names_of(tree)
    for block, statement in statements(tree):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if (
                not getattr(statement, CHECK, False) and given[name] == 1
            ):
                plain = value.value if isinstance(value, ast.Attribute) else value
                if read[name] == 1 or isinstance(plain, ast.Name | ast.Constant):
                    yield functools.partial(_inlined, block, statement, name, value)


def _inlined(
    block: list[ast.stmt], statement: ast.stmt, name: str, value: ast.expr, tree: ast.Module
) -> ast.Module:
    block.remove(statement)
    Replaced({name: value}).visit(tree)
    fill(tree)
    return tree


# ------------------------------------------------------------------ fewer parts


_PARTS = {ast.FunctionDef: ("decorator_list",), ast.ClassDef: ("decorator_list",),
          ast.BoolOp: ("values",), ast.Match: ("cases",), ast.Try: ("handlers",)}  # fmt: skip


def simpler(inputs: Collection[str], tree: ast.Module) -> Iterator[Change]:
    """Fewer decorators, cases and arguments; a block in the place of a choice.

    Arguments stay in calls of functions of others: without them a call asks something else.

    Args:
      inputs: The classes that describe the law's inputs, which stay as they are.
      tree: The program.

    Yields:
      The changes.
    """
    own = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    own -= set(inputs)
    for node in free_nodes(tree):
        of_own = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and (
            node.func.id in own)  # fmt: skip
        for name in ("keywords", "args") if of_own else _PARTS.get(type(node), ()):
            for each in list(getattr(node, name)):
                yield functools.partial(_dropped, node, name, each)
        match node:
            case ast.IfExp():
                yield from (functools.partial(put, node, n) for n in (node.body, node.orelse))
            case ast.Call() if of_own:
                given = (*node.args, *(k.value for k in node.keywords))
                plain = [each for each in given if not isinstance(each, ast.Starred)]
                if len(plain) == len(given) == 2:
                    equal = ast.Compare(plain[0], [ast.Eq()], [plain[1]])
                    yield functools.partial(put, node, equal)
            case ast.Tuple() | ast.List() if isinstance(node.ctx, ast.Load):
                mine = (e for e in node.elts if isinstance(e, ast.Name) and e.id in own)
                yield from (functools.partial(_dropped, node, "elts", each) for each in mine)
            case ast.Match(cases=[only]):
                yield functools.partial(_opened, node, only.body)
            case ast.If() | ast.With() | ast.For() | ast.Try() if not getattr(node, CHECK, False):
                arms = (node.body, getattr(node, "orelse", None))
                yield from (functools.partial(_opened, node, arm) for arm in arms if arm)


def _dropped(node: Any, name: str, each: Any, tree: ast.Module) -> ast.Module:
    held = getattr(node, name)
    held.remove(each)
    only = isinstance(node, ast.BoolOp) and len(held) == 1
    return put(node, held[0], tree) if only else tree


def _opened(node: Any, arm: list[ast.stmt], tree: ast.Module) -> ast.Module:
    block = next(each for each in blocks(tree) if node in each)
    index = block.index(node)
    block[index : index + 1] = arm
    return tree
