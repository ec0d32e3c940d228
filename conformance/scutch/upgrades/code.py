"""Read a user's code without running it: which names of a library it uses, where and how.

    read([Path("src")], "flax").uses[0]   # Use("src/model.py", 12, 8, "flax.nnx.Param", ...)

The full name of `nn.Dense` follows from the imports of the file. A method is known where the class
of its object is: `self` in a class with bases of the library, and variables, attributes of `self`
and parameters that were made by a call of a class or are annotated with one.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Use:
    """One place where code uses a name of the library.

    Args:
      file: Its path, as it was given.
      line: From 1.
      column: From 1.
      name: Full name as the code spells it, `flax.linen.Dense`; `metadata[KEY]` for a key of
        metadata; `.attribute` for one of an object whose class is unknown.
      is_call: Whether it is called there, or decorates.
      keywords: Names of the keyword arguments of the call.
      positions: The number of its positional arguments; -1 if `*args` is among them.
      open_keywords: Whether `**kwargs` is among the arguments.
      container: `list` or `dict` where a class of the library gets one as an attribute of `self`.
    """

    file: str
    line: int
    column: int
    name: str
    is_call: bool = False
    keywords: tuple[str, ...] = ()
    positions: int = 0
    open_keywords: bool = False
    container: str = ""


@dataclass(frozen=True)
class Code:
    """Everything that was read.

    Args:
      uses: In the order of files and lines.
      files: How many files were read.
      lines: How many lines they have.
      unread: Files that are no Python of this version, each with the reason.
    """

    uses: tuple[Use, ...]
    files: int
    lines: int
    unread: tuple[tuple[str, str], ...]


def read(paths: Iterable[Path], package: str) -> Code:
    """Read files, and all `*.py` of folders but hidden ones.

    Args:
      paths: Files and folders.
      package: The import name of the library.
    """
    uses: list[Use] = []
    unread = []
    count = lines = 0
    for file in _files(paths):
        source = file.read_bytes()
        count += 1
        lines += source.count(b"\n")
        if package.encode() not in source:
            continue
        try:
            uses += of_source(source, package, str(file))
        except (SyntaxError, ValueError) as error:
            unread.append((str(file), f"{type(error).__name__}: {error}"))
    return Code(tuple(uses), count, lines, tuple(unread))


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            found = (
                each
                for each in path.rglob("*.py")
                if not any(part.startswith(".") for part in each.relative_to(path).parts)
            )
            yield from sorted(found)
        else:
            yield path


def of_source(source: str | bytes, package: str, file: str) -> list[Use]:
    """The uses in one file.

    Args:
      source: Its text.
      package: The import name of the library.
      file: The path that uses are given.

    Returns:
      By line and column.

    Raises:
      SyntaxError: It is no Python.
    """
    reader = _Reader(package, file)
    reader.visit(ast.parse(source))
    return sorted(set(reader.uses), key=lambda use: (use.line, use.column, use.name))


@dataclass
class _Scope:
    """The meanings of names in a module, a class or a function.

    Args:
      names: By local name, the full name of a thing of the library.
      types: By local name or `self.attribute`, the full name of an object's class.
      bases: In a class, the full names of its bases.
    """

    names: dict[str, str] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    bases: tuple[str, ...] = ()


class _Reader(ast.NodeVisitor):
    """Collects the uses of a file in `uses`."""

    def __init__(self, package: str, file: str) -> None:
        self.package, self.file = package, file
        self.uses: list[Use] = []
        self.scopes = [_Scope()]

    # ------------------------------------------------------------ imports

    def visit_Import(self, node: ast.Import) -> None:
        for each in node.names:
            if each.name.split(".")[0] == self.package:
                name = each.asname or self.package
                self.scopes[-1].names[name] = each.name if each.asname else self.package
                self._note(node, each.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level == 0 and module.split(".")[0] == self.package:
            for each in node.names:
                self.scopes[-1].names[each.asname or each.name] = f"{module}.{each.name}"
                self._note(each, f"{module}.{each.name}")

    # ------------------------------------------------------------ names

    def full_name(self, node: ast.expr) -> str:
        """The full name that an expression spells; empty if it is none of the library."""
        if isinstance(node, ast.Name):
            return self._looked_up("names", node.id)
        if isinstance(node, ast.Attribute):
            owner = self.full_name(node.value) or self.class_of(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        if isinstance(node, ast.Subscript):  # nnx.Param[jax.Array]
            return self.full_name(node.value)
        return ""

    def class_of(self, node: ast.expr) -> str:
        """The full name of the class of an object, where the code tells it."""
        if isinstance(node, ast.Name):
            if node.id == "self" and (bases := self._bases()):
                return bases[0]
            return self._looked_up("types", node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return self._looked_up("types", f"{node.value.id}.{node.attr}")
        if isinstance(node, ast.Call):
            name = self.full_name(node.func)
            return name if name.rpartition(".")[2][:1].isupper() else ""
        return ""

    def _looked_up(self, table: str, key: str) -> str:
        for scope in reversed(self.scopes):
            if key in getattr(scope, table):
                return str(getattr(scope, table)[key])
        return ""

    def _bases(self) -> tuple[str, ...]:
        return next((scope.bases for scope in reversed(self.scopes) if scope.bases), ())

    def _note(self, node: ast.AST, name: str, **more: object) -> None:
        place = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
        self.uses.append(Use(self.file, *place, name, **more))  # type: ignore[arg-type]

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and (name := self.full_name(node)):
            self._note(node, name)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self.full_name(node)
        self._note(node, name or f".{node.attr}")
        if not name:
            self.visit(node.value)

    # ------------------------------------------------------------ calls and keys

    def visit_Call(self, node: ast.Call) -> None:
        name = self.full_name(node.func)
        if name:
            self._note_call(node.func, name, node)
        else:
            self.visit(node.func)
        for key in self._keys(node):
            self._note(node, f"metadata[{key}]")
        for each in (*node.args, *(word.value for word in node.keywords)):
            self.visit(each)

    def _note_call(self, at: ast.expr, name: str, node: ast.Call) -> None:
        starred = any(isinstance(each, ast.Starred) for each in node.args)
        self._note(
            at,
            name,
            is_call=True,
            keywords=tuple(word.arg for word in node.keywords if word.arg),
            positions=-1 if starred else len(node.args),
            open_keywords=any(word.arg is None for word in node.keywords),
        )

    def _keys(self, node: ast.Call) -> Iterator[str]:
        """Keys of metadata that a call spells."""
        function = node.func
        method = function.attr if isinstance(function, ast.Attribute) else ""
        plain = function.id if isinstance(function, ast.Name) else ""
        texts = [e.value for e in node.args if isinstance(e, ast.Constant)]
        if method in ("get_metadata", "has_metadata", "set_metadata") or (
            method in ("get", "pop") and "metadata" in ast.unparse(function)
        ):
            yield from (each for each in texts[:1] if isinstance(each, str))
            yield from (word.arg for word in node.keywords if word.arg and method[:3] == "set")
        if plain in ("getattr", "hasattr") and isinstance(texts[0] if texts else None, str):
            yield str(texts[0])
        for word in node.keywords:
            if (word.arg or "").endswith("metadata") and isinstance(word.value, ast.Dict):
                keys = (key.value for key in word.value.keys if isinstance(key, ast.Constant))
                yield from (key for key in keys if isinstance(key, str))

    def visit_Subscript(self, node: ast.Subscript) -> None:
        key = node.slice
        is_text = isinstance(key, ast.Constant) and isinstance(key.value, str)
        if is_text and "metadata" in ast.unparse(node.value).rpartition(".")[2]:
            self._note(node, f"metadata[{ast.literal_eval(key)}]")
        self.generic_visit(node)

    # ------------------------------------------------------------ scopes and types

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for each in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
            self.visit(each)
        bases = tuple(filter(None, map(self.full_name, node.bases)))
        if bases:
            self.scopes[-1].names.setdefault(node.name, bases[0])
        self.scopes.append(_Scope(bases=bases))
        for statement in node.body:  # attributes of `self` are known in every method
            if isinstance(statement, ast.FunctionDef) and statement.name in ("__init__", "setup"):
                for inner in ast.walk(statement):
                    if isinstance(inner, ast.Assign):
                        self._learn(inner.targets, inner.value)
        for statement in node.body:
            self.visit(statement)
        self.scopes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for each in node.decorator_list:
            if isinstance(each, ast.Call) or not (name := self.full_name(each)):
                self.visit(each)
            else:
                self._note(each, name, is_call=True, positions=1)
        self.scopes.append(_Scope())
        arguments = node.args
        for taken in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if taken.annotation is not None:
                self.visit(taken.annotation)
                if name := self.full_name(taken.annotation):
                    self.scopes[-1].types[taken.arg] = name
        for default in (*arguments.defaults, *filter(None, arguments.kw_defaults)):
            self.visit(default)
        for statement in node.body:
            self.visit(statement)
        self.scopes.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Assign(self, node: ast.Assign) -> None:
        self._learn(node.targets, node.value)
        self._containers(node.targets, node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._containers([node.target], node.value)
        self.generic_visit(node)

    def _learn(self, targets: Sequence[ast.expr], value: ast.expr) -> None:
        """Note the class of variables that are assigned a new object of the library."""
        name = self.class_of(value)
        for target in targets if isinstance(value, ast.Call) else ():
            spelled = ast.unparse(target)
            for scope in (self.scopes[-1], *(s for s in self.scopes if s.bases)):
                if name:
                    scope.types[spelled] = name
                else:
                    scope.types.pop(spelled, None)

    def _containers(self, targets: Sequence[ast.expr], value: ast.expr) -> None:
        """Note lists and dictionaries that become attributes of an object of the library."""
        kinds = {ast.List: "list", ast.ListComp: "list", ast.Dict: "dict", ast.DictComp: "dict"}
        kind = kinds.get(type(value), "")
        for target in targets:
            owner = target.value if isinstance(target, ast.Attribute) else None
            if kind and isinstance(owner, ast.Name) and owner.id == "self":
                for base in self._bases():
                    self._note(value, base, container=kind)
