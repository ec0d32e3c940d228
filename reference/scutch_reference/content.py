"""What values hold: equality of content, and where two structures differ."""

from typing import Any

import jax
import numpy as np
from jax.tree_util import keystr, tree_flatten, tree_flatten_with_path

from .placement import ARRAYS


def kind(leaf: Any) -> Any:
    """What a leaf is, its numbers aside: equal leaves are of equal kind."""
    return (leaf.shape, leaf.dtype) if isinstance(leaf, ARRAYS) else type(leaf)


def equal(left: Any, right: Any) -> bool:
    """Whether two values have the same content: structure, kinds, and numbers (NaN included)."""
    ours: tuple[list[Any], Any] = tree_flatten(left)
    theirs: tuple[list[Any], Any] = tree_flatten(right)
    return bool(ours[1] == theirs[1]) and all(map(_equal_leaves, ours[0], theirs[0]))


def _equal_leaves(left: Any, right: Any) -> bool:
    if left is right:
        return True
    tracer = jax.core.Tracer
    if isinstance(left, tracer) or isinstance(right, tracer) or kind(left) != kind(right):
        return False
    if isinstance(left, ARRAYS):
        left, right = _numbers(left), _numbers(right)
    return bool(np.all((left == right) | ((left != left) & (right != right))))


def _numbers(array: Any) -> np.ndarray[Any, Any]:
    if jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    return np.asarray(array)


def _level(node: Any) -> tuple[dict[str, Any], Any]:
    """The children of a node by key, and what kind of node it is."""
    children, structure = tree_flatten_with_path(node, is_leaf=lambda x: x is not node)
    return {keystr(path): child for path, child in children}, structure


def difference(ours: Any, theirs: Any, path: str = "") -> tuple[str, str, str] | None:
    """The first place where two structures differ, and what is there in either."""
    (children, structure), (others, other_structure) = _level(ours), _level(theirs)
    if type(ours) is type(theirs):
        for key in [*children, *others]:
            if (key in children) != (key in others):
                here, there = (
                    _summary(side[key]) if key in side else "nothing" for side in (children, others)
                )
                return path + key, here, there
    if structure != other_structure:
        return path or "the root", _summary(ours), _summary(theirs)
    found = (difference(child, others[key], path + key) for key, child in children.items() if key)
    return next(filter(None, found), None)


def _summary(node: Any) -> str:
    """A node in a few words."""
    if isinstance(node, ARRAYS):
        return f"an array {node.dtype}{list(node.shape)}"
    children, _ = _level(node)
    if node is None or "" in children:
        return f"a leaf {type(node).__qualname__}" if node is not None else "None"
    return f"a {type(node).__qualname__} with {', '.join(children) or 'nothing in it'}"
