"""Conversion of trees to nested dictionaries with strings for keys, for checkpoints, and back.

>>> from .core import freeze
>>> to_state_dict([1, freeze({"w": 2})])
{'0': 1, '1': {'w': 2}}
>>> from_state_dict([1, freeze({"w": 2})], {"0": 3, "1": {"w": 4}})
[3, FrozenDict({'w': 4})]
"""

from collections.abc import Mapping

from .errors import StateKeysError
from .nnx.node_types import one_level
from .types import Tree


def to_state_dict(target: Tree) -> Tree:
    """Return a tree as nested dictionaries; `from_state_dict` is the inverse.

    Args:
      target: A tree of dictionaries, lists, tuples, boxes, and other nodes of JAX.

    Returns:
      For a node a dictionary with strings for keys: the keys of a dictionary, the names of fields,
      and `"0"`, `"1"` in a list. A leaf is returned itself.
    """
    level = None if target is None else one_level(target)
    if level is None:
        return target
    return dict(zip(map(str, level[0]), map(to_state_dict, level[1]), strict=True))


def from_state_dict(target: Tree, state: Tree, name: str = ".") -> Tree:
    """Return a tree with the leaves of nested dictionaries; the inverse of `to_state_dict`.

    Args:
      target: A tree with the structure of the result; its leaves are not used.
      state: The nested dictionaries that `to_state_dict` returned for a tree of that structure.
      name: The name of the tree in error messages.

    Returns:
      A tree of the structure of `target`.

    Raises:
      StateKeysError: `state` lacks a key; or it has one too many, and `target` is no dictionary.
    """
    level = None if target is None else one_level(target)
    if level is None:
        return state
    keys, children, structure = [*map(str, level[0])], level[1], level[2]
    unknown = set() if isinstance(target, Mapping) else state.keys() - {*keys}
    if wrong := [*unknown, *({*keys} - state.keys())]:
        raise StateKeysError(name=name, wrong=wrong, keys=keys)
    parts = zip(children, keys, strict=True)
    return structure.unflatten(from_state_dict(part, state[key], key) for part, key in parts)
