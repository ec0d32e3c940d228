"""The laws as a list, for judging without pytest: in an owner's test, and in the trials."""

import functools
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from scutch import laws
from scutch.implementation import Implementation, load
from scutch.inputs.descriptions import Builder
from scutch.inputs.subjects import Subject
from scutch.judging.trying import Attempt, describe
from scutch.judging.verdicts import Counterexample, Trial

SUBJECT = "subject"


@dataclass(frozen=True)
class Entry:
    """One law.

    Args:
      name: Of the function; unique in the suite.
      function: The law.
      requirement: The identifier in its mark.
      must_reach: The inputs that must come up at least once for it to have been tried.
      on_subjects: Whether it is tried on each box class.
      arguments: The fixtures that it takes.
    """

    name: str
    function: Callable[..., Any]
    requirement: str
    must_reach: tuple[str, ...]
    on_subjects: bool
    arguments: tuple[str, ...]


@functools.cache
def entries() -> tuple[Entry, ...]:
    """Every law, in the order of the modules and of the text."""
    modules = sorted(m.name for m in pkgutil.iter_modules(laws.__path__, f"{laws.__name__}."))
    pytest.register_assert_rewrite(*(name for name in modules if name not in sys.modules))
    return tuple(e for name in modules for e in _entries(importlib.import_module(name)))


def _entries(module: ModuleType) -> Iterator[Entry]:
    on_subjects = SUBJECT in _used(getattr(module, "pytestmark", ()))
    for name, function in vars(module).items():
        marks = [m for m in getattr(function, "pytestmark", ()) if m.name == "requirement"]
        for mark in marks:
            undrawn = tuple(inspect.signature(function).parameters)
            yield Entry(
                name, function, mark.args[0], mark.kwargs["must_reach"], on_subjects, undrawn
            )


def _used(marks: Any) -> set[str]:
    marks = marks if isinstance(marks, list | tuple) else [marks]
    return {name for mark in marks if mark.name == "usefixtures" for name in mark.args}


def fixtures(
    entry: Entry, implementation: Implementation, subject: Subject, **others: Any
) -> dict[str, Any]:
    """What a law takes beside the inputs that are drawn."""
    offered = {
        "implementation": implementation,
        "meta": implementation.meta,
        "logical": implementation.logical,
        "linen": implementation.linen,
        "reference": load("reference"),
        "nnx": implementation.nnx,
        "transforms": implementation.transforms,
        "bridge": implementation.bridge,
        "export": implementation.export,
        SUBJECT: subject,
        **others,
    }
    return {name: offered[name] for name in entry.arguments}


def attempt(
    entry: Entry, implementation: Implementation, subject: Subject, **others: Any
) -> Attempt:
    """An attempt to break a law of an implementation, ready to `search` or to `replay`."""
    plain = subject.prefix == "" or not entry.on_subjects
    name = entry.name if plain else f"{entry.name}[{subject.name}]"
    world = Builder(implementation.meta, subject.make, implementation.nnx, implementation.linen)
    return Attempt(name, world, fixtures(entry, implementation, subject, **others))


def conclude(entry: Entry, subject: Subject, tried: Attempt, error: BaseException | None) -> Trial:
    """What an attempt amounts to."""
    prefix = subject.prefix if entry.on_subjects else ""
    found = tried.counterexample
    if error is not None and found is None:
        found = Counterexample(tried.test, "", describe(error))
    return Trial(
        tried.test, prefix + entry.requirement, "passed" if error is None else "failed",
        tried.examples, tried.seconds,
        tuple(name for name in entry.must_reach if name not in tried.reached),
        counterexample=found, reason=None if error is None else describe(error),
    )  # fmt: skip


def tried_by(requirements: Iterable[str]) -> tuple[Entry, ...]:
    """The laws that try any of these requirements."""
    wanted = set(requirements)
    return tuple(entry for entry in entries() if entry.requirement in wanted)
