"""Calls as a tape notes them: of outside code, and by outside code of functions of the suite.

While outside code runs, the stack has its event. A function of the suite that is entered then gets
a `Record`, and a block of its own for its operations:

    jax.jit(function)(x)    # an event, in which a record of `function` is made
"""

import sys
from collections.abc import Callable, Iterable
from typing import Any

import jax

from scutch.reproduce.events import Block, Event, Global, Record, Ref, within
from scutch.reproduce.kinds import has_identity, is_importable
from scutch.reproduce.origins import Origins


class Calls(Origins):
    """Runs operations, keeps their results and errors, and opens a block for each inner body."""

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
        if (
            error := sys.exc_info()[1]
        ) is not None:  # it ends the function, or an outer one holds it
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

    def __init__(self, tape: Calls, manager: Any) -> None:
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
