"""Which variable type stands for which Linen collection: one to one, for all threads (BRG-1)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from .. import nnx
from ..errors import RegistryError

Type: TypeAlias = type[nnx.Variable[Any]]
_KNOWN: dict[str, Type] = {
    "params": nnx.Param,
    "batch_stats": nnx.BatchStat,
    "cache": nnx.Cache,
    "intermediates": nnx.Intermediate,
    "perturbations": nnx.Perturbation,
}
_lock = threading.RLock()
_pairs: dict[Any, Any] = {**_KNOWN, **{typ: name for name, typ in _KNOWN.items()}}
"""The type of each name, and the name of each type. `_lock` guards it."""


def register_variable_name(name: str, typ: Any = None, overwrite: bool = False) -> Any:
    """Pair a collection and a type; `register_variable_name_type_pair` of the documents.

    Without the type it decorates a class. With `overwrite`, what either was paired with is
    forgotten; without, it is an error if there was anything.
    """
    if typ is None:
        return lambda cls: register_variable_name(name, cls, overwrite)
    if not (isinstance(typ, type) and issubclass(typ, nnx.Variable)):
        raise RegistryError(f"{name!r} cannot name {typ!r}, which is no variable type.")
    with _lock:
        for one in filter(_pairs.__contains__, (name, typ)):
            if not overwrite:
                raise RegistryError(f"{name!r} cannot name {typ!r}: {one!r} has {_pairs[one]!r}.")
            del _pairs[_pairs.pop(one)]
        _pairs[name], _pairs[typ] = typ, name
    return typ


register_variable_name_type_pair = register_variable_name


def _partner(one: Any, pair: Callable[[], tuple[str, Type]], allow_register: bool) -> Any:
    """What a name or a type is paired with; a new one may get the pair that a function makes."""
    with _lock:
        if one not in _pairs:
            if not allow_register:
                raise RegistryError(f"{one!r} is paired with nothing, neither as name nor as type.")
            register_variable_name(*pair())
        return _pairs[one]


def variable_type_from_name(
    name: str, /, *, base: Type = nnx.Variable, allow_register: bool = False
) -> Type:
    """The type of a collection; a new name is an error, or gets a new type derived from `base`."""
    new = {"__module__": __name__}
    typ: Type = _partner(name, lambda: (name, type(name, (base,), new)), allow_register)
    return typ


def variable_name_from_type(typ: Type, /, *, allow_register: bool = False) -> str:
    """The collection of a type; a new type is an error, or gets the name of its class."""
    name: str = _partner(typ, lambda: (typ.__name__, typ), allow_register)
    return name


def variable_type(name: str) -> Type:
    """The type of a collection, a new one for a new name; `variable_type_from_name` today."""
    return variable_type_from_name(name, allow_register=True)


def variable_type_name(typ: Type) -> str:
    """The collection of a type, by its class if it is new; `variable_name_from_type` today."""
    return variable_name_from_type(typ, allow_register=True)


def sort_variable_types(types: Iterable[type]) -> list[type]:
    """The types, each before its bases, and otherwise in the order given (BRG-3)."""
    return sorted(types, key=lambda t: -sum(issubclass(base, nnx.Variable) for base in t.__mro__))
