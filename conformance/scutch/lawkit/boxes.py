"""The boxes in a tree.

A box is a pytree node, so JAX walks through it to the leaves of its value. Laws of trees of boxes
stop at the *outermost* boxes: those that lie in no other box.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax

NAMING = ("names", "called", "sharding", "sharding_names", "out_sharding")
"""Where a box or the metadata of a variable has the names of its axes."""


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


def unplaced(value: Any) -> bool:
    """Whether a box or a variable in nested containers names axes, and has no mesh of its own.

    Since Flax 0.12 a variable with names is made under a mesh only, so that a crossing may be
    refused.

    Args:
      value: A box, a variable, or nested lists, tuples and mappings of them.
    """
    if isinstance(value, Mapping):
        return any(map(unplaced, value.values()))
    if isinstance(value, list | tuple):
        return any(map(unplaced, value))
    if isinstance(value, type) or not hasattr(value, "__dict__"):
        return False
    held = value.get_metadata() if hasattr(value, "get_metadata") else vars(value)
    held = {**held, **held.get("metadata", {})} if isinstance(held.get("metadata"), dict) else held
    return any(held.get(name) for name in NAMING) and held.get("mesh") is None


def emptied(box: Any) -> Any:
    """A box with `0` in the place of each leaf: two that are alike have the same metadata."""
    return jax.tree_util.tree_map(lambda _: 0, box)


def names_of(box: Any) -> tuple[Any, ...]:
    """The attribute `names` of a box, once it is known to be plain data: see `plain_names`."""
    return plain_names(box.names)


def plain_names(names: Any) -> tuple[Any, ...]:
    """The names of a box, once they are known to be a tuple of strings, of tuples of them, of None.

    A class of the implementation's own could equal whatever it is compared with.

    Args:
      names: The value that the implementation gave for the names of the box.

    Raises:
      AssertionError: The names are no plain tuple, or a name is of another class; subclasses of
        `tuple` and `str` are other classes.
    """
    inner = [part for name in names if type(name) is tuple for part in name]
    outer = [name for name in names if type(name) is not tuple and name is not None]
    if type(names) is not tuple or any(type(part) is not str for part in (*inner, *outer)):
        raise AssertionError(
            f"the names are {names!r}; expected a plain tuple of strings, tuples of them, and None"
        )
    return names
