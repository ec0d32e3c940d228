"""A box class of an owner as a subject of laws, examined by one box of it.

    built = examined(MyBox, implementation, make, names, params, indices, nests)

`built.subject` is tried by laws, and `built.lacks` has the features that the class does not have.
"""

import contextlib
import inspect
import itertools
import operator
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from scutch.implementation import Implementation, SetupError
from scutch.inputs.boxes import PARTITION_NAME
from scutch.inputs.subjects import AXES, Subject
from scutch.judging import hypothesis_parts
from scutch.lawkit.domain import OutOfDomain, assume
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import raised

NAMES = "names"
"""The attribute that holds the names of a box, unless its owner passes another."""

SPEC, SPEC_LAW = "a partition spec", "metadata/box-specs/names-become-the-spec"
"""The feature that a class without `get_partition_spec` lacks, and the requirement about it."""

NAMES_AS_SPEC = "names as its partition spec"
"""The feature of a class whose method `get_partition_spec` maps names to other mesh axes."""

_VALUE = np.ones((2, 3), "float32")
_NAMES = ("data", "model")


def examined(box_class: type, chosen: Implementation, *arguments: Any) -> "_Examined":
    """The class as a subject of laws.

    Args:
      box_class: The class.
      chosen: The implementation whose `AxisMetadata` it extends.
      *arguments: `make`, `names`, `params`, `indices` and `nests`, as `judge_box` takes them.

    Returns:
      The class, examined: its `subject`, its `title`, its `maker`, and the features that it lacks.

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


class _Examined:
    """A box class as a subject of laws, examined by one box of it.

    Attributes:
      subject: The box class in the form in which laws take it.
      boxes: How many boxes were made for laws.
      lacks: Features that the class does not have.
      maker: The Python expression that makes a box, with `{value}` and `{names}` in it.
    """

    def __init__(
        self,
        box_class: type,
        chosen: Implementation,
        make: Any,
        names: Any,
        params: Any,
        indices: Any,
        nests: bool | None,
    ) -> None:
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
            kind
            for kind in (chosen.meta.Partitioned, getattr(chosen.bridge, "NNXMeta", None))
            if isinstance(kind, type)
        )
        allowed = indices if indices is None or callable(indices) else lambda box: indices
        self.subject = Subject(
            box_class.__name__,
            self.make,
            self._wrapped,
            names=read,
            indices=allowed,
            holds=self._holds,
            takes=self._takes_names,
            crosses=crosses and not isinstance(box, own),
            owned=True,
            **given,
        )
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
        self._box(f"with axis {index} and params", params, lambda: box.add_axis(index, {**params}))

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
