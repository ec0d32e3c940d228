"""The boxes in a tree.

A box is a pytree node, so JAX walks through it to the leaves of its value. Laws of trees of boxes
stop at the *outermost* boxes: those that lie in no other box.
"""

from collections.abc import Callable
from typing import Any

import jax


def outermost(meta: Any, tree: Any) -> tuple[list[Any], Callable[[Any], Any]]:
    """The outermost boxes of a tree and the leaves that lie in no box, in JAX's order.

    Args:
      meta: The namespace of boxes, of the implementation under judgment.
      tree: Any pytree.

    Returns:
      The boxes and leaves, and a function that rebuilds the tree around as many others.
    """
    flat: Any = jax.tree_util.tree_flatten(tree, is_leaf=meta.is_axis_metadata)
    return flat[0], flat[1].unflatten


def outermost_boxes(meta: Any, tree: Any) -> list[Any]:
    """The outermost boxes of a tree, in JAX's order.

    Args:
      meta: The namespace of boxes, of the implementation under judgment.
      tree: Any pytree.
    """
    return [leaf for leaf in outermost(meta, tree)[0] if meta.is_axis_metadata(leaf)]
