"""Judging one class, from the test file of its owner: one call, or an item for each requirement.

    def test_my_box_conforms():
        scutch.judge_box(MyBox)

    class TestMyBox(scutch.BoxTests):
        box = MyBox

`judge_box` tries the laws of the boxes as `pytest --pyargs scutch` tries them on `Partitioned`, but
in this process, and without any option or plugin. A class need not have names, a spec, or the
parameters of `Partitioned`. One box, made before the first law, shows which of these features the
class *lacks*: the failure lists them once, and no law about them is tried. A *maker* builds boxes:

    scutch.judge_box(Quantized, make=lambda value, names: Quantized(value, names, scale=0.5))
"""

import inspect
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import pytest

from scutch import catalogue
from scutch.examined_boxes import NAMES, NAMES_AS_SPEC, SPEC, SPEC_LAW, examined
from scutch.implementation import Implementation, SetupError
from scutch.judging import known as known_failures
from scutch.judging import suite
from scutch.judging.attempt import Setting
from scutch.judging.calls import parse_call
from scutch.judging.faults import of_one_fault
from scutch.judging.profiles import PROFILES, prepare_devices
from scutch.judging.settings import check_settings
from scutch.judging.trying import retrying, try_law
from scutch.judging.verdicts import rule
from scutch.judgments import Judgment, Nonconforming, NothingToJudge
from scutch.loading import check, load
from scutch.report.text import count

BOX_LAWS = (
    "metadata/box-axes/adding-names-the-axis",
    "metadata/box-axes/removing-takes-the-name",
    "metadata/box-axes/removing-undoes-adding",
    "metadata/box-axes/adding-undoes-removing",
    "metadata/box-axes/none-is-a-name",
    "metadata/box-equality/copies-equal-the-original",
    "metadata/box-nodes/leaves-are-the-value",
    "metadata/box-nodes/unflattening-restores-the-box",
    "metadata/box-nodes/structure-holds-class-names",
    "metadata/box-nodes/tree-map-keeps-boxes",
    "metadata/box-nodes/tracing-keeps-boxes",
    "metadata/box-nodes/gradients-are-boxed-alike",
    "metadata/box-specs/names-become-the-spec",
    "metadata/box-trees/map-calls-once-per-box",
    "metadata/box-trees/map-keeps-other-leaves",
    "metadata/box-trees/axes-change-box-by-box",
    "metadata/box-trees/reverse-removal-restores-tree",
    "metadata/box-trees/unbox-leaves-no-box",
    "metadata/box-trees/unbox-gives-every-value",
    "metadata/box-trees/unbox-keeps-plain-trees",
    "metadata/box-trees/replaced-values-come-out",
    "metadata/box-trees/replacing-by-itself-keeps-tree",
    "metadata/box-values/only-boxes-are-metadata",
    "metadata/box-values/unbox-returns-same-object",
    "metadata/box-values/replacing-keeps-metadata",
    "metadata/box-values/inputs-stay-unchanged",
    "metadata/box-values/axes-keep-the-value",
    "metadata/box-values/axes-commute-with-replacing",
    "metadata/box-values/abstract-values-count-as-arrays",
    "transformations/fits-rank/lifts-of-linen[own-methods]",
    "bridge/variables/foreign-box-crosses",
)
"""Requirements on every box class, the default of `judge_box`: none needs a mesh or a refusal."""


