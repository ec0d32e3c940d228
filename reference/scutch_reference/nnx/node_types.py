"""Node types: one table that says, for each kind of value in a graph, how walks treat it.

Walks flatten a graph, make a new one, change one in place, and compare one with its former content.
Each looks up the entry of a class in `TYPES` by `type_of`, and calls the functions in it. So all
that is particular to lists, say, is in one entry.

Words: a *node* is a value with an identity in a graph. Its *items* lie in its *container*, a list
or a dictionary: the attributes of an object, or the node itself. Other values are arrays, *atoms*
(static data without parts), and values without an identity: tree nodes of JAX, and static data.

>>> from scutch_reference import nnx
>>> node = nnx.Dict(b=1, a=[2])
>>> type_of(nnx.Dict) is OBJECT, children(node), children(node.a)
(True, [('a', [2]), ('b', 1)], [(0, 2)])
>>> put(node, "a", 3)
>>> take(node, "b")
>>> node
Dict(a=3)
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from operator import attrgetter, methodcaller
from typing import Any

import jax
import numpy as np

from ..jax_versions import Tracer
from ..types import Tree
from .filters import Path
from .objects import Pytree, attributes_of, set_tags
from .states import State
from .static import Static
from .variables import Variable

SCALARS = (bool, int, float, complex, np.generic)
ATOMS: list[Any] = [
    *(*SCALARS, str, bytes, type(None), type, np.dtype, Enum),
    *(jax.sharding.Sharding, jax.sharding.Mesh, jax.sharding.PartitionSpec),
]
"""Classes of static data without parts; `graphdef` adds its own."""


@dataclass(frozen=True, eq=False)
class NodeType:
    """How walks treat the values of one kind.

    Args:
      covers: Gets a class; returns whether its values are of this kind.
      is_node: Whether a value has an identity in a graph. Only then are the functions below called.
      container: Gets a node; returns the list or dictionary that holds its items.
      keys: Gets the container; returns the keys of the items in the order of the description.
      static: Gets a node; returns its static data.
      make: Gets a class, static data, and the value if it is a class of variables; returns a new
        node without items.
      restate: Gets a node and static data, which the node takes over; it reports a change.
      refill: Gets the container and a dictionary of new items, which replace the old ones.
      accepted: Gets a node, a key and a value, as a user would set it; returns the value to store.
      forget: Gets a node and the key of an item that is about to be deleted.
      reports: Gets a node; returns whether it reports all changes of its structure.
      views: Functions of C. Each gets a container of this kind and returns an iterable, and the
        container has not changed if the very same values are in all of them.
    """

    covers: Callable[[Any], bool]
    is_node: bool = True
    container: Callable[[Any], Any] = lambda node: node
    keys: Callable[[Any], Iterable[Any]] = list
    static: Callable[[Any], Any] = lambda node: None
    make: Callable[..., Any] = lambda cls, static, *value: cls()
    restate: Callable[[Any, Any], None] = lambda node, static: None
    refill: Callable[[Any, dict[Any, Any]], None] = lambda container, items: None
    accepted: Callable[[Any, Any, Any], Any] = lambda node, key, value: value
    forget: Callable[[Any, Any], None] = lambda node, key: None
    reports: Callable[[Any], bool] = lambda node: False
    views: Sequence[Callable[[Any], Iterable[Any]]] = ()


def _new_variable(cls: Any, static: Static, value: Tree) -> Any:
    """A variable with a raw value; or with the raw value and metadata of another variable."""
    if isinstance(value, Variable):
        return cls._unflatten(value._static, [value.get_raw_value()])
    return cls._unflatten(static, [value])


def _new_object(cls: Any, tags: Static, *_: Any) -> Any:
    made = Pytree.__new__(cls)
    set_tags(made, tags.value)
    return made


def _refill_list(container: list[Any], items: dict[Any, Any]) -> None:
    container[:] = items.values()


def _refill_dictionary(container: dict[Any, Any], items: dict[Any, Any]) -> None:
    container.clear()
    container.update(items)


VARIABLE = NodeType(  # Without items: its value is a leaf.
    covers=lambda cls: issubclass(cls, Variable),
    container=lambda variable: (),
    static=attrgetter("_static"),
    make=_new_variable,
    restate=Variable._set_static,
    reports=lambda variable: True,
)
OBJECT = NodeType(
    covers=lambda cls: issubclass(cls, Pytree),
    container=attributes_of,
    keys=sorted,
    static=lambda node: Static(
        {key: node._tags[key] for key in node._tags.keys() & attributes_of(node).keys()}
    ),
    make=_new_object,
    restate=lambda node, tags: set_tags(node, tags.value),
    # Old attributes keep their order, which is no part of the structure.
    refill=lambda attributes, items: _refill_dictionary(
        attributes, {key: items[key] for key in attributes if key in items} | items
    ),
    accepted=Pytree._accepted,
    forget=Pytree._forget,
    reports=lambda node: not node._exposed,
)
LIST = NodeType(
    covers=lambda cls: issubclass(cls, list),
    keys=lambda container: range(len(container)),
    refill=_refill_list,
    views=(iter,),
)
DICTIONARY = NodeType(  # The order of its keys is part of the structure.
    covers=lambda cls: cls in (dict, OrderedDict) or issubclass(cls, State),
    refill=_refill_dictionary,
    views=(iter, methodcaller("values")),
)
DEFAULTDICT = NodeType(
    covers=lambda cls: cls is defaultdict,
    static=lambda node: Static(node.default_factory),
    make=lambda cls, factory, *_: cls(factory.value),
    restate=lambda node, factory: setattr(node, "default_factory", factory.value),
    refill=DICTIONARY.refill,
    views=DICTIONARY.views,
)
SET = NodeType(covers=lambda cls: issubclass(cls, set), is_node=False, views=(iter,))
ARRAY = NodeType(
    covers=lambda cls: issubclass(cls, np.ndarray | jax.Array | Tracer | jax.ShapeDtypeStruct),
    is_node=False,
)
ATOM = NodeType(covers=lambda cls: issubclass(cls, tuple(ATOMS)), is_node=False)
OTHER = NodeType(covers=lambda cls: True, is_node=False)
TYPES = (VARIABLE, OBJECT, LIST, DICTIONARY, DEFAULTDICT, SET, ARRAY, ATOM, OTHER)
"""The first that covers a class is the type of its values."""


type_of: Callable[[Any], NodeType] = lru_cache(maxsize=2048)(
    lambda cls: next(node_type for node_type in TYPES if node_type.covers(cls))
)
"""Return the entry of `TYPES` for the values of a class."""


def is_node(value: object) -> bool:
    """Return whether a value has an identity in a graph."""
    return type_of(type(value)).is_node


def entries(path: Sequence[Any]) -> Path:
    """Return a path of JAX as the keys, indices and names that it is made of.

    An entry of a class of the user's own stands for itself.
    """
    names = ("idx", "key", "name")
    return tuple(next((getattr(e, name) for name in names if hasattr(e, name)), e) for e in path)


def one_level(value: Tree) -> tuple[Path, list[Any], Any] | None:
    """Return keys, children and structure of a tree node of JAX, or None for a leaf of JAX.

    The children are the values directly inside, in the order of JAX; a child that is a tree node
    itself is not flattened. `structure.unflatten(children)` makes the value again.
    """
    pairs, treedef = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda x: x is not value)
    if pairs and not pairs[0][0]:
        return None
    return tuple(entries(path)[0] for path, _ in pairs), [child for _, child in pairs], treedef


def children(value: Tree) -> list[tuple[Any, Any]]:
    """Return keys and values directly inside a node or a tree node of JAX; a variable has none."""
    node_type = type_of(type(value))
    if node_type.is_node:
        container = node_type.container(value)
        return [(key, container[key]) for key in node_type.keys(container)]
    keys, parts, _ = one_level(value) or ((), (), None)
    return list(zip(keys, parts, strict=True))


def put(node: Tree, key: Hashable, value: Tree) -> None:
    """Set an item of a node, as its user would; `take` deletes it.

    Args:
      node: An object, a dictionary or a list, whose item is set in place.
      key: The name of the attribute, the key, or the index; `len(node)` of a `List` appends.
      value: The new value.

    Raises:
      TraceLevelError: The object was made outside the transformation that runs.
    """
    node_type = type_of(type(node))
    node_type.container(node)[key] = node_type.accepted(node, key, value)


def take(node: Tree, key: Hashable) -> None:
    """Delete an item of a node, as its user would; inverse of `put`.

    Args:
      node: An object, a dictionary or a list, whose item is deleted in place.
      key: The name of the attribute, the key, or the index; the node has it.

    Raises:
      TraceLevelError: The object was made outside the transformation that runs.
    """
    node_type = type_of(type(node))
    node_type.forget(node, key)
    del node_type.container(node)[key]
