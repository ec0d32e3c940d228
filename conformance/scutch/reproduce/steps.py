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
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and not node.decorator_list
        and not any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(node))
    }


def returned(tree: ast.Module) -> Iterator[Change]:
    """A value that a function returns, in the place of a call."""
    found = _functions(tree)
    recursive = {name for name, each in found.items() if names_of(each)[0][name]}
    for node in free_nodes(tree, outside=recursive):
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
    """A field or a function in the place of a method of an object that is made right there."""
    kinds = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in free_nodes(tree):
        match node:
            case ast.Attribute(value=ast.Call(func=ast.Name(id=name)) as made, attr=wanted) if (
                name in kinds
            ):
                kind = kinds[name]
                values = _fields(kind, made) or {}
                if wanted in values:
                    yield functools.partial(put, node, values[wanted])
                for each in kind.body:
                    if isinstance(each, ast.FunctionDef) and each.name == wanted:
                        call = called.get(id(node))
                        yield functools.partial(_as_function, node, call, kind, each)


def _as_function(
    attribute: ast.Attribute,
    call: ast.Call | None,
    kind: ast.ClassDef,
    method: ast.FunctionDef,
    tree: ast.Module,
) -> ast.Module:
    """A program in which a method is a function, which takes its object."""
    name = f"{kind.name}_{method.name}"
    if not any(isinstance(e, ast.FunctionDef) and e.name == name for e in tree.body):
        function = ast.FunctionDef(name, method.args, method.body, [], lineno=1)
        tree.body.insert(tree.body.index(kind) + 1, function)
    made = ast.Call(ast.Name(name, ast.Load()), [attribute.value], [])
    if call is not None:
        made.args, made.keywords = [*made.args, *call.args], call.keywords
        return put(call, made, tree)  # type: ignore[no-any-return]
    if method.decorator_list:  # a property
        return put(attribute, made, tree)  # type: ignore[no-any-return]
    none = ast.arguments([], [], None, [], [], None, [])
    return put(attribute, ast.Lambda(none, made), tree)  # type: ignore[no-any-return]


def _fields(kind: ast.ClassDef, made: ast.Call) -> dict[str, ast.expr] | None:
    """The expression for each field of an object that a call of its class makes."""
    fields = [e for e in kind.body if isinstance(e, ast.AnnAssign)]
    names = [ast.arg(e.target.id) for e in fields if isinstance(e.target, ast.Name)]
    defaults = [e.value for e in fields if e.value is not None]
    return arguments_of(made, ast.arguments([], names, None, [], [], None, defaults))


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
    waiting = (
        []
        if isinstance(statement, ast.While)
        or (getattr(statement, CHECK, False) and (not isinstance(statement, ast.If)))
        else heads
    )
    for node in waiting:
        yield node
        if not isinstance(
            node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
        ):
            waiting += ast.iter_child_nodes(node)


def _returns_last(function: ast.FunctionDef) -> bool:
    """Whether a function returns with its last statement alone."""
    inner = [
        n
        for each in ast.walk(function)
        if isinstance(each, ast.FunctionDef) and each is not function
        for n in ast.walk(each)
    ]
    returns = [n for n in ast.walk(function) if isinstance(n, ast.Return) and n not in inner]
    return all(each is function.body[-1] for each in returns)


def _splice(
    block: list[ast.stmt],
    statement: ast.stmt,
    call: ast.Call,
    function: ast.FunctionDef,
    values: dict[str, ast.expr],
    tree: ast.Module,
) -> ast.Module:
    tree.body.remove(function)
    read, given = names_of(tree)
    taken = {*read, *given}
    same = {n for n, v in values.items() if isinstance(v, ast.Name) and v.id == n}
    fresh = {n: unused(n, taken) for n in sorted(bound(function) - same) if n in taken}
    body = [Renamed(fresh).visit(each) for each in function.body]
    before: list[ast.stmt] = [
        ast.Assign([ast.Name(fresh.get(n, n), ast.Store())], v)
        for n, v in values.items()
        if n not in same
    ]
    value: ast.expr = ast.Constant(None)
    if isinstance(body[-1], ast.Return):
        value = body.pop().value or value
    index = block.index(statement)
    put(call, value, statement)
    is_nothing = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    block[index : index + is_nothing] = [*before, *body]
    return tree


def named(tree: ast.Module) -> Iterator[Change]:
    """A function with a name in the place of a `lambda` that calls a function of the program."""
    own = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for block, statement in statements(tree):
        if hasattr(statement, "body"):
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Lambda) and not node.args.args and own & {*names_of(node)[0]}:
                yield functools.partial(_named, block, statement, node)


def _named(
    block: list[ast.stmt], statement: ast.stmt, node: ast.Lambda, tree: ast.Module
) -> ast.Module:
    read, given = names_of(tree)
    name = unused("call", {*read, *given})
    function = ast.FunctionDef(name, node.args, [ast.Return(node.body)], [], lineno=1)
    block.insert(block.index(statement), function)
    put(node, ast.Name(name, ast.Load()), statement)
    return tree


def parameters(tree: ast.Module) -> Iterator[Change]:
    """A function without a parameter that it does not read."""
    for function in _functions(tree).values():
        read, _ = names_of(function)
        for each in (*function.args.args, *function.args.kwonlyargs, function.args.kwarg):
            if each is not None and not read[each.arg]:
                yield functools.partial(_without, function, each)


def _without(function: ast.FunctionDef, parameter: ast.arg, tree: ast.Module) -> ast.Module:
    arguments, name = function.args, parameter.arg
    index = arguments.args.index(parameter) if parameter in arguments.args else None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == function.name:
            if index is not None and index < len(node.args):
                del node.args[index]
            node.keywords = [each for each in node.keywords if each.arg != name]
    if parameter is arguments.kwarg:
        arguments.kwarg = None
    elif index is None:
        at = arguments.kwonlyargs.index(parameter)
        del arguments.kwonlyargs[at], arguments.kw_defaults[at]
    else:
        first = len(arguments.args) - len(arguments.defaults)
        del arguments.args[index]
        if index >= first:
            del arguments.defaults[index - first]
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
                is_short = isinstance(plain, ast.Name | ast.Constant)
                is_partial = ast.unparse(value).startswith("functools.partial(")
                if read[name] == 1 or is_short or is_partial:
                    yield functools.partial(_inlined, block, statement, name, value)


def _inlined(
    block: list[ast.stmt], statement: ast.stmt, name: str, value: ast.expr, tree: ast.Module
) -> ast.Module:
    block.remove(statement)
    Replaced({name: value}).visit(tree)
    fill(tree)
    return tree


# ------------------------------------------------------------------ fewer parts


_PARTS = {
    ast.FunctionDef: ("decorator_list",),
    ast.ClassDef: ("decorator_list", "bases"),
    ast.BoolOp: ("values",),
    ast.Match: ("cases",),
    ast.Try: ("handlers",),
}


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
        of_own = (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and (node.func.id in own)
        )
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
            case ast.FunctionDef() | ast.ClassDef():
                wrapped = (e for e in node.decorator_list if isinstance(e, ast.Call))
                yield from (functools.partial(put, each, each.func) for each in wrapped)
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
