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

import contextlib
import inspect
import itertools
import operator
import shlex
import traceback
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import jax
import numpy as np
import pytest

from scutch import catalogue
from scutch.implementation import Implementation, SetupError, check, load
from scutch.inputs.boxes import PARTITION_NAME
from scutch.inputs.calls import parse_call
from scutch.inputs.descriptions import Abstract, Array, Box, Copies, Foreign, Key
from scutch.inputs.subjects import AXES, Subject
from scutch.judging import hypothesis_parts, suite
from scutch.judging import known as known_failures
from scutch.judging.faults import of_one_fault
from scutch.judging.profiles import PROFILES, prepare_devices
from scutch.judging.readable import quoted
from scutch.judging.settings import check_settings
from scutch.judging.trying import retrying, try_law
from scutch.judging.verdicts import Ruling, Trial, rule
from scutch.lawkit.domain import OutOfDomain, assume
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import raised
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

NAMES = "names"
"""The attribute that holds the names of a box, unless its owner passes another."""

SPEC, SPEC_LAW = "a partition spec", "metadata/box-specs/names-become-the-spec"
"""The feature that a class without `get_partition_spec` lacks, and the requirement about it."""

NAMES_AS_SPEC = "names as its partition spec"
"""The feature of a class whose method `get_partition_spec` maps names to other mesh axes."""

_VALUE = np.ones((2, 3), "float32")
_NAMES = ("data", "model")


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
        return tuple(
            r for r in self.rulings if not r.conforms and r.requirement.level == "must"
        )  # fmt: skip


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
        built = _examined(box_class, chosen, make, names, params, indices, nests)
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
            try_law, implementation=chosen, examples=PROFILES[profile].examples, seed=seed,
            subject=built.subject,
        )  # fmt: skip
        trials = [attempt(law, replay=calls) for law in laws]
    judged = [replace(t, unmet=()) for t in trials if t.examples or t.outcome == "failed"]
    tried = {trial.requirement for trial in judged}
    if not judged or not built.boxes:
        raise NothingToJudge(built.title, _why_nothing(rows, laws, replay, judged))
    rulings = rule(
        [row for row in rows if row.id in tried], judged, claims=chosen.claims,
        tolerated={catalogue.current(each): why for each, why in (known or {}).items()},
        retry=retrying(laws, attempt),
    )  # fmt: skip
    judgment = Judgment(
        f"{box_class.__module__}.{box_class.__qualname__}", of_one_fault(rulings),
        tuple(built.lacks),
        () if replay else tuple(row.id for row in rows if row.id not in tried),
    )  # fmt: skip
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


def _examined(box_class: type, chosen: Implementation, *arguments: Any) -> "_Examined":
    """The class as a subject of laws; the arguments are those of `_Examined`.

    Raises:
      SetupError: No box can be made and examined with these arguments, or one of them raised an
        order to pytest, Hypothesis or Python, such as a skip, which would end the owner's test
        without a verdict.
    """  # noqa: DOC501
    try:
        return _Examined(box_class, chosen, *arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if not hypothesis_parts.is_order(error):
            raise
        raise SetupError(
            f"judge_box({box_class!r})",
            f"{hypothesis_parts.describe(error)} was raised while one box was examined, before any "
            "law; expected a box, or an error",
        ) from error


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
        row for row in catalogue.select(patterns)
        if row.id not in left_out and set(row.capabilities) <= set(chosen.claims)
    )  # fmt: skip


