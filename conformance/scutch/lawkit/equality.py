"""Equality that does not trust the implementation's own.

Two values are *alike* when they have the same type, the same parts, and arrays of equal shape,
dtype and contents: fields are compared, not `__eq__`, which is itself under judgment. Two trees are
*close* when they have the same structure, and leaves that differ by no more than rounding:

    assert alike(box.replace_boxed(box.unbox()), box)
    assert_close(jitted(x), function(x), **CALLS)
"""

import dataclasses
import operator
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import jax
import numpy as np

from scutch.lawkit.tolerances import CALLS, near

_ARRAYS = (np.ndarray, np.generic, jax.Array)
_ATOMS = (str, bytes, bool, int, float, complex, type(None))


def alike(one: Any, other: Any) -> bool:
    """Whether two values are of one type and equal in every part.

    Args:
      one: An array, a scalar, a string, a container, a dataclass, a box with `names`, a key.
      other: Anything.
    """
    if one is other:
        return True
    if isinstance(one, _ARRAYS):
        return isinstance(other, _ARRAYS) and _same_array(one, other)
    kind = type(one)
    if kind is not type(other):
        return False
    if issubclass(kind, _ATOMS):
        return bool(one == other)
    if issubclass(kind, dict):
        return one.keys() == other.keys() and all(alike(one[k], other[k]) for k in one)
    if kind is list or kind is tuple:
        return len(one) == len(other) and all(map(alike, one, other))
    if dataclasses.is_dataclass(kind):
        return all(
            alike(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(kind)
        )
    if kind is FunctionType and one.__code__ is other.__code__:
        return True  # made twice by one line: what made the boxes is not compared
    if hasattr(one, "__dict__") and (hasattr(one, "replace_boxed") or _has_no_equality(kind)):
        return alike(vars(one), vars(other))
    return bool(one == other)


def _has_no_equality(kind: type) -> bool:
    """Whether a class leaves equality to `object`, for which only an object itself is equal."""
    return getattr(kind, "__eq__", None) is object.__eq__


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
    theirs = jax.tree_util.tree_leaves(expected)
    return [
        (jax.tree_util.keystr(path), one, other)
        for (path, one), other in zip(ours, theirs, strict=True)
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
        return bool(one == other)
    return near(one, other, rtol=rtol, atol=atol)
