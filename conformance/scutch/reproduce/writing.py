"""A tape as the text of a script.

`Draft` takes a tape and the event on which a law failed, and writes the events on which that event
depends. An event that is used more than once is written as an assignment; another one is written
where it is used.

    draft = Draft(tape, names, ending)
    draft.lines()        # the statements of the script, without its imports
"""

import builtins
import contextlib
import dataclasses
import inspect
import keyword
import re
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from scutch.implementation import Implementation
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
    functions,
    references,
    within,
)
from scutch.reproduce.kinds import is_literal, is_suite
from scutch.reproduce.layout import program
from scutch.reproduce.names import Nameless, Names
from scutch.reproduce.operators import OPPOSITES
from scutch.reproduce.sources import BODY, Source, written_function
from scutch.reproduce.tape import MAKERS, QUESTIONS, Tape

RAISED = "raised"
CHANGES = ("set attribute", "set item", "delete item")
"""The kinds of events that change their first operand."""

_INLINE = 60
"""The longest text that is repeated, or written inside of another expression's line."""

_SMALL = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class Ending:
    """How a script ends.

    Args:
      event: The one on which the law failed.
      mode: `raises` where the event should not have raised its error; `accepted` where it should
        have raised one; `compare`, `alike`, `answer` or `truth` where its result is wrong; `asked`
        prints its result; `differs` where that is not the one of the reference.
      guards: Earlier events with a truth value. A script that gets another truth value from one of
        them exits with 0, because the law might then not have asked for the end.
      expected: For `differs`, the text of the right result.
    """

    event: Event
    mode: str
    guards: tuple[Event, ...] = ()
    expected: str = ""


