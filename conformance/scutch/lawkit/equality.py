"""Equality that does not trust the implementation's own.

Two values are *alike* when they have the same type, the same parts, and arrays of equal shape,
dtype and contents: fields are compared, not `__eq__`, which is itself under judgment. Two trees are
*close* when they have the same structure, and leaves that differ by no more than rounding:

    assert alike(box.replace_boxed(box.unbox()), box)
    assert_close(jitted(x), function(x), **CALLS)

Where a requirement is about the `==` of an implementation's class, `says_equal` asks it, and takes
no answer but `True` and `False`.
"""

import dataclasses
import operator
import sys
from collections.abc import Iterable, Sequence
from types import FunctionType
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from scutch.lawkit.tolerances import CALLS, near

_SEQUENCES = (list, tuple)
_SETS: tuple[Any, ...] = (set, frozenset)
_ATOMS: tuple[Any, ...] = (bool, int, float, complex, str, bytes, type(None))
_TRUSTED = ("builtins", "inspect", "jax", "jaxlib", "numpy", "ml_dtypes")
"""The packages whose own `==` is trusted."""


def alike(one: Any, other: Any) -> bool:
    """Whether two values are of one type and equal in every part.

    No method of a class that an implementation may have written takes part: a subclass of `tuple`,
    `str` or `dict` is compared by its elements, whatever its `==`, length or iterator says.

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
            both_nan = base.__ne__(one, one) is True and base.__ne__(other, other) is True
            same = both_nan or base.__eq__(one, other) is True
            return same and _same_attributes(one, other)
    if issubclass(kind, dict):
        return _same_items(one, other) and _same_attributes(one, other)
    for container in _SEQUENCES:
        if issubclass(kind, container):
            mine, yours = [*container.__iter__(one)], [*container.__iter__(other)]
            same = len(mine) == len(yours) and all(map(alike, mine, yours))
            return same and _same_attributes(one, other)
    for base in _SETS:
        if issubclass(kind, base):
            same = alike_in_any_order(base.__iter__(one), base.__iter__(other))
            return same and _same_attributes(one, other)
    if isinstance(one, type):
        return False  # a class is itself, and no other
    if issubclass(kind, np.dtype):
        return bool(one == other)
    if dataclasses.is_dataclass(kind):
        return _same_fields(kind, one, other) and (not _is_box(kind) or _same_box(one, other))
    if kind is FunctionType and one.__code__ is other.__code__:
        return True  # made twice by one line; the values in their closures are not compared
    if _is_trusted(kind):
        return bool(one == other) and alike(_contents(one), _contents(other))
    if _is_box(kind):  # it may keep all it has outside of itself, as in a table of its class
        return _same_attributes(one, other) and _same_box(one, other)
    return _same_attributes(one, other) and object.__getstate__(one) is not None


def alike_in_any_order(one: Iterable[Any], other: Iterable[Any]) -> bool:
    """Whether two collections have elements that are alike, each as often, in whichever order.

    Args:
      one: The collection that the implementation gave, such as the keys of a mapping; it is
        iterated over once.
      other: The collection that it should have given.
    """
    left = [*other]
    for each in one:
        place = next((n for n, its in enumerate(left) if alike(each, its)), None)
        if place is None:
            return False
        del left[place]
    return not left


def holds(collection: Iterable[Any], value: Any) -> bool:
    """Whether an element of a collection, or a key of a mapping, is alike to a value.

    Args:
      collection: The collection or mapping; it is iterated over, and its `in` is not asked.
      value: The element or key to look for.

    Raises:
      TypeError: The collection is a string, where `in` would look for a substring; see
        `plain_text`.
    """
    if isinstance(collection, str):
        raise TypeError(f"holds({collection!r}, {value!r}): write `part in plain_text(text)`")
    return any(alike(each, value) for each in collection)


def plain_text(value: Any) -> str:
    """The text of a value, such as an error, as a plain `str` and no subclass of it."""
    return "".join(str.__iter__(str(value)))


def says_equal(one: Any, other: Any) -> bool:
    """Whether `one == other` is `True`, for laws about the `==` of an implementation's class.

    Wrong, in a law, because whatever is true would do:

        assert nnx.graphdef(one) == nnx.graphdef(other)

    Right:

        assert says_equal(nnx.graphdef(one), nnx.graphdef(other))

    Args:
      one: The object whose class is asked first.
      other: The object on the right of the operator.

    Raises:
      AssertionError: The answer is neither `True` nor `False`.
    """
    return _said(one == other, "==")


def says_unequal(one: Any, other: Any) -> bool:
    """Whether `one != other` is `True`, for laws about an implementation's `!=`; see `says_equal`.

    Args:
      one: The object whose class is asked first.
      other: The object on the right of the operator.

    Raises:
      AssertionError: The answer is neither `True` nor `False`.
    """
    return _said(one != other, "!=")


def _said(answer: Any, operator: str) -> bool:
    """An answer that is `True` or `False`, and no object that passes for one."""
    if type(answer) is not bool:
        raise AssertionError(f"{operator} gave {answer!r}, a {type(answer).__name__}, not a bool")
    return answer


def _contents(value: Any) -> Any:
    """The parts of a JAX object whose `==` an implementation may have written.

    Args:
      value: An object of a trusted class.

    Returns:
      The entries of a spec, the names of the axes of a mesh, both for a sharding; the keys of the
      dictionaries of a tree's structure. `None` for all else.
    """
    match value:
        case PartitionSpec():
            return [_entry(each) for each in value]
        case Mesh():
            return value.axis_names
        case NamedSharding():
            return value.mesh, value.spec
        case jax.tree_util.PyTreeDef():
            node: Any = value.node_data()
            if node is None:
                return None
            keys = [*node[1]] if node[0] is dict else None
            return keys, [_contents(each) for each in value.children()]
    return None


def _entry(entry: Any) -> Any:
    """An entry of a spec as JAX compares it: of one axis as that axis, of no axis as `None`."""
    if type(entry) is not tuple or len(entry) > 1:
        return entry
    return entry[0] if entry else None


def _is_array(kind: type) -> bool:
    """Whether a class is an array's: of NumPy or of JAX, tracers and JAX's constants included."""
    arrays = (np.ndarray, np.generic, jax.Array, jax.core.Tracer)
    return issubclass(kind, arrays) and _is_trusted(kind)


def _is_trusted(kind: type) -> bool:
    """Whether a class can be imported from a package in `_TRUSTED` under its own name."""
    found: Any = sys.modules.get(str(kind.__module__))
    for name in str(kind.__qualname__).split("."):
        found = getattr(found, name, None)
    return found is kind and str(kind.__module__).partition(".")[0] in _TRUSTED


def _same_attributes(one: Any, other: Any) -> bool:
    """Whether two values of one class are alike in the attributes and slots that they hold."""
    return alike(object.__getstate__(one), object.__getstate__(other))


def _same_fields(kind: Any, one: Any, other: Any) -> bool:
    """Whether two objects of a dataclass are alike in its fields."""
    return all(
        alike(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(kind)
    )


def _is_box(kind: type) -> bool:
    """Whether objects of a class are boxes, by the methods that document `000_` asks for."""
    return all(hasattr(kind, method) for method in ("unbox", "replace_boxed", "add_axis"))


def _same_box(one: Any, other: Any) -> bool:
    """Whether two boxes of one class have alike names, meshes and leaves, as a user reads them.

    A class that does not list its mesh among its fields, or keeps it in a table, has one all the
    same.
    """
    missing = object()

    def read(box: Any) -> tuple[Any, ...]:
        is_leaf = jax.tree_util.all_leaves([box])  # then its only leaf is itself
        leaves = None if is_leaf else jax.tree.leaves(box)
        return getattr(box, "names", missing), getattr(box, "mesh", missing), leaves

    return alike(read(one), read(other))


def _same_items(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    """Whether two dictionaries have keys that are alike, with values that are."""
    left = [*dict.items(other)]
    for key, value in dict.items(one):
        place = next((n for n, (k, _) in enumerate(left) if alike(key, k)), None)
        if place is None or not alike(value, left.pop(place)[1]):
            return False
    return not left


def _same_array(one: Any, other: Any) -> bool:
    """Whether two arrays have one shape, one dtype and equal contents; keys by their data.

    NaN equals NaN, as a copy of an array must be alike to the array.
    """
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if jax.numpy.issubdtype(one.dtype, jax.dtypes.prng_key):
        one, other = jax.random.key_data(one), jax.random.key_data(other)
    mine, yours = np.asarray(one), np.asarray(other)
    return bool(((mine == yours) | ((mine != mine) & (yours != yours))).all())


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
      For each leaf its path, as `['params']['kernel']`, and the leaves at this path in the two
      trees.

    Raises:
      AssertionError: The structures differ.
    """
    structures: list[Any] = [jax.tree_util.tree_structure(tree) for tree in (found, expected)]
    if not alike(*structures):
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
      expected: The tree that it is compared with.
      rtol: How far two numbers may be apart, as a part of the expected one.
      atol: How far beside that; both as `tolerances.near` takes them.

    Returns:
      `True` if the trees are close, else `False`. Shapes must be equal; dtypes may differ.
    """
    ours: Any = jax.tree_util.tree_flatten(found)
    theirs: Any = jax.tree_util.tree_flatten(expected)
    return alike(ours[1], theirs[1]) and all(
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
