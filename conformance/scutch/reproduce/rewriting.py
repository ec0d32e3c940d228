"""Laws and builders of inputs, rewritten so that a `Tape` sees their operations.

`install(tape)` makes the import system compile the modules of `ROOMS` from a changed syntax tree:
every call, attribute, item, comparison and operation in them goes through the tape, which does the
operation and notes it as an event:

    added = box.add_axis(-1, {meta.PARTITION_NAME: name})

becomes `added = _tape_.named('added', _tape_.method(box, 'add_axis', (-1, ...), {}))`. Python
still runs the law, so loops, branches and helper functions of the suite need no treatment: the tape
notes only the operations that ran. Error messages, annotations and patterns stay as they are. An
`assert` becomes an `if`, because a law may have to be tried under `python -O`.
"""

import ast
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import Any

ROOMS = ("scutch.inputs", "scutch.lawkit", "scutch.laws")
"""The packages that are rewritten."""

ATOMIC = ("scutch.lawkit.equality.alike", "scutch.lawkit.domain", "scutch.lawkit.marks.reached")
"""Functions and modules that are not rewritten: `Tape.alike` notes a call of `alike` as one event,
and the others have no part in a fault."""

_TAPE = "_tape_"
_UNTOUCHED = ("super", "locals", "globals")


def install(tape: Any) -> None:
    """Rewrite every module of `ROOMS` that is imported from now on.

    Args:
      tape: The `tape.Tape` whose methods the rewritten code calls.

    Raises:
      RuntimeError: One of them is imported already.
    """
    if early := [name for name in sys.modules if _in_rooms(name)]:
        raise RuntimeError(f"{early[0]} was imported before it could be rewritten")
    sys.meta_path.insert(0, _Finder(tape))


def _in_rooms(name: str) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in ROOMS)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules of `ROOMS` where they are, and has them compiled by `_Loader`."""

    def __init__(self, tape: Any) -> None:
        self.tape = tape

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not _in_rooms(name):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(name, spec.origin, self.tape)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a module from its rewritten syntax tree, and never from a cache."""

    def __init__(self, name: str, path: str, tape: Any) -> None:
        super().__init__(name, path)
        self.tape = tape

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(self.get_data(self.path), self.path)
        rewritten = ast.fix_missing_locations(_Rewriter(fullname).visit(tree))
        return compile(rewritten, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        setattr(module, _TAPE, self.tape)
        super().exec_module(module)


def _call(method: str, *arguments: ast.expr) -> ast.Call:
    tape = ast.Name(_TAPE, ast.Load())
    return ast.Call(ast.Attribute(tape, method, ast.Load()), list(arguments), [])


def _lazy(value: ast.expr) -> ast.Lambda:
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), value)


class Unannotated(ast.NodeTransformer):
    """Visits the value of an annotated assignment, and leaves its annotation alone."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Visit the value, if there is one."""
        node.value = self.visit(node.value) if node.value is not None else None
        return node


