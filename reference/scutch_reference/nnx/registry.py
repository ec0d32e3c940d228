"""The registry of variable types, each paired with the name of a collection of Linen (BRG-1).

>>> variable_type_from_name("batch_stats").__name__
'BatchStat'
>>> @register_variable_name("codes")
... class Code(Variable):
...     pass
>>> variable_name_from_type(Code)
'codes'
>>> forget_pair(Code)
"""

import threading
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, overload

from ..errors import RegisteredError, RegistryError
from .variables import BatchStat, Cache, Intermediate, Param, Perturbation, Variable

C = TypeVar("C", bound=type)
Type: TypeAlias = type[Variable[Any]]
_KNOWN: dict[str, Type] = {
    "params": Param,
    "batch_stats": BatchStat,
    "cache": Cache,
    "intermediates": Intermediate,
    "perturbations": Perturbation,
}
# The registry, which all threads share: the type of each name, and the name of each type (BRG-2).
_registry: dict[Any, Any] = {**_KNOWN, **{typ: name for name, typ in _KNOWN.items()}}
_registry_lock = threading.RLock()


def forget_pair(name_or_type: str | Type) -> None:
    """Take the pair of a name and a type out of the registry, in both directions (BRG-1d).

    Args:
      name_or_type: Either of the pair.

    Raises:
      KeyError: The registry does not have it.
    """
    with _registry_lock:
        del _registry[_registry.pop(name_or_type)]


@overload
def register_variable_name(name: str, typ: C, overwrite: bool = False) -> C:
    """With a type: the type."""


@overload
def register_variable_name(
    name: str, typ: None = None, overwrite: bool = False
) -> Callable[[C], C]:
    """Without one: a decorator of types."""


def register_variable_name(name: str, typ: Any = None, overwrite: bool = False) -> Any:
    """Pair the name of a collection with a variable type (BRG-1).

    Args:
      name: The collection.
      typ: A subclass of `nnx.Variable`. Without it, a decorator for such a class is returned.
      overwrite: Whether to forget the pairs that either is in.

    Returns:
      The type.

    Raises:
      RegistryError: `typ` is no variable type.
      RegisteredError: Without `overwrite`, either is paired already (BRG-1c); then nothing changes.
    """
    if typ is None:
        return lambda cls: register_variable_name(name, cls, overwrite)
    if not (isinstance(typ, type) and issubclass(typ, Variable)):
        raise RegistryError(place=f"the type for {name!r}", given=typ, expected="a variable type")
    with _registry_lock:
        parties: list[Any] = [name, typ]
        for known in filter(_registry.__contains__, parties):
            if not overwrite:
                raise RegisteredError(name=name, typ=typ, known=known, held=_registry[known])
            forget_pair(known)
        _registry[name] = typ
        _registry[typ] = name
    return typ


def variable_type_from_name(
    name: str, /, *, base: Type = Variable, allow_register: bool = False
) -> Type:
    """Return the variable type of a collection (BRG-1).

    Args:
      name: The collection.
      base: The base class of a new type.
      allow_register: Whether a name that is not registered gets a new type.

    Returns:
      The subclass of `nnx.Variable` that is paired with the name. With `allow_register`, a name
      that is not registered is first paired with a new, empty subclass of `base`, which has the
      same name.

    Raises:
      RegistryError: The name is not registered and must not be.
    """
    if known := _registry.get(name):  # One step, which needs no lock.
        return known  # type: ignore[no-any-return]
    with _registry_lock:
        if not (allow_register or name in _registry):
            raise RegistryError(
                place="the name of a variable type", given=name, expected="a name with a type"
            )
        return _registry.get(name) or register_variable_name(
            name, type(name, (base,), {"__module__": __name__})
        )


def variable_name_from_type(typ: Type, /, *, allow_register: bool = False) -> str:
    """Return the collection of a variable type (BRG-1).

    Args:
      typ: A subclass of `nnx.Variable`.
      allow_register: Whether a type that is not registered gets the name of its class.

    Raises:
      RegistryError: The type is not registered and must not be, or its class name is taken.
    """
    if known := _registry.get(typ):  # One step, which needs no lock.
        return known  # type: ignore[no-any-return]
    with _registry_lock:
        if typ not in _registry:
            if not allow_register:
                raise RegistryError(
                    place="a variable type", given=typ, expected="a type with a name"
                )
            register_variable_name(typ.__name__, typ)
        return _registry[typ]  # type: ignore[no-any-return]
