"""One call of a law as a program: the law, and the parts of the suite that the call ran.

    Slice(ran, check, names).program(driver, module)    # a syntax tree without imports of the suite

A function, class or constant of the suite is copied with what it needs, under a name of its own,
and without what did not run (`pruning`).
"""

import ast
import builtins
import copy
import importlib.util
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scutch.reproduce.names import Nameless
from scutch.reproduce.pruning import PACKAGE, Pruned
from scutch.reproduce.running import Ran
from scutch.reproduce.syntax import alias_of, bound, unused

INSTEAD = {("scutch.inputs.keys", "small_key"): "small_key = jax.random.key"}
"""Definitions that a program has instead of the suite's. The suite's keys are of its own generator,
which is quicker to compile."""


@dataclass
class Module:
    """The text of a module of the suite, and where its names are from.

    Args:
      name: Of the module.
      tree: Its syntax.
      file: Its path.
      defined: The statement that defines each of its own names.
      imported: For each name that it imports: the module, the name there (None for the module
        itself), and the import statement.
      loose: Statements that define no name, such as the registration of a class.
    """

    name: str
    tree: ast.Module
    file: str = ""
    defined: dict[str, ast.stmt] = field(default_factory=dict)
    imported: dict[str, tuple[str, str | None, str]] = field(default_factory=dict)
    loose: list[ast.stmt] = field(default_factory=list)

    @classmethod
    def of(cls, name: str) -> "Module":
        """Read the text of a module.

        Raises:
          Nameless: It has no text.
        """
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.origin:
            raise Nameless(f"the module {name} has no text")
        found = cls(name, ast.parse(Path(spec.origin).read_text("utf-8")), spec.origin)
        for each in found.tree.body:
            if isinstance(each, ast.FunctionDef | ast.ClassDef):
                found.defined[each.name] = each
            elif isinstance(each, ast.Assign | ast.AnnAssign):
                targets = each.targets if isinstance(each, ast.Assign) else [each.target]
                names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
                found.defined.update(dict.fromkeys(names, each))
            elif not isinstance(each, ast.Import | ast.ImportFrom | ast.Expr) or _calls(each):
                found.loose.append(each)
        for node in ast.walk(found.tree):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    line = f"from {node.module} import {alias.name}"
                    line += f" as {alias.asname}" if alias.asname else ""
                    found.imported[alias_of(alias)] = str(node.module), alias.name, line
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    line = f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
                    found.imported[alias_of(alias)] = alias.name, None, line
        return found


