"""The events, functions and classes that a script needs for its end.

Needs begin with the event of an `Ending` and go back: to the events whose results it uses, to the
functions and classes in them, and to the operations of those.

    Needs(tape, implementation, Ending(event, "compare")).kept    # the events of the script
"""

import keyword
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import jax

from scutch.implementation import Implementation
from scutch.reproduce.events import (
    Block,
    Event,
    Expression,
    Global,
    Literal,
    Record,
    Written,
    functions,
    references,
    within,
)
from scutch.reproduce.kinds import is_literal, is_suite
from scutch.reproduce.names import Nameless, Names
from scutch.reproduce.sources import Source, written_function
from scutch.reproduce.tape import MAKERS, QUESTIONS, Tape

RAISED = "raised"
CHANGES = ("set attribute", "set item", "delete item")
"""The kinds of events that change their first operand."""


@dataclass(frozen=True)
class Ending:
    """How a script ends.

    Args:
      event: The one on which the law failed.
      mode: `raises` where the event should not have raised its error; `accepted` where it should
        have raised one; `compare`, `alike`, `answer` or `truth` where its result is wrong.
      guards: Earlier events with a truth value. A script that gets another truth value from one of
        them exits with 0, because the law might then not have asked for the end.
    """

    event: Event
    mode: str
    guards: tuple[Event, ...] = ()


