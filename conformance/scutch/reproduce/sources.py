"""Functions and classes of the suite as they would stand in a script.

A function that nothing called, and a class that a law hands to the implementation, are written from
the suite's own text: without docstrings and annotations, without methods that were not called,
and with an expression in the place of each name of the suite.

    found = Source(kind, tape, implementation)
    found.names      # an expression for each of its free names
    found.text({'nnx': 'nnx'})
"""

import ast
import builtins
import inspect
import textwrap
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scutch.implementation import Implementation
from scutch.namespaces import CAPABILITIES
from scutch.reproduce.events import Expression, Global
from scutch.reproduce.names import Nameless
from scutch.reproduce.rewriting import Unannotated
from scutch.reproduce.tape import Tape

BODY = "_body_of_"
"""Begins the line that stands for the body of a method that is left open."""
_FIELDS = ("int", "float", "str", "bool", "tuple", "dict")


class Source:
    """The text of one function or class."""

    def __init__(
        self, value: Any, tape: Tape, implementation: Implementation, open_: Mapping[str, Any] = {}
    ) -> None:
        """Parse the text, and resolve each of its free names to an expression.

        Args:
          value: A function or a class of the suite.
          tape: Knows which functions ran; methods that did not run are left out.
          implementation: Its namespaces replace the suite's `nnx`, `linen` and so on.
          open_: The methods of a class whose bodies are left open, by name.
        """
        self.open = open_
        self.value, self.tape, self.implementation = value, tape, implementation
        self.name = str(value.__name__)
        self.names: dict[str, Expression] = {}
        self.node = self._parsed()
        self.closure = dict(self._closures())
        self.bound = _bound(self.node)
        self.node = _Resolver(self).visit(self.node)

    def _parsed(self) -> Any:
        try:
            if isinstance(self.value, type):
                tree: Any = ast.parse(textwrap.dedent(inspect.getsource(self.value))).body[0]
            else:
                text = Path(inspect.getfile(self.value)).read_text("utf-8")
                tree = self._function(ast.parse(text))
        except (OSError, SyntaxError, TypeError) as error:
            raise Nameless(f"the text of {self.value!r} cannot be read: {error}") from None
        tree = _Pruner(self.value, self.tape.ran).visit(tree)
        for method in tree.body if self.open else ():
            if isinstance(method, ast.FunctionDef) and method.name in self.open:
                method.body = [ast.Expr(ast.Name(f"{BODY}{method.name}", ast.Store()))]
        return tree

    def _function(self, module: ast.AST) -> ast.AST:
        """The function in the text of its module: by its line and the names of its parameters."""
        code = self.value.__code__
        parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        found = [
            node for node in ast.walk(module)
            if isinstance(node, ast.FunctionDef | ast.Lambda)
            and code.co_firstlineno in (node.lineno, *(d.lineno for d in _decorators(node)))
            and parameters == tuple(a.arg for a in [*node.args.posonlyargs, *node.args.args,
                                                    *node.args.kwonlyargs])
        ]  # fmt: skip
        if len(found) != 1:
            raise Nameless(f"{self.value!r} is one of several functions in a line")
        return found[0]

    def _closures(self) -> Any:
        own = [self.value] if not isinstance(self.value, type) else vars(self.value).values()
        for function in map(written_function, own):
            if function is None:
                continue
            for name, cell in zip(
                function.__code__.co_freevars, function.__closure__ or (), strict=True
            ):
                yield name, cell.cell_contents

    def meaning(self, name: str) -> Any:
        """The value of a free name of the text.

        It is sought in the closure, the module, the namespaces of the implementation, and the
        builtins, in this order.

        Raises:
          Nameless: None of these has the name.
        """
        if name in self.closure:
            return self.closure[name]
        module = inspect.getmodule(self.value)
        if module is not None and hasattr(module, name):
            return getattr(module, name)
        if name in CAPABILITIES:
            return getattr(self.implementation, name)
        for capability in CAPABILITIES:
            space = getattr(self.implementation, capability)
            if space is not None and hasattr(space, name):
                return getattr(space, name)
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise Nameless(f"{name!r} in the text of {self.value!r}")

    def text(self, words: Mapping[str, str]) -> list[str]:
        """The lines of the function or class.

        Args:
          words: The text to write for each key of `names`.
        """

        class Put(ast.NodeTransformer):
            def visit_Name(self, node: ast.Name) -> ast.AST:
                return ast.parse(words[node.id], mode="eval").body if node.id in words else node

        return ast.unparse(ast.fix_missing_locations(Put().visit(self.node))).splitlines()


