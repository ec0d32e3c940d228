"""Objects: Python classes whose attributes are variables, arrays, other objects and static data.

A subclass of `Pytree` is a node of a graph: it has an identity, may be shared, and may be part of a
cycle. Its attributes are *data* (variables, arrays, objects, and containers of them) or *static*.
Which one follows from the value; `data(...)` and `static(...)` say it where the value does not.
"""

from __future__ import annotations

import dataclasses
import inspect
import reprlib
import typing
from abc import ABCMeta
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Annotated, Any, ClassVar, Self, TypeVar

import jax
import numpy as np
from jax.tree_util import GetAttrKey, SequenceKey

from ..errors import DataError
from .statics import Static as Key
from .tracing import Tracer
from .variables import Tracked, Variable

A = TypeVar("A")
_UNSET: Any = object()
_put = object.__setattr__
_ARRAYS = (np.ndarray, jax.Array, Tracer, jax.ShapeDtypeStruct)
_DATA_TYPES: list[Any] = [*_ARRAYS, Variable]

Data = Annotated[A, "__data__"]
Static = Annotated[A, "__static__"]
# Whether an attribute is data, by what its annotation says, and in the metadata of a marker.
_NOTES = {"__data__": True, "Data": True, "nnx.Data": True}
_NOTES |= {"__static__": False, "Static": False, "nnx.Static": False}
_MARK = "scutch.data"


def _marker(value: Any, is_data: bool, options: dict[str, Any]) -> Any:
    if value is not _UNSET and options:
        raise DataError("A marker takes a value or keyword arguments, not both.")
    metadata = {**(options.pop("metadata", None) or {}), _MARK: is_data, "value": value}
    return dataclasses.field(**options, metadata=metadata)


def data(value: Any = _UNSET, /, **options: Any) -> Any:
    """Mark an attribute as data: numbers in it are traced. Without a value, a dataclass field."""
    return _marker(value, True, options)


def static(value: Any = _UNSET, /, **options: Any) -> Any:
    """Mark an attribute as static: it is part of the structure. Without a value, a field."""
    return _marker(value, False, options)


def _is_marker(value: Any) -> bool:
    return isinstance(value, dataclasses.Field) and _MARK in value.metadata


def register_data_type(type_: A, /) -> A:
    """Values of this type are data, without a marker."""
    _DATA_TYPES.append(type_)
    return type_


def is_data(value: Any, /) -> bool:
    """Whether a value is data by its type: an array, a variable, an object."""
    return isinstance(value, tuple(_DATA_TYPES))


def has_data(value: Any, /) -> list[Any]:
    """The data in a tree of plain containers."""
    return [leaf for leaf in jax.tree.leaves(value, is_leaf=is_data) if is_data(leaf)]


class _Attributes(Tracked, pytree=False):
    """Gives instances their dictionary, under a name that `Pytree` can cover."""

    __slots__ = ("__dict__",)


attributes_of: Callable[[Any], dict[Any, Any]] = _Attributes.__dict__["__dict__"].__get__


