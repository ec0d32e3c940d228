"""Equality that does not trust the implementation's own.

Two values are *alike* when they have the same type, the same parts, and arrays of equal shape,
dtype and contents: fields are compared, not `__eq__`, which is itself under judgment. Two trees are
*close* when they have the same structure, and leaves that differ by no more than rounding:

    assert alike(box.replace_boxed(box.unbox()), box)
    assert_close(jitted(x), function(x), **CALLS)
"""

import dataclasses
import operator
import sys
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import jax
import numpy as np

from scutch.lawkit.tolerances import CALLS, near

_SEQUENCES = (list, tuple)
_ATOMS: tuple[Any, ...] = (bool, int, float, complex, str, bytes, type(None))
_TRUSTED = ("builtins", "jax", "jaxlib", "numpy", "ml_dtypes")
"""The packages whose classes say themselves what is equal."""


def alike(one: Any, other: Any) -> bool:
    """Whether two values are of one type and equal in every part.

    No method of a class that an implementation may have written decides it: a subclass of `tuple`,
    `str` or `dict` is compared by what it holds, whatever its `==`, length or iterator says.

    Args:
      one: An array, a scalar, a string, a container, a dataclass, a box with `names`, a key.
      other: Anything.
    """
    if one is other:
        return True
    kind = type(one)
    if _is_array(kind):
        return _is_array(type(other)) and _same_array(one, other)
    if kind is not type(other):
        return False
    for base in _ATOMS:
        if issubclass(kind, base):
            return base.__eq__(one, other) is True and _same_attributes(one, other)
    if issubclass(kind, dict):
        return _same_items(one, other) and _same_attributes(one, other)
    for container in _SEQUENCES:
        if issubclass(kind, container):
            mine, yours = [*container.__iter__(one)], [*container.__iter__(other)]
            same = len(mine) == len(yours) and all(map(alike, mine, yours))
            return same and _same_attributes(one, other)
    if dataclasses.is_dataclass(kind):
        return all(
            alike(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(kind)
        )
    if kind is FunctionType and one.__code__ is other.__code__:
        return True  # made twice by one line: what made the boxes is not compared
    if _is_trusted(kind):
        return bool(one == other)
    return _same_attributes(one, other) and object.__getstate__(one) is not None


def _is_array(kind: type) -> bool:
    """Whether a class is an array's: of NumPy or of JAX, tracers and JAX's constants included."""
    arrays = (np.ndarray, np.generic, jax.Array, jax.core.Tracer)
    return issubclass(kind, arrays) and _is_trusted(kind)


def _is_trusted(kind: type) -> bool:
    """Whether a class is one of the packages in `_TRUSTED`, and does not only say so."""
    found: Any = sys.modules.get(str(kind.__module__))
    for name in str(kind.__qualname__).split("."):
        found = getattr(found, name, None)
    return found is kind and str(kind.__module__).partition(".")[0] in _TRUSTED


def _same_attributes(one: Any, other: Any) -> bool:
    """Whether two values of one class are alike in the attributes and slots that they hold."""
    return alike(object.__getstate__(one), object.__getstate__(other))


def _same_items(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    """Whether two dictionaries have keys that are alike, with values that are."""
    left = [*dict.items(other)]
    for key, value in dict.items(one):
        place = next((n for n, (k, _) in enumerate(left) if alike(key, k)), None)
        if place is None or not alike(value, left.pop(place)[1]):
            return False
    return not left


def _same_array(one: Any, other: Any) -> bool:
    """Whether two arrays have one shape, one dtype and equal contents; keys by their data."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if jax.numpy.issubdtype(one.dtype, jax.dtypes.prng_key):
        one, other = jax.random.key_data(one), jax.random.key_data(other)
    return np.array_equal(np.asarray(one), np.asarray(other))


def assert_same_objects(found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Fail unless two sequences hold the same objects, by `is`, in the same order.

    Args:
      found: The objects that the implementation gave.
      expected: The objects that it should have given.

    Raises:
      AssertionError: They are more, fewer or others.
    """
    if len(found) != len(expected) or any(map(operator.is_not, found, expected)):
        raise AssertionError(f"{found!r} are not the objects {expected!r}")


def leaf_pairs(found: Any, expected: Any) -> list[tuple[str, Any, Any]]:
    """Each leaf of a tree with the leaf in the same place of another tree.

    Args:
      found: The tree that the implementation gave.
      expected: A tree that must have the same structure.

    Returns:
      For each leaf its path, as `['params']['kernel']`, and what is there in the two trees.

    Raises:
      AssertionError: The structures differ.
    """
    structures: list[Any] = [jax.tree_util.tree_structure(tree) for tree in (found, expected)]
    if structures[0] != structures[1]:
        raise AssertionError(f"it has the structure {structures[0]}, expected {structures[1]}")
    ours, _ = jax.tree_util.tree_flatten_with_path(found)
    theirs, _ = jax.tree_util.tree_flatten_with_path(expected)
    paths = [[jax.tree_util.keystr(path) for path, _ in each] for each in (ours, theirs)]
    if not alike(*paths):  # a node's own `==` may call two structures equal
        raise AssertionError(f"it has leaves at {paths[0]}, expected {paths[1]}")
    return [
        (path, one, other)
        for path, (_, one), (_, other) in zip(paths[0], ours, theirs, strict=True)
    ]


def close(
    found: Any, expected: Any, *, rtol: float = CALLS["rtol"], atol: float = CALLS["atol"]
) -> bool:
    """Whether two trees have one structure, and leaves that differ by no more than rounding.

    Args:
      found: A tree of arrays, scalars and strings; strings must be equal.
      expected: Another.
      rtol: How far two numbers may be apart, as a part of the expected one.
      atol: How far beside that; both as `tolerances.near` takes them.

    Returns:
      `True` if so, else `False`. Shapes must be equal; dtypes may differ.
    """
    ours: Any = jax.tree_util.tree_flatten(found)
    theirs: Any = jax.tree_util.tree_flatten(expected)
    return bool(ours[1] == theirs[1]) and all(
        _close_leaves(one, other, rtol, atol) for one, other in zip(ours[0], theirs[0], strict=True)
    )


def assert_close(
    found: Any,
    expected: Any,
    what: str = "it",
    *,
    rtol: float = CALLS["rtol"],
    atol: float = CALLS["atol"],
) -> None:
    """Fail unless two trees are `close`; the message shows the first leaf that is not.

    Args:
      found: The tree that the implementation gave.
      expected: The tree that it should have given.
      what: The name of the result, for the message.
      rtol: As in `close`.
      atol: As in `close`.

    Raises:
      AssertionError: The trees differ.
    """
    for path, one, other in leaf_pairs(found, expected):
        if not _close_leaves(one, other, rtol, atol):
            raise AssertionError(f"{what}{path} is {one!r}, expected {other!r}")


def _close_leaves(one: Any, other: Any, rtol: float, atol: float) -> bool:
    """Whether two strings are equal, or two arrays have one shape and close contents."""
    if isinstance(one, str):
        return alike(one, other)
    return near(one, other, rtol=rtol, atol=atol)
