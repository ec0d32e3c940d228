"""Tests by which a tape sorts values: literals, the suite's own, and values of outside code.

    is_literal(np.ones(2))     # True: `names` writes it down as it is
    is_suite(test_a_box)       # True: the tape notes the operations inside of it
    has_identity(3)            # False: another 3 is no other value

Of the suite are the rooms that are rewritten: `inputs`, `lawkit` and `laws`.
"""

import contextlib
import dataclasses
import functools
import sys
import types
from pathlib import Path
from typing import Any

import jax
import numpy as np

import scutch

_SUITE = Path(scutch.__file__).parent


def has_identity(value: Any) -> bool:
    """Whether a value is told apart from its equals: numbers, short texts and classes are not."""
    if value is None or value is Ellipsis or value == () if type(value) is tuple else False:
        return False
    kind = type(value)
    if kind in (bool, int, float, complex, type(None), type(Ellipsis), type, types.ModuleType):
        return False
    if kind is str:
        return len(value) > 30
    return not isinstance(value, type | types.ModuleType) and not (
        isinstance(value, types.FunctionType) and is_suite(value)
    )


def is_plain(value: Any) -> bool:
    """Whether a value is a literal of Python's."""
    return type(value) in (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))


def is_literal(value: Any) -> bool:
    """Whether `names` can write a value as text, without the event that made it."""
    kinds: tuple[Any, ...] = (
        np.ndarray, np.generic, np.dtype, jax.sharding.PartitionSpec, jax.sharding.Mesh,
        jax.sharding.NamedSharding, jax.ShapeDtypeStruct,
    )  # fmt: skip
    return is_plain(value) or type(value) in kinds or isinstance(value, np.generic | np.dtype)


def is_hashable(value: Any) -> bool:
    """Whether a value is a class or a function."""
    return isinstance(value, type | types.BuiltinFunctionType | types.FunctionType)


def is_suite(value: Any) -> bool:
    """Whether a function or class is written in the rewritten rooms."""
    if isinstance(value, types.FunctionType):  # a wrapper of one says that it is of its module
        file = Path(value.__code__.co_filename)
        return any(_SUITE / room in file.parents for room in ("inputs", "lawkit", "laws"))
    module = getattr(value, "__module__", None) or ""
    return str(module).startswith(("scutch.inputs", "scutch.lawkit", "scutch.laws"))


def is_outsider(kind: type) -> bool:
    """Whether a class of the suite derives from one of outside code, or is one of JAX's nodes."""
    roots = {str(base.__module__).partition(".")[0] for base in kind.__mro__}
    return bool(roots - {"scutch", "builtins", "typing", "abc", "enum"}) or (
        kind.__name__ == "Pair"
    )


def is_importable(value: Any) -> bool:
    """Whether a class or function is what its module has under its name."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    return getattr(module, getattr(value, "__qualname__", ""), None) is value


def own_class(value: Any) -> type | None:
    """The class of the suite that a class is, or that a lift of the implementation derived from."""
    kinds = value.__mro__ if isinstance(value, type) else ()
    return next((kind for kind in kinds if is_suite(kind) and is_outsider(kind)), None)


def describes(value: Any) -> bool:
    """Whether a value is a description of an input, or a tuple with one."""
    if type(value) is tuple:
        return any(map(describes, value))
    kind = type(value)
    return is_suite(kind) and dataclasses.is_dataclass(kind) and not is_outsider(kind)


def is_inlined(function: Any) -> bool:
    """Whether the tape follows a call into the suite's own text."""
    wrapped = getattr(function, "__wrapped__", None)
    if isinstance(function, type):
        return is_suite(function) and not is_outsider(function)
    if isinstance(function, types.MethodType):
        return is_suite(function.__func__)
    if isinstance(function, functools._lru_cache_wrapper):
        return is_suite(wrapped)
    if isinstance(function, types.FunctionType):
        manages = function.__code__.co_filename == contextlib.__file__
        return is_suite(function) or (manages and is_suite(wrapped))
    called = vars(type(function)).get("__call__")
    return isinstance(called, types.FunctionType) and is_suite(called)


def spread(value: Any) -> Any:
    """A list of a generator's items, so that its events are noted before the call that takes it."""
    return list(value) if isinstance(value, types.GeneratorType | map | zip | filter) else value
