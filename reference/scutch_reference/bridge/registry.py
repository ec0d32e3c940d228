"""Which variable type stands for which Linen collection: one to one, for all threads (BRG-1)."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from .. import nnx
from ..errors import RegistryError

Type: TypeAlias = type[nnx.Variable[Any]]


class _Registry:
    """The pairs of a name and a type."""

    def __init__(self, pairs: Mapping[str, Type]):
        self.lock = threading.RLock()
        self.types: dict[Any, Type] = dict(pairs)
        self.names: dict[Any, str] = {typ: name for name, typ in pairs.items()}

    def pair(self, name: str, typ: Type, overwrite: bool = False) -> None:
        """Enter a pair; what was paired with either goes, or stops it."""
        if not (isinstance(typ, type) and issubclass(typ, nnx.Variable)):
            raise RegistryError(f"{name!r} cannot name {typ!r}, which is no variable type.")
        with self.lock:
            if not overwrite and name in self.types:
                raise RegistryError(f"{name!r} cannot name {typ!r}: it names {self.types[name]!r}.")
            if not overwrite and typ in self.names:
                raise RegistryError(f"{name!r} cannot name {typ!r}: that is {self.names[typ]!r}.")
            self.names.pop(self.types.pop(name, None), None)
            self.types.pop(self.names.pop(typ, None), None)
            self.types[name], self.names[typ] = typ, name


_registry = _Registry(
    {
        "params": nnx.Param,
        "batch_stats": nnx.BatchStat,
        "cache": nnx.Cache,
        "intermediates": nnx.Intermediate,
        "perturbations": nnx.Perturbation,
    }
)


def variable_type_from_name(
    name: str, /, *, base: Type = nnx.Variable, allow_register: bool = False
) -> Type:
    """The type of a collection; `variable_type` of the documents.

    With `allow_register`, a new name gets a new type, derived from `base`; else it is an error.
    """
    with _registry.lock:
        if name not in _registry.types:
            if not allow_register:
                raise RegistryError(f"No variable type has the name {name!r}.")
            _registry.pair(name, type(name, (base,), {"__module__": __name__}))
        return _registry.types[name]


def variable_name_from_type(typ: Type, /, *, allow_register: bool = False) -> str:
    """The collection of a type; `variable_type_name` of the documents.

    With `allow_register`, a new type gets the name of its class, if that is free; else it is an
    error.
    """
    with _registry.lock:
        if typ not in _registry.names:
            if not allow_register:
                raise RegistryError(f"The variable type {typ!r} has no name.")
            _registry.pair(typ.__name__, typ)
        return _registry.names[typ]


def variable_type(name: str) -> Type:
    """The type of a collection, a new one for a new name; `variable_type_from_name` today."""
    return variable_type_from_name(name, allow_register=True)


def variable_type_name(typ: Type) -> str:
    """The collection of a type, by its class if it is new; `variable_name_from_type` today."""
    return variable_name_from_type(typ, allow_register=True)


def register_variable_name(name: str, typ: Any = None, *, overwrite: bool = False) -> Any:
    """Pair a collection and a type; `register_variable_name_type_pair` of the documents.

    Without the type it decorates a class. With `overwrite`, what either was paired with is
    forgotten; without, it is an error if there was anything.
    """
    if typ is None:
        return lambda cls: register_variable_name(name, cls, overwrite=overwrite)
    _registry.pair(name, typ, overwrite)
    return typ


def register_variable_name_type_pair(name: str, typ: Type, overwrite: bool = False) -> None:
    """Pair a collection and a type; `register_variable_name` today."""
    _registry.pair(name, typ, overwrite)


def sort_variable_types(types: Iterable[type]) -> list[type]:
    """The types, each before its bases, and otherwise in the order given (BRG-3)."""
    return sorted(types, key=lambda t: -sum(issubclass(base, nnx.Variable) for base in t.__mro__))
