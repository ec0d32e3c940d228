"""Graph definitions: the structure of a graph of objects, without the values of its leaves.

Words: a *node* is a value with an identity: an object, a variable, a list, a dictionary, a state.
Each node is described by its type, its static data and its *items*. These are pairs of a path entry
and the description of a value: a leaf (`LEAF`), a reference to a node (`Ref`), a tree node of JAX,
which has no identity (`TreeNode`), or static data (`Static`, which holds the value itself). Node 0
is the list of the *roots*, the objects that the graph starts from; the others are numbered depth
first. Leaves come in the order of their nodes. Two graphs have equal definitions exactly when they
are the same but for the values of their leaves.
An *occurrence* of a node is a path that leads to it; a shared node has several.

`unflatten` makes new objects from a definition and the values of its leaves.

>>> from scutch_reference import nnx
>>> layer = nnx.Dict(w=nnx.Param(1.0))
>>> definition = nnx.graphdef([layer, layer])
>>> [path for path, number, is_first in definition.occurrences]
[(), (0,), (0, 0), (0, 0, 'w'), (0, 1)]
>>> definition == nnx.graphdef([layer, nnx.clone(layer)])
False
>>> a, b = unflatten(definition, [2.0])[1]
>>> a is b, a.w.get_raw_value()
(True, 2.0)
"""

import enum
import weakref
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from types import MappingProxyType
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias

import jax

from ..types import Tree
from .filters import Path
from .node_types import ATOMS, type_of
from .static import Static
from .variables import A, Variable

LeafPlace: TypeAlias = tuple[Path, int | None]
"""The path of a leaf, and the number of the variable whose value it is; None for another leaf."""


class Ref(NamedTuple):
    """An item that is the node of this number."""

    number: int


class _Leaf(enum.Enum):
    LEAF = "LEAF"
    __hash__ = object.__hash__  # Without a Python call.


LEAF = _Leaf.LEAF
"""An item that is the next leaf value."""


class TreeNode(NamedTuple):
    """An item that is a tree node of JAX, such as a tuple, which has no identity in the graph.

    `treedef` is its structure, one level deep; `items` has its children by their keys.
    """

    treedef: Any
    items: tuple[tuple[Hashable, "Item"], ...]


Item: TypeAlias = Ref | _Leaf | TreeNode | Static
"""The description of one value in a node."""


class NodeDescription(NamedTuple):
    """The description of one node.

    `static` is the metadata of a variable, the tags of an object, the factory of a `defaultdict`.
    A variable has no items; its value is one leaf.
    """

    type: type[Any]
    static: Any
    items: tuple[tuple[Hashable, Item], ...]

    @property
    def is_variable(self) -> bool:
        """Whether the node is a variable."""
        return issubclass(self.type, Variable)


def leaf_paths(item: Item | NodeDescription, path: Path = ()) -> list[Path]:
    """Return the paths of the leaves in an item or a node, without those of other nodes.

    Args:
      item: An item or a description.
      path: The path of the item.
    """
    if item is LEAF or (isinstance(item, NodeDescription) and item.is_variable):
        return [path]
    inside = item.items if isinstance(item, TreeNode | NodeDescription) else ()
    return [end for key, each in inside for end in leaf_paths(each, (*path, key))]


def leaf_at(
    nodes: Mapping[int, NodeDescription] | Sequence[NodeDescription], path: Path
) -> tuple[int, int] | None:
    """Return the leaf at a path, which may lead through any occurrence of a shared node.

    Args:
      nodes: The descriptions, by number.
      path: It begins with the index of a root.

    Returns:
      The number of the node that has the leaf, and the index of the leaf in it; None if there is no
      leaf.
    """
    number = 0
    item: Any = nodes[number]
    within: Path = ()
    for key in path:
        item, within = dict(getattr(item, "items", ())).get(key), (*within, key)
        if isinstance(item, Ref):
            number, item, within = item.number, nodes[item.number], ()
    ends = leaf_paths(nodes[number])
    return (number, ends.index(within)) if within in ends else None


def occurrences(
    nodes: Sequence[NodeDescription], item: Item, path: Path = (), seen: set[int] | None = None
) -> Iterator[tuple[Path, int, bool]]:
    """Yield each occurrence of a node that an item leads to, depth first.

    Args:
      nodes: The descriptions.
      item: The item to start from.
      path: The path of the item.
      seen: Numbers of nodes that occurred before; their items are not visited again.

    Yields:
      The path, the number of the node, and whether it occurs for the first time.
    """
    seen = set() if seen is None else seen
    inside = item.items if isinstance(item, TreeNode) else ()
    if isinstance(item, Ref):
        first = item.number not in seen
        seen.add(item.number)
        yield path, item.number, first
        inside = nodes[item.number].items if first else ()
    for key, each in inside:
        yield from occurrences(nodes, each, (*path, key), seen)


