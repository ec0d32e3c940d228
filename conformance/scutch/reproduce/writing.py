"""A tape as the text of a script.

`Text` writes the events that `Needs` has found. An event that is used more than once is written as
an assignment; another one is written where it is used. `endings.Draft` adds the last lines.
"""

import builtins
import inspect
import re
import textwrap
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
    functions,
)
from scutch.reproduce.layout import program
from scutch.reproduce.names import Nameless
from scutch.reproduce.needs import CHANGES, RAISED, Needs, classes
from scutch.reproduce.sources import BODY, Source

_INLINE = 60
"""The longest text that is repeated, or written inside of another expression's line."""

_SMALL = (bool, int, float, str, type(None))


class Text(Needs):
    """The statements of a script before its last ones."""

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
            return self.end(event)
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
        return [*before, *assigned(name, text)]

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
            begins = f"class {name}"
            lines = [line.replace(begins, f"class {own}") if line.startswith(begins) else line
                     for line in lines]  # fmt: skip
            return [*found, *(part for line in lines for part in self._opened(line, source))]
        if lines[0].startswith(("def ", "@")):
            self.taken.add(name)
            return [*found, *lines]
        self.texts[key] = lines[0]
        return found

    def _opened(self, line: str, source: Source) -> list[str]:
        """A line of a class; for one that stands for the body of a method, the body."""
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
                if not (text := self.texts[own]):
                    raise Nameless(f"{expression.function!r}, whose text uses itself")
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

    def end(self, event: Event) -> list[str]:
        """The last lines; `endings.Draft` has them."""
        raise NotImplementedError


def assigned(name: str, text: str) -> list[str]:
    """An assignment; none where the text is the name.

    Args:
      name: The variable.
      text: The text of its value.
    """
    return [] if name == text else [f"{name} = {text}"]


def _indented(lines: list[str]) -> list[str]:
    return textwrap.indent("\n".join(lines), "    ").splitlines()


def _index(text: str) -> str:
    """An index as it stands in brackets."""
    if text.startswith("slice(") and text.endswith(")"):
        parts = [p.strip().replace("None", "") for p in text[6:-1].split(",")]
        return ":".join(parts[:2]) if parts[2:] in ([""], []) else ":".join(parts)
    return text
