"""Where the values of a law are from: for each, the expression that gives it in a script.

A value is told from its equals by its identity. The last event that gave it, or a container with
it, is its origin; a local variable keeps the origin that its value had when it was bound.
"""

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

from scutch.reproduce.events import (
    Block,
    Display,
    Event,
    Expression,
    Global,
    Literal,
    Partial,
    Record,
    Ref,
    Unknown,
    Written,
    references,
)
from scutch.reproduce.kinds import describes, has_identity, is_plain, is_suite

RECENT = 4
"""How many events back the origin of a number or truth value, which has no identity, is sought."""


class Origins:
    """The events of a law so far, and the origins of its values."""

    def __init__(self, package: str = "") -> None:
        """Start with an empty block, and with `recording` off.

        Args:
          package: The import name of the implementation. An event that uses a definition of this
            package is tainted.
        """
        self.package = package
        self.recording = False
        self.top = Block()
        self.block = self.top
        self.known: dict[int, tuple[Any, Ref]] = {}
        self.records: list[Record] = []
        self.stack: list[Any] = []  # events of outside code that is running, and functions in it
        self.order: list[Event] = []
        self.ran: set[Any] = set()
        self.bindings: dict[tuple[int, str], tuple[Any, Ref]] = {}
        self.passing: tuple[Any, dict[int, Ref]] | None = None

    def note(self, kind: str, *operands: Expression, **more: Any) -> Event:
        """Add an event to the current block.

        Args:
          kind: As in `Event`.
          *operands: As in `Event`: for a call, the function and its arguments.
          **more: Further fields of the event.

        Returns:
          The event.
        """
        event = Event(kind, self.block, operands, **more)
        event.number = len(self.order)
        event.tainted = event.tainted or any(map(self.is_tainted, event.inputs()))
        self.block.events.append(event)
        self.order.append(event)
        return event

    def is_tainted(self, expression: Expression) -> bool:
        """Whether an expression holds a definition of the implementation or a tainted result."""
        if isinstance(expression, Global):
            return self.is_own(expression.value)
        if isinstance(expression, Display):
            return any(map(self.is_tainted, expression.parts))
        return any(ref.event.tainted for ref in references(expression))

    def is_own(self, value: Any) -> bool:
        """Whether the implementation defines a class, function or module."""
        if isinstance(value, type) and is_suite(value):
            return any(map(self.is_own, value.__mro__[1:]))
        module = value.__name__ if isinstance(value, types.ModuleType) else None
        module = module or getattr(value, "__module__", None) or ""
        return bool(self.package) and str(module).partition(".")[0] == self.package

    def keep(self, value: Any, ref: Ref) -> None:
        """Remember the origin of a value, and of the parts of a list, tuple or dictionary.

        Args:
          value: The value.
          ref: The event, or the part of its result, that the value came from.
        """
        if has_identity(value) and (ref.event.tainted or self.origin(value) is None):
            self.known[id(value)] = value, ref  # where the implementation had it last
        if len(ref.path) > 3:
            return
        if type(value) in (list, tuple):
            for number, part in enumerate(value):
                self.keep(part, Ref(ref.event, (*ref.path, number)))
        elif type(value) is dict:
            for key, part in value.items():
                if is_plain(key) or (type(key) is tuple and all(map(is_plain, key))):
                    self.keep(part, Ref(ref.event, (*ref.path, key)))

    def origin(self, value: Any) -> Ref | None:
        """The event, or part of its result, that a value came from; `None` if it is not known."""
        held = self.known.get(id(value))
        if held is None or held[0] is not value:
            return None
        return held[1] if held[1].event.block.scope in self.block.within() else None

    def expression(self, value: Any) -> Expression:
        """The expression that gives a value at this point of the program."""
        if (ref := self.origin(value)) is not None:
            return ref
        kind = type(value)
        if is_plain(value):
            return Literal(value)
        if kind in (tuple, list, set, frozenset):
            return self.shown(value, Display(kind, tuple(map(self.expression, value))))
        if kind is dict:
            parts = [self.expression(each) for pair in value.items() for each in pair]
            return self.shown(value, Display(dict, tuple(parts)))
        if kind is slice:
            bounds = value.start, value.stop, value.step
            return Display(slice, tuple(map(self.expression, bounds)))
        if kind is functools.partial:
            return Partial(
                self.expression(value.func),
                tuple(map(self.expression, value.args)),
                tuple((n, self.expression(v)) for n, v in value.keywords.items()),
            )
        if kind is types.MethodType:
            if is_suite(value.__func__):
                return Written(value.__func__, 1)
            owner = self.expression(value.__self__)
            event = self.note("attribute", owner, name=value.__name__, result=value)
            self.keep(value, Ref(event))
            return Ref(event)
        if isinstance(value, types.FunctionType) and is_suite(value):
            return Written(value)
        if not isinstance(value, type) and is_suite(kind):
            called = vars(kind).get("__call__")
            return Unknown(value) if called is None else Written(called, 1)
        if isinstance(value, type | types.ModuleType | types.FunctionType) or (
            callable(value) and hasattr(value, "__qualname__")
        ):
            return Global(value)
        return Literal(value)

    def field(self, value: Any) -> Expression:
        """The expression of an argument for a class of the suite, which may be a description.

        The methods of the class that interpret a description are written as the operations that
        they did (`Draft._class`), which need it no longer: it is `None`.
        """
        return Literal(None) if describes(value) else self.expression(value)

    def shown(self, value: Any, display: Display) -> Expression:
        """A container as an expression; a list or dict becomes an event, as it may change later.

        Args:
          value: The container.
          display: The expression of its current items.
        """
        if type(value) in (list, dict) and self.recording:
            event = self.note("display", display, result=value)
            self.keep(value, Ref(event))
            return Ref(event)
        return display

    def recent(self, value: Any, before: Event | None = None) -> Expression:
        """The expression of a value that may be the result of one of the last events.

        A number or a truth value has no identity, so its origin is sought among the last `RECENT`
        events of the block.

        Args:
          value: Any value.
          before: An event that is not its origin.
        """
        found = self.expression(value)
        if isinstance(value, type) or (isinstance(found, Literal) and value is not None):
            latest = self.block.events[-RECENT:]
            for event in reversed(latest):
                if event is not before and event.tainted and event.result is value:
                    return Ref(event)
        return found

    def active(self, *values: Any) -> bool:
        """Whether operations on values are noted: one has an origin, or a part that has one."""
        return self.recording and any(map(self.tracked, values))

    def tracked(self, value: Any, depth: int = 0) -> bool:
        """Whether a value or a part of it has an origin.

        Args:
          value: Anything.
          depth: In how many containers it is.
        """
        if self.origin(value) is not None:
            return True
        if depth < 4 and type(value) in (tuple, list, set, frozenset):
            return any(self.tracked(each, depth + 1) for each in value)
        if depth < 4 and type(value) is dict:
            return any(self.tracked(each, depth + 1) for each in value.values())
        return False

    def quietly(self, do: Callable[[], Any]) -> Any:
        """Compute a message or another value without noting any event."""
        before, self.recording = self.recording, False
        try:
            return do()
        finally:
            self.recording = before

    def named(self, name: str, value: Any, depth: int = 1) -> Any:
        """Remember under which name a law keeps a value.

        Args:
          name: Of the variable.
          value: The value that is assigned.
          depth: How many calls this is below the law.

        Returns:
          The value.
        """
        ref = self.origin(value) if self.recording else None
        self._bind(sys._getframe(depth), name, value, ref)
        if ref is not None and not ref.path and not ref.event.hint:
            ref.event.hint = name
        return value

    def held(self, name: str, value: Any) -> Any:
        """The value of a local variable, which is from where it was bound to the name.

        Args:
          name: Of the variable.
          value: The value of the variable.
        """
        if self.recording and has_identity(value):
            bound = self.bindings.get((id(sys._getframe(1)), name))
            if bound is not None and bound[0] is value:
                self.known[id(value)] = bound
        return value

    def _bind(self, frame: Any, name: str, value: Any, ref: Ref | None) -> None:
        """Remember where the value of a local variable is from."""
        if ref is not None and has_identity(value):
            self.bindings[id(frame), name] = value, ref

    def _pass_on(self, function: Any, positional: tuple[Any, ...], names: Any, frame: Any) -> None:
        """Remember where each argument is from, for the suite's function that is called next."""
        function = inspect.unwrap(function) if callable(function) else function
        first = int(isinstance(function, types.MethodType))
        refs: dict[int, Ref] = {}
        for number, (name, value) in enumerate(zip(names, positional, strict=False)):
            bound = self.bindings.get((id(frame), name))
            if bound is not None and bound[0] is value:
                refs[number + first] = bound[1]
        self.passing = getattr(function, "__code__", None), refs
