"""Definitions: the structure of a graph of objects, without the values of its leaves.

A graph is taken apart into *nodes* (everything with an identity: objects, variables, lists, dicts,
states), each described by its type, its static data and its *items*. An item is one of four things:

- `Ref`: the node with this number;
- `LEAF`: the next leaf value;
- `Static`: this very value;
- `Tree`: a container without an identity (a tuple, a tree of JAX), and the items in it.

Nodes are numbered depth first; the leaves of one node follow each other. So a definition and a list
of values say it all, and two graphs are the same but for their values exactly when their
definitions are equal.
"""

from __future__ import annotations

import enum
import weakref
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

from .objects import Pytree, attributes_of, set_tags
from .states import State
from .variables import Variable

Path = tuple[Any, ...]


class Ref(NamedTuple):
    """An item that is a node."""

    number: int


class _Leaf(enum.Enum):
    LEAF = "LEAF"


LEAF = _Leaf.LEAF


class Tree(NamedTuple):
    """An item that is a container without an identity."""

    treedef: Any
    keys: tuple[Any, ...]
    items: tuple[Any, ...]


class Node(NamedTuple):
    """The structure of one node.

    `static` is the metadata of a variable, the marks of an object, the factory of a defaultdict.
    """

    type: type[Any]
    static: Hashable
    items: tuple[tuple[Any, Any], ...]


class Definition:
    """The structure of a graph: its nodes, and the items that it starts from (OBJ-1, JIT-3).

    It is hashable; equal definitions are one object while any of them is in use, see `interned`.
    """

    def __init__(self, nodes: tuple[Node, ...], roots: tuple[Any, ...]):
        self.nodes, self.roots = nodes, roots
        self._hash = hash((nodes, roots))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Definition)
            and self._hash == other._hash
            and (self.nodes, self.roots) == (other.nodes, other.roots)
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        names = ", ".join(node.type.__name__ for node in self.nodes[:4])
        return f"GraphDef({len(self.nodes)} nodes: {names}{', ...' * (len(self.nodes) > 4)})"

    @cached_property
    def _tour(self) -> tuple[tuple[int, Path, Any, bool, int], ...]:
        """Each leaf and each way into a node, depth first.

        A stop has its root and path, the item, whether this is the first way to it, and the number
        of the node that it is in, -1 for a root.
        """
        seen: set[int] = set()

        def visit(root: int, path: Path, item: Any, around: int) -> Iterator[Any]:
            first = not (isinstance(item, Ref) and item.number in seen)
            if item is LEAF or isinstance(item, Ref):
                yield root, path, item, first, around
            if isinstance(item, Tree):
                for key, each in zip(item.keys, item.items, strict=True):
                    yield from visit(root, (*path, key), each, around)
            elif isinstance(item, Ref) and first:
                seen.add(item.number)
                node = self.nodes[item.number]
                for key, each in node.items:
                    inside = path if is_variable(node) else (*path, key)
                    yield from visit(root, inside, each, item.number)

        return tuple(s for i, item in enumerate(self.roots) for s in visit(i, (), item, -1))

    @cached_property
    def visits(self) -> tuple[tuple[int, Path, Ref, bool], ...]:
        """(root, path, item, first) for each way into a node, depth first."""
        return tuple(stop[:4] for stop in self._tour if stop[2] is not LEAF)

    @cached_property
    def places(self) -> tuple[tuple[int, Path], ...]:
        """The root and path by which each node is reached first."""
        return tuple((root, path) for root, path, _, first in self.visits if first)

    @cached_property
    def leaves(self) -> tuple[tuple[int, Path, int | None], ...]:
        """Root, path, and node if it is the value of a variable, of each leaf in order."""
        found = sorted((s for s in self._tour if s[2] is LEAF), key=lambda stop: stop[4])
        owners = [i if is_variable(node) else None for i, node in enumerate(self.nodes)]
        return tuple((root, path, owners[i] if i >= 0 else None) for root, path, _, _, i in found)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The number of the first leaf of each node; leaves of the roots come first."""
        counts = (sum(leaf_count(item) for _, item in node.items) for node in self.nodes)
        return tuple(accumulate(counts, initial=sum(map(leaf_count, self.roots))))


_known: weakref.WeakValueDictionary[Definition, Definition] = weakref.WeakValueDictionary()


def interned(definition: Definition) -> Definition:
    """The one definition that stands for all equal ones, as long as somebody uses it."""
    return _known.setdefault(definition, definition)


def is_variable(node: Node) -> bool:
    """Whether a node is a variable."""
    return issubclass(node.type, Variable)


def leaf_paths(item: Any, path: Path) -> Iterator[Path]:
    """The paths of the leaves in an item, without those of other nodes."""
    if item is LEAF:
        yield path
    elif isinstance(item, Tree):
        for key, each in zip(item.keys, item.items, strict=True):
            yield from leaf_paths(each, (*path, key))


def leaf_count(item: Any) -> int:
    """The number of leaves in an item, without those of other nodes."""
    return sum(1 for _ in leaf_paths(item, ()))


def contents(value: Any) -> Any:
    """What holds the items of a node by their path entries: a list, or a dict."""
    if isinstance(value, Pytree):
        return attributes_of(value)
    return value.raw_mapping if isinstance(value, State) else value


def blank(node: Node, value: Any = None) -> Any:
    """A node of this type without its items.

    A variable gets the raw `value`; or if that is a variable, its raw value and metadata.
    """
    key: Any = node.static
    static = key and key.value
    if issubclass(node.type, Variable):
        if isinstance(value, Variable):
            value, static = value.get_raw_value(), value._metadata
        return node.type.from_metadata(value, static)
    if issubclass(node.type, Pytree):
        made = Pytree.__new__(node.type)
        set_tags(made, static)
        return made
    return node.type() if key is None else node.type(static)


def filled(item: Any, nodes: Sequence[Any], leaves: Iterator[Any]) -> Any:
    """The value that an item stands for."""
    if item is LEAF:
        return next(leaves)
    if isinstance(item, Ref):
        return nodes[item.number]
    if isinstance(item, Tree):
        return item.treedef.unflatten([filled(each, nodes, leaves) for each in item.items])
    return item.value


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
    """New objects of this structure around these leaves; `walked` is the inverse (OBJ-1).

    Returns:
      The values of the roots, and all nodes in order.
    """
    starts = definition.starts
    firsts = [leaves[i] if i < len(leaves) else None for i in starts]
    nodes = list(map(blank, definition.nodes, firsts))
    for i, (node, made) in enumerate(zip(definition.nodes, nodes, strict=True)):
        own = iter(leaves[starts[i] : starts[i + 1]])
        refill(made, [(key, filled(item, nodes, own)) for key, item in node.items])
    own = iter(leaves[: starts[0]])
    return [filled(item, nodes, own) for item in definition.roots], nodes