class Draft:
    """A script about one failure."""

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

    # ------------------------------------------------------------------ needed events

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

    # ------------------------------------------------------------------ text

    def source(self) -> str:
        """The script, without its heading.

        Raises:
          Nameless: Something in it cannot be written down.
        """
        lines = self.lines()
        return program(lines, self.names.imports, unasserted=not __debug__)

    def lines(self) -> list[str]:
        """The statements."""
        return self._block(self.tape.top)

    def _block(self, block: Block) -> list[str]:
        found: list[str] = []
        outer, self.block = self.block, block
        for event in block.events:
            if event in self.kept and event not in self.variables:
                found += self._statement(event)
                if event is self.ending.event:
                    break
        self.block = outer
        return found

    def _body(self, record: Record) -> tuple[list[str], str]:
        """The statements of a function, and the text of the value that it returns."""
        outer, self.block = self.block, record.block
        body = [*self._block(record.block), *self._defined(record.returned)]
        returned = self.text(record.returned)
        self.block = outer
        return body, returned

    def _statement(self, event: Event) -> list[str]:
        if event is self.ending.event:
            return self._end(event)
        if event.kind == "parameter":
            self.variables[event] = event.name
            return []
        before = self._definitions(event)
        if event in self.guards:
            holds = self.operation(event)
            return [*before, f"if {holds if not event.result else f'not ({holds})'}:",
                    "    sys.exit(0)"]  # fmt: skip
        if event.kind == "with":
            inside = self._block(event.body or Block())
            if not inside:
                return before
            header = f"with {self.text(event.operands[0])}"
            return [*before, f"{header}:", *_indented(inside)]
        if event in self.raising:
            name = self.variables[event] = self._free("error")
            call = self.operation(event)
            return [
                *before, f"{name} = None", "try:", f"    {call}",
                "except Exception as raised:", f"    {name} = raised",
            ]  # fmt: skip
        uses = self.uses.get(event, 0)
        if event.error is not None and not uses:
            call = self.operation(event)
            return [*before, "try:", f"    {call}", "except Exception:", "    pass"]
        if uses == 0 or event.kind in CHANGES:
            return [*before, self.operation(event)]
        if self.inlined(event):
            return before
        text = self.value(event)
        name = self.variables[event] = self._free(self._hint(event))
        return [*before, *_assigned(name, text)]

    def inlined(self, event: Event) -> bool:
        """Whether an event is written where it is used."""
        if self.folds(event):
            short = type(event.result) in _SMALL or self.uses.get(event, 0) == 1
            return short or len(self.names.text(event.result)) < 20
        if self.uses.get(event, 0) != 1 or event.kind == "with":
            return False
        user = self.users[event][0]
        if event.kind == "display" and not event.tainted:
            return True
        if event.block is not user.block:
            return False
        between = [
            e for e in self.kept
            if event.number < e.number < user.number and e.block is event.block
            and self._acts(e) and not self._leads_to(e, user)
        ]  # fmt: skip
        longest = 2 * _INLINE if user.kind == "with" else _INLINE
        return not between and len(self.value(event)) <= longest

    def _acts(self, event: Event) -> bool:
        return event in self.effects or event.kind in CHANGES

    def _leads_to(self, event: Event, user: Event) -> bool:
        return self.uses.get(event, 0) == 1 and self.users[event][0] is user

    def _definitions(self, event: Event) -> list[str]:
        """Definitions of the functions and classes that an event is the first to use."""
        return [line for each in event.inputs() for line in self._defined(each)]

    def _defined(self, expression: Expression) -> list[str]:
        """Definitions of the functions and classes in an expression."""
        found: list[str] = []
        for kind in classes(expression):
            found += self._define_source(kind, kind.__name__)
        for function in functions(expression):
            found += self._define(function)
        return found

    def _define_source(self, value: Any, name: str) -> list[str]:
        """The definition of a class, or of a function that nothing called, by its text."""
        key = self._key(value, self.block)
        if key in self.texts:
            return []
        source = self.sources[key]
        own = self.texts[key] = self._free(name) if isinstance(value, type) else name
        found = [line for each in source.names.values() for line in self._defined(each)]
        lines = source.text({own: self.text(each) for own, each in source.names.items()})
        if isinstance(value, type):
            lines = [f"class {own}{line.removeprefix(f'class {name}')}" if line[:6] == "class " else line
                     for line in lines]  # fmt: skip
            return [*found, *(part for line in lines for part in self._opened(line, source))]
        if lines[0].startswith(("def ", "@")):
            self.taken.add(name)
            return [*found, *lines]
        self.texts[key] = lines[0]
        return found

    def _opened(self, line: str, source: Source) -> list[str]:
        """A line of a class, or the body of a method in the place of the line that stands for it."""
        before, found, method = line.partition(BODY)
        if not found:
            return [line]
        body, returned = self._body(source.open[method])
        lines = [*body, *([] if returned == "None" else [f"return {returned}"])] or ["pass"]
        return textwrap.indent("\n".join(lines), before).splitlines()

    def _define(self, function: Written) -> list[str]:
        record = self.record(function)
        if record is None:
            return self._define_source(function.function, function.function.__name__)
        if id(record) in self.texts:
            return []
        self.texts[id(record)] = ""
        body, returned = self._body(record)
        signature = self._signature(function, record)
        lambda_ = f"lambda {signature}: {returned}" if signature else f"lambda: {returned}"
        if not body and len(lambda_) <= _INLINE and "*" not in signature:
            self.texts[id(record)] = lambda_
            return []
        name = record.name if record.name != "<lambda>" else "function"
        own = self.texts[id(record)] = self._free(name)
        end = [] if returned == "None" else [f"return {returned}"]
        inside = [*body, *end] or ["pass"]
        return [f"def {own}({signature}):", *_indented(inside)]

    def _signature(self, function: Written, record: Record) -> str:
        parts = []
        parameters = list(inspect.signature(function.function).parameters.values())
        starred = False
        for parameter in parameters[function.bound :]:
            text = parameter.name
            if parameter.kind is parameter.VAR_POSITIONAL:
                text, starred = f"*{text}", True
            elif parameter.kind is parameter.VAR_KEYWORD:
                text = f"**{text}"
            elif parameter.kind is parameter.KEYWORD_ONLY and not starred:
                parts.append("*")
                starred = True
            if parameter.default is not parameter.empty:
                text += f"={self.names.text(parameter.default)}"
            parts.append(text)
        return ", ".join(parts)

    def value(self, event: Event) -> str:
        """An event as an expression: its operation, or its result if the event folds."""
        return self.names.text(event.result) if self.folds(event) else self.operation(event)

    def operation(self, event: Event) -> str:
        """An event as an expression or statement that does the same."""
        both = event.kind in ("combine", "compare")
        operands = [
            self.text(each, tight=not isinstance(each, Literal) if both else place == 0)
            for place, each in enumerate(event.operands)
        ]
        first = operands[0] if operands else ""
        match event.kind:
            case "call":
                return f"{first}({self._arguments(operands[1:], event)})"
            case "method":
                bare = [self.text(each) for each in event.operands[1:]]
                return f"{first}.{event.name}({self._arguments(bare, event)})"
            case "attribute":
                return f"{first}.{event.name}"
            case "item":
                return f"{first}[{_index(self.text(event.operands[1]))}]"
            case "compare" | "combine":
                return f"{first} {event.name} {operands[1]}"
            case "turn":
                return f"{event.name}{first}"
            case "set attribute":
                return f"{first}.{event.name} = {self.text(event.operands[1])}"
            case "set item":
                place = _index(self.text(event.operands[1]))
                return f"{first}[{place}] = {self.text(event.operands[2])}"
            case "delete item":
                return f"del {first}[{_index(self.text(event.operands[1]))}]"
            case "alike":
                return f"{first} == {operands[1]}"
        return first

    def _arguments(self, positional: list[str], event: Event) -> str:
        named = [f"{n}={self.text(v)}" if n.isidentifier() else f"**{{{n!r}: {self.text(v)}}}"
                 for n, v in event.named]  # fmt: skip
        return ", ".join([*positional, *named])

    def text(self, expression: Expression, *, tight: bool = False) -> str:
        """An operand.

        Args:
          expression: The operand.
          tight: Whether a part such as `.name` follows, so that the text may need parentheses.

        Raises:
          Nameless: It cannot be written down.
          TypeError: It is no expression.
        """
        match expression:
            case Ref(event, path) if path[:1] == (RAISED,):
                return self.variables.get(event, "error")
            case Ref(event, path):
                text = self.variables.get(event) or self.value(event)
                if event not in self.variables and event.kind in ("combine", "compare", "turn"):
                    text = f"({text})" if tight or path else text
                return text + "".join(f"[{part!r}]" for part in path)
            case Literal(value):
                text = self.names.text(value)
                return f"({text})" if tight and text[:1] in "-0123456789" else text
            case Display(kind, parts):
                return self.names.display(kind, [self.text(each) for each in parts])
            case Global(value):
                return self.texts.get(self._key(value, self.block)) or self.names.of(value)
            case Written():
                self._define(expression)
                record = self.record(expression)
                own = (id(expression.function),) if record is None else id(record)
                text = self.texts[own]
                return f"({text})" if tight and text.startswith("lambda") else text
            case Partial(function, arguments, named):
                self.names.imports["import functools"] = None
                bound = [self.text(function), *map(self.text, arguments)]
                bound += [f"{name}={self.text(value)}" for name, value in named]
                return f"functools.partial({', '.join(bound)})"
            case Unknown(value):
                raise Nameless(f"{value!r}, of which the law does not show where it is from")
        raise TypeError(expression)

    def _hint(self, event: Event) -> str:
        if event.hint:
            return event.hint.strip("_") or "value"
        if event.kind in ("call", "method", "attribute"):
            last = event.name
            if event.kind == "call" and isinstance(event.operands[0], Global):
                last = getattr(event.operands[0].value, "__name__", "")
            last = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", last).lower()
            plain = {"tree_flatten": "flat", "dict": "items", "asarray": "array", "list": "values",
                     "shard_map": "mapped", "vmap": "mapped", "jit": "jitted"}  # fmt: skip
            return plain.get(last, last if last.isidentifier() and len(last) < 24 else "value")
        return {"display": "values", "item": "part"}.get(event.kind, "value")

    def _free(self, name: str) -> str:
        """A name that nothing has yet."""
        aliases = {each.partition(".")[0] for _, each, line in self.names.found.values() if line}
        number, found = 2, name
        while found in self.taken or found in aliases or hasattr(builtins, found):
            found, number = f"{name}_{number}", number + 1
        self.taken.add(found)
        return found

    # ------------------------------------------------------------------ endings

    def _end(self, event: Event) -> list[str]:
        before = self._definitions(event)
        for each in event.inputs():
            for ref in references(each):
                if ref.event not in self.variables and not self.inlined(ref.event):
                    raise Nameless("a value that was made where the script cannot reach it")
        mode = self.ending.mode
        if mode == "raises":
            return [
                *before, "try:", f"    {self.operation(event)}",
                f"except {self._class_of(event.error)} as error:",
                '    print(f"expected no error, got {type(error).__name__}: {error}")',
                "    sys.exit(1)",
            ]  # fmt: skip
        if mode == "accepted":
            return [
                *before, "try:", f"    got = {self.operation(event)}", "except Exception:",
                "    sys.exit(0)", 'print(f"expected an error, got {got}")', "sys.exit(1)",
            ]  # fmt: skip
        if mode in ("asked", "differs"):
            got = self.operation(event)
            got = f"tuple({got})" if isinstance(event.result, PartitionSpec) else got
            if mode == "asked":
                return [*before, f"print(repr({got}))"]
            return [*before, *_compared_by("got == expected", got, self.ending.expected)]
        if mode == "compare":
            return [*before, *self._compared(event)]
        if mode == "alike":
            return [*before, *self._alike(event)]
        if mode == "truth":
            word = "nothing" if event.result else "something"
            return [
                *before, *_assigned("got", self.operation(event)),
                f'print(f"expected {word}, got {{got}}")',
                f"sys.exit({'1 if got else 0' if event.result else '0 if got else 1'})",
            ]  # fmt: skip
        asked = self.operation(event)
        return [*before, *_compared_by("got == expected", asked, str(not event.result))]

    def _compared(self, event: Event) -> list[str]:
        left, right = event.operands
        sign, came = event.name, bool(event.result)
        if self.tape.is_tainted(right) and not self.tape.is_tainted(left) and sign in _MIRRORED:
            left, right, sign = right, left, _MIRRORED[sign]
        got, expected = self.text(left), self.text(right)
        if (sign, came) in (("==", False), ("!=", True)):
            return _compared_by("got == expected", got, expected)
        if (sign, came) in (("is", False), ("is not", True)):
            return _compared_by("got is expected", got, expected)
        holds = f"one {sign} other"
        wanted = f"one {OPPOSITES[sign] if came else sign} other"
        test = wanted if sign in ("is", "is not", "in", "not in") or not came else f"not {holds}"
        return [
            *_assigned("one", got), *_assigned("other", expected),
            f'print(f"expected {wanted}; one is {{one}}, other is {{other}}")',
            f"sys.exit(0 if {test} else 1)",
        ]  # fmt: skip

    def _class_of(self, error: BaseException | None) -> str:
        """The class of an error, or its nearest base that a script can import."""
        for kind in type(error).__mro__:
            with contextlib.suppress(Nameless):
                return self.names.of(kind)
        raise TypeError(error)

    def _alike(self, event: Event) -> list[str]:
        path, yours, how = differing(*event.values)
        left, right = (self.text(each, tight=True) for each in event.operands)
        expected = path(right)
        if not how and self._is_foldable(yours):
            with contextlib.suppress(Nameless):
                expected = self.names.text(yours)
        if how == "array":
            self.names.imports["import numpy as np"] = None
        test = "np.array_equal(got, expected)" if how == "array" else "got == expected"
        return _compared_by(test, path(left), expected)