@register_data_type
class Pytree(_Attributes, metaclass=ABCMeta):
    """The base of the classes of objects. `class Kind(Pytree, pytree=False)` is no tree of JAX."""

    __slots__ = ("_exposed", "_tags")
    _exposed: bool
    _tags: Mapping[Any, bool]
    _class_tags: ClassVar[Mapping[Any, bool]] = {}

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """A node without attributes, at the current trace level."""
        node = object.__new__(cls)
        node._begin()
        _put(node, "_exposed", False)
        _put(node, "_tags", cls._class_tags)
        return node

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        tags = dict(cls._class_tags)
        for name, note in inspect.get_annotations(cls).items():
            text = note.partition("[")[0] if isinstance(note, str) else None
            for each in getattr(note, "__metadata__", (text,)):
                if isinstance(each, str) and each in _NOTES:
                    tags[name] = _NOTES[each]
        marked = {n: v.metadata[_MARK] for n, v in vars(cls).items() if _is_marker(v)}
        cls._class_tags = tags | marked

    # Whoever takes the dictionary may write to it, now or later, and nobody would be told. So from
    # then on it is compared on every call.
    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        if not self._exposed:
            _put(self, "_exposed", True)
            self._changed()
        return attributes_of(self)

    def __setattr__(self, name: str, value: Any) -> None:
        _put(self, name, self._accepted(name, value))

    def __delattr__(self, name: str) -> None:
        self._forgotten(name)
        object.__delattr__(self, name)

    def _accepted(self, key: Any, value: Any) -> Any:
        """The value without its marker, for an attribute that is about to be set."""
        self._check(f"set the attribute {key!r} of")
        if _is_marker(value):
            is_data, value = value.metadata[_MARK], value.metadata["value"]
            _check_mark(self, key, value, is_data)
            _put(self, "_tags", {**self._tags, key: is_data})
        elif isinstance(value, _ARRAYS) and isinstance(attributes_of(self).get(key), _ARRAYS):
            return value
        self._changed()
        return value

    def _forgotten(self, key: Any) -> None:
        """An attribute is about to be deleted."""
        self._check(f"delete the attribute {key!r} of")
        self._changed()
        set_tags(self, {k: v for k, v in self._tags.items() if k != key})

    def __getstate__(self) -> tuple[dict[Any, Any], dict[Any, bool]]:
        return dict(attributes_of(self)), dict(self._tags)

    def __setstate__(self, state: tuple[dict[Any, Any], dict[Any, bool]]) -> None:
        attributes_of(self).update(state[0])
        set_tags(self, state[1])

    def _flatten(self) -> tuple[list[tuple[Any, Any]], Any]:
        found = dict(sorted(attributes_of(self).items(), key=itemgetter(0)))
        data = {k: v for k, v in found.items() if self._tags.get(k) or has_data(v)}
        entries = [SequenceKey(k) if isinstance(k, int) else GetAttrKey(k) for k in data]
        where = f"of {type(self).__name__}"
        rest = [(k, Key(v, f"attribute {k!r} {where}")) for k, v in found.items() if k not in data]
        children = list(zip(entries, data.values(), strict=True))
        return children, (tuple(data), tuple(rest), Key(self._tags))

    @classmethod
    def _unflatten(cls, static: Any, children: Iterable[Any]) -> Self:
        keys, rest, tags = static
        node = Pytree.__new__(cls)
        attributes_of(node).update((key, each.value) for key, each in rest)
        attributes_of(node).update(zip(keys, children, strict=True))
        set_tags(node, tags.value)
        return node

    @reprlib.recursive_repr()
    def __repr__(self) -> str:
        items = ", ".join(f"{key}={value!r}" for key, value in attributes_of(self).items())
        return f"{type(self).__name__}({items})"


class Object(Pytree, pytree=False):
    """A node of a graph that JAX does not take apart."""

    def __init_subclass__(cls, *, pytree: bool = False, **kwargs: Any):
        super().__init_subclass__(pytree=pytree, **kwargs)


def set_tags(node: Pytree, tags: Mapping[Any, bool]) -> None:
    """Mark the attributes of a node; those that its class marks stay marked."""
    _put(node, "_tags", {**node._class_tags, **tags})


def _check_mark(node: Pytree, key: Any, value: Any, is_data: bool) -> None:
    if not is_data and has_data(value):
        raise DataError(
            f"Found data in the value of the static attribute {type(node).__name__}.{key}, of "
            f"type {type(value).__qualname__}. Mark it with nnx.data(...)."
        )


def check_pytree(node: Any) -> None:
    """Raise `DataError` where an attribute that is marked static holds data."""
    for key, value in attributes_of(node).items():
        _check_mark(node, key, value, node._tags.get(key, True))


@typing.dataclass_transform(field_specifiers=(dataclasses.field, data, static))
def dataclass(cls: Any = None, /, **options: Any) -> Any:
    """`dataclasses.dataclass` for objects: the representation stays that of objects."""
    return dataclasses.dataclass(cls, **{"repr": False, "eq": False, **options})
