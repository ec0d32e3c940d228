"""Judging one class, from the test file of its owner, with one call.

    def test_my_box_conforms():
        scutch.judge_box(MyBox, implementation="flax")

The laws of the boxes are tried on it as `pytest --pyargs scutch` tries them on `Partitioned`, but
in this process, and without any option.
"""

from collections.abc import Callable, Sequence
from typing import Any

from scutch import catalogue
from scutch.implementation import Implementation, check, load
from scutch.inputs.subjects import Subject
from scutch.judging import suite
from scutch.judging.profiles import PROFILES, prepare_devices
from scutch.judging.trying import try_law
from scutch.judging.verdicts import Ruling, rule
from scutch.lawkit.domain import assume

BOX_LAWS = (
    "BOX-1", "BOX-2[a-g]", "BOX-3", "BOX-4", "BOX-5", "BOX-6", "BOX-8c", "BOX-9a", "BOX-10",
    "BOX-12", "BOX-13a", "BOX-13b", "BOX-13c", "BOX-14", "BOX-15a", "BOX-15b", "BOX-20b",
    "BOX-22", "BOX-23a", "BOX-24", "BOX-27",
)  # fmt: skip
"""What document `000_` asks of every box class: no mesh, no spec, and no error type of its own."""


class Nonconforming(AssertionError):
    """Laws do not hold; the message has each with the smallest input that breaks it.

    Wrong, in a box class, because everything else that the box has is lost (BOX-4a):

        def replace_boxed(self, val):
            return type(self)(val, self.names)

    Right:

        def replace_boxed(self, val):
            return dataclasses.replace(self, value=val)

    Attributes:
      title: The name of the class.
      rulings: On the requirements that do not hold, causes and consequences.
    """

    def __init__(self, title: str, broken: Sequence[Ruling]) -> None:
        """Say which of the `broken` requirements are causes, and how each is broken."""
        self.title, self.rulings = title, tuple(broken)
        roots = [r for r in broken if r.verdict != "blocked"]
        lines = [f"{title} breaks {', '.join(r.requirement.id for r in roots)}"]
        for ruling in roots:
            row, found = ruling.requirement, ruling.counterexample
            lines.append(f"\n{row.id} {row.title} ({ruling.verdict})\n  {row.text}")
            if found is not None:
                lines += [f"  input: {found.input}", f"  error: {found.error}"]
            elif ruling.reason:
                lines.append(f"  {ruling.reason}")
        consequences = [r.requirement.id for r in broken if r.verdict == "blocked"]
        if consequences:
            lines.append(f"\nand, as consequences, {', '.join(consequences)}")
        super().__init__("\n".join(lines))


def judge_box(
    box_class: type,
    *,
    make: Callable[[Any, tuple[Any, ...]], Any] | None = None,
    implementation: str | Implementation = "flax",
    requirements: Sequence[str] = BOX_LAWS,
    profile: str = "ci",
    seed: int = 0,
) -> tuple[Ruling, ...]:
    """Judge one box class by the laws of the boxes.

    The class extends the `AxisMetadata` of `implementation`, is a pytree node, and has an
    attribute `names`: a tuple with a name for each axis.

    Args:
      box_class: The class.
      make: `(value, names) -> box`; where left out, `box_class(value, names)`.
      implementation: Whose tree functions it is used with: what `--implementation` takes, or an
        `Implementation`.
      requirements: Patterns of requirements to judge by. Those about meshes, specs and copies
        (BOX-16 to BOX-18, BOX-20) may be added when the class has them.
      profile: How hard to try.
      seed: Of the search.

    Returns:
      The ruling on each requirement.

    Raises:
      Nonconforming: A requirement at level must does not hold.
      SetupError: The implementation cannot be found, or a pattern names nothing.
    """
    prepare_devices()
    if isinstance(implementation, str):
        chosen = load(implementation)
    else:
        chosen = check(implementation, implementation.name)
    subject = _subject(box_class, make or box_class)
    rows = [r for r in catalogue.select(requirements) if r.area == "BOX"]
    trials = [
        try_law(law, chosen, examples=PROFILES[profile].examples, seed=seed, subject=subject)
        for law in suite.tried_by(r.id for r in rows)
        if suite.UNASSERTED not in law.fixtures
    ]
    trials = [t for t in trials if t.examples or t.outcome != "passed"]
    tried = {trial.requirement for trial in trials}
    rulings = rule([r for r in rows if r.id in tried], trials, claims=chosen.claims)
    broken = [r for r in rulings if not r.conforms and r.requirement.level == "must"]
    if broken:
        raise Nonconforming(f"{box_class.__module__}.{box_class.__qualname__}", broken)
    return rulings


def _subject(box_class: type, make: Callable[[Any, tuple[Any, ...]], Any]) -> Subject:
    def build(value: Any, names: tuple[Any, ...], mesh: Any) -> Any:
        assume(mesh is None)  # laws about meshes in boxes have no input in their domain here
        return make(value, names)

    def wrap(init: Callable[..., Any], names: tuple[Any, ...], mesh: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: build(init(*args, **kwargs), names, mesh)

    return Subject(box_class.__name__, build, wrap)
