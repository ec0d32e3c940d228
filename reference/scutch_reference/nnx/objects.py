"""Objects: Python classes whose attributes are variables, arrays, other objects and static data.

A subclass of `Pytree` is a node of a graph: it has an identity, may be shared, and may be part of a
cycle. Its attributes are *data* (variables, arrays, objects, and containers of them) or *static*.
Which one follows from the value; `data(...)` and `static(...)` say it where the value does not.
"""

from __future__ import annotations

import dataclasses
import typing
from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self, TypeVar

import jax

from ..errors import DataError
from . import filters as filterlib
from .epochs import note_change
from .statics import Static as Key
from .tracing import Tracer, check_level, current_level
from .variables import Intermediate, Perturbation, Variable

A = TypeVar("A")
_UNSET: Any = object()
_MARK = "scutch.static"
_put = object.__setattr__
_DATA_TYPES: list[type] = []

Data = Annotated[A, "__data__"]
Static = Annotated[A, "__static__"]


def _marker(value: Any, static: bool, options: dict[str, Any]) -> Any:
    if value is not _UNSET and options:
        raise DataError("A marker takes a value or keyword arguments, not both.")
    metadata = {**(options.pop("metadata", None) or {}), _MARK: static, "value": value}
    return dataclasses.field(**options, metadata=metadata)


def data(value: Any = _UNSET, /, **options: Any) -> Any:
    """Mark an attribute as data: numbers in it are traced. Without a value, a dataclass field."""
    return _marker(value, False, options)


def static(value: Any = _UNSET, /, **options: Any) -> Any:
    """Mark an attribute as static: it is part of the structure. Without a value, a field."""
    return _marker(value, True, options)


def register_data_type(type_: A, /) -> A:
    """Values of this type are data, without a marker."""
    _DATA_TYPES.append(type_)  # type: ignore[arg-type]
    return type_


def is_array(value: Any) -> bool:
    """Whether a value is an array, an abstract one included."""
    import numpy as np

    return isinstance(value, np.ndarray | jax.Array | Tracer | jax.ShapeDtypeStruct)


def is_data(value: Any, /) -> bool:
    """Whether a value is data by its type: an array, a variable, an object."""
    return is_array(value) or isinstance(value, (Pytree, Variable, *_DATA_TYPES))


def has_data(value: Any, /) -> list[Any]:
    """The data in a tree of plain containers."""
    leaves = jax.tree.leaves(value, is_leaf=is_data)
    return [leaf for leaf in leaves if is_data(leaf)]


class _Attributes:
    """Gives instances their dictionary, under a name that `Pytree` can cover."""

    __slots__ = ("__dict__",)


attributes_of: Callable[[Any], dict[str, Any]] = _Attributes.__dict__["__dict__"].__get__