_MIRRORED = {"==": "==", "!=": "!=", "is": "is", "is not": "is not", "<": ">", ">": "<",
             "<=": ">=", ">=": "<="}  # fmt: skip


def classes(expression: Expression) -> Iterator[type]:
    """The classes of the suite in an expression, at any depth, functions left out."""
    named = (each.value for each in within(expression) if isinstance(each, Global))
    return (v for v in named if isinstance(v, type) and v.__module__.startswith("scutch."))


def _is_plain_name(expression: Expression, kind: type) -> bool:
    """Whether a name in the text of a class means something that is no part of the suite."""
    own = isinstance(expression, Global) and any(expression.value is base for base in kind.__mro__)
    return own or (isinstance(expression, Global | Literal) and not is_suite(expression.value))


def _compared_by(test: str, got: str, expected: str) -> list[str]:
    """The end of a script: both values, a line that prints them, and the exit by a test.

    Args:
      test: An expression of `got` and `expected`; the script exits with 0 if it is true.
      got: The text of the value of the implementation.
      expected: The text of the expected value.
    """
    return [
        *_assigned("got", got), *_assigned("expected", expected),
        'print(f"expected {expected}, got {got}")', f"sys.exit(0 if {test} else 1)",
    ]  # fmt: skip


def _assigned(name: str, text: str) -> list[str]:
    """An assignment; none where the text is the name."""
    return [] if name == text else [f"{name} = {text}"]


