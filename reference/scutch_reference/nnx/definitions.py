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

import weakref
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from .objects import Pytree, attributes_of, set_tags
from .states import State
from .statics import copied
from .variables import Variable


class Ref(NamedTuple):
    """An item that is a node."""

    number: int


class _Leaf:
    """An item that is a leaf. There is one of it."""

    def __repr__(self) -> str:
        return "LEAF"


LEAF = _Leaf()


class Tree(NamedTuple):
    """An item that is a container without an identity."""

    treedef: Hashable
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
        self.nodes = nodes
        self.roots = roots
        self._hash = hash((nodes, roots))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Definition)
            and self._hash == other._hash
            and self.nodes == other.nodes
            and self.roots == other.roots
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        names = ", ".join(node.type.__name__ for node in self.nodes[:4])
        return f"GraphDef({len(self.nodes)} nodes: {names}{', ...' * (len(self.nodes) > 4)})"

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The number of the first leaf of each node; leaves of the roots come first."""
        starts, total = [], sum(map(leaf_count, self.roots))
        for node in self.nodes:
            starts.append(total)
            total += sum(leaf_count(item) for _, item in node.items)
        return (*starts, total)

    @cached_property
    def visits(self) -> tuple[tuple[int, tuple[Any, ...], Any, bool], ...]:
        """(root, path, item, first) for each leaf and each way into a node, depth first."""
        return tuple(self._visits())

    def _visits(self) -> Iterator[tuple[int, tuple[Any, ...], Any, bool]]:
        seen: set[int] = set()

        def visit(root: int, path: tuple[Any, ...], item: Any) -> Iterator[Any]:
            if item is LEAF:
                yield root, path, item, True
            elif isinstance(item, Tree):
                for key, each in zip(item.keys, item.items, strict=True):
                    yield from visit(root, (*path, key), each)
            elif isinstance(item, Ref):
                yield root, path, item, item.number not in seen
                if item.number not in seen:
                    seen.add(item.number)
                    node = self.nodes[item.number]
                    for key, each in node.items if not is_variable(node) else ():
                        yield from visit(root, (*path, key), each)

        for root, item in enumerate(self.roots):
            yield from visit(root, (), item)

    @cached_property
    def places(self) -> tuple[tuple[int, tuple[Any, ...]], ...]:
        """The root and path by which each node is reached first."""
        found: dict[int, tuple[int, tuple[Any, ...]]] = {}
        for root, path, item, first in self.visits:
            if first and isinstance(item, Ref):
                found[item.number] = (root, path)
        return tuple(found[i] for i in range(len(self.nodes)))

    @cached_property
    def leaves(self) -> tuple[tuple[int, tuple[Any, ...], int | None], ...]:
        """Root, path, and node if it is the value of a variable, of each leaf in order."""
        found: list[Any] = []
        for root, item in enumerate(self.roots):
            found.extend((root, path, None) for path in leaf_paths(item, ()))
        for i, node in enumerate(self.nodes):
            root, path = self.places[i]
            if is_variable(node):
                found.append((root, path, i))
            else:
                for key, item in node.items:
                    found.extend((root, each, None) for each in leaf_paths(item, (*path, key)))
        return tuple(found)


_known: weakref.WeakValueDictionary[Definition, Definition] = weakref.WeakValueDictionary()


def interned(definition: Definition) -> Definition:
    """The one definition that stands for all equal ones, as long as somebody uses it."""
    return _known.setdefault(definition, definition)


def is_variable(node: Node) -> bool:
    """Whether a node is a variable."""
    return issubclass(node.type, Variable)


def leaf_count(item: Any) -> int:
    """The number of leaves in an item, without those of other nodes."""
    if item is LEAF:
        return 1
    return sum(map(leaf_count, item.items)) if isinstance(item, Tree) else 0


def leaf_paths(item: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The paths of the leaves in an item, without those of other nodes."""
    if item is LEAF:
        yield path
    elif isinstance(item, Tree):
        for key, each in zip(item.keys, item.items, strict=True):
            yield from leaf_paths(each, (*path, key))


def blank(node: Node, value: Any = None) -> Any:
    """A node of this type without its items; a variable gets its raw `value` and metadata."""
    if issubclass(node.type, Variable):
        return node.type.from_metadata(value, copied(node.static.value))  # type: ignore[attr-defined]
    if issubclass(node.type, Pytree):
        made = Pytree.__new__(node.type)
        set_tags(made, node.static.value)  # type: ignore[attr-defined]
        return made
    if node.static is not None:
        return node.type(node.static.value)  # type: ignore[attr-defined]
    return node.type()


def contents(value: Any) -> Any:
    """What holds the items of a node: a list, or a dict."""
    if isinstance(value, Pytree):
        return attributes_of(value)
    return value.raw_mapping if isinstance(value, State) else value


def filled(item: Any, nodes: Sequence[Any], leaves: Iterator[Any]) -> Any:
    """The value that an item stands for."""
    if item is LEAF:
        return next(leaves)
    if isinstance(item, Ref):
        return nodes[item.number]
    if isinstance(item, Tree):
        children = [filled(each, nodes, leaves) for each in item.items]
        return item.treedef.unflatten(children)  # type: ignore[attr-defined]
    return item.value


def refill(value: Any, items: list[tuple[Any, Any]]) -> None:
    """Make these keys and values the content of a node, and nothing else."""
    if isinstance(value, Variable):
        return
    inside = contents(value)
    if isinstance(inside, list):
        inside[:] = [each for _, each in items]
    elif isinstance(value, Pytree):
        new = {str(key): each for key, each in items}
        for name in set(inside) - set(new):
            del inside[name]
        inside.update(new)
    else:
        inside.clear()
        inside.update(items)


def built(definition: Definition, leaves: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """New objects of this structure around these leaves; `walked` is the inverse (OBJ-1).

    Args:
      definition: The structure.
      leaves: The values, as many as the structure has leaves.

    Returns:
      The values of the roots, and all nodes in order.
    """
    starts = definition.starts
    nodes = [
        blank(node, leaves[start] if is_variable(node) else None)
        for node, start in zip(definition.nodes, starts, strict=False)
    ]
    for i, (node, made) in enumerate(zip(definition.nodes, nodes, strict=True)):
        own = iter(leaves[starts[i] : starts[i + 1]])
        refill(made, [(key, filled(item, nodes, own)) for key, item in node.items])
    own = iter(leaves[: starts[0] if definition.nodes else len(leaves)])
    return [filled(item, nodes, own) for item in definition.roots], nodes
