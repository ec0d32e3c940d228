"""Definitions: the structure of a graph of objects, without the values of its leaves.

A graph is taken apart into *nodes* (everything with an identity: objects, variables, lists, dicts,
states), each with its type, static data and *items*. Node 0 is the list that the graph starts from,
the others are numbered depth first; leaves come in the order of their nodes. So two graphs are the
same but for their values exactly when their definitions are equal.
"""

import enum
import weakref
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

from .filters import Path
from .objects import Pytree, attributes_of, set_tags
from .variables import Variable


class Ref(NamedTuple):
    """An item that is the node of this number."""

    number: int


class _Leaf(enum.Enum):
    LEAF = "LEAF"
    __hash__ = object.__hash__  # Without a Python call.


# An item that is the next leaf value. A `Static` is an item that is this very value.
LEAF = _Leaf.LEAF


class Tree(NamedTuple):
    """An item that is a container without an identity: a tuple, a tree of JAX."""

    treedef: Any
    items: tuple[tuple[Any, Any], ...]


class Node(NamedTuple):
    """One node; `static` are a variable's metadata, an object's marks, a defaultdict's factory."""

    type: type[Any]
    static: Any
    items: tuple[tuple[Any, Any], ...]


def is_variable(node: Node) -> bool:
    """Whether a node is a variable."""
    return issubclass(node.type, Variable)


def leaf_paths(item: Any, path: Path = ()) -> list[Path]:
    """The paths of the leaves in an item or a node, without those of other nodes."""
    if isinstance(item, Tree | Node):
        return [end for key, each in item.items for end in leaf_paths(each, (*path, key))]
    return [path] if item is LEAF else []


def leaf_count(item: Any) -> int:
    """The number of leaves in an item or a node, without those of other nodes."""
    return len(leaf_paths(item))


def visits(
    nodes: Sequence[Node], item: Any, path: Path = (), seen: set[int] | None = None
) -> Iterator[tuple[Path, int, bool]]:
    """(path, node, whether it is the first) for each way from an item to a node, depth first."""
    seen = set() if seen is None else seen
    inside: tuple[tuple[Any, Any], ...] = ()
    if isinstance(item, Ref):
        first = item.number not in seen
        seen.add(item.number)
        yield path, item.number, first
        inside = nodes[item.number].items if first else ()
    elif isinstance(item, Tree):
        inside = item.items
    for key, each in inside:
        yield from visits(nodes, each, (*path, key), seen)


class Definition:
    """The structure of a graph; equal ones are the same object (OBJ-1, JIT-3).

    Paths in it begin with the place in the list that it starts from.
    """

    def __init__(self, nodes: tuple[Node, ...]):
        self.nodes = nodes

    def __reduce__(self) -> tuple[Any, ...]:
        return interned, (self.nodes,)

    def __repr__(self) -> str:
        names = ", ".join(node.type.__name__ for node in self.nodes[1:5])
        return f"GraphDef({len(self.nodes) - 1} nodes: {names}{', ...' * (len(self.nodes) > 5)})"

    @cached_property
    def visits(self) -> tuple[tuple[Path, int, bool], ...]:
        """All ways to nodes, from the start."""
        return tuple(visits(self.nodes, Ref(0)))

    @cached_property
    def places(self) -> tuple[Path, ...]:
        """The path by which each node is reached first."""
        return tuple(path for path, _, first in self.visits if first)

    @cached_property
    def leaves(self) -> tuple[tuple[Path, int | None], ...]:
        """The path of each leaf in order, and its node if it is the value of a variable."""
        found: list[tuple[Path, int | None]] = []
        for number, (node, path) in enumerate(zip(self.nodes, self.places, strict=True)):
            own = [(path, number)] if is_variable(node) else []
            found += own or [(end, None) for end in leaf_paths(node, path)]
        return tuple(found)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The number of the first leaf of each node."""
        return tuple(accumulate(map(leaf_count, self.nodes), initial=0))


_known: weakref.WeakValueDictionary[Any, Definition] = weakref.WeakValueDictionary()
_recent: deque[Definition] = deque(maxlen=16)  # What is taken apart in a loop stays known.


def interned(nodes: tuple[Node, ...]) -> Definition:
    """The one definition of this content, as long as somebody uses it."""
    _recent.append(found := _known.setdefault(nodes, Definition(nodes)))
    return found


def contents(value: Any) -> Any:
    """What holds the items of a node by their path entries: a list, or a dict."""
    return attributes_of(value) if isinstance(value, Pytree) else value


def blank(node: Node, value: Any = None) -> Any:
    """A node without its items; a variable has this raw value, or all that this variable has."""
    static = node.static
    if issubclass(node.type, Variable):
        if isinstance(value, Variable):
            value, static = value.get_raw_value(), value._static
        return node.type._unflatten(static, [value])
    if issubclass(node.type, Pytree):
        made = Pytree.__new__(node.type)
        set_tags(made, static.value)
        return made
    return node.type() if static is None else node.type(static.value)


def filled(item: Any, nodes: Sequence[Any], leaves: Iterator[Any]) -> Any:
    """The value that an item stands for."""
    if item is LEAF:
        return next(leaves)
    if isinstance(item, Ref):
        return nodes[item.number]
    if isinstance(item, Tree):
        return item.treedef.unflatten([filled(each, nodes, leaves) for _, each in item.items])
    return item.value


def put(node: Any, key: Any, value: Any) -> None:
    """Set an item of a node, as its user would."""
    contents(node)[key] = node._accepted(key, value) if isinstance(node, Pytree) else value


def take(node: Any, key: Any) -> None:
    """Delete an item of a node, as its user would."""
    if isinstance(node, Pytree):
        node._forgotten(key)
    del contents(node)[key]


def refill(
    value: Any, node: Node, nodes: Sequence[Any], leaves: Iterator[Any], same: Collection[Any] = ()
) -> None:
    """Make the items of a node the content of an object; the `same` ones stay, if static."""
    inside, new = contents(value), {}
    for key, item in node.items:
        stays = (key, item) in same and not leaf_count(item)
        new[key] = inside[key] if stays else filled(item, nodes, leaves)
    if isinstance(value, Pytree):  # Its attributes stay in their order.
        new = {key: new[key] for key in inside if key in new} | new
    inside.clear()
    if isinstance(inside, list):
        inside.extend(new.values())
    else:
        inside.update(new)


def built(definition: Definition, leaves: Sequence[Any]) -> list[Any]:
    """New nodes around these leaves, from the list of the roots on; `walked` is the inverse."""
    own, pairs = iter(leaves), zip(definition.nodes, definition.starts, strict=False)
    nodes = [blank(node, *leaves[i : i + 1]) for node, i in pairs]
    for node, made in zip(definition.nodes, nodes, strict=True):
        if isinstance(made, Variable):
            next(own)
        else:
            refill(made, node, nodes, own)
    return nodes
