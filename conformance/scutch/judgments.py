"""The judgment of one box class, and the message of a class that breaks laws.

judgment.broken, judgment.lacks
raise Nonconforming(judgment, "MyBox({value}, {names})")
"""

import shlex
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from scutch.implementation import SetupError
from scutch.inputs.descriptions import Abstract, Array, Box, Copies, Foreign, Key
from scutch.judging import hypothesis_parts, suite
from scutch.judging.calls import parse_call
from scutch.judging.readable import quoted
from scutch.judging.trials import Trial
from scutch.judging.verdicts import Ruling


@dataclass(frozen=True)
class Judgment:
    """The verdict on each requirement that a class was judged by.

    Args:
      title: The class.
      rulings: One for each requirement that was judged.
      lacks: Features that the class does not have, such as `a partition spec`.
      untried: Requirements that were asked for and not tried: no law about them fits the class, no
        input was in their domain, or the implementation is known to break them.
    """

    title: str
    rulings: tuple[Ruling, ...]
    lacks: tuple[str, ...]
    untried: tuple[str, ...]

    @property
    def broken(self) -> tuple[Ruling, ...]:
        """The rulings on each must that does not hold."""
        return tuple(r for r in self.rulings if not r.conforms and r.requirement.level == "must")


class NothingToJudge(SetupError):
    """No law is about the class with these options, so nothing was tried.

    Wrong, for a class without a partition spec:

        scutch.judge_box(MyBox, requirements=["metadata/box-specs/names-become-the-spec"])

    Right:

        scutch.judge_box(MyBox)
    """


class Nonconforming(ExceptionGroup[Exception], AssertionError):
    """Laws do not hold; the message has each with the smallest input that breaks it.

    It is a group of the errors that broke them, each with its traceback into the class.

    Wrong, in a box class, because every other field of the box is lost:

        def replace_boxed(self, val):
            return type(self)(val, self.names)

    Right:

        def replace_boxed(self, val):
            return dataclasses.replace(self, value=val)

    Attributes:
      judgment: The rulings on all requirements, and the features that the class lacks.
      maker: The Python expression that makes a box, with `{value}` and `{names}` in it.
    """

    judgment: Judgment
    maker: str

    def __new__(cls, judgment: Judgment, maker: str) -> Self:
        """Say which requirements are causes, and how each is broken.

        Args:
          judgment: At least one requirement does not hold.
          maker: The Python expression that makes a box.
        """
        errors = [
            error
            for ruling in _causes_first(judgment)
            for trial in ruling.trials
            if isinstance(error := _from_class(trial), Exception)
        ]
        text = _told(judgment, maker, judgment.title)
        made = super().__new__(cls, text, errors or [AssertionError(text.partition("\n")[0])])
        made.judgment, made.maker = judgment, maker
        return made

    def told(self, title: str, command: Sequence[str]) -> str:
        """The message for a reader who has not called `judge_box`.

        Args:
          title: The class, as the reader has named it.
          command: The words that try one call again, if the call stands after them.

        Returns:
          The text of several lines.
        """
        return _told(self.judgment, self.maker, title, command)


def _causes_first(judgment: Judgment) -> list[Ruling]:
    """The broken requirements; those that follow from others stand last."""
    return sorted(judgment.broken, key=lambda ruling: ruling.verdict == "blocked")


def _told(judgment: Judgment, maker: str, title: str, command: Sequence[str] = ()) -> str:
    """Which requirements are causes, and how each is broken."""
    roots = [r.requirement.id for r in judgment.broken if r.verdict != "blocked"]
    lines = [f"{title} breaks {', '.join(roots)}"]
    for ruling in _causes_first(judgment):
        row = ruling.requirement
        lines.append(f"\n{row.id} {row.title} ({ruling.verdict})\n  {row.text}")
        lines += [f"  {ruling.reason}"] if ruling.verdict in ("fixed", "blocked") else []
        for trial in ruling.trials:
            lines += _shown(trial, maker, command) if trial.outcome == "failed" else []
    if judgment.lacks:
        lines.append(f"\nit has not: {'; '.join(judgment.lacks)}")
    if judgment.untried:
        lines.append(f"not judged: {', '.join(judgment.untried)}")
    return "\n".join(lines)


def _shown(trial: Trial, maker: str, command: Sequence[str]) -> list[str]:
    """The input of a broken law in Python, the line that broke, and how to try it again."""
    found = trial.counterexample
    if found is None or not found.input:
        return [f"  error:  {trial.reason}"]
    inputs = parse_call(found.input)[1]
    replay = f"{shlex.join(command)} {quoted(found.input)}"
    law = _from_class(trial)
    frames = traceback.extract_tb(law.__traceback__) if law is not None else []
    return [
        *(f"  {name} = {_written(value, maker)}" for name, value in inputs.items()),
        *(f"  {frame.line}" for frame in list(frames)[:1]),
        f"  error:  {found.error}",
        f"  replay: {replay if command else f'judge_box(..., replay={found.input!r})'}",
    ]


def _from_class(trial: Trial) -> BaseException | None:
    """The error that broke a law, with its traceback from the law on."""
    law = suite.named(trial.test)
    if trial.error is None or law is None:
        return trial.error
    return hypothesis_parts.from_law_on(trial.error, law.function)


def _written(value: Any, maker: str) -> str:
    """A described input as the Python expression that makes it.

    Args:
      value: A description, a container of descriptions, or any other value.
      maker: Text with `{value}` and `{names}` in it, such as `MyBox({value}, {names})`.
    """
    again = partial(_written, maker=maker)
    match value:
        case Box() | Foreign():
            return maker.format(value=again(value.value), names=repr(value.names))
        case Array():
            first, size = value.seed + 1, int(np.prod(value.shape, dtype=int))
            numbers = f"np.arange({first}, {first + size}).reshape({value.shape})"
            return f"{numbers}.astype({value.dtype!r})"
        case Abstract():
            return f"jax.ShapeDtypeStruct({value.shape}, {value.dtype!r})"
        case Key():
            return f"jax.random.key({value.seed})"
        case Copies():
            return f"({again(value.of)}, {again(value.of)})"
        case dict():
            return f"{{{', '.join(f'{key!r}: {again(each)}' for key, each in value.items())}}}"
        case list():
            return f"[{', '.join(map(again, value))}]"
        case tuple():
            return f"({''.join(f'{again(each)}, ' for each in value)})"
    return repr(value)
