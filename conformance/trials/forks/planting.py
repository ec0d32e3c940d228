"""Faults to plant in the installed Flax, and the judging of a fork that has them.

A fault is a function that puts something wrong in the place of a function or method of the
installed Flax, for as long as the fork is judged:

    @fault("metadata/logical-rules/first-free-rule-wins", among="LOG-[1-4]*")
    def the_last_rule_wins(plant):
        assign = spmd._logical_to_mesh_axes
        plant.function(assign, lambda names, rules=None: assign(names, rules and rules[::-1]))

The first arguments are the requirements that are about that very fault; `among` are those that the
fork is judged by, its area or a good part of it.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import flax
import jax
import pytest
from flax.core.spmd import set_logical_axis_rules
from flax.nnx import variablelib
from scutch import catalogue
from scutch.implementation import Implementation, flax_shaped
from scutch.judging import known, suite
from scutch.judging.profiles import PROFILES
from scutch.judging.trials import Trial
from scutch.judging.trying import retrying, try_law
from scutch.judging.verdicts import Ruling, rule, summarize

FAULTS: list["Fault"] = []
"""Every fault, in the order in which they are defined. `fault` is the owner."""

_QUICK = PROFILES["quick"]


class Plant:
    """Puts other functions in the place of Flax's."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        """Put everything back when `patch` is undone."""
        self._patch = patch

    def function(self, honest: Any, faulty: Any) -> None:
        """Replace a function or class in every module of Flax that has it."""
        for name, module in list(sys.modules.items()):
            if name == "flax" or name.startswith("flax."):
                held = [key for key, value in vars(module).items() if value is honest]
                for key in held:
                    self._patch.setattr(module, key, faulty)

    def attribute(self, owner: Any, name: str, faulty: Any) -> None:
        """Replace a method of a class, or the value of a name in one module alone."""
        self._patch.setattr(owner, name, faulty)


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong in a fork.

    Args:
      name: The fault, as a sentence.
      about: The requirements that are about this very fault.
      among: The requirements that the fork is judged by, as patterns.
      plant: Makes it so.
    """

    name: str
    about: tuple[str, ...]
    among: tuple[str, ...]
    plant: Callable[[Plant], None]


def fault(*about: str, among: str) -> Callable[[Callable[[Plant], None]], Callable[[Plant], None]]:
    """Enter a fault.

    Args:
      about: The requirements that are about this very fault.
      among: Patterns of the requirements that the fork is judged by, with spaces between them.
    """

    def entered(plant: Callable[[Plant], None]) -> Callable[[Plant], None]:
        name = plant.__name__.replace("_", " ")
        FAULTS.append(Fault(name, about, tuple(among.split()), plant))
        return plant

    return entered


@contextmanager
def fork(*faults: Fault) -> Iterator[Implementation]:
    """A fork of the installed Flax, which inherits its known failures, with these faults in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variablelib, "VariableTypeCache", dict(variablelib.VariableTypeCache))
        for planted in faults:
            planted.plant(Plant(patch))
        jax.clear_caches()  # programs that were traced before do not have the fault
        yield flax_shaped("my-fork", package="flax", version=flax.__version__, known="flax")
    set_logical_axis_rules(())


def judged(implementation: Implementation, patterns: tuple[str, ...]) -> tuple[Ruling, ...]:
    """The root causes that a run over some requirements names: `scutch run`, in this process.

    Args:
      implementation: Descends from Flax.
      patterns: The requirements.
    """
    rows = [row for row in catalogue.select(patterns) if row.capability in implementation.claims]
    release, descends = (implementation.name, implementation.version), implementation.upstream
    expected = known.applicable(known.shipped(), release, *([descends] if descends else []))
    expectations = [
        replace(entry.expectation, inherited=entry.implementation != implementation.name)
        for entry in expected
    ]
    laws = [
        law
        for law in suite.tried_by(row.id for row in rows)
        if suite.UNASSERTED not in law.fixtures and not law.in_job
    ]

    def of(law: suite.Law) -> known.Expected:
        return known.expected(expected, law.requirement, law.name)

    def attempt(law: suite.Law, **options: Any) -> Trial:
        options = {"known": known.Expected(ways=of(law).ways), **options}
        return try_law(law, implementation, examples=_QUICK.examples, seed=0, **options)

    trials = [attempt(law, known=of(law)) for law in laws]
    tried = {trial.requirement for trial in trials}
    return summarize(
        rule(
            [row for row in rows if row.id in tried],
            trials,
            claims=implementation.claims,
            expectations=expectations,
            retry=retrying(laws, attempt),
        )
    ).roots
