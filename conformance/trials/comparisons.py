"""Which comparisons of a law somebody else than the judge could decide: found in its text.

`==`, `!=`, `in` and `not in` ask a method of one of their operands. Where an operand came from the
implementation, the class of the answer is the implementation's, too: a `str` of its own, or a
`dict`, may call itself equal to whatever it is compared with. `undecided` follows the values of a
module of laws from the namespaces and built inputs, where they are the implementation's, through
assignments, loops and the module's own functions, and gives the comparisons of which an operand
is not the judge's own.

A value is `OWN` if nothing of it came from the implementation; a `SHELL` if it is a new list, tuple
or plain dictionary that the law itself made around values which did; and else `THEIRS`.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

THEIRS, SHELL, OWN = 0, 1, 2

EXACT = (
    "alike",
    "alike_in_any_order",
    "close",
    "constraints",
    "difference",
    "differences",
    "entries",
    "has_sharding",
    "holds",
    "is_array",
    "names_of",
    "near",
    "on_every_process",
    "plain_names",
    "plain_text",
    "same_leaves",
    "says_equal",
    "says_unequal",
    "trees_differ",
    "float",
    "hash",
    "id",
    "int",
    "isinstance",
    "issubclass",
)
"""Functions of the judge's and of Python's whose answer is plain, whatever they are asked about."""

NEW = ("list", "tuple", "sorted", "enumerate", "zip", "reversed", "map", "range")
"""Functions that return a new sequence or iterator over the elements of their arguments."""

FILLS = ("append", "add", "extend", "insert", "update", "setdefault", "appendleft")
"""Methods by which a container gets contents."""

COMPARES = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)


@dataclass
class Function:
    """A function of a module.

    Args:
      node: Its definition.
      parameters: The names of its parameters, in order.
      known: The owner of each parameter: at first `OWN`, or `THEIRS` for a parameter of a law
        that is not drawn as plain data.
      gives: The owner of its result.
    """

    node: ast.FunctionDef
    parameters: list[str]
    known: dict[str, int]
    gives: int = OWN


def _names(arguments: ast.arguments) -> list[str]:
    """The names of all parameters, those by position first."""
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    rest = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return [each.arg for each in (*given, *rest)]


class Module:
    """A module of laws, and the owners of the values in it.

    Args:
      text: Of the module.
      plain: The names of the parameters of each law, by its name, that are drawn as plain data.
    """

    def __init__(self, text: str, plain: Mapping[str, frozenset[str]]) -> None:
        self.tree = ast.parse(text)
        self.plain = plain
        self.functions: dict[str, Function] = {}
        self.found: dict[int, ast.Compare] = {}
        self.changed = True
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef):
                names = _names(node.args)
                own = plain.get(node.name)
                known = {n: OWN if own is None or n in own else THEIRS for n in names}
                self.functions[node.name] = Function(node, names, known)
        self._leave_to_others()

    def _leave_to_others(self) -> None:
        """A function that is handed on, and not only called, is called with anything."""
        called = {id(n.func) for n in ast.walk(self.tree) if isinstance(n, ast.Call)}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and id(node) not in called and node.id in self.functions:
                function = self.functions[node.id]
                if isinstance(node.ctx, ast.Load) and function.node.name not in self.plain:
                    function.known = dict.fromkeys(function.parameters, THEIRS)

    def undecided(self) -> list[ast.Compare]:
        """The comparisons of which an operand is not the judge's own, in the order of the text."""
        while self.changed:
            self.changed, self.found = False, {}
            for node in self.tree.body:
                _Scope(self, {}).statement(node)
            for function in self.functions.values():
                scope = _Scope(self, dict(function.known))
                gives = scope.body(function.node)
                if gives < function.gives:
                    function.gives, self.changed = gives, True
        return sorted(self.found.values(), key=lambda node: (node.lineno, node.col_offset))

    def call(self, function: Function, given: Iterator[tuple[str | int | None, int]]) -> int:
        """Note the arguments of a call of a function of the module; gives its result's owner."""
        for place, value in given:
            names = function.parameters
            if isinstance(place, int):
                names = names[place : place + 1] or names[-1:]
            elif place in names:
                names = [place]
            for name in names:
                if value < function.known[name]:
                    function.known[name], self.changed = value, True
        return function.gives


def _is_plain_text(node: ast.Compare) -> bool:
    """Whether a string is looked for in one that is plain, which then decides it."""
    last = node.comparators[-1]
    return isinstance(last, ast.Call) and getattr(last.func, "id", "") == "plain_text"