class Needs:
    """What the script about one failure consists of."""

    def __init__(
        self,
        tape: Tape,
        implementation: Implementation,
        ending: Ending,
        effects: Iterable[Event] = (),
    ) -> None:
        """Collect the events, functions and classes that the script needs.

        Args:
          tape: The events of the law's run.
          implementation: The one that the script is about.
          ending: The event that ends the script, and how.
          effects: Events to keep because they may change a value; a subset of `possible_effects`.
        """
        self.tape, self.names, self.ending = tape, Names(implementation), ending
        self.implementation = implementation
        self.sources: dict[tuple[int, ...], Source] = {}
        self.block = tape.top
        self.plain: dict[type, bool] = {}
        self.guards = set(ending.guards)
        self.uses: dict[Event, int] = {}
        self.users: dict[Event, list[Event]] = {}
        self.kept: set[Event] = set()
        self.records: dict[Any, Record] = {}
        self.variables: dict[Event, str] = {}
        self.texts: dict[Any, str] = {}
        self.taken: set[str] = {*keyword.kwlist, "sys", "got", "expected", "os"}
        self.effects = set(effects)
        self.raising = {r.event for e in tape.order for x in e.inputs() for r in references(x)
                        if r.path[:1] == (RAISED,)}  # fmt: skip
        self._keep(ending.event)
        for event in ending.guards:
            self._keep(event)
        for event in sorted(self.effects, key=lambda e: e.number):
            self._keep(event)

    def _keep(self, event: Event) -> None:
        if event in self.kept:
            return
        self.kept.add(event)
        if self.folds(event):
            return
        for block in event.block.within():
            for owner in self._withs(block):
                self._keep(owner)
        for each in event.inputs():
            self._need(each, event)

    def _withs(self, block: Block) -> Iterator[Event]:
        parent = block.parent
        for event in parent.events if parent is not None else ():
            if event.body is block:
                yield event

    def _need(self, expression: Expression, user: Event) -> None:
        for ref in references(expression):
            self.uses[ref.event] = self.uses.get(ref.event, 0) + 1
            self.users.setdefault(ref.event, []).append(user)
            self._keep(ref.event)
        for kind in classes(expression):
            self._need_source(kind, user)
        for function in functions(expression):
            record = self.record(function)
            if record is None:
                self._need_source(function.function, user)
            elif id(record) not in self.records:
                self._need_record(record)

    def _need_record(self, record: Record) -> None:
        self.records[id(record)] = record
        for each in record.block.events:
            if self._acts(each):
                self._keep(each)
        end = Event("return", record.block, (record.returned,), number=len(self.tape.order))
        self._need(record.returned, end)

    def _need_source(self, value: Any, user: Event) -> None:
        key = self._key(value, user.block)
        if key in self.sources:
            return
        calls = self._calls(value, user.block) if len(key) > 1 else {}
        source = self.sources[key] = Source(value, self.tape, self.implementation, calls)
        for each in source.names.values():
            self._need(each, user)
        for record in calls.values():
            self._need_record(record)

    def _key(self, value: Any, block: Block) -> tuple[int, ...]:
        """What tells one text of a function or class from another.

        A class is written by its text, once, if the text names only what a script can import. Else
        its methods are written as the operations of their calls, which differ from place to place.
        """
        if not isinstance(value, type):
            return (id(value),)
        if value not in self.plain:
            try:
                names = Source(value, self.tape, self.implementation).names.values()
                self.plain[value] = all(_is_plain_name(each, value) for each in names)
            except Nameless:
                self.plain[value] = False
        calls = {} if self.plain[value] else self._calls(value, block)
        return (id(value), *map(id, calls.values()))

    def _calls(self, kind: type, block: Block) -> dict[str, Record]:
        """The first call of each method of a class by outside code, for its use in a block."""
        found: dict[str, Record] = {}
        for name, value in vars(kind).items():
            calls = self._recorded(written_function(value))
            inside = (record for record in calls if block in record.block.within())
            if (record := next(inside, None)) is not None:
                found[name] = record
        return found

    def record(self, function: Written) -> Record | None:
        """The first call of a function by outside code; of its closure, if possible."""
        return next(iter(self._recorded(function.function)), None)

    def _recorded(self, function: types.FunctionType | None) -> list[Record]:
        if function is None:
            return []
        cells = tuple(id(c.cell_contents) for c in function.__closure__ or () if _full(c))
        same = [r for r in self.tape.records if r.key[0] is function.__code__]
        return [r for r in same if r.key[1] == cells] or same

    def folds(self, event: Event) -> bool:
        """Whether an event is written as its result, a literal, and not as an operation."""
        return (
            not event.tainted
            and event.error is None
            and event.kind in ("call", "method", "attribute", "item", "combine", "turn")
            and self._is_foldable(event.result)
        )

    def _is_foldable(self, value: Any) -> bool:
        kind = type(value)
        if kind in (tuple, list):
            return all(map(self._is_foldable, value))
        if kind is dict:
            return all(map(self._is_foldable, [*value.keys(), *value.values()]))
        if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
            key = jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key)
            return not key and not value.committed and not value.is_deleted() and value.size < 100
        return is_literal(value)

    def _acts(self, event: Event) -> bool:
        return event in self.effects or event.kind in CHANGES


def classes(expression: Expression) -> Iterator[type]:
    """The classes of the suite in an expression, at any depth, functions left out."""
    named = (each.value for each in within(expression) if isinstance(each, Global))
    return (v for v in named if isinstance(v, type) and v.__module__.startswith("scutch."))


def _is_plain_name(expression: Expression, kind: type) -> bool:
    """Whether a name in the text of a class means something that is no part of the suite."""
    own = isinstance(expression, Global) and any(expression.value is base for base in kind.__mro__)
    return own or (isinstance(expression, Global | Literal) and not is_suite(expression.value))


def _full(cell: Any) -> bool:
    return bool(cell != type(cell)())


def possible_effects(tape: Tape, ending: Event) -> list[Event]:
    """The events before the end that may have changed something.

    Args:
      tape: The events of a law's run.
      ending: The event on which the law failed.

    Returns:
      The events, the last first.
    """
    before = (e for e in reversed(tape.order) if e.number < ending.number and e.tainted)
    return [event for event in before if _may_change(event)]


def _may_change(event: Event) -> bool:
    """Whether an event may change a value, such as a method or a call of a function."""
    if event.kind == "call":
        called = event.operands[0]
        return not (isinstance(called, Global) and called.value in (*QUESTIONS, *MAKERS))
    return event.kind in (*CHANGES, "method")
