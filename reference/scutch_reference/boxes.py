"""What a box is: the abstract class, and the form that our own boxes take.

`BOX_TYPES` is the one piece of state: it holds every box class there is.
"""

from __future__ import annotations

import abc
import dataclasses
import operator
from collections.abc import Callable, Mapping
from typing import Any, Generic, NoReturn, Self, TypeVar, cast, dataclass_transform

import jax

from . import errors

A = TypeVar("A")

# Every box class. To look a type up here takes a fifth of the time of `isinstance` with an
# abstract base class, and the tree functions ask it of every node.
BOX_TYPES: set[type] = set()


class AxisMetadata(Generic[A], abc.ABC):
    """A box: one value, and metadata for its axes. Derive from it for metadata of your own.

    A subclass defines the four methods (BOX-21), and registers itself as a pytree node whose
    leaves are those of what `unbox` returns.
    """

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        BOX_TYPES.add(cls)

    @classmethod
    def register(cls, subclass: type) -> NoReturn:
        """Refuse virtual subclasses: a box class derives from this one."""
        raise TypeError(f"{subclass.__qualname__} must derive from {cls.__qualname__} to be a box")

    def _content(self) -> A:
        """The value without its constraint, for boxes that have one."""
        return self.unbox()

    def _bare(self) -> A:
        """The value where no mesh is in context: `unbox`, without looking for one."""
        return self.unbox()

    @abc.abstractmethod
    def unbox(self) -> A:
        """Return the wrapped value, one layer only (BOX-3)."""

    @abc.abstractmethod
    def replace_boxed(self, val: Any) -> AxisMetadata[Any]:
        """Return a box with the same metadata around `val` (BOX-4)."""

    @abc.abstractmethod
    def add_axis(self, index: int, params: Mapping[Any, Any]) -> Self:
        """Return the box for a value with a new axis; `remove_axis` is the inverse (BOX-5)."""

    @abc.abstractmethod
    def remove_axis(self, index: int, params: Mapping[Any, Any]) -> Self:
        """Return the box for a value without the axis; `add_axis` is the inverse (BOX-6)."""


# Gives a new box its fields at once, past the guard. The cheapest copy there is.
set_fields: Callable[[Any, dict[str, Any]], None] = vars(AxisMetadata)["__dict__"].__set__


def is_axis_metadata(val: Any) -> bool:
    """Tell boxes from everything else (BOX-1)."""
    return type(val) in BOX_TYPES


def axis_names(names: Any) -> tuple[Any, ...]:
    """Axis names as boxes keep them: a hashable tuple, or an error that shows the right form."""
    if isinstance(names, str) or not hasattr(names, "__iter__"):
        raise errors.NamesError(names)
    result = tuple(tuple(name) if isinstance(name, list) else name for name in names)
    try:
        hash(result)
    except TypeError as error:
        raise errors.NamesError(names) from error
    return result


@dataclass_transform(frozen_default=True, eq_default=False)
class Box(AxisMetadata[A]):
    """Makes a subclass a frozen dataclass and a pytree node: `value` is data, all else static."""

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(frozen=True, eq=False)(cls)
        # A subclass may well say `@dataclass(frozen=True)` too. It gets its way if it finds no
        # guard, keeps our equality if it finds one, and needs no guard: ours is inherited.
        del cls.__setattr__, cls.__delattr__
        for name in ("__eq__", "__hash__"):
            if name not in vars(cls):
                setattr(cls, name, getattr(cls, name))
        if "unbox" in vars(cls) and "_content" not in vars(cls):  # A subclass with its own content.
            cls._content = cls._bare = AxisMetadata._content  # type: ignore[method-assign]
        static = [
            f.name for f in dataclasses.fields(cast(Any, cls)) if f.init and f.name != "value"
        ]
        _register(cls, static)

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse: boxes are immutable (BOX-20)."""
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        """Refuse: boxes are immutable (BOX-20)."""
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _register(cls: type, static: list[str]) -> None:
    """Make a class a pytree node with one child, `value`.

    `jax.tree_util.register_dataclass` would be quicker, but until JAX 0.12 it takes two classes
    with equal static fields for one, and a jit cache would then give back the wrong class.
    """
    static_of = operator.attrgetter(*static)
    key = jax.tree_util.GetAttrKey("value")

    def build(fields: Any, children: Any) -> Any:
        box: Any = object.__new__(cls)
        set_fields(box, dict(zip(static, fields, strict=True), value=children[0]))
        return box

    jax.tree_util.register_pytree_with_keys(
        cls,
        lambda box: (((key, box.value),), static_of(box)),
        build,
        lambda box: ((box.value,), static_of(box)),
    )
