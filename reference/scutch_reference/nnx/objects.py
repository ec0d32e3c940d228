"""Objects: nodes of a graph, which have an identity, may be shared, and may be part of a cycle.

An attribute of an object is *data* (variables, arrays, objects, and containers of them) or
*static*, which is part of the object's structure. Which one follows from the value; `data(...)` and
`static(...)` say it where the value does not.

Words: a *marker* is a result of `data` or `static`. An attribute that is assigned a marker is
*tagged* as data or static from then on; a field of a class is tagged by a marker as its default.
An object is *exposed* once somebody has taken its `__dict__`, through which it can change without
being told.

>>> class Scale(Pytree):
...     def __init__(self):
...         self.factor = data(2)  # a number, but JAX is to trace it
...         self.name = "twice"
>>> jax.tree.leaves(Scale())
[2]
"""

import dataclasses
import inspect
import reprlib
from abc import ABCMeta
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self, TypeVar, dataclass_transform

import jax
import numpy as np
from jax.tree_util import GetAttrKey, SequenceKey

from ..errors import DataError
from ..jax_versions import trace_level
from ..types import Tree
from .static import Static as StaticData, copied
from .tracking import Tracked

A = TypeVar("A")
Metadata = Mapping[Any, Any] | None
Data = Annotated[A, "Data"]
"""`attribute: nnx.Data[Type]` in the body of a class: the attribute is data."""
Static = Annotated[A, "Static"]
"""`attribute: nnx.Static[Type]` in the body of a class: the attribute is static."""
_put = object.__setattr__
_ARRAYS = (np.ndarray, jax.Array, jax.ShapeDtypeStruct)
_DATA_TYPES: list[Any] = [*_ARRAYS, Tracked]

_MARK = "scutch.data"  # The entry in the metadata of a marker: whether it is data.


def data(value: Tree = None, /, *, metadata: Metadata = None, **options: Any) -> Any:
    """Mark an attribute as data: JAX traces the numbers in it (OBJ-5).

    Args:
      value: The attribute's value, without the marker. Leave it out in the body of a dataclass.
      metadata: Metadata of the dataclass field.
      **options: Options of `dataclasses.field`.

    Returns:
      A marker to assign to an attribute, or to a field of a dataclass.
    """
    metadata = {_MARK: True, "value": value, **(metadata or {})}
    return dataclasses.field(**options, metadata=metadata)


def static(value: object = None, /, *, metadata: Metadata = None, **options: Any) -> Any:
    """Mark an attribute as static: it is part of the structure (OBJ-5).

    Args:
      value: The attribute's value, without the marker. Leave it out in the body of a dataclass.
      metadata: Metadata of the dataclass field.
      **options: Options of `dataclasses.field`.

    Returns:
      A marker to assign to an attribute, or to a field of a dataclass. A `DataError` follows if the
      attribute of an object is assigned a static value that holds arrays.
    """
    return data(value, metadata={**(metadata or {}), _MARK: False}, **options)


def _is_marker(value: object) -> bool:
    return isinstance(value, dataclasses.Field) and _MARK in value.metadata


def _annotated(cls: type) -> dict[str, bool]:
    """Whether attributes are data, where annotations of a class say it by `Data` or `Static`."""
    tags = {}
    for name, annotation in inspect.get_annotations(cls).items():
        text = getattr(annotation, "__metadata__", [annotation])[0]
        last = str(text).partition("[")[0].rpartition(".")[2]
        if last in ("Data", "Static"):
            tags[name] = last == "Data"
    return tags


def register_data_type(type_: A, /) -> A:
    """Make all values of a type data, without a marker (OBJ-5).

    Args:
      type_: A class.

    Returns:
      The class, so that this can decorate it.
    """
    _DATA_TYPES.append(type_)
    return type_


def is_data(value: object, /) -> bool:
    """Return whether a value is data by its type: an array, a variable, an object.

    Args:
      value: Anything; a container is no data itself.
    """
    return isinstance(value, tuple(_DATA_TYPES))


def has_data(value: Tree, /) -> list[Any]:
    """Return the data in a tree of plain containers; it is true if there is any.

    Args:
      value: Anything.
    """
    return [leaf for leaf in jax.tree.leaves(value, is_leaf=is_data) if is_data(leaf)]


class _Attributes(Tracked, pytree=False):
    """Gives instances a dictionary, under a name that `Pytree` covers with a property."""

    __slots__ = ("__dict__",)


# Gets the dictionary of an object without exposing it.
attributes_of: Callable[[Any], dict[Any, Any]] = _Attributes.__dict__["__dict__"].__get__