def judge_box(
    box_class: type,
    *,
    make: Callable[..., Any] | None = None,
    names: str | Callable[[Any], tuple[Any, ...]] | None = NAMES,
    params: Callable[[Any], Mapping[Any, Any]] | Mapping[Any, Any] | None = None,
    indices: Collection[int] | Callable[[Any], Collection[int]] | None = None,
    nests: bool | None = None,
    known: Mapping[str, str] | None = None,
    exclude: Sequence[str] = (),
    implementation: str | Implementation = "flax",
    requirements: Sequence[str] = BOX_LAWS,
    profile: str = "quick",
    seed: int = 0,
    replay: str = "",
) -> Judgment:
    """Judge one box class by the laws of the boxes.

    The class extends the `AxisMetadata` of `implementation` and is a pytree node. One box, made
    before the first law is tried, shows which other features it has.

    Args:
      box_class: The class.
      make: `(value, names) -> box`, or `value -> box` for a class that takes no names; the box
        wraps `value` itself. Where left
        out, the class itself, with `names=` if its constructor has such an argument. Flags, texts
        and floats that are fields of a dataclass then have other values than their defaults.
      names: Where a box has its names, a tuple with one for each axis: the name of an attribute, or
        `box -> names`; `None` for a class without. A class without an attribute `names` has none.
      params: The parameters by which a transformation names an axis: `name -> params`, or a
        dictionary where they give no name; `{PARTITION_NAME: name}` where left out.
      indices: Where an axis may be added, or `box -> indices`; from 0 to the rank where left out.
      nests: Whether a box may hold a box; found out where left out.
      known: Requirements that the class is known to break, with the reason for each.
      exclude: Patterns of requirements not to judge by.
      implementation: The implementation whose tree functions are used on the boxes: a value of
        `--implementation`, or an `Implementation`.
      requirements: Patterns of requirements to judge by: those whose laws take any box class.
      profile: How hard to try.
      seed: Of the search.
      replay: A call that broke a law, as the failure prints it: only that is tried.

    Returns:
      The ruling on each requirement that was tried, and the features that the class lacks.

    Raises:
      Nonconforming: A requirement at level must does not hold.
      NothingToJudge: No law is about the class with these options.
      SetupError: The implementation cannot be found, a pattern names nothing, or the class cannot
        be judged so: nothing was tried.
    """
    if profile not in PROFILES:
        raise SetupError(f"profile {profile!r}", f"expected one of {', '.join(PROFILES)}")
    suite.prove_assertions()
    prepare_devices()
    check_settings()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the owner's project may turn warnings into errors
        if isinstance(implementation, str):
            chosen = load(implementation)
        else:
            chosen = check(implementation, implementation.name)
        rows = _rows(chosen, requirements, exclude)
        # A class is not judged by requirements that its implementation is known to break: if the
        # bridge of Flax gives a box a field, that is no fault of the box.
        faulty = {entry.requirement for entry in known_failures.of(chosen)}
        built = examined(box_class, chosen, make, names, params, indices, nests)
        laws = [
            law
            for law in suite.tried_by(row.id for row in rows)
            if law.subject is not None
            and law.requirement not in faulty
            and suite.UNASSERTED not in law.fixtures
            and not (
                law.requirement == SPEC_LAW and {SPEC, NAMES_AS_SPEC}.intersection(built.lacks)
            )
        ]
        calls = None
        if replay:
            name, inputs = parse_call(replay)
            laws, calls = [law for law in laws if law.name == name], [inputs]
        attempt = partial(
            try_law,
            implementation=chosen,
            examples=PROFILES[profile].examples,
            seed=seed,
            setting=Setting(subject=built.subject),
        )
        trials = [attempt(law, replay=calls) for law in laws]
    judged = [replace(t, unmet=()) for t in trials if t.examples or t.outcome == "failed"]
    tried = {trial.requirement for trial in judged}
    if not judged or not built.boxes:
        raise NothingToJudge(built.title, _why_nothing(rows, laws, replay, judged))
    rulings = rule(
        [row for row in rows if row.id in tried],
        judged,
        claims=chosen.claims,
        tolerated={catalogue.current(each): why for each, why in (known or {}).items()},
        retry=retrying(laws, attempt),
    )
    judgment = Judgment(
        f"{box_class.__module__}.{box_class.__qualname__}",
        of_one_fault(rulings),
        tuple(built.lacks),
        () if replay else tuple(row.id for row in rows if row.id not in tried),
    )
    if judgment.broken:
        raise Nonconforming(judgment, built.maker)
    return judgment


class BoxTests:
    """Base of a test class with one item for each requirement; `box` is the owner's class.

    The other attributes are arguments of `judge_box`. Pytest's `-k` and `--lf`, and editors, choose
    among the items; a requirement in `known` is an expected failure with its reason.
    """

    box: ClassVar[type]
    make: ClassVar[Callable[..., Any] | None] = None
    names: ClassVar[str | Callable[[Any], tuple[Any, ...]] | None] = NAMES
    params: ClassVar[Callable[[Any], Mapping[Any, Any]] | Mapping[Any, Any] | None] = None
    indices: ClassVar[Collection[int] | Callable[[Any], Collection[int]] | None] = None
    nests: ClassVar[bool | None] = None
    known: ClassVar[Mapping[str, str]] = {}
    implementation: ClassVar[str | Implementation] = "flax"
    profile: ClassVar[str] = "quick"
    seed: ClassVar[int] = 0

    @pytest.mark.parametrize("requirement", BOX_LAWS)
    def test_box(self, requirement: str) -> None:
        """The class keeps one requirement; one that is not about it is skipped with the reason.

        Args:
          requirement: The id.
        """
        given: dict[str, Any] = {}
        for name in BoxTests.__annotations__:  # as written: a function in a class is no method here
            value = inspect.getattr_static(self, name)
            given[name] = value.__func__ if isinstance(value, staticmethod) else value
        try:
            judgment = judge_box(given.pop("box"), requirements=[requirement], **given)
        except NothingToJudge as nothing:
            pytest.skip(nothing.problem)
        except Nonconforming as broken:
            pytest.fail(str(broken), pytrace=False)
        for ruling in judgment.rulings:
            if ruling.verdict == "known":
                pytest.xfail(ruling.reason or "")


def _why_nothing(rows: Sequence[Any], laws: Sequence[Any], replay: str, judged: object) -> str:
    """The reason why no law was tried on a box, and the argument that was expected."""
    if not rows:
        return (
            "requirements= and exclude= leave nothing to judge by; expected a pattern of "
            "requirements about boxes, such as 'metadata/box-axes'"
        )
    if not laws:
        asked = f"replay={replay!r}" if replay else f"{count(len(rows), 'requirement')} asked for"
        return f"{asked}: no law about this class; expected one of {', '.join(BOX_LAWS[:3])}, ..."
    if replay and not judged:
        return f"replay={replay!r}: the law is not about this input; expected one in its domain"
    return (
        "no box could be made for any law, so nothing was tried; expected make= to take arrays of "
        "every rank with a name for each axis"
    )


def _rows(
    chosen: Implementation, patterns: Sequence[str], exclude: Sequence[str]
) -> tuple[catalogue.Requirement, ...]:
    """The chosen requirements whose capabilities the implementation claims."""
    left_out = {row.id for row in catalogue.select(exclude)} if exclude else set()
    return tuple(
        row
        for row in catalogue.select(patterns)
        if row.id not in left_out and set(row.capabilities) <= set(chosen.claims)
    )