def _indented(lines: list[str]) -> list[str]:
    return textwrap.indent("\n".join(lines), "    ").splitlines()


def _index(text: str) -> str:
    """An index as it stands in brackets."""
    if text.startswith("slice(") and text.endswith(")"):
        parts = [p.strip().replace("None", "") for p in text[6:-1].split(",")]
        return ":".join(parts[:2]) if parts[2:] in ([""], []) else ":".join(parts)
    return text


def _full(cell: Any) -> bool:
    return bool(cell != type(cell)())


def differing(one: Any, other: Any) -> tuple[Callable[[str], str], Any, str]:
    """Where two values that are not alike differ first.

    Args:
      one: A value.
      other: Another.

    Returns:
      A function that adds the path to the text of a value, such as `one` to `one[0].shape`; the
      value of `other` at this path; and how both are compared there: `array` for arrays, `type`, or
      nothing for `==`.
    """
    from scutch.lawkit.equality import alike  # not above: the room is rewritten when it is imported

    if type(one) is not type(other) and not (_is_array(one) and _is_array(other)):
        return lambda text: f"type({text})", type(other), "type"
    if _is_array(one):
        for name in ("shape", "dtype"):
            if getattr(one, name) != getattr(other, name):
                return (lambda text, name=name: f"{text}.{name}"), getattr(other, name), ""
        return lambda text: text, other, "array"
    if isinstance(one, dict):
        if one.keys() != other.keys():
            return lambda text: f"set({text})", set(other), ""
        pairs = [(f"[{key!r}]", one[key], other[key]) for key in one]
    elif isinstance(one, list | tuple):
        if len(one) != len(other):
            return lambda text: f"len({text})", len(other), ""
        pairs = [(f"[{n}]", a, b) for n, (a, b) in enumerate(zip(one, other, strict=True))]
    elif hasattr(one, "__dict__") and set(vars(one)) != set(vars(other)):
        return lambda text: f"set(vars({text}))", set(vars(other)), ""
    else:
        fields = dataclasses.fields(one) if dataclasses.is_dataclass(one) else ()
        names = dict.fromkeys([*(each.name for each in fields), *getattr(one, "__dict__", ())])
        pairs = [(f".{n}", getattr(one, n), getattr(other, n)) for n in names
                 if hasattr(one, n) and hasattr(other, n) and not isinstance(one, type)]  # fmt: skip
    for text, mine, yours in pairs:
        if not alike(mine, yours):
            inner, there, how = differing(mine, yours)
            return (lambda outer, inner=inner, text=text: inner(f"{outer}{text}")), there, how
    return lambda text: text, other, ""


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic | jax.Array)


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
