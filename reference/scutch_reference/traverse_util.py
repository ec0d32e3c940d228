"""Conversion of nested dictionaries to flat ones, whose keys are paths, and back.

>>> flat = flatten_dict({"dense": {"bias": 1, "kernel": 2}}, sep="/")
>>> flat
{'dense/bias': 1, 'dense/kernel': 2}
>>> unflatten_dict(flat, sep="/")
{'dense': {'bias': 1, 'kernel': 2}}
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .core import FrozenDict
from .struct import Node
from .types import Tree


class _Empty(Node):
    """A tree without leaves."""


empty_node = _Empty()
"""Stands for an empty dictionary in a flat one; a tree without leaves."""


def flatten_dict(
    xs: Tree,
    keep_empty_nodes: bool = False,
    is_leaf: Callable[[Any, Any], bool] | None = None,
    sep: str | None = None,
) -> dict[Any, Any]:
    """Return the leaves of nested dictionaries by path.

    Args:
      xs: Nested dictionaries, frozen or not.
      keep_empty_nodes: Whether an empty dictionary inside is kept, as `empty_node`.
      is_leaf: Given a path and a dictionary: whether the dictionary is a leaf.
      sep: The string that joins the keys of a path. `None`: paths are tuples of keys.

    Returns:
      A dictionary from paths to leaves.
    """

    def walk(path: tuple[Any, ...], value: Tree) -> Iterator[tuple[Any, Any]]:
        is_inner = isinstance(value, dict | FrozenDict) and not (is_leaf and is_leaf(path, value))
        if is_inner and value:
            for key in value:
                yield from walk((*path, key), value[key])
        elif not is_inner or (path and keep_empty_nodes):
            yield path if sep is None else sep.join(path), empty_node if is_inner else value

    return dict(walk((), xs))


def unflatten_dict(xs: Mapping[Any, Any], sep: str | None = None) -> dict[Any, Any]:
    """Return the nested dictionaries with leaves at paths; the inverse of `flatten_dict`.

    Args:
      xs: Leaves by path; `empty_node` stands for an empty dictionary.
      sep: The string that joins the keys of a path. `None`: paths are tuples of keys.
    """
    nested: dict[Any, Any] = {}
    for path, value in xs.items():
        *outer, last = path if sep is None else path.split(sep)
        inner = nested
        for key in outer:
            inner = inner.setdefault(key, {})
        inner[last] = {} if value is empty_node else value
    return nested


def path_aware_map(f: Callable[[Any, Any], Any], nested_dict: Tree) -> dict[Any, Any]:
    """Return nested dictionaries with `f(path, leaf)` in place of each leaf.

    Args:
      f: Gets the path of a leaf, a tuple of keys, and the leaf.
      nested_dict: Nested dictionaries, frozen or not.
    """
    flat = flatten_dict(nested_dict, keep_empty_nodes=True)
    return unflatten_dict({k: v if v is empty_node else f(k, v) for k, v in flat.items()})