class _Scope:
    """The owners of the names in one function, and in the functions around it."""

    def __init__(self, module: Module, names: dict[str, int], method: str = "") -> None:
        self.module = module
        self.method = method
        self.names = names
        self.gives = OWN
        self.local: dict[str, ast.FunctionDef] = {}

    def body(self, function: ast.FunctionDef | ast.ClassDef) -> int:
        """The owner of a function's result; reads its text until the owners of names settle."""
        for _ in range(4):
            before = dict(self.names)
            for statement in function.body:
                self.statement(statement)
            if before == self.names:
                break
        return self.gives

    def statement(self, node: ast.stmt) -> None:
        """Learn from a statement, and from those in it."""
        match node:
            case ast.FunctionDef():
                if node.name not in self.module.functions or self.names:
                    gives = self.inside(node.args, lambda scope: scope.body(node), node.name)
                    self.bind(ast.Name(node.name), gives)
            case ast.ClassDef():
                self.inside(ast.arguments([], [], None, [], [], None, []), lambda s: s.body(node))
            case ast.Return():
                self.gives = min(self.gives, self.value(node.value))
            case ast.Assign():
                for target in node.targets:
                    self.bind(target, self.value(node.value), node.value)
            case ast.AnnAssign() if node.value is not None:
                self.bind(node.target, self.value(node.value), node.value)
            case ast.AugAssign():
                self.bind(node.target, min(self.value(node.target), self.value(node.value)))
            case ast.For():
                self.bind(node.target, self.item(node.iter), node.iter, loop=True)
                for each in (*node.body, *node.orelse):
                    self.statement(each)
            case ast.With():
                for item in node.items:
                    value = self.value(item.context_expr)
                    if item.optional_vars is not None:
                        self.bind(item.optional_vars, value)
                for each in node.body:
                    self.statement(each)
            case _:
                for child in ast.iter_child_nodes(node):
                    match child:
                        case ast.stmt():
                            self.statement(child)
                        case ast.expr():
                            self.value(child)
                        case ast.ExceptHandler():
                            if child.name:
                                self.names[child.name] = THEIRS
                            for each in child.body:
                                self.statement(each)
                        case ast.match_case():
                            for each in child.body:
                                self.statement(each)

    def inside(
        self, parameters: ast.arguments, read: Callable[["_Scope"], int], method: str = ""
    ) -> int:
        """Read a function in this one that is called with anything; gives the inner one's owner."""
        hidden = _names(parameters)
        inner = _Scope(self.module, {**self.names, **dict.fromkeys(hidden, THEIRS)}, method)
        gives = read(inner)
        for name in self.names:
            if name not in hidden:
                self.names[name] = min(self.names[name], inner.names.get(name, OWN))
        return SHELL if gives == OWN else THEIRS

    def bind(
        self, target: ast.expr, value: int, source: ast.expr | None = None, *, loop: bool = False
    ) -> None:
        """Learn that a name, or an item or attribute of one, is given a value."""
        match target:
            case ast.Name():
                self.names[target.id] = min(self.names.get(target.id, OWN), value)
            case ast.Tuple() | ast.List():
                parts = self._parts(source, len(target.elts), loop=loop)
                for each, part in zip(
                    target.elts, parts or [value] * len(target.elts), strict=True
                ):
                    self.bind(each, part if part == OWN or parts else THEIRS)
            case ast.Starred():
                self.bind(target.value, min(value, SHELL) if value != OWN else OWN)
            case ast.Attribute() | ast.Subscript():
                self.fill(target.value, value)

    def _parts(self, source: ast.expr | None, count: int, *, loop: bool) -> list[int] | None:
        """The values that are unpacked, where the text shows them."""
        if loop:
            match source:
                case ast.Call(func=ast.Name(id="enumerate")) if count == 2:
                    return [OWN, self.item(source.args[0])]
                case ast.Call(func=ast.Name(id="zip")) if count == len(source.args):
                    return [self.item(each) for each in source.args]
        if isinstance(source, ast.Tuple) and len(source.elts) == count and not loop:
            return [self.value(each) for each in source.elts]
        return None

    def fill(self, target: ast.expr, value: int) -> None:
        """Learn that a container was given a value."""
        while isinstance(target, ast.Attribute | ast.Subscript):
            target = target.value
        if isinstance(target, ast.Name) and value != OWN:
            self.names[target.id] = min(self.names.get(target.id, OWN), SHELL)

    def item(self, node: ast.expr) -> int:
        """The owner of the elements of a value."""
        match node:
            case ast.Tuple() | ast.List() | ast.Set():
                return min([self.value(each) for each in node.elts], default=OWN)
        return OWN if self.value(node) == OWN else THEIRS

    def value(self, node: ast.expr | None) -> int:
        """The owner of an expression's value."""
        match node:
            case None | ast.Constant():
                return OWN
            case ast.Name():
                return self.names.get(node.id, OWN)
            case ast.Lambda():
                return self.inside(node.args, lambda scope: scope.value(node.body))
            case ast.Tuple() | ast.List():
                values = [self.value(each) for each in node.elts]
                return OWN if min(values, default=OWN) == OWN else SHELL
            case ast.Starred():
                return self.value(node.value)
            case ast.ListComp() | ast.GeneratorExp():
                return max(SHELL, self._comprehended(node.generators, node.elt)[0])
            case ast.SetComp():
                return OWN if self._comprehended(node.generators, node.elt)[0] == OWN else THEIRS
            case ast.DictComp():
                key, value = self._comprehended(node.generators, node.key, node.value)
                return min(max(value, SHELL), OWN) if key == OWN else THEIRS
            case ast.Dict():
                keys = [self.value(each) for each in node.keys if each is not None]
                spread = [v for k, v in zip(node.keys, node.values, strict=True) if k is None]
                if min([*keys, *map(self.value, spread)], default=OWN) < OWN:
                    for each in node.values:
                        self.value(each)
                    return THEIRS
                return max(SHELL, min(map(self.value, node.values), default=OWN))
            case ast.Set():
                return OWN if min(map(self.value, node.elts)) == OWN else THEIRS
            case ast.Compare():
                return self._compare(node)
            case ast.Call():
                return self._call(node)
            case ast.Attribute():
                return OWN if self.value(node.value) == OWN else THEIRS
            case ast.Subscript():
                self.value(node.slice)
                whole = self.value(node.value)
                return whole if whole != SHELL or isinstance(node.slice, ast.Slice) else THEIRS
            case ast.IfExp():
                self.value(node.test)
                return min(self.value(node.body), self.value(node.orelse))
            case ast.NamedExpr():
                value = self.value(node.value)
                self.bind(node.target, value, node.value)
                return value
            case ast.UnaryOp(op=ast.Not()):
                self.value(node.operand)
                return OWN
        parts = [
            self.value(each) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)
        ]
        return min(parts, default=OWN)

    def _comprehended(self, generators: list[ast.comprehension], *elements: ast.expr) -> list[int]:
        before = dict(self.names)
        for each in generators:
            self.names |= {n.id: OWN for n in ast.walk(each.target) if isinstance(n, ast.Name)}
            self.bind(each.target, self.item(each.iter), each.iter, loop=True)
            for test in each.ifs:
                self.value(test)
        found = [self.value(each) for each in elements]
        bound = {n.id for g in generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        self.names = {n: v for n, v in self.names.items() if n not in bound} | {
            n: v for n, v in before.items() if n in bound
        }
        return found

    def _compare(self, node: ast.Compare) -> int:
        values = [self.value(each) for each in (node.left, *node.comparators)]
        if all(isinstance(each, ast.Is | ast.IsNot) for each in node.ops):
            return OWN
        if self.method == "__eq__" or _is_plain_text(node):
            return OWN
        if min(values) != OWN and any(isinstance(each, COMPARES) for each in node.ops):
            self.module.found[id(node)] = node
        return OWN if min(values) == OWN else THEIRS

    def is_exact(self, name: str) -> bool:
        """Whether a name is one of `EXACT`, and of nothing else in this function."""
        return name in EXACT and name not in self.names

    def _call(self, node: ast.Call) -> int:
        given = [(n, self.value(each)) for n, each in enumerate(node.args)]
        named = [(each.arg, self.value(each.value)) for each in node.keywords]
        least = min([v for _, v in (*given, *named)], default=OWN)
        if isinstance(node.func, ast.Attribute):
            if node.func.attr in FILLS:
                self.fill(node.func.value, OWN if least == OWN else SHELL)
            owner = self.value(node.func.value)
            if node.func.attr in EXACT and owner == OWN:
                return OWN
            if owner == SHELL and node.func.attr == "keys":
                return OWN
            return OWN if min(owner, least) == OWN else THEIRS
        if not isinstance(node.func, ast.Name):
            return OWN if min(self.value(node.func), least) == OWN else THEIRS
        name = node.func.id
        if self.is_exact(name) or (
            name == "map" and self.is_exact(getattr(node.args[0], "id", ""))
        ):
            return OWN
        if name in self.module.functions and name not in self.names:
            starred = any(isinstance(each, ast.Starred) for each in node.args)
            every = [(None, least)] if starred else [*given, *named]
            return self.module.call(self.module.functions[name], iter(every))
        if name == "len" and least >= SHELL:
            return OWN
        if name in NEW or (name == "dict" and not node.args):
            return max(SHELL, least)
        return OWN if min(self.names.get(name, OWN), least) == OWN else THEIRS


def undecided(text: str, plain: Mapping[str, frozenset[str]]) -> list[ast.Compare]:
    """The comparisons of a module of laws that the implementation could decide.

    Args:
      text: Of the module.
      plain: For each law of the module, the parameters that are drawn as plain data.
    """
    return Module(text, plain).undecided()
