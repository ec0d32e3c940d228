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
import operator
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

from scutch.reproduce.bodies import Calls
from scutch.reproduce.events import Display, Global, Literal, Record, Ref
from scutch.reproduce.kinds import is_hashable, is_inlined, is_outsider, is_suite, own_class, spread
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


class Tape(Calls):
    """Notes the operations of rewritten code as events, while `recording` is true."""

    def negated(self, value: Any) -> bool:
        """`not value`."""
        if self.recording and type(value) is not bool and self.is_tainted(self.recent(value)):
            event = self.note("truth", self.recent(value))
            return not self.outside(event, lambda: bool(value))
        return not value

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
            return part  # The very same tuple: it keeps its own origin.
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
