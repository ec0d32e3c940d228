"""The operations of a law outside the suite, noted as a straight-line program.

While a law runs from its rewritten text (see `rewriting`), its `Tape` notes an `Event` for each
operation that leaves the suite: a call of the implementation, of JAX or NumPy, a method or an
attribute of a value that these returned, a comparison. An operand of an event is an `Expression`:
the result of an earlier event, a part of one, a literal, a container of such, a name that can be
imported, or a function, whose body holds the events of its first call by outside code.

An event is *tainted* if the implementation had a part in it. A law is taken to fail on the last
tainted event before its error.
"""

import dataclasses
import functools
import inspect
import operator
import sys
import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import jax

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
    within,
)
from scutch.reproduce.kinds import (
    describes,
    has_identity,
    is_hashable,
    is_importable,
    is_inlined,
    is_outsider,
    is_plain,
    is_suite,
    own_class,
    spread,
)
from scutch.reproduce.operators import COMBINATIONS, COMPARISONS, IN_PLACE, TURNS

UNNOTED = (zip, map, enumerate, next, any, all, filter, range, super, print, id, min, max)
"""Builtins that pass values on; their calls are not noted. `sum` is noted as additions, and
`getattr` as an attribute."""
QUESTIONS = (
    len,
    isinstance,
    issubclass,
    hasattr,
    str,
    repr,
    hash,
    type,
    bool,
    int,
    float,
    callable,
)
"""Builtins that change no argument; a call is noted only if its first argument has an origin."""
MAKERS = (list, tuple, dict, set, frozenset, sorted)
_PASSED_ON = ("items", "values", "keys")
_MUTATIONS = ("append", "extend", "insert", "add", "update", "pop", "clear", "setdefault")
RECENT = 4
"""How many events back the origin of a number or truth value, which has no identity, is sought."""


