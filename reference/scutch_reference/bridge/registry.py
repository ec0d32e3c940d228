"""Which variable type stands for which Linen collection: one to one, for all threads (BRG-1)."""

from __future__ import annotations

import functools
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
_pairs: dict[Any, Any] = {**_KNOWN, **{typ: name for name, typ in _KNOWN.items()}}
_lock = threading.RLock()  # of `_pairs`, which has the type of each name and the name of each type


def register_variable_name(name: str, typ: Any = None, overwrite: bool = False) -> Any:
    """Pair a collection and a type, or, without the type, decorate a class so.

    What either was paired with is forgotten with `overwrite`, and a `RegistryError` without.
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
    made = functools.partial(type, name, (base,), {"__module__": __name__})
    typ: Type = _partner(name, lambda: (name, made()), allow_register)
    return typ


def variable_name_from_type(typ: Type, /, *, allow_register: bool = False) -> str:
    """The collection of a type; a new type is an error, or gets the name of its class."""
    name: str = _partner(typ, lambda: (typ.__name__, typ), allow_register)
    return name


# The names of the documents; those above are of today. They register what is new.
variable_type = functools.partial(variable_type_from_name, allow_register=True)
variable_type_name = functools.partial(variable_name_from_type, allow_register=True)
register_variable_name_type_pair = register_variable_name


def sort_variable_types(types: Iterable[type]) -> list[type]:
    """The types, each before its bases, and otherwise in the order given (BRG-3)."""
    return sorted(types, key=lambda t: -sum(issubclass(base, nnx.Variable) for base in t.__mro__))