class Pytree(_Attributes, metaclass=ABCMeta):
    """The base of the classes whose instances are nodes of a graph.

    Args of subclassing:
      pytree: Whether JAX may take instances apart as trees, too.
    """

    __slots__ = ("__weakref__", "_cell", "_exposed", "_level", "_plans", "_tags")
    _cell: list[int]
    _exposed: bool
    _level: Any
    _plans: dict[Any, Any] | None
    _tags: Mapping[str, bool]
    _class_tags: ClassVar[Mapping[str, bool]] = {}
    _int_keys: ClassVar[bool] = False

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """A node without attributes, at the current trace level."""
        node = object.__new__(cls)
        _put(node, "_cell", [0])
        _put(node, "_level", current_level())
        _put(node, "_plans", None)
        _put(node, "_exposed", False)
        _put(node, "_tags", cls._class_tags)
        return node

    def __init_subclass__(cls, *, pytree: bool = True, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        cls._class_tags = {**cls._class_tags, **_marked(cls)}
        if pytree:
            jax.tree_util.register_pytree_with_keys(
                cls, _with_keys, lambda aux, children: _unflattened(cls, aux, children), _children
            )

    # Whoever takes the dictionary may write to it, now or later, and nobody would be told. So from
    # then on it is compared on every call.
    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        if not self._exposed:
            _put(self, "_exposed", True)
            note_change(self._cell)
        return attributes_of(self)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; `data(...)` and `static(...)` mark it on the way.

        Raises:
          TraceLevelError: The object was made at another trace level.
          DataError: A static attribute would hold data.
        """
        check_level(self._level, f"set the attribute {name!r} of", self)
        if isinstance(value, dataclasses.Field) and _MARK in value.metadata:
            tag, value = not value.metadata[_MARK], value.metadata["value"]
            if not tag and has_data(value):
                raise DataError(
                    f"Found data in the value of the static attribute "
                    f"{type(self).__name__}.{name}, of type {type(value).__qualname__}."
                )
            _put(self, "_tags", {**self._tags, name: tag})
            note_change(self._cell)
        elif not (is_array(value) and is_array(attributes_of(self).get(name))):
            note_change(self._cell)
        _put(self, name, value)

    def __delattr__(self, name: str) -> None:
        check_level(self._level, f"delete the attribute {name!r} of", self)
        note_change(self._cell)
        object.__delattr__(self, name)
        if name in self._tags:
            set_tags(self, {k: v for k, v in self._tags.items() if k != name})

    def __getstate__(self) -> dict[str, Any]:
        return {"attributes": dict(attributes_of(self)), "tags": dict(self._tags)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        attributes_of(self).update(state["attributes"])
        _put(self, "_tags", state["tags"])

    def __reduce__(self) -> tuple[Any, ...]:
        return _blank, (type(self),), self.__getstate__()

    def __repr__(self) -> str:
        if id(self) in _under_repr:
            return f"{type(self).__name__}(...)"
        _under_repr.add(id(self))
        try:
            items = ", ".join(f"{k}={v!r}" for k, v in attributes_of(self).items())
            return f"{type(self).__name__}({items})"
        finally:
            _under_repr.discard(id(self))


_under_repr: set[int] = set()


def _blank(cls: type[Any]) -> Any:
    return Pytree.__new__(cls)


def _marked(cls: type[Any]) -> dict[str, bool]:
    """The attributes that annotations or fields of a class mark: name to whether it is data."""
    tags: dict[str, bool] = {}
    for name, note in vars(cls).get("__annotations__", {}).items():
        for mark, is_data_ in (("Data", True), ("Static", False)):
            text = note if isinstance(note, str) else ""
            extras = () if isinstance(note, str) else getattr(note, "__metadata__", ())
            if text.startswith((f"nnx.{mark}[", f"{mark}[")) or f"__{mark.lower()}__" in extras:
                tags[name] = is_data_
    for name, value in vars(cls).items():
        if isinstance(value, dataclasses.Field) and _MARK in value.metadata:
            tags[name] = not value.metadata[_MARK]
    return tags


def set_tags(node: Pytree, tags: Mapping[str, bool]) -> None:
    """Mark the attributes of a node; those that its class marks stay marked."""
    _put(node, "_tags", {**node._class_tags, **tags})


def is_tagged_data(node: Pytree, name: str) -> bool:
    """Whether an attribute was marked as data."""
    return bool(node._tags.get(name, False))


def attribute_key(node_type: type[Any], name: str) -> Any:
    """The path entry of an attribute: the index, in a list."""
    return int(name) if node_type._int_keys else name


def sorted_attributes(node: Pytree) -> list[tuple[Any, str, Any]]:
    """Path entry, name and value of each attribute, sorted by path entry."""
    cls = type(node)
    if cls._int_keys:
        found = [(int(name), name, value) for name, value in attributes_of(node).items()]
        return sorted(found, key=lambda item: item[0])
    return [(name, name, value) for name, value in sorted(attributes_of(node).items())]


def _parts(node: Pytree) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
    children, names, rest = [], [], []
    for key, name, value in sorted_attributes(node):
        if node._tags.get(name, False) or has_data(value):
            children.append((key, value))
            names.append(name)
        else:
            rest.append((name, Key(value, f"attribute {name!r} of {type(node).__name__}")))
    return children, (tuple(names), tuple(rest), Key(dict(node._tags)))


def _children(node: Pytree) -> tuple[list[Any], Any]:
    children, aux = _parts(node)
    return [value for _, value in children], aux


def _with_keys(node: Pytree) -> tuple[list[tuple[Any, Any]], Any]:
    children, aux = _parts(node)
    as_key = jax.tree_util.SequenceKey if node._int_keys else jax.tree_util.GetAttrKey
    return [(as_key(key), value) for key, value in children], aux


def _unflattened(cls: type[Any], aux: Any, children: Any) -> Any:
    names, rest, tags = aux
    node = Pytree.__new__(cls)
    attributes_of(node).update({name: static.value for name, static in rest})
    attributes_of(node).update(zip(names, children, strict=True))
    _put(node, "_tags", tags.value)
    return node


class Object(Pytree, pytree=False):
    """A node of a graph that JAX does not take apart."""

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(pytree=kwargs.pop("pytree", False), **kwargs)


@typing.dataclass_transform(field_specifiers=(dataclasses.field, data, static))
def dataclass(cls: Any = None, /, **options: Any) -> Any:
    """`dataclasses.dataclass` for objects: the representation stays that of objects."""
    options.setdefault("repr", False)
    options.setdefault("eq", False)
    return dataclasses.dataclass(cls, **options)


def check_pytree(node: Any) -> None:
    """Raise `DataError` where an attribute that is marked static holds data."""
    for name, value in attributes_of(node).items():
        if node._tags.get(name) is False and has_data(value):
            raise DataError(f"The static attribute {type(node).__name__}.{name} holds data.")


class Module(Pytree):
    """An object with the methods that models use."""

    def train(self, **attributes: Any) -> None:
        """Set `deterministic` and `use_running_average` to False, where modules have them."""
        self.set_attributes(
            deterministic=False, use_running_average=False, **attributes, raise_if_not_found=False
        )

    def eval(self, **attributes: Any) -> None:
        """Set `deterministic` and `use_running_average` to True, where modules have them."""
        self.set_attributes(
            deterministic=True, use_running_average=True, **attributes, raise_if_not_found=False
        )

    def set_attributes(
        self, *filters: Any, raise_if_not_found: bool = True, graph: Any = None, **attributes: Any
    ) -> None:
        """Set attributes on all modules that have them, and that a filter takes."""
        predicate = filterlib.to_predicate(filters or ...)
        missing = set(attributes)
        for path, module in self.iter_modules():
            for name, value in attributes.items():
                if predicate(path, module) and hasattr(module, name):
                    missing.discard(name)
                    setattr(module, name, value)
        if missing and raise_if_not_found:
            raise DataError(f"No module that {filters!r} takes has the attributes {missing!r}.")

    def iter_modules(self) -> Iterator[tuple[tuple[Any, ...], Module]]:
        """Paths and modules, this one included."""
        from .graphs import iter_graph

        return ((path, node) for path, node in iter_graph(self) if isinstance(node, Module))

    def iter_children(self) -> Iterator[tuple[Any, Module]]:
        """Names and modules directly inside."""
        for key, _, value in sorted_attributes(self):
            if isinstance(value, Module):
                yield key, value

    def sow(
        self,
        variable_type: type[Variable[Any]],
        name: str,
        value: Any,
        reduce_fn: Callable[[Any, Any], Any] = lambda old, new: (*old, new),
        init_fn: Callable[[], Any] = tuple,
    ) -> bool:
        """Keep an intermediate value in a variable under `name`."""
        old = attributes_of(self).get(name)
        if old is None:
            setattr(self, name, variable_type(reduce_fn(init_fn(), value)))
        else:
            old.set_value(reduce_fn(old.get_value(), value))
        return True

    def perturb(
        self, name: str, value: Any, variable_type: type[Variable[Any]] = Perturbation
    ) -> Any:
        """Add a variable under `name`, zero at first, whose gradient is that of `value`."""
        if name not in attributes_of(self):
            setattr(self, name, variable_type(jax.numpy.zeros_like(value)))
        return value + getattr(self, name).get_value()


__all__ = ["Data", "Intermediate", "Module", "Object", "Pytree", "data", "static"]
