"""The parts of a tape: events, the blocks that hold them, and their operands.

An *event* is one operation that was done outside the suite. Its operands are *expressions*: the
result of an earlier event, a part of one, a literal, a container of such, a name that can be
imported, or a function of the suite.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


class Expression:
    """An operand of an event."""

    @property
    def inner(self) -> tuple["Expression", ...]:
        """The expressions directly inside this one; the body of a function is not among them."""
        return ()


@dataclass(frozen=True)
class Ref(Expression):
    """The result of an event, or a part of it.

    Args:
      event: The event.
      path: The indices and keys that lead to the part; `raised` for the error of the event.
    """

    event: "Event"
    path: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Literal(Expression):
    """A value that is written as its own text, such as a number or an array."""

    value: Any


@dataclass(frozen=True)
class Display(Expression):
    """A new container.

    Args:
      kind: `tuple`, `list`, `set`, `frozenset`, `dict` or `slice`.
      parts: Its items; for a dictionary, keys and values in turn; for a slice, its three bounds.
    """

    kind: type
    parts: tuple[Expression, ...]

    @property
    def inner(self) -> tuple[Expression, ...]:
        """The items of the container."""
        return self.parts


@dataclass(frozen=True)
class Global(Expression):
    """Something that the implementation, JAX, NumPy or Python defines."""

    value: Any


@dataclass(frozen=True)
class Written(Expression):
    """A function of the suite.

    Args:
      function: The function.
      bound: How many of its first parameters are given.
    """

    function: Any
    bound: int = 0


@dataclass(frozen=True)
class Partial(Expression):
    """A `functools.partial`.

    Args:
      function: The function that it calls.
      arguments: The arguments that it holds by position.
      named: The arguments that it holds by name.
    """

    function: Expression
    arguments: tuple[Expression, ...]
    named: tuple[tuple[str, Expression], ...]

    @property
    def inner(self) -> tuple[Expression, ...]:
        """The function, and the arguments that the partial holds."""
        return self.function, *self.arguments, *(value for _, value in self.named)


@dataclass(frozen=True)
class Unknown(Expression):
    """A value of the suite without an origin; no script can write it."""

    value: Any


# ---------------------------------------------------------------------- events


@dataclass(eq=False)
class Block:
    """Events in order: the law itself, the body of a `with`, or the body of a function.

    Args:
      parent: The block around it.
      events: The events of this block, in the order in which they ran.
      is_function: Whether it hides its names from the block around it.
    """

    parent: "Block | None" = None
    events: list["Event"] = field(default_factory=list)

    is_function: bool = True

    def within(self) -> Iterator["Block"]:
        """This block and those around it."""
        block: Block | None = self
        while block is not None:
            yield block
            block = block.parent

    @property
    def scope(self) -> "Block":
        """The block of the function in which this one is: a `with` hides no names."""
        return next(b for b in self.within() if b.is_function or b.parent is None)


@dataclass(eq=False)
class Event:
    """One operation.

    Args:
      kind: `call`, `method`, `attribute`, `item`, `compare`, `combine`, `turn`, `set attribute`,
        `set item`, `delete item`, `with`, `display`, `parameter`, `alike` or `truth`; `return` for
        the end of a function in a script.
      block: The block that holds it.
      operands: The values that it used: a function and its arguments, an owner, or two sides.
      name: Of the method, attribute or parameter, or the sign of the operation.
      named: Arguments by name.
      result: The value that it returned.
      error: The exception that it raised.
      tainted: Whether the implementation had a part in it.
      body: Of a `with`.
      hint: A name for its result.
      number: Its place among all events of the tape.
      values: For `alike`, the two values that were compared.
    """

    kind: str
    block: Block
    operands: tuple[Expression, ...]
    name: str = ""
    named: tuple[tuple[str, Expression], ...] = ()
    result: Any = None
    error: BaseException | None = None
    tainted: bool = False
    body: Block | None = None
    hint: str = ""
    number: int = 0
    values: tuple[Any, ...] = ()

    def inputs(self) -> Iterator[Expression]:
        """All operands."""
        yield from self.operands
        for _, each in self.named:
            yield each


@dataclass(eq=False)
class Record:
    """One call of a function of the suite by outside code.

    Args:
      key: The function's code, and the identities of the variables in its closure.
      name: The name of the function.
      parameters: The names of its parameters.
      block: The events of the call.
      returned: The value that the call returned, as an expression.
      caller: The event in which it was called.
    """

    key: Any
    name: str
    parameters: tuple[str, ...]
    block: Block
    returned: Expression = field(default_factory=lambda: Literal(None))
    caller: Event | None = None


def within(expression: Expression) -> Iterator[Expression]:
    """An expression and all expressions inside it, at any depth."""
    yield expression
    for each in expression.inner:
        yield from within(each)


def references(expression: Expression) -> Iterator[Ref]:
    """The references in an expression, at any depth, functions left out."""
    return (each for each in within(expression) if isinstance(each, Ref))


def functions(expression: Expression) -> Iterator[Written]:
    """The functions of the suite in an expression, at any depth."""
    return (each for each in within(expression) if isinstance(each, Written))