class Tape:
    """Notes the operations of rewritten code as events, while `recording` is true."""

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

    # ------------------------------------------------------------------ where values are from

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

    def made_again(self, value: Any) -> Ref | None:
        """The same call once more, where the value of an earlier one is out of sight.

        The suite keeps values such as initializers, which a function made when outside code called
        it first; no other function can use its variables.
        """
        held = self.known.get(id(value))
        if held is None or held[0] is not value or held[1].path or held[1].event.kind != "call":
            return None
        made, around = held[1].event, tuple(self.block.within())
        refs = [ref for each in made.inputs() for ref in references(each)]
        if not self.recording or any(ref.event.block.scope not in around for ref in refs):
            return None
        again = self.note("call", *made.operands, named=made.named, result=value, hint=made.hint)
        return Ref(again)

    def expression(self, value: Any) -> Expression:
        """The expression that gives a value at this point of the program."""
        if (ref := self.origin(value) or self.made_again(value)) is not None:
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

    # ------------------------------------------------------------------ operations

    def outside(self, event: Event, do: Callable[[], Any]) -> Any:
        """Run the operation of an event, and keep its result or its error in the event.

        Args:
          event: The event, which has been noted before.
          do: Runs the operation.

        Returns:
          The result of `do`, whose error passes through.
        """
        self.stack.append(event)
        try:
            event.result = do()
        except BaseException as error:
            event.error = error
            if has_identity(error):
                self.known[id(error)] = error, Ref(event, ("raised",))  # the outermost comes last
            raise
        finally:
            while self.stack.pop() is not event:
                pass
        self.keep(event.result, Ref(event))
        if isinstance(made := event.result, type) and self._is_new(made, event):
            self.known[id(made)] = made, Ref(event)
        return event.result

    def _is_new(self, kind: type, event: Event) -> bool:
        """Whether a call made a class, such as a lifted one, and was not given it."""
        if event.kind != "call" or is_importable(kind):
            return False
        given = (each for operand in event.inputs() for each in within(operand))
        return not any(isinstance(each, Global) and each.value is kind for each in given)

    def quietly(self, do: Callable[[], Any]) -> Any:
        """Compute a message or another value without noting any event."""
        before, self.recording = self.recording, False
        try:
            return do()
        finally:
            self.recording = before

    def negated(self, value: Any) -> bool:
        """`not value`."""
        if self.recording and type(value) is not bool and self.is_tainted(self.recent(value)):
            event = self.note("truth", self.recent(value))
            return not self.outside(event, lambda: bool(value))
        return not value

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

    def call(
        self,
        function: Any,
        positional: tuple[Any, ...],
        named: dict[str, Any],
        names: tuple[str, ...] = (),
        frame: Any = None,
    ) -> Any:
        """`function(*positional, **named)`.

        Args:
          function: The function.
          positional: Arguments by position.
          named: Arguments by name.
          names: For each argument by position the variable that it is read from, or nothing.
          frame: The frame of the rewritten code; left out where that code calls this directly.

        Returns:
          The function's result.
        """
        if (
            self.recording
            and getattr(function, "__qualname__", "") == "alike"
            and is_suite(function)
        ):
            return self.alike(function, *positional)
        if not self.recording:
            return function(*positional, **named)
        if not self._leaves(function, positional, named):
            self._pass_on(function, positional, names, frame or sys._getframe(1))
            return function(*positional, **named)
        if type(function) is functools.partial and self.origin(function) is None:
            positional = (*function.args, *positional)
            return self.call(function.func, positional, {**function.keywords, **named})
        if function is sum:
            parts: list[Any] = [*positional[1:], *positional[0]]
            return functools.reduce(lambda a, b: self.combined("Add", a, b), parts or [0])
        if function is getattr:
            return self._getattr(*positional)
        if function is setattr:
            return self.set_attribute(*positional)
        if function is hasattr:
            positional = (positional[0], str(positional[1]))
        positional = tuple(spread(each) for each in positional)
        given = self.expression if own_class(function) is None else self.field
        event = self.note(
            "call",
            self.expression(function),
            *map(given, positional),
            named=tuple((n, given(v)) for n, v in named.items()),
        )
        return self.outside(event, lambda: function(*positional, **named))

    def field(self, value: Any) -> Expression:
        """The expression of an argument for a class of the suite, which may be a description.

        The methods of the class that interpret a description are written as the operations that
        they did (`Draft._class`), which need it no longer: it is `None`.
        """
        return Literal(None) if describes(value) else self.expression(value)

    def _leaves(self, function: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """Whether a call leaves the suite and has to be noted."""
        if function in UNNOTED if is_hashable(function) else False:
            return False
        if getattr(function, "__module__", None) == "warnings" or function is warnings:
            return False
        if is_inlined(function):
            return False
        if function is sum:
            return True
        first = type(positional[0]) if positional else None
        if (
            function is dataclasses.replace
            and first is not None
            and is_suite(first)
            and not is_outsider(first)
        ):
            return False
        if function is type:
            return len(positional) == 3 or self.active(*positional)
        if isinstance(function, type) and issubclass(function, BaseException):
            return False
        if function in (getattr, setattr, *QUESTIONS, *MAKERS) if is_hashable(function) else False:
            return self.origin(positional[0]) is not None if positional else False
        return True

    def _getattr(self, owner: Any, name: str, *default: Any) -> Any:
        if default and not hasattr(owner, name):
            event = self.note("call", Global(hasattr), self.expression(owner), Literal(name))
            event.result = False
            return default[0]
        return self.attribute(owner, name)

    def method(
        self,
        owner: Any,
        name: str,
        positional: tuple[Any, ...],
        named: dict[str, Any],
        names: tuple[str, ...] = (),
    ) -> Any:
        """`owner.name(*positional, **named)`.

        Args:
          owner: The object or module that has the method.
          name: Of the method.
          positional: Arguments by position.
          named: Arguments by name.
          names: As for `call`.

        Returns:
          The method's result.
        """
        found = getattr(owner, name)
        if not self.recording:
            return found(*positional, **named)
        if type(owner) in (list, dict, set) and name in _MUTATIONS and self.origin(owner) is None:
            self._reveal(owner)
        if type(owner) in (list, dict, set, tuple, str) and self.origin(owner) is None:
            return found(*positional, **named)
        bound = not isinstance(owner, types.ModuleType) and self.origin(owner) is not None
        if not bound or is_suite(getattr(found, "__func__", None)):
            return self.call(found, positional, named, names, sys._getframe(1))
        if name in _PASSED_ON and type(owner) is dict:
            return found(*positional, **named)
        positional = tuple(spread(each) for each in positional)
        origin = self.origin(owner)
        if type(owner) in (list, dict, set) and origin is not None and name in _MUTATIONS:
            origin.event.tainted |= any(
                isinstance(each, Record) and self._came_from_own(each) for each in self.stack
            ) or any(self.is_tainted(self.expression(each)) for each in positional)
        event = self.note(
            "method",
            self.expression(owner),
            *map(self.expression, positional),
            name=name,
            named=tuple((n, self.expression(v)) for n, v in named.items()),
        )
        return self.outside(event, lambda: found(*positional, **named))

    def _reveal(self, owner: Any) -> None:
        """Note a container of the suite before a function that outside code called changes it."""
        if not any(isinstance(each, Record) for each in self.stack):
            return
        block, self.block = self.block, self.top
        event = self.note("display", Display(type(owner), tuple(map(self.expression, owner))))
        self.top.events.insert(0, self.top.events.pop())
        event.number, event.result, self.block = -1, owner, block
        self.keep(owner, Ref(event))

    def attribute(self, owner: Any, name: str) -> Any:
        """`owner.name`.

        Args:
          owner: Any value.
          name: Of the attribute.
        """
        if not self.recording or self.origin(owner) is None:
            return getattr(owner, name)
        if isinstance(owner, type | types.ModuleType) or (
            is_suite(type(owner)) and not is_outsider(type(owner))
        ):
            return getattr(owner, name)
        event = self.note("attribute", self.expression(owner), name=name)
        return self.outside(event, lambda: getattr(owner, name))

    def item(self, owner: Any, index: Any) -> Any:
        """`owner[index]`.

        Args:
          owner: Any value.
          index: The place.
        """
        if not self.recording or self.origin(owner) is None:
            return owner[index]
        if (part := owner[index] if type(owner) is tuple else None) is owner:
            return part  # the very same tuple, which would be taken for a part of itself from now on
        event = self.note("item", self.expression(owner), self.expression(index))
        return self.outside(event, lambda: owner[index])

    def _done(
        self, kind: str, do: Callable[[], Any], *operands: Any, name: str = "", asked: int = 1
    ) -> Any:
        """Run an operation, and note it if one of its values has an origin.

        Args:
          kind: As in `Event`.
          do: Runs the operation.
          *operands: The values.
          name: As in `Event`.
          asked: How many of the values are asked for their origin. A change of a container asks
            the container alone, because its new item may come from outside when it does not.
        """
        if not self.active(*operands[:asked]):
            return do()
        event = self.note(kind, *map(self.expression, operands), name=name)
        return self.outside(event, do)

    def set_attribute(self, owner: Any, name: str, value: Any) -> None:
        """`owner.name = value`.

        Args:
          owner: The object whose attribute is set.
          name: Of the attribute.
          value: The new value.
        """
        self._done("set attribute", lambda: setattr(owner, name, value), owner, value, name=name)

    def set_item(self, owner: Any, index: Any, value: Any) -> None:
        """`owner[index] = value`.

        Args:
          owner: The container whose item is set.
          index: The index or key of the item.
          value: The new value.
        """
        change = functools.partial(operator.setitem, owner, index, value)
        self._done("set item", change, owner, index, value)

    def delete_item(self, owner: Any, index: Any) -> None:
        """`del owner[index]`.

        Args:
          owner: The container whose item is deleted.
          index: The index or key of the item.
        """
        self._done("delete item", lambda: operator.delitem(owner, index), owner, index)

    def compared(self, kind: str, one: Any, other: Any, fixed: tuple[bool, bool]) -> Any:
        """`one == other`, or another comparison.

        Args:
          kind: A key of `COMPARISONS`.
          one: The left side.
          other: The right side.
          fixed: Whether each side is a literal of the law.

        Returns:
          The result of the comparison.
        """
        sign, function = COMPARISONS[kind]
        if not self.recording:
            return function(one, other)
        right = Literal(other) if fixed[1] else self.recent(other)
        origin = right.event if isinstance(right, Ref) and not right.path else None
        left = Literal(one) if fixed[0] else self.recent(one, origin)
        if not (self.is_tainted(left) or self.is_tainted(right)):
            return function(one, other)
        if sign in ("is", "is not") and (isinstance(one, bool) or isinstance(other, bool)):
            return function(one, other)  # the ending is the event that gave the truth value
        event = self.note("compare", left, right, name=sign)
        return self.outside(event, lambda: function(one, other))

    def combined(self, kind: str, one: Any, other: Any) -> Any:
        """`one + other`, or another operation.

        Args:
          kind: A key of `COMBINATIONS`.
          one: The left side.
          other: The right side.

        Returns:
          The result of the operation.
        """
        sign, function = COMBINATIONS[kind]
        return self._done("combine", lambda: function(one, other), one, other, name=sign, asked=2)

    def turned(self, kind: str, operand: Any) -> Any:
        """`-operand`, or another operation.

        Args:
          kind: A key of `TURNS`.
          operand: Any value.
        """
        sign, function = TURNS[kind]
        return self._done("turn", lambda: function(operand), operand, name=sign)

    def changed(self, kind: str, held: Any, value: Any) -> Any:
        """The new value of a variable after `held += value`, or another operation in place.

        Args:
          kind: A key of `IN_PLACE`.
          held: The value of the variable before.
          value: The right side.

        Returns:
          The value to assign to the variable.
        """
        if self.active(held, value) and type(held) not in (list, dict, set):
            return self.combined(kind, held, value)
        return IN_PLACE[kind](held, value)

    def alike(self, alike: Callable[[Any, Any], bool], one: Any, other: Any) -> bool:
        """Whether two values are alike by the suite's own equality, noted as one event.

        Args:
          alike: `lawkit.equality.alike`.
          one: A value.
          other: Another.

        Returns:
          Whether they are alike.
        """
        if not self.active(one, other):
            return alike(one, other)
        event = self.note("alike", self.recent(one), self.recent(other))
        event.values = one, other
        event.result = self.quietly(lambda: alike(one, other))
        return bool(event.result)

    # ------------------------------------------------------------------ statements

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

    def unpacked(self, names: tuple[str, ...], value: Any) -> Any:
        """Remember under which names a law keeps the parts of a value.

        Args:
          names: Of the variables.
          value: The value that is unpacked.
        """
        parts = list(self.iterated(value))
        for name, part in zip(names, parts, strict=False):
            if name:
                self.named(name, part, 2)
        return parts

    def iterated(self, values: Iterable[Any]) -> Iterable[Any]:
        """The parts of a value, one after the other, each with its origin."""
        if not self.recording or self.origin(values) is None:
            return values
        if type(values) in (list, tuple, dict):
            self.keep(values, self.known[id(values)][1])
            return values
        event = self.note("call", Global(list), self.expression(values))
        found: list[Any] = self.outside(event, lambda: list(values))
        return found

    def context(self, manager: Any) -> Any:
        """A context manager whose body becomes a block of its own."""
        if not self.recording or isinstance(manager, _Inside):
            return manager
        known = self.origin(manager) is not None or isinstance(manager, jax.sharding.Mesh)
        return _Inside(self, manager) if known else manager

    # ------------------------------------------------------------------ functions of the suite

    def entered(self, parameters: tuple[tuple[str, Any], ...], depth: int = 1) -> Any:
        """Note that a function was called.

        Args:
          parameters: The name and the value of each.
          depth: How many calls this is below the function.

        Returns:
          The argument for `returned` and `left`; `None` if no outside code called the function.
        """
        if not self.recording:
            return None
        frame = sys._getframe(depth)
        self.ran.add(frame.f_code)
        code, refs = self.passing or (None, {})
        self.passing = None
        for number, (name, value) in enumerate(parameters):
            ref = refs.get(number) if code is frame.f_code else None
            self._bind(frame, name, value, ref or self.origin(value))
        if not self.stack or not isinstance(self.stack[-1], Event):
            return None
        code = frame.f_code
        cells = tuple(id(frame.f_locals.get(name)) for name in code.co_freevars)
        record = Record(
            (code, cells), code.co_name, tuple(n for n, _ in parameters), Block(self.block)
        )
        record.caller = self.stack[-1]
        self.records.append(record)
        self.block, before = record.block, self.block
        self.stack.append(record)
        for name, value in parameters:
            event = self.note("parameter", name=name, hint=name, result=value)
            event.tainted = self._came_from_own(record)
            if has_identity(value):
                held = self.known.pop(id(value), None)
                record.__dict__.setdefault("hidden", []).append((id(value), held))
            self.keep(value, Ref(event))
            self._bind(frame, name, value, Ref(event))
        return record, before

    def _came_from_own(self, record: Record) -> bool:
        """Whether the implementation may have changed the arguments of a function's call."""
        return record.caller is not None and record.caller.tainted

    def returned(self, frame: Any, value: Any) -> Any:
        """Note the result of a function.

        Args:
          frame: The result of `entered`.
          value: The value that the function returns.

        Returns:
          The value.
        """
        if frame is not None and self.recording:
            frame[0].returned = self.recent(value)
        return value

    def left(self, frame: Any) -> None:
        """Note that a function has ended."""
        if frame is None:
            return
        record, before = frame
        while self.stack and self.stack.pop() is not record:
            pass
        self.block = before
        if (error := sys.exc_info()[1]) is not None:  # it ends the function, or an outer one holds it
            own = (e for e in reversed(self.order) if e.error is error)
            record.returned = next((Ref(e) for e in own if e.block.scope is record.block),
                                   record.returned)  # fmt: skip
        if any(e.tainted for e in record.block.events) and record.caller is not None:
            record.caller.tainted = True
        for key, held in record.__dict__.get("hidden", ()):
            self.known.pop(key, None)
            if held is not None:
                self.known[key] = held

    def inside(self, parameters: tuple[tuple[str, Any], ...], body: Callable[[], Any]) -> Any:
        """The body of a `lambda`.

        Args:
          parameters: The name and the value of each.
          body: Computes it.
        """
        frame = self.entered(parameters, 2)
        try:
            return self.returned(frame, body())
        finally:
            self.left(frame)


class _Inside:
    """A context manager of outside code, whose body is noted as a block."""

    def __init__(self, tape: Tape, manager: Any) -> None:
        self.tape, self.manager = tape, manager

    def __enter__(self) -> Any:
        tape = self.tape
        self.event = tape.note("with", tape.expression(self.manager))
        found = self.manager.__enter__()
        tape.keep(found, Ref(self.event))
        self.event.body = tape.block = Block(tape.block, is_function=False)
        return found

    def __exit__(self, *error: Any) -> Any:
        self.tape.block = self.event.block
        return self.manager.__exit__(*error)