def _decorators(node: ast.FunctionDef | ast.Lambda) -> list[ast.expr]:
    return node.decorator_list if isinstance(node, ast.FunctionDef) else []


def written_function(value: Any) -> types.FunctionType | None:
    """The function of the suite under a method or its decorators; `None` if there is none."""
    value = getattr(value, "__func__", getattr(value, "fget", value))
    value = inspect.unwrap(value) if callable(value) else value
    return value if isinstance(value, types.FunctionType) else None


class _Pruner(ast.NodeTransformer):
    """Leaves out docstrings, annotations and methods that were not called."""

    def __init__(self, value: Any, ran: set[Any]) -> None:
        self.ran = {(code.co_name, code.co_firstlineno) for code in ran}
        self.own = vars(value) if isinstance(value, type) else {}
        bases = value.__mro__[1:] if isinstance(value, type) else ()
        abstract = [getattr(base, "__abstractmethods__", ()) for base in bases]
        self.abstract = {name for names in abstract for name in names}

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [each for each in node.body if self._is_needed(each)] or [ast.Pass()]
        return self.generic_visit(node)

    def _is_needed(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            return False
        if not isinstance(statement, ast.FunctionDef):
            return True
        code = getattr(written_function(self.own.get(statement.name)), "__code__", None)
        return (
            code is None
            or statement.name in self.abstract
            or (code.co_name, code.co_firstlineno) in self.ran
        )

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        base = node.annotation.value if isinstance(node.annotation, ast.Subscript) else None
        known = base if isinstance(base, ast.Name) else node.annotation
        plain = isinstance(known, ast.Name) and known.id in _FIELDS
        node.annotation = known if plain else ast.Name("object", ast.Load())
        return node


class _Resolver(Unannotated):
    """Resolves names to expressions; a name of a namespace is resolved with its attribute."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        value = self.source.value
        node.body = [self.visit(each) for each in node.body]
        node.decorator_list = [self.visit(each) for each in node.decorator_list]
        node.keywords = []
        node.bases = [self._standing(base.__name__, base) for base in value.__bases__
                      if base is not object]  # fmt: skip
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id not in self.source.bound:
            owner = self.source.meaning(node.value.id)
            if isinstance(owner, types.ModuleType) or hasattr(type(owner), "claimed"):
                return self._standing(node.attr, getattr(owner, node.attr))
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if not isinstance(node.ctx, ast.Load) or node.id in self.source.bound:
            return node
        value = self.source.meaning(node.id)
        if getattr(builtins, node.id, None) is value:
            return node
        return self._standing(node.id, value)

    def _standing(self, name: str, value: Any) -> ast.expr:
        """A name of our own for a value."""
        number = len(self.source.names)
        for known, expression in self.source.names.items():
            if isinstance(expression, Global) and expression.value is value:
                return ast.Name(known, ast.Load())
        own = f"_standing_{number}_{name}"
        self.source.names[own] = self.source.tape.expression(value)
        return ast.Name(own, ast.Load())


def _bound(node: ast.AST) -> set[str]:
    """The names that a text gives itself."""
    found = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    found |= {e.id for e in ast.walk(node) if isinstance(e, ast.Name) and
              isinstance(e.ctx, ast.Store)}  # fmt: skip
    inner = (ast.FunctionDef, ast.ClassDef)
    found |= {each.name for each in ast.walk(node) if isinstance(each, inner)}
    found |= {e.name for e in ast.walk(node) if isinstance(e, ast.ExceptHandler) and e.name}
    return found
