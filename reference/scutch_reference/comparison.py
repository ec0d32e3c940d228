"""Equality of content, and the place where two structures differ.

NumPy's `==` on arrays gives an array, and NaN differs from itself, so that two boxes of equal
arrays cannot be compared by `==` on their fields. Here two values are *equal* if they are trees of
the same structure whose leaves are equal: arrays of the same shape, dtype and numbers (NaN equals
NaN), or other leaves of the same type that `==` says are equal. The *kind* of a leaf leaves its
numbers out: it is the shape and dtype of an array, or the type of any other leaf. A kind can be
hashed, and a tracer, which has no numbers yet, has one too.

>>> import numpy as np
>>> equal({"w": np.array([1.0, np.nan])}, {"w": np.array([1.0, np.nan])})
True
>>> difference({"w": [1, 2]}, {"w": [1]})
("['w'][1]", 'a leaf int', 'nothing')
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.tree_util import all_leaves, keystr, tree_flatten, tree_flatten_with_path

from .jax_versions import Tracer
from .placement import ARRAYS
from .types import Leaf, Tree


def kind(leaf: Leaf) -> Any:
    """Return the shape and dtype of an array, or the type of any other leaf (BOX-20e).

    Equal leaves have equal kinds, so that kinds can be hashed in the place of leaves.

    Args:
      leaf: An array or tracer of any shape and dtype, or any other object.

    Returns:
      A pair of shape and dtype for an array or tracer, a type for anything else.
    """
    return (leaf.shape, leaf.dtype) if isinstance(leaf, ARRAYS) else type(leaf)


def hashable(value: Any) -> Any:
    """Replace the mappings, lists, tuples and sets in a value by hashable containers (LIN-9h).

    Args:
      value: Any value. Containers inside of mappings, lists and tuples are replaced as well.

    Returns:
      A `frozenset` for a mapping (of its items) or a set, a tuple for a list or tuple, and any
      other value itself, hashable or not. Equal values give equal results.
    """
    match value:
        case Mapping():
            return frozenset((key, hashable(each)) for key, each in value.items())
        case list() | tuple():
            return tuple(map(hashable, value))
        case set():
            return frozenset(value)
    return value


def equal(left: Tree, right: Tree) -> bool:
    """Tell whether two trees have the same structure and equal leaves (BOX-20d).

    Args:
      left, right: Trees of anything. Two keys of `jax.random` are equal if their data is.

    Returns:
      `True` or `False`, never an array. A tracer has no numbers yet: it equals itself only.
    """
    flattened: list[Any] = [tree_flatten(side) for side in (left, right)]
    (leaves, structure), (other_leaves, other_structure) = flattened
    return bool(structure == other_structure) and all(map(_equal_leaves, leaves, other_leaves))


def _equal_leaves(left: Tree, right: Tree) -> bool:
    if left is right:
        return True
    if isinstance(left, Tracer) or isinstance(right, Tracer) or kind(left) != kind(right):
        return False
    if isinstance(left, ARRAYS):
        keys = jax.numpy.issubdtype(left.dtype, jax.dtypes.prng_key)
        read: Any = jax.random.key_data if keys else np.asarray
        left, right = np.asarray(read(left)), np.asarray(read(right))
    both_nan = (left != left) & (right != right)
    return bool(np.all((left == right) | both_nan))


def difference(ours: Tree, theirs: Tree, path: str = "") -> tuple[str, str, str] | None:
    """Find the first place at which two trees are structured differently (BOX-15d).

    Args:
      ours, theirs: Trees of anything.
      path: The key path of both in the trees that the caller compares.

    Returns:
      The key path of the first difference, as `jax.tree_util.keystr` writes it; then descriptions
      of the subtrees of `ours` and of `theirs` at that path. `None` if the structures agree. Leaves
      are not compared.
    """
    (children, structure), (others, other_structure) = _level(ours), _level(theirs)
    if structure == other_structure:
        below = (difference(child, others[k], path + k) for k, child in children.items() if k)
        return next(filter(None, below), None)
    # Containers of one type differ in their keys. Of two types, the whole containers differ.
    keys = [*children, *others] if type(ours) is type(theirs) else []
    at = next((key for key in keys if (key in children) != (key in others)), "")
    sides = {**children, "": ours}, {**others, "": theirs}
    here, there = (_summary(side[at]) if at in side else "nothing" for side in sides)
    return path + at or "the root", here, there


def _level(node: Tree) -> tuple[dict[str, Any], Any]:
    """The children of a node by key, and the structure of this one level; a leaf has key ''."""
    children, structure = tree_flatten_with_path(node, is_leaf=lambda x: x is not node)
    return {keystr(path): child for path, child in children}, structure


def _summary(node: Tree) -> str:
    """The description of a subtree in an error message."""
    if isinstance(node, ARRAYS):
        return f"an array {node.dtype}{list(node.shape)}"
    if node is None or all_leaves([node]):
        return f"a leaf {type(node).__qualname__}" if node is not None else "None"
    return f"a {type(node).__qualname__} with {', '.join(_level(node)[0]) or 'nothing in it'}"