class _Examined:
    """A box class as a subject of laws, examined by one box of it.

    Attributes:
      subject: The box class in the form in which laws take it.
      boxes: How many boxes were made for laws.
      lacks: Features that the class does not have.
      maker: The Python expression that makes a box, with `{value}` and `{names}` in it.
    """

    def __init__(
        self, box_class: type, chosen: Implementation, make: Any, names: Any, params: Any,
        indices: Any, nests: bool | None,
    ) -> None:  # fmt: skip
        """Arguments as those of `judge_box`.

        Raises:
          SetupError: The class cannot be judged so.
        """
        self.title, self.box_class = f"judge_box({box_class!r})", box_class
        self.boxes = 0
        base = chosen.meta.AxisMetadata
        if not (isinstance(box_class, type) and issubclass(box_class, base)):
            raise self._refused(
                f"expected a class that extends {base.__module__}.{base.__qualname__}, the "
                f"AxisMetadata of {chosen.name} {chosen.version}; implementation= names another"
            )
        if make is None and box_class is getattr(chosen.bridge, "NNXMeta", None):
            make, names = partial(_variable_box, chosen), _variable_names
        self.takes_names, self.given_maker, self.maker = self._maker(make, names)
        box = self._box("made of", _VALUE, lambda: self.build(_VALUE, _NAMES))
        if make is not None:
            self._check_value(box)
        if jax.tree_util.all_leaves([box]):
            raise self._refused(
                "it is no pytree node, so JAX would take a box for a leaf; expected a class that "
                "is registered, as by jax.tree_util.register_pytree_node_class"
            )
        self.lacks: list[str] = []
        if names == NAMES and not hasattr(box, NAMES):
            names = None
            self.lacks.append("names")
        read = operator.attrgetter(names) if isinstance(names, str) else names
        if read is not None:
            self._check_names(box, read)
        if params is not None and not (callable(params) and PARTITION_NAME in params("data")):
            self.lacks.append(f"parameters with {PARTITION_NAME!r}")
        if not hasattr(box, "get_partition_spec"):
            self.lacks.append(SPEC)
        elif read is not None and self._maps_names():
            self.lacks.append(NAMES_AS_SPEC)
        if nests is False:
            self.lacks.append("boxes in boxes")
        self.refuses = [kind for kind, value in _kinds(box).items() if not self._takes(value)]
        self.lacks += [f"{kind} as values" for kind in self.refuses]
        self.refuses += ["boxes"] if nests is False else []
        given = {} if params is None else {"named_by": params}
        crosses = hasattr(box, "to_nnx_metadata") or hasattr(box, "value")
        own = tuple(
            kind for kind in (chosen.meta.Partitioned, getattr(chosen.bridge, "NNXMeta", None))
            if isinstance(kind, type)
        )  # fmt: skip
        allowed = indices if indices is None or callable(indices) else lambda box: indices
        self.subject = Subject(
            box_class.__name__, self.make, self._wrapped, names=read, indices=allowed,
            holds=self._holds, takes=self._takes_names,
            crosses=crosses and not isinstance(box, own), owned=True, **given,
        )  # fmt: skip
        self._check_axes(box)

    def _refused(self, problem: str) -> SetupError:
        return SetupError(self.title, problem)

    def _maker(self, make: Any, names: Any) -> tuple[bool, Callable[..., Any], str]:
        """Whether the maker takes names; the maker, and the text of a call of it."""
        called = "make" if make is not None else self.box_class.__name__
        maker: Callable[..., Any] = self.box_class if make is None else make
        accepted = inspect.signature(maker)
        if make is None and isinstance(names, str) and names in accepted.parameters:
            others = self._other_fields({names: _NAMES})
            return (
                True,
                lambda value, given: maker(value, **{names: given}, **others),
                f"{called}({{value}}, {names}={{names}}{_keywords(others)})",
            )
        for takes, taken in ((True, 2), (False, 1)) if make is not None else ((False, 1),):
            with contextlib.suppress(TypeError):
                accepted.bind(*[None] * taken)
                others = self._other_fields({}) if make is None else {}
                passed = "{value}, {names}" if takes else "{value}"
                return takes, partial(maker, **others), f"{called}({passed}{_keywords(others)})"
        raise self._refused(
            f"{called}{accepted} takes neither a value, nor a value and names=; expected "
            "make=lambda value, names: ..., which makes a box"
        )

    def _other_fields(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Values for fields of a dataclass that have a default, so that a lost value shows.

        Args:
          given: The fields that each box gets.

        Returns:
          For each such field a value unlike its default, if a box with it does all that a box with
          the default does.
        """
        chosen: dict[str, Any] = {}
        box_class: Any = self.box_class
        make = partial(box_class, _VALUE, **given)
        able = _abilities(make)
        for field in fields(box_class) if is_dataclass(box_class) else ():
            if field.init and field.name not in given and type(field.default) in _UNLIKE:
                other = {field.name: _UNLIKE[type(field.default)](field.default)}
                if _abilities(partial(make, **chosen, **other)) == able:
                    chosen |= other
        return chosen

    def build(self, value: Any, names: tuple[Any, ...]) -> Any:
        """A box, made by the function that the owner has given."""
        return self.given_maker(value, names) if self.takes_names else self.given_maker(value)

    def _box(self, what: str, value: Any, call: Callable[[], Any]) -> Any:
        """The result of a call, which must be a box of the class."""
        try:
            box = call()
        except Exception as error:
            raise self._refused(
                f"a box {what} {value!r} was expected, and {hypothesis_parts.describe(error)} was "
                "raised: pass make= (or params= and indices=, for axes)"
            ) from error
        if type(box) is not self.box_class:
            raise self._refused(
                f"a box {what} {value!r} is a {type(box).__qualname__}; expected a box of that "
                "class itself: pass make="
            )
        return box

    def _check_value(self, box: Any) -> None:
        """Refuse a maker that puts the value into a container, which laws would take for it."""
        try:
            held = box.unbox()
        except Exception:  # a law finds that, and names it
            return
        if held is not _VALUE and any(leaf is _VALUE for leaf in jax.tree_util.tree_leaves(held)):
            raise self._refused(
                f"the box that make= made of an array wraps a {type(held).__name__} that holds it; "
                "expected one that wraps the array, as box.replace_boxed(value) does"
            )

    def _check_names(self, box: Any, read: Callable[[Any], Any]) -> None:
        """Refuse names that are no tuple with one for each axis."""
        try:
            found = read(box)
        except Exception as error:
            raise self._refused(
                f"names= raised {hypothesis_parts.describe(error)} for {box!r}; expected a tuple"
            ) from error
        if not isinstance(found, tuple) or len(found) != _VALUE.ndim:
            raise self._refused(
                f"the names of {box!r} are {found!r}; expected a tuple of {_VALUE.ndim}, one for "
                "each axis: pass names=, or names=None for a class without"
            )

    def _maps_names(self) -> bool:
        """Whether a spec has for each name an entry that follows from that name alone.

        A spec that has the names in another order, not all of them, or none, is judged.
        """

        def spec(*names: Any) -> tuple[Any, ...]:
            found = tuple(self._named(names).get_partition_spec())
            return (*found, *[None] * (len(names) - len(found)))

        with contextlib.suppress(Exception):
            mapped = {name: spec(name) for name in AXES}
            changes = any(not alike(mapped[name], (name,)) for name in AXES)
            shards = any(not alike(mapped[name], (None,)) for name in AXES)
            return (
                changes
                and shards
                and all(
                    alike(spec(one, other), mapped[one] + mapped[other])
                    for one, other in itertools.permutations(AXES, 2)
                )
            )
        return False

    def _check_axes(self, box: Any) -> None:
        """Refuse a class whose boxes take no axis with these parameters."""
        try:
            index = self.subject.place(0, "layers", box)
        except OutOfDomain:
            self.lacks.append("indices at which an axis can be added")
            return
        params = self.subject.params("layers")
        self._box(f"with axis {index} and params", params,
                  lambda: box.add_axis(index, {**params}))  # fmt: skip

    def _takes(self, value: Any) -> bool:
        try:
            return self.build(value, ()) is not None
        except Exception:  # a refusal, whatever its type, is the answer
            return False

    def _takes_names(self, names: tuple[Any, ...]) -> bool:
        """Whether a box may have these names: the maker, if it takes names, makes such a box."""
        return not self.takes_names or raised(lambda: self._named(names)) is None

    def _named(self, names: tuple[Any, ...]) -> Any:
        """A box of an array with one element, and an axis for each name."""
        return self.build(np.ones((1,) * len(names), "float32"), names)

    def _holds(self, value: Any) -> bool:
        """Whether the class accepts values of this kind, as the examination has shown."""
        if isinstance(value, dict | list | tuple) or hasattr(value, "replace_boxed"):
            return "boxes" not in self.refuses
        if isinstance(value, bool | int | float | complex):
            return "numbers" not in self.refuses
        if not hasattr(value, "dtype"):
            return "other objects" not in self.refuses
        return "keys" not in self.refuses or isinstance(value.dtype, np.dtype)

    def make(self, value: Any, names: tuple[Any, ...], mesh: Any) -> Any:
        """A box for a law; a value that the class refuses is out of the law's domain."""
        assume(mesh is None and self._holds(value))
        try:
            box = self.build(value, names)
        except Exception:
            raise OutOfDomain from None
        self.boxes += 1
        return box

    def _wrapped(self, init: Callable[..., Any], names: Any, mesh: Any) -> Callable[..., Any]:
        def wrap(*args: Any, **kwargs: Any) -> Any:
            return self.make(init(*args, **kwargs), names, mesh)

        return wrap


_UNLIKE: Mapping[type, Callable[[Any], Any]] = {
    bool: operator.not_,
    float: lambda value: value + 1,
    str: lambda value: f"{value} too",
}
"""By type, another value than a default. An integer may number an axis, and keeps its default."""


def _abilities(make: Callable[[], Any]) -> list[bool]:
    """Which methods of a new box return, and do not raise."""
    calls: tuple[Callable[[], Any], ...] = (
        make,
        lambda: make().unbox(),
        lambda: make().replace_boxed(_VALUE),
        lambda: (
            make()
            .add_axis(0, {PARTITION_NAME: "layers"})
            .remove_axis(0, {PARTITION_NAME: "layers"})
        ),
        lambda: make().get_partition_spec(),
        lambda: jax.tree.map(np.asarray, make()),
    )
    return [raised(call) is None for call in calls]


def _keywords(values: Mapping[str, Any]) -> str:
    return "".join(f", {name}={value!r}" for name, value in values.items())


def _kinds(box: Any) -> dict[str, Any]:
    """A value of each kind that a box may refuse to hold."""
    return {"numbers": 1.0, "keys": jax.random.key(0), "boxes": box, "other objects": object()}


def _variable_box(chosen: Implementation, value: Any, names: tuple[Any, ...]) -> Any:
    """An `NNXMeta` of a parameter with names, whose constructor takes no names."""
    return chosen.bridge.NNXMeta(
        chosen.nnx.Param, value, {"out_sharding": names, "eager_sharding": False}
    )


def _variable_names(box: Any) -> tuple[Any, ...]:
    """The names in an `NNXMeta`."""
    return tuple(box.metadata["out_sharding"])