class Pytree(_Attributes, metaclass=ABCMeta):
    """The base of the classes of objects (OBJ-5).

    A subclass that is declared with `pytree=False`, `class Kind(Pytree, pytree=False)`, is no tree
    of JAX. Setting or deleting an attribute is a `TraceLevelError` inside a transformation that
    the object was made outside of.
    """

    __slots__ = ("_exposed", "_tags")
    _exposed: bool
    _tags: Mapping[Any, bool]  # Whether an attribute is data, where it is tagged.
    _class_tags: ClassVar[Mapping[Any, bool]] = {}

    def __new__(cls, *_: object, **__: object) -> Self:
        """A node without attributes, at the current trace level."""
        node = object.__new__(cls)
        node._begin(trace_level())
        _put(node, "_exposed", False)
        _put(node, "_tags", cls._class_tags)
        return node

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        marked = {n: v.metadata[_MARK] for n, v in vars(cls).items() if _is_marker(v)}
        cls._class_tags = {**cls._class_tags, **_annotated(cls), **marked}

    # Whoever takes the dictionary may write to it, now or later, and nobody would be told. So from
    # then on it is compared on every call.
    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        if not self._exposed:
            _put(self, "_exposed", True)
            self._changed()
        return attributes_of(self)

    def __setattr__(self, name: str, value: Tree) -> None:
        _put(self, name, self._accepted(name, value))

    def __delattr__(self, name: str) -> None:
        self._forget(name)
        object.__delattr__(self, name)

    def _accepted(self, key: Hashable, value: Tree) -> Tree:
        """The value without its marker, for an attribute that is about to be set."""
        self._check(f"set the attribute {key!r} of")
        if _is_marker(value):
            is_data, value = value.metadata[_MARK], value.metadata["value"]
            if not is_data and has_data(value):
                raise DataError(
                    place=f"the static attribute {type(self).__name__}.{key}",
                    given=value,
                    expected="no arrays, variables or objects, which are data: nnx.data(...)",
                )
            _put(self, "_tags", {**self._tags, key: is_data})
        elif isinstance(value, _ARRAYS) and isinstance(attributes_of(self).get(key), _ARRAYS):
            return value
        self._changed()
        return value

    def _forget(self, key: Hashable) -> None:
        """Drop the tag of an attribute that is about to be deleted."""
        self._check(f"delete the attribute {key!r} of")
        set_tags(self, {k: v for k, v in self._tags.items() if k != key})

    def __getstate__(self) -> tuple[dict[Any, Any], Mapping[Any, bool]]:
        return attributes_of(self), self._tags

    def __setstate__(self, state: tuple[dict[Any, Any], Mapping[Any, bool]]) -> None:
        attributes_of(self).update(state[0])
        set_tags(self, state[1])

    def _flatten(self) -> tuple[list[tuple[Any, Any]], StaticData]:
        found = attributes_of(self)
        data = {k: found[k] for k in sorted(found) if self._tags.get(k) or has_data(found[k])}
        entries = [SequenceKey(k) if isinstance(k, int) else GetAttrKey(k) for k in data]
        rest = {k: v for k, v in found.items() if k not in data}
        where, structure = f"an attribute of {type(self).__name__}", (tuple(data), rest, self._tags)
        kept = StaticData(copied(structure), where)
        return list(zip(entries, data.values(), strict=True)), kept

    @classmethod
    def _unflatten(cls, structure: StaticData, children: Iterable[Any]) -> Self:
        keys, rest, tags = structure.value
        node = Pytree.__new__(cls)
        node.__setstate__((rest | dict(zip(keys, children, strict=True)), tags))
        return node

    @reprlib.recursive_repr()
    def __repr__(self) -> str:
        items = ", ".join(f"{key}={value!r}" for key, value in attributes_of(self).items())
        return f"{type(self).__name__}({items})"


class Elements:
    """Length and iteration of an object whose attributes are the elements of a collection."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(attributes_of(self))

    def __iter__(self) -> Iterator[Any]:
        return iter(attributes_of(self))


class Object(Pytree, pytree=False):
    """A node of a graph that JAX does not take apart: to JAX alone it is a leaf."""

    def __init_subclass__(cls, *, pytree: bool = False, **kwargs: Any):
        super().__init_subclass__(pytree=pytree, **kwargs)


def set_tags(node: Pytree, tags: Mapping[Any, bool]) -> None:
    """Tag the attributes of a node anew, beside those that its class tags, and report a change.

    Args:
      node: The object.
      tags: Whether an attribute is data, by its name.
    """
    _put(node, "_tags", {**node._class_tags, **tags})
    node._changed()


@dataclass_transform(field_specifiers=(dataclasses.field, data, static))
def dataclass(cls: Any = None, /, **options: Any) -> Any:
    """Make a class of objects a dataclass that keeps the representation of objects (OBJ-5).

    Args:
      cls: A subclass of `Pytree`; without it, this returns a decorator.
      **options: Options of `dataclasses.dataclass`; `eq` and `repr` are False by default.
    """
    return dataclasses.dataclass(cls, **{"repr": False, "eq": False, **options})