def _calls(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


class Slice:
    """Statements of the suite, copied under names of their own."""

    def __init__(
        self, ran: Ran, check: tuple[str, int] | None, given: Collection[str], *, stubs: bool
    ) -> None:
        """Start with no statement.

        Args:
          ran: The lines that ran.
          check: The file and line of the assertion with which the program ends.
          given: Names that the driver gives itself, which nothing else may have.
          stubs: Whether methods that did not run stay, without a body.
        """
        self.ran, self.check, self.stubs = ran, check, stubs
        self.modules: dict[str, Module] = {}
        self.statements: list[ast.stmt] = []
        self.names: dict[tuple[str, str], str] = {}
        self.imports: set[str] = set()
        self.taken = {*given, *dir(builtins), "sys", "os"}

    def module(self, name: str) -> Module:
        """The text of a module, read once."""
        if name not in self.modules:
            self.modules[name] = Module.of(name)
        return self.modules[name]

    def origin(self, module: Module, name: str) -> tuple[str, str | None, str]:
        """Where a name is from.

        Args:
          module: A module of the suite.
          name: A global name in it.

        Returns:
          The module that defines it, empty for a builtin name; the name there, None if it stands
          for the module itself; and the import statement if the module is not of the suite.
        """
        if name in module.defined:
            return module.name, name, ""
        if name not in module.imported:
            return "", name, ""
        source, inner, line = module.imported[name]
        if not source.startswith(PACKAGE):
            return source, inner, line
        if inner is None:
            return source, None, ""
        there = self.module(source)
        if inner in there.defined or inner in there.imported:
            return self.origin(there, inner)
        return f"{source}.{inner}", None, ""

    def need(self, module: Module, name: str) -> str:
        """The program's name for a name in a module of the suite; its definition is copied.

        Args:
          module: The module.
          name: A global name in it.

        Returns:
          The name in the program.

        Raises:
          Nameless: The name stands for a module of the suite.
        """
        source, inner, line = self.origin(module, name)
        if not source:
            return name
        if line:
            given = line.rpartition(" ")[2].partition(".")[0]
            self.imports.add(line)
            self.taken.add(given)
            return given
        if inner is None:
            raise Nameless(f"the module {source} of the suite")
        key = source, inner
        if key not in self.names:
            self.names[key] = unused(inner, self.taken)
            self.define(self.module(source), inner)
        return self.names[key]

    def define(self, module: Module, name: str) -> None:
        """Copy the statement that defines a name, after those that it needs.

        Args:
          module: A module of the suite.
          name: It is defined there.
        """
        if (module.name, name) in INSTEAD:
            self.imports.add("import jax")
            self.statements += ast.parse(INSTEAD[module.name, name]).body
            return
        node: Any = copy.deepcopy(module.defined[name])
        kept = Pruned(self.ran, self.check, module.file, stubs=self.stubs).visit(node)
        if isinstance(kept, ast.AnnAssign) and kept.value is not None:
            kept = ast.copy_location(ast.Assign([kept.target], kept.value), kept)
        node = Resolved(self, module).visit(kept)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            node.name = self.names[module.name, name]
        self.statements.append(node)
        for each in module.loose:
            if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(each)):
                self.statements.append(Resolved(self, module).visit(copy.deepcopy(each)))

    def program(self, driver: Sequence[ast.stmt], module: Module) -> ast.Module:
        """The statements of a driver, after those that it needs.

        Args:
          driver: Statements; their names are those of `module`.
          module: Says where the driver's names are from.
        """
        last = [Resolved(self, module).visit(each) for each in driver]
        return ast.fix_missing_locations(ast.Module([*self.statements, *last], []))


class Resolved(ast.NodeTransformer):
    """Gives each global name of a module of the suite its name in the program."""

    def __init__(self, slice_: Slice, module: Module) -> None:
        """Start in the scope of the module."""
        self.slice, self.module = slice_, module
        self.scopes: list[tuple[bool, set[str]]] = []

    def is_local(self, name: str) -> bool:
        """Whether a name is of a function around this place, or of the class right here."""
        for depth, (is_class, names) in enumerate(reversed(self.scopes)):
            if name in names and (not is_class or depth == 0):
                return True
        return False

    def _within(self, node: Any, names: set[str], *, is_class: bool = False) -> None:
        """Visit the statements or the expressions of a scope."""
        self.scopes.append((is_class, names))
        for name, value in ast.iter_fields(node):
            if name in ("decorator_list", "args", "bases", "keywords"):
                continue
            if isinstance(value, list):
                setattr(node, name, [self.visit(e) if isinstance(e, ast.AST) else e for e in value])
            elif isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))
        self.scopes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Its decorators and defaults are of the scope around it."""
        node.decorator_list = [self.visit(each) for each in node.decorator_list]
        node.args = self.visit(node.args)
        self._within(node, bound(node))
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """As a function."""
        node.args = self.visit(node.args)
        self._within(node, bound(node))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Its bases are of the scope around it."""
        for name in ("decorator_list", "bases", "keywords"):
            setattr(node, name, [self.visit(each) for each in getattr(node, name)])
        self._within(node, bound(node), is_class=True)
        return node

    def visit_comprehension_like(self, node: Any) -> Any:
        """Its targets are its own."""
        names = {
            n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)
        }
        self.scopes.append((False, names))
        self.generic_visit(node)
        self.scopes.pop()
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_comprehension_like

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """An attribute of a module of the suite is a name of the program."""
        if isinstance(node.value, ast.Name) and not self.is_local(node.value.id):
            source, inner, line = self.slice.origin(self.module, node.value.id)
            if source and inner is None and not line:
                name = self.slice.need(self.slice.module(source), node.attr)
                return ast.copy_location(ast.Name(name, node.ctx), node)
        found: ast.AST = self.generic_visit(node)
        return found

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A global name is copied from where it is defined."""
        if not self.is_local(node.id):
            node.id = self.slice.need(self.module, node.id)
        return node
