"""The last lines of a script: both values, or the error, and the exit code.

Draft(tape, implementation, ending).source()    # the script, without its heading
"""

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from scutch.reproduce.events import Event, references
from scutch.reproduce.names import Nameless
from scutch.reproduce.operators import OPPOSITES
from scutch.reproduce.writing import Text, assigned

_MIRRORED = {"==": "==", "!=": "!=", "is": "is", "is not": "is not", "<": ">", ">": "<",
             "<=": ">=", ">=": "<="}  # fmt: skip


class Draft(Text):
    """A script about one failure."""

    def end(self, event: Event) -> list[str]:
        """The last lines.

        Args:
          event: The event of the ending.

        Raises:
          Nameless: The event uses a value that no earlier line has.
        """
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
        if mode == "compare":
            return [*before, *self._compared(event)]
        if mode == "alike":
            return [*before, *self._alike(event)]
        if mode == "truth":
            word = "nothing" if event.result else "something"
            return [
                *before, *assigned("got", self.operation(event)),
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
            *assigned("one", got), *assigned("other", expected),
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


def _compared_by(test: str, got: str, expected: str) -> list[str]:
    """The end of a script: both values, a line that prints them, and the exit by a test.

    Args:
      test: An expression of `got` and `expected`; the script exits with 0 if it is true.
      got: The text of the value of the implementation.
      expected: The text of the expected value.
    """
    return [
        *assigned("got", got), *assigned("expected", expected),
        'print(f"expected {expected}, got {got}")', f"sys.exit(0 if {test} else 1)",
    ]  # fmt: skip


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

    if isinstance(one, type):
        return lambda text: text, other, ""
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
        both = (n for n in names if hasattr(one, n) and hasattr(other, n))
        pairs = [(f".{n}", getattr(one, n), getattr(other, n)) for n in both]
    for text, mine, yours in pairs:
        if not alike(mine, yours):
            inner, there, how = differing(mine, yours)
            return (lambda outer, inner=inner, text=text: inner(f"{outer}{text}")), there, how
    return lambda text: text, other, ""


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic | jax.Array)