class GraphDef(Generic[A]):
    """The structure of a graph; equal ones are the same object (OBJ-1, JIT-3).

    Get one from `nnx.graphdef` or `nnx.split`. Paths in it begin with the index of a root. To JAX
    it is a node without leaves, so it goes in and out of transformations, and a function that is
    compiled for one is not traced again for an equal one. As a type, `GraphDef[Model]` is the
    structure of a `Model`.

    Args:
      nodes: The descriptions.
      numbers: The number of each node, from node 1 on, in an update context; empty without one.
    """

    apply: ClassVar[Callable[..., Any]]
    """Calls a method of the object that this definition and states describe; see `nnx.call`."""

    def __init__(self, nodes: tuple[NodeDescription, ...], numbers: tuple[int, ...] = ()):
        self.nodes, self.numbers = nodes, numbers

    def __reduce__(self) -> tuple[Any, ...]:
        return interned, (self.nodes, self.numbers)

    def __repr__(self) -> str:
        names = ", ".join(node.type.__name__ for node in self.nodes[1:5])
        return f"GraphDef({len(self.nodes) - 1} nodes: {names}{', ...' * (len(self.nodes) > 5)})"

    @cached_property
    def occurrences(self) -> tuple[tuple[Path, int, bool], ...]:
        """All occurrences of nodes; see the function of this name."""
        return tuple(occurrences(self.nodes, Ref(0)))

    @cached_property
    def node_paths(self) -> tuple[Path, ...]:
        """The path of the first occurrence of each node."""
        return tuple(path for path, _, first in self.occurrences if first)

    @cached_property
    def leaves(self) -> tuple[LeafPlace, ...]:
        """The path of each leaf in order, and the number of the variable whose value it is."""
        found: list[LeafPlace] = []
        for number, (node, path) in enumerate(zip(self.nodes, self.node_paths, strict=True)):
            owner = number if node.is_variable else None
            found += [(end, owner) for end in leaf_paths(node, path)]
        return tuple(found)

    @cached_property
    def first_leaves(self) -> tuple[int, ...]:
        """The number of the first leaf of each node, and at the end the number of all leaves."""
        return tuple(accumulate(map(len, map(leaf_paths, self.nodes)), initial=0))


jax.tree_util.register_pytree_node(GraphDef, lambda node: ((), node), lambda node, _: node)
ATOMS.append(GraphDef)

_known: weakref.WeakValueDictionary[Any, GraphDef[Any]] = weakref.WeakValueDictionary()
_recent: deque[GraphDef[Any]] = deque(maxlen=16)  # Keeps the latest ones alive.


def interned(nodes: tuple[NodeDescription, ...], numbers: tuple[int, ...] = ()) -> GraphDef[Any]:
    """Return the one definition of this content, as long as somebody uses it.

    The definitions are held weakly; the last few also strongly, so that a caller who makes the same
    one again and again gets the same object.

    Args:
      nodes: The descriptions.
      numbers: The numbers of the nodes in an update context; see `GraphDef`.

    Raises:
      UnhashableStaticError: Static data of a node have no hash.
    """
    found = _known.setdefault((nodes, numbers), GraphDef(nodes, numbers))
    _recent.append(found)
    return found


def blank(node: NodeDescription, *value: Tree) -> Any:
    """Return a new node without its items.

    Args:
      node: The description.
      *value: The raw value, if it is a variable; or a variable, whose raw value and metadata the
        new one has. It is ignored for any other node.
    """
    return type_of(node.type).make(node.type, node.static, *value)


def filled(item: Item, nodes: Sequence[Any], leaves: Iterator[Any]) -> Tree:
    """Return the value that an item describes.

    Args:
      item: The item.
      nodes: The nodes by number.
      leaves: The values of the item's leaves are taken from it.

    Returns:
      For `LEAF` the next of the leaves, for a `Ref` the node of its number, for a `TreeNode` a new
      container with its items filled, and for a `Static` the value that it holds.
    """
    if item is LEAF:
        return next(leaves)
    if isinstance(item, Ref):
        return nodes[item.number]
    if isinstance(item, TreeNode):
        return item.treedef.unflatten([filled(each, nodes, leaves) for _, each in item.items])
    return item.value


def refill(
    value: Tree,
    node: NodeDescription,
    nodes: Sequence[Any],
    leaves: Iterator[Any],
    kept: Collection[Any] = (),
) -> None:
    """Replace the contents of a node, in place, by the values that a description gives its items.

    Nothing else of the node changes: its type, its static data and, of a variable, the value. The
    node reports no change.

    Args:
      value: The node: a list, a dictionary, an object, or a variable, which has no items.
      node: The description; it is of the type that the node has.
      nodes: The nodes by number; an item that is a `Ref` gets one of them.
      leaves: The values of the leaves in the items, in the order of the items; all are taken.
      kept: Pairs of key and item that describe what the node contains now. Where one is also in the
        new description, and there is no leaf in it, the present value stays, the very object, and
        no equal one is made.
    """
    node_type = type_of(node.type)
    container, new = node_type.container(value), {}
    for key, item in node.items:
        stays = (key, item) in kept and not leaf_paths(item)
        new[key] = container[key] if stays else filled(item, nodes, leaves)
    node_type.refill(container, new)


def unflatten(
    definition: GraphDef[Any],
    leaves: Sequence[Any],
    known: Mapping[int, Any] = MappingProxyType({}),
) -> list[Any]:
    """Make new nodes around leaf values; inverse of `flatten` (OBJ-1).

    Args:
      definition: The structure.
      leaves: The values in their order; for the value of a variable also a variable, whose metadata
        are taken over.
      known: Nodes by number that are taken as they are, and not made.

    Returns:
      The nodes by number; node 0 is the list of the roots.
    """
    starts, nodes = definition.first_leaves, list[Any]()
    for number, node in enumerate(definition.nodes):
        value = leaves[starts[number] : starts[number] + 1]
        nodes.append(known[number] if number in known else blank(node, *value))
    for number, (made, node) in enumerate(zip(nodes, definition.nodes, strict=True)):
        if node.items and number not in known:
            refill(made, node, nodes, iter(leaves[starts[number] : starts[number + 1]]))
    return nodes