class _Rewriter(Unannotated):
    """Puts calls of the tape in the place of operations."""

    def __init__(self, module: str) -> None:
        self.places = [module]
        self.generators = [False]
        self.locals: list[set[str]] = [set()]

    def _all(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Statements, rewritten; some become several."""
        found = map(self.visit, statements)
        return [one for each in found for one in (each if isinstance(each, list) else [each])]

    # ------------------------------------------------------------------ parts left as they are

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return ast.copy_location(_call("quietly", _lazy(node)), node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if isinstance(node.exc, ast.Call):
            node.exc = _call("quietly", _lazy(node.exc))
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        node.guard = self.visit(node.guard) if node.guard is not None else None
        node.body = self._all(node.body)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.places.append(node.name)
        node.body = self._all(node.body)
        self.places.pop()
        return node

    # ------------------------------------------------------------------ functions

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.places.append(node.name)
        if not any(".".join(self.places).startswith(each) for each in ATOMIC):
            inside = [n for each in node.body for n in _own_nodes(each)]
            generator = any(isinstance(n, ast.Yield | ast.YieldFrom) for n in inside)
            self.generators.append(generator)
            node.args = self.visit(node.args)
            self.locals.append(
                _names_of(node.args)
                | {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            )
            node.body = self._all(node.body)
            self.locals.pop()
            self.generators.pop()
            if not generator:
                entered = _entered(node)
                left = ast.Expr(_call("left", ast.Name("_frame_", ast.Load())))
                node.body = [*entered, ast.Try(node.body or [ast.Pass()], [], [], [left])]
        self.places.pop()
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        node.args = self.visit(node.args)
        self.locals.append(set())
        body = self.visit(node.body)
        self.locals.pop()
        node.body = _call("inside", _parameters(node.args), _lazy(body))
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if node.value is None or self.generators[-1]:
            return self.generic_visit(node)
        returned = _call("returned", ast.Name("_frame_", ast.Load()), self.visit(node.value))
        return ast.copy_location(ast.Return(returned), node)

    # ------------------------------------------------------------------ statements

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        message: list[ast.expr] = [_call("quietly", _lazy(node.msg))] if node.msg else []
        raised = ast.Call(ast.Name("AssertionError", ast.Load()), message, [])
        test = _call("negated", self.visit(node.test))
        return ast.copy_location(ast.If(test, [ast.Raise(raised)], []), node)

    def visit_Assign(self, node: ast.Assign) -> Any:
        value = self.visit(node.value)
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id == "__slots__":
            return node
        if len(node.targets) == 1 and isinstance(target, ast.Name):
            node.value = _call("named", ast.Constant(target.id), value)
            return node
        if len(node.targets) == 1 and isinstance(target, ast.Attribute | ast.Subscript):
            return ast.copy_location(ast.Expr(self._stored(target, value)), node)
        if len(node.targets) == 1 and isinstance(target, ast.Tuple):
            return self._unpacked(target, value, node)
        node.value = value
        return node

    def _unpacked(self, target: ast.Tuple, value: ast.expr, node: ast.Assign) -> Any:
        """An assignment to several targets; attributes and items among them are set one by one."""
        stores: list[ast.stmt] = []
        names = []
        for number, part in enumerate(target.elts):
            if isinstance(part, ast.Attribute | ast.Subscript):
                held = f"_part_{number}_"
                stored = self._stored(part, ast.Name(held, ast.Load()))
                stores.append(ast.copy_location(ast.Expr(stored), node))
                target.elts[number] = ast.Name(held, ast.Store())
            names.append(part.id if isinstance(part, ast.Name) else "")
        plain = all(isinstance(part, ast.Name) for part in target.elts)
        hints = ast.Tuple([ast.Constant(name) for name in names], ast.Load())
        node.value = _call("unpacked", hints, value) if plain else _call("iterated", value)
        return [node, *stores]

    def _stored(self, target: ast.Attribute | ast.Subscript, value: ast.expr) -> ast.expr:
        owner = self.visit(target.value)
        if isinstance(target, ast.Attribute):
            return _call("set_attribute", owner, ast.Constant(target.attr), value)
        return _call("set_item", owner, self._index(target.slice), value)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if isinstance(node.target, ast.Name):
            held = ast.Name(node.target.id, ast.Load())
            changed = _call(
                "changed", ast.Constant(type(node.op).__name__), held, self.visit(node.value)
            )
            return ast.copy_location(ast.Assign([node.target], changed), node)
        node.value = self.visit(node.value)
        return node

    def visit_Delete(self, node: ast.Delete) -> Any:
        found: list[ast.stmt] = []
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                call = _call("delete_item", self.visit(target.value), self._index(target.slice))
                found.append(ast.copy_location(ast.Expr(call), node))
            else:
                found.append(ast.copy_location(ast.Delete([target]), node))
        return found

    def visit_withitem(self, node: ast.withitem) -> ast.AST:
        node.context_expr = _call("context", self.visit(node.context_expr))
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.iter = _call("iterated", node.iter)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        node.iter = _call("iterated", self.visit(node.iter))
        node.ifs = [self.visit(each) for each in node.ifs]
        return node

    # ------------------------------------------------------------------ expressions

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id in _UNTOUCHED:
            return self.generic_visit(node)
        positional = ast.Tuple([self.visit(each) for each in node.args], ast.Load())
        named = ast.Dict(
            [ast.Constant(k.arg) if k.arg else None for k in node.keywords],
            [self.visit(k.value) for k in node.keywords],
        )
        names = ast.Tuple(
            [ast.Constant(e.id if isinstance(e, ast.Name) else "") for e in node.args], ast.Load()
        )
        if isinstance(node.func, ast.Attribute):
            owner = self.visit(node.func.value)
            called = _call("method", owner, ast.Constant(node.func.attr), positional, named, names)
        else:
            called = _call("call", self.visit(node.func), positional, named, names)
        return ast.copy_location(called, node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if not isinstance(node.ctx, ast.Load) or node.id not in self.locals[-1]:
            return node
        return ast.copy_location(_call("held", ast.Constant(node.id), node), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        node.value = self.visit(node.value)
        if not isinstance(node.ctx, ast.Load):
            return node
        return ast.copy_location(_call("attribute", node.value, ast.Constant(node.attr)), node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if not isinstance(node.ctx, ast.Load):
            return self.generic_visit(node)
        return ast.copy_location(
            _call("item", self.visit(node.value), self._index(node.slice)), node
        )

    def _index(self, index: ast.expr) -> ast.expr:
        if isinstance(index, ast.Slice):
            none = ast.Constant(None)
            bounds = [self.visit(e) if e else none for e in (index.lower, index.upper, index.step)]
            return ast.Call(ast.Name("slice", ast.Load()), bounds, [])
        if isinstance(index, ast.Tuple):
            return ast.Tuple([self._index(each) for each in index.elts], ast.Load())
        visited: ast.expr = self.visit(index)
        return visited

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if len(node.ops) > 1:
            return self.generic_visit(node)
        left, right = node.left, node.comparators[0]
        fixed = ast.Tuple(
            [ast.Constant(isinstance(each, ast.Constant)) for each in (left, right)], ast.Load()
        )
        kind = ast.Constant(type(node.ops[0]).__name__)
        compared = _call("compared", kind, self.visit(left), self.visit(right), fixed)
        return ast.copy_location(compared, node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        kind = ast.Constant(type(node.op).__name__)
        done = _call("combined", kind, self.visit(node.left), self.visit(node.right))
        return ast.copy_location(done, node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return ast.copy_location(_call("negated", operand), node)
        if isinstance(node.operand, ast.Constant):
            node.operand = operand
            return node
        return ast.copy_location(
            _call("turned", ast.Constant(type(node.op).__name__), operand), node
        )


def _own_nodes(node: ast.AST) -> list[ast.AST]:
    """A node and the nodes below it, without the bodies of inner functions."""
    inner = (ast.FunctionDef, ast.Lambda, ast.ClassDef)
    below = [] if isinstance(node, inner) else list(ast.iter_child_nodes(node))
    return [node, *(n for child in below for n in _own_nodes(child))]


def _names_of(arguments: ast.arguments) -> set[str]:
    """The names of parameters."""
    return {each.arg for each in ast.walk(arguments) if isinstance(each, ast.arg)}


def _parameters(arguments: ast.arguments) -> ast.expr:
    """Pairs of the name and the value of each parameter."""
    plain = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    plain += [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    pairs: list[ast.expr] = [
        ast.Tuple([ast.Constant(p.arg), ast.Name(p.arg, ast.Load())], ast.Load()) for p in plain
    ]
    return ast.Tuple(pairs, ast.Load())


def _entered(node: ast.FunctionDef) -> list[ast.stmt]:
    """The first statement of a function, after its docstring."""
    first = ast.Assign([ast.Name("_frame_", ast.Store())], _call("entered", _parameters(node.args)))
    if ast.get_docstring(node, clean=False) is None:
        return [first]
    return [node.body.pop(0), first]
