"""A program made shorter, as long as it shows what it showed.

    Reducer(tree, drafts, until=time.monotonic() + 60).run()

Each step changes a copy of the program and runs it. It is kept if it still ends with 1 on the
implementation and with 0 on the reference (`checking.Drafts`), so no step has to be right by
itself. First, what does not run is left out, and expressions become the values that they give;
then `steps` put functions in the place of their calls; last, single statements are deleted.
"""

import ast
import functools
import itertools
import time
from collections.abc import Iterator, Mapping
from typing import Any

from scutch.judging.calls import VOCABULARY
from scutch.reproduce import displays, steps
from scutch.reproduce.checking import Drafts, Value
from scutch.reproduce.pruning import Pruned
from scutch.reproduce.syntax import (
    CHECK,
    NOTE,
    SCRIPT,
    Folded,
    closed,
    copied,
    fill,
    free_nodes,
    relined,
    statements,
)

MANY = 16
"""How many steps of a kind are tried at once, at first."""
STEPS: tuple[steps.Step, ...] = (
    steps.returned,
    steps.methods,
    displays.unrolled,
    steps.named,
    steps.spliced,
    steps.variables,
    steps.parameters,
    functools.partial(steps.simpler, frozenset(VOCABULARY)),
)


class Reducer:
    """The shortest program so far."""

    def __init__(self, tree: ast.Module, drafts: Drafts, *, until: float) -> None:
        """Start with a program that shows a fault.

        Args:
          tree: The program.
          drafts: Runs changed programs.
          until: The time, of `time.monotonic`, after which no step is tried.
        """
        self.tree, self.drafts, self.until = tree, drafts, until
        self.seen = {ast.unparse(tree)}

    def run(self) -> ast.Module:
        """The program, when no step makes it shorter or the time is over."""
        size = -1
        while size != (size := len(ast.unparse(self.tree))) and not self.is_late():
            self.know()
            self.prune()
            for step in STEPS:
                self.all_of(step)
            self.prune()
            self.delete()
        return self.tree

    def is_late(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self.until

    def accepts(self, tree: ast.Module) -> bool:
        """Whether a candidate is as good; then it is kept."""
        if self.is_late() or not closed(tree):
            return False
        text = ast.unparse(ast.fix_missing_locations(Folded().visit(tree)))
        if text in self.seen:
            return False
        self.seen.add(text)
        if not self.drafts.shows(tree):
            return False
        self.tree = tree
        return True

    def all_of(self, step: steps.Step) -> None:
        """Try one kind of step at each of its places, at several at once while that succeeds."""
        place, many = 0, MANY
        while not self.is_late():
            tree = changed = _changed(step, copied(self.tree), place)
            for _ in range(many - 1):
                if changed is not None:
                    tree, changed = changed, _changed(step, copied(changed), place)
            if tree is None:
                return
            if not self.accepts(changed or tree):
                many, place = (many // 4, place) if many > 1 else (1, place + 1)

    def prune(self) -> None:
        """Leave out what does not run: everywhere, or where that fails, in one definition."""
        lined = relined(copied(self.tree))
        pruned = Pruned(self.drafts.ran(lined), None, SCRIPT)
        tree = copied(lined)
        tree.body = [one for each in tree.body for one in pruned.kept(each)]
        fill(tree)
        if self.accepts(tree):
            return
        for index in range(len(lined.body)):
            tree = copied(lined)
            tree.body[index : index + 1] = pruned.kept(tree.body[index])
            fill(tree)
            if self.accepts(tree):
                return self.prune()
        return None

    def know(self) -> None:
        """Put the text of a value in the place of expressions that give it each time."""
        values = self.drafts.values(_noting(copied(self.tree)))
        known: dict[str, Value] = {}
        for number, node in enumerate(_expressions(self.tree)):
            before, found = ast.unparse(node), values.get(number, ("", ()))
            known[before] = found if known.get(before, found) == found else ("", ())
        known = {before: each for before, each in known.items() if each[0] not in ("", before)}
        if not self.accepts(_put(known, copied(self.tree))):
            for before, each in known.items():
                if not self.is_late():
                    self.accepts(_put({before: each}, copied(self.tree)))

    def delete(self) -> None:
        """Delete statements, many at a time and then fewer."""
        size = max(1, sum(1 for _ in statements(self.tree)) // 2)
        while size and not self.is_late():
            start = 0
            while (tree := self._without(start, size)) is not None:
                if not self.accepts(tree):
                    start += size
            size //= 2

    def _without(self, start: int, size: int) -> ast.Module | None:
        """The program without some statements, those that end it excepted; None without any."""
        tree = copied(self.tree)
        chosen = list(statements(tree))[start : start + size]
        if not chosen:
            return None
        for block, node in chosen:
            if not getattr(node, CHECK, False):
                block[:] = [each for each in block if each is not node]
        fill(tree)
        return tree


def _changed(step: steps.Step, tree: ast.Module, place: int) -> ast.Module | None:
    """A program with a step at one of its places; None where there are fewer."""
    change = next(itertools.islice(step(tree), place, None), None)
    if change is None:
        return None
    changed = change(tree)
    fill(changed)
    return changed


def _expressions(tree: ast.AST) -> Iterator[ast.expr]:
    """The expressions whose values are worth knowing, the outermost first."""
    kinds = (
        ast.Call,
        ast.Subscript,
        ast.Attribute,
        ast.BinOp,
        ast.IfExp,
        ast.Name,
        ast.ListComp,
        ast.DictComp,
        ast.SetComp,
        ast.Tuple,
        ast.List,
        ast.Dict,
    )
    for node in free_nodes(tree):
        if isinstance(node, kinds) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            yield node


def _noting(tree: ast.Module) -> ast.Module:
    """A program that notes the values of its expressions, by their numbers."""
    numbers = {id(node): number for number, node in enumerate(_expressions(tree))}

    class Noting(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            made: Any = self.generic_visit(node)
            if id(node) not in numbers:
                return made
            number = ast.Constant(numbers[id(node)])
            return ast.Call(ast.Name(NOTE, ast.Load()), [number, made], [])

    noting: ast.Module = Noting().visit(tree)
    return ast.fix_missing_locations(noting)


def _put(known: Mapping[str, Value], tree: ast.Module) -> ast.Module:
    """The program with values in the place of expressions, which are found by their texts."""
    imports: dict[str, None] = {}
    free = {id(node) for node in _expressions(tree)}

    class Putting(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            after, lines = known.get(ast.unparse(node), ("", ())) if id(node) in free else ("", ())
            if not after:
                return self.generic_visit(node)
            imports.update(dict.fromkeys(lines))
            return ast.parse(after, mode="eval").body

    changed: ast.Module = Putting().visit(tree)
    changed.body[:0] = [ast.parse(line).body[0] for line in imports]
    return changed
