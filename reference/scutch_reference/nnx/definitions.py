"""Definitions: the structure of a graph of objects, without the values of its leaves.

A graph is taken apart into *nodes* (everything with an identity: objects, variables, lists, dicts,
states), each described by its type, its static data and its *items*. Nodes are numbered depth
first; the leaves of one node follow each other. So two graphs are the same but for their values
exactly when their definitions are equal.
"""

from __future__ import annotations

import enum
import weakref
from collections.abc import Iterable, Iterator, Sequence
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
    """The structure of one node.

    `static` is the metadata of a variable, the marks of an object, the factory of a defaultdict.
    """

    type: type[Any]
    static: Any
    items: tuple[tuple[Any, Any], ...]


class Definition:
    """The structure of a graph: its nodes, and the items that it starts from (OBJ-1, JIT-3)."""

    def __init__(self, nodes: tuple[Node, ...], roots: tuple[Any, ...]):
        self.nodes, self.roots = nodes, roots

    def __reduce__(self) -> tuple[Any, ...]:
        return interned, (self.nodes, self.roots)

    def __repr__(self) -> str:
        names = ", ".join(node.type.__name__ for node in self.nodes[:4])
        return f"GraphDef({len(self.nodes)} nodes: {names}{', ...' * (len(self.nodes) > 4)})"

    @cached_property
    def visits(self) -> tuple[tuple[int, Path, Any, bool], ...]:
        """(root, path, item, first) for each way into a node, depth first."""
        seen: set[int] = set()

        def visit(root: int, path: Path, item: Any) -> Iterator[Any]:
            inside = item.items if isinstance(item, Tree) else ()
            if isinstance(item, Ref):
                first = item.number not in seen
                seen.add(item.number)
                yield root, path, item, first
                inside = self.nodes[item.number].items if first else ()
            for key, each in inside:
                yield from visit(root, (*path, key), each)

        return tuple(stop for i, item in enumerate(self.roots) for stop in visit(i, (), item))

    @cached_property
    def places(self) -> tuple[tuple[int, Path], ...]:
        """The root and path by which each node is reached first."""
        return tuple((root, path) for root, path, _, first in self.visits if first)

    @cached_property
    def leaves(self) -> tuple[tuple[int, Path, int | None], ...]:
        """Root, path, and node if it is the value of a variable, of each leaf in order."""
        found: list[tuple[int, Path, int | None]]
        found = [(i, path, None) for i, item in enumerate(self.roots) for path in leaf_paths(item)]
        for i, (node, (root, path)) in enumerate(zip(self.nodes, self.places, strict=True)):
            alone = is_variable(node)
            ends = [()] if alone else leaf_paths(node)
            found += [(root, path + end, i if alone else None) for end in ends]
        return tuple(found)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The number of the first leaf of each node; leaves of the roots come first."""
        first = sum(map(leaf_count, self.roots))
        return tuple(accumulate(map(leaf_count, self.nodes), initial=first))


_known: weakref.WeakValueDictionary[Any, Definition] = weakref.WeakValueDictionary()


def interned(nodes: tuple[Node, ...], roots: tuple[Any, ...]) -> Definition:
    """The one definition of this content, as long as somebody uses it."""
    return _known.setdefault((nodes, roots), Definition(nodes, roots))


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


def contents(value: Any) -> Any:
    """What holds the items of a node by their path entries: a list, or a dict."""
    return attributes_of(value) if isinstance(value, Pytree) else value


def blank(node: Node, value: Any = None) -> Any:
    """A node of this type without its items.

    A variable gets the raw `value`; or if that is a variable, its raw value and metadata.
    """
    static = node.static and node.static.value
    if issubclass(node.type, Variable):
        if isinstance(value, Variable):
            value, static = value.get_raw_value(), value._metadata
        return node.type.from_metadata(value, static)
    if issubclass(node.type, Pytree):
        made = Pytree.__new__(node.type)
        set_tags(made, static)
        return made
    return node.type() if node.static is None else node.type(static)


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


def refill(value: Any, items: Iterable[tuple[Any, Any]]) -> None:
    """Make these keys and values the content of a node, and nothing else."""
    if isinstance(value, Variable):
        return
    inside, new = contents(value), dict(items)
    if isinstance(value, Pytree):  # Its attributes stay in their order.
        new = {key: new[key] for key in inside if key in new} | new
    inside.clear()
    if isinstance(inside, list):
        inside.extend(new.values())
    else:
        inside.update(new)


def built(definition: Definition, leaves: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """New objects around these leaves, roots and all nodes; `walked` is the inverse (OBJ-1)."""
    starts = definition.starts
    nodes = [blank(n, *leaves[i : i + 1]) for n, i in zip(definition.nodes, starts, strict=False)]
    for i, (node, made) in enumerate(zip(definition.nodes, nodes, strict=True)):
        own = iter(leaves[starts[i] : starts[i + 1]])
        refill(made, [(key, filled(item, nodes, own)) for key, item in node.items])
    own = iter(leaves[: starts[0]])
    return [filled(item, nodes, own) for item in definition.roots], nodes
