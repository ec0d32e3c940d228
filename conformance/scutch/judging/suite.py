"""The laws of the suite, with the names, identifiers and fixtures that they have.

A *law* is a function with the mark `requirement`. It takes the objects that it judges as
*fixtures*, arguments named in `FIXTURES`; its other arguments are drawn. A law whose module says
`usefixtures("subject")` is tried on each box class of `inputs.subjects.SUBJECTS`, and is one `Law`
for each of them:

    [law.name for law in laws() if "axes-commute-with-replacing" in law.requirement]
    # ['test_axes_commute_with_replacing', 'test_axes_commute_with_replacing[logical]']
"""

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from scutch import laws as shipped
from scutch.catalogue import by_id, current, index, variant
from scutch.implementation import Implementation, SetupError
from scutch.inputs.subjects import PARTITIONED, SUBJECTS, Subject
from scutch.judging import hypothesis_parts
from scutch.judging.calls import parse_call
from scutch.loading import load
from scutch.namespaces import CAPABILITIES, Namespace

SUBJECT = "subject"
UNASSERTED = "unasserted"
FIXTURES = ("implementation", "reference", SUBJECT, UNASSERTED, *CAPABILITIES)
"""Arguments of laws that are not drawn: the implementation, the reference, the box class that is
tried, the process without assertions, and the namespace of each capability by its name."""


@dataclass(frozen=True)
class Law:
    """One law, on one box class where it is about boxes.

    Args:
      name: Unique in the suite: `test_x`, or `test_x[logical]` on another box class than the first.
      function: The law, under its `@given`.
      requirement: The id that it tries, with `[logical]` where that is its box class.
      must_reach: Names that the law must call `reached` with, or the requirement is untested.
      subject: The box class, a key of `SUBJECTS`; `None` for a law that is not tried on each.
      fixtures: Names of its arguments that are not drawn, all of them in `FIXTURES`.
      in_job: Whether it is tried in a job of several processes.
      options: Options of `implementation.OPTIONS` that the implementation must claim for it.
    """

    name: str
    function: Callable[..., Any]
    requirement: str
    must_reach: tuple[str, ...]
    subject: str | None
    fixtures: tuple[str, ...]
    in_job: bool = False
    options: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of its arguments that are drawn, in their order."""
        names = inspect.signature(hypothesis_parts.written(self.function)).parameters
        return tuple(name for name in names if name not in self.fixtures)

    def takes(self, call: str) -> bool:
        """Whether a call has the inputs that the law takes; one of an older suite may have others.

        Args:
          call: As `judging.calls.parse_call` reads it.
        """
        return parse_call(call)[1].keys() == set(self.inputs)

    def arguments(
        self, implementation: Implementation, subject: Subject, unasserted: Any = None
    ) -> dict[str, Any]:
        """The law's fixtures, by name.

        Args:
          implementation: The one under judgment.
          subject: The box class that is tried.
          unasserted: An `unasserted.Unasserted`, for laws that take it.

        Returns:
          The fixtures that the law takes, and no others. A capability that is not claimed has no
          name: a law of another capability that asks for one is not tried.
        """
        made = {
            name: Namespace(f"{implementation.name}: {name}", names=())
            if (space := getattr(implementation, name)) is None
            else space
            for name in CAPABILITIES
        }
        made |= {"implementation": implementation, SUBJECT: subject, UNASSERTED: unasserted}
        if "reference" in self.fixtures:
            made["reference"] = load("reference")
        return {name: made[name] for name in self.fixtures}


def laws() -> tuple[Law, ...]:
    """Every law that ships, in the order of the modules, of their text, and of `SUBJECTS`."""
    return tuple(law for file in index.files() for law in laws_in(file))


@functools.cache
def laws_in(file: str) -> tuple[Law, ...]:
    """The laws of one file of `scutch.laws`, which is imported.

    Args:
      file: Its name, as `catalogue.index` gives it.
    """
    name = f"{shipped.__name__}.{file.removesuffix('.py').replace('/', '.')}"
    if name not in sys.modules:
        pytest.register_assert_rewrite(name)
    module = importlib.import_module(name)
    return tuple(
        law for name, function in vars(module).items() for law in laws_of(module, name, function)
    )


def named(name: str) -> Law | None:
    """The law of a name, from the one file that has it; `None` where there is no law of that name.

    Args:
      name: Such as `test_boxes_survive_pickling[logical]`.
    """
    file = index.file_of(name)
    return next((law for law in laws_in(file) if law.name == name), None) if file else None


def prove_assertions() -> None:
    """Refuse to judge where Python drops assertions: every law would hold.

    Raises:
      SetupError: A false assertion of the laws' package passes.
    """
    try:
        shipped.assert_falsehood()
    except AssertionError:
        return
    raise SetupError(
        "python -O",
        "assertions are dropped, so every law would hold; expected Python without -O "
        "and without PYTHONOPTIMIZE",
    )


def laws_of(module: ModuleType, name: str, function: Any) -> Iterator[Law]:
    """The laws that a function of a module is: none, one, or one for each box class.

    Args:
      module: The module; its `pytestmark` may say that its laws are tried on each box class.
      name: Of the function in the module.
      function: Anything; a law if it is a function with the mark `requirement`.

    Yields:
      The laws, in the order of `SUBJECTS`.

    Raises:
      SetupError: It takes an argument that is neither drawn nor a fixture.
    """
    if not inspect.isfunction(function) or not hasattr(function, "scutch_requirement"):
        return
    identifier, must_reach = function.scutch_requirement
    fixtures = tuple(inspect.signature(function).parameters)
    if strange := [each for each in fixtures if each not in FIXTURES]:
        raise SetupError(
            f"law {name} of {module.__name__}",
            f"it takes {', '.join(strange)}; expected arguments that @given draws, and fixtures: "
            f"{', '.join(FIXTURES)}",
        )
    on_subjects = SUBJECT in fixtures or SUBJECT in _used(getattr(module, "pytestmark", ()))
    identifier = current(identifier)
    tried: dict[str | None, str] = {PARTITIONED if on_subjects else None: identifier}
    if on_subjects:  # few groups have requirements of the other box classes
        variants = {name: variant(identifier, name) for name in SUBJECTS if name != PARTITIONED}
        tried |= {name: own for name, own in variants.items() if own in by_id()}
    for subject, own in tried.items():
        title = name if subject in (None, PARTITIONED) else f"{name}[{subject}]"
        yield Law(
            title,
            function,
            own,
            must_reach,
            subject,
            fixtures,
            in_job=getattr(function, "scutch_in_job", False),
            options=getattr(function, "scutch_options", ()),
        )


def _used(marks: Any) -> set[str]:
    marks = marks if isinstance(marks, list | tuple) else [marks]
    return {name for mark in marks if mark.name == "usefixtures" for name in mark.args}


def tried_by(requirements: Iterable[str]) -> tuple[Law, ...]:
    """The laws that try any of these requirements, given as identifiers; no others are imported."""
    wanted = set(map(current, requirements))
    files = index.files_of(wanted)
    return tuple(law for file in files for law in laws_in(file) if law.requirement in wanted)
