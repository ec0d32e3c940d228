"""Walking: from objects to a definition, their leaf values, and a proof that it is still true."""

from __future__ import annotations

import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from operator import is_
from typing import Any

import jax
import numpy as np

from .definitions import LEAF, Definition, Node, Ref, Tree, contents, interned
from .epochs import EPOCH
from .objects import Pytree, attributes_of, is_tagged_data, sorted_attributes
from .states import State
from .statics import Static, frozen
from .tracing import Tracer
from .variables import Variable

_DICTS = (dict, OrderedDict, defaultdict)
_SCALARS = (bool, int, float, complex, np.generic)
_ATOMS = (
    *(str, bytes, type(None), type, np.dtype, Enum),
    *(jax.sharding.Sharding, jax.sharding.Mesh, jax.sharding.PartitionSpec),
)
NODE, VALUE, ATOM, OTHER = range(4)


def _kind(cls: type[Any]) -> int:
    if issubclass(cls, Pytree | Variable | State | list) or cls in _DICTS:
        return NODE
    if issubclass(cls, np.ndarray | jax.Array | Tracer | jax.ShapeDtypeStruct):
        return VALUE
    return ATOM if issubclass(cls, (*_SCALARS, *_ATOMS)) else OTHER


# What values of a type are: nodes of a graph, leaves, static for sure, or to be looked into.
kind_of: Any = lru_cache(maxsize=2048)(_kind)


def is_node(value: Any) -> bool:
    """Whether a value has an identity in a graph."""
    return bool(kind_of(type(value)) == NODE)


def is_object(value: Any) -> bool:
    """Whether a value is what makes an argument more than a tree of arrays."""
    return isinstance(value, Pytree | Variable)


def entries(path: Sequence[Any]) -> tuple[Any, ...]:
    """A path of JAX, as the keys, indices and names that it is made of."""
    names = ("idx", "key", "name")
    return tuple(next(getattr(e, name) for name in names if hasattr(e, name)) for e in path)


def _one_level(value: Any) -> tuple[tuple[Any, ...], list[Any], Any] | None:
    """Keys, children and structure of a tree node of JAX, or None if it is a leaf."""
    pairs, treedef = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda x: x is not value)
    if len(pairs) == 1 and pairs[0][1] is value:
        return None
    return tuple(entries(path)[0] for path, _ in pairs), [child for _, child in pairs], treedef


def _is_fixed(cls: type[Any]) -> bool:
    """Whether tree nodes of a class keep their children for life."""
    return issubclass(cls, tuple) or getattr(
        getattr(cls, "__dataclass_params__", None), "frozen", False
    )


def _compares_by_identity(value: Any) -> bool:
    by_identity: Any = object.__hash__
    return type(value).__hash__ is by_identity or callable(value) or _is_fixed(type(value))


def _inside(value: Any) -> tuple[Any, list[Any]]:
    """What is in a value that reports no changes: a structure to compare, and the very parts."""
    if isinstance(value, list):
        return None, list(value)
    if type(value) in _DICTS:
        return None, [*value, *value.values()]
    level = _one_level(value)
    return (frozen(value), []) if level is None else (level[2], level[1])


class Walk:
    """One walk over a graph, depth first.

    After it, `nodes` are the objects in order, `described` is their structure, `slots` say where
    their leaves sit (a container and a key, to read and to write), and `checks` are the mutable
    parts that nobody reports about. Nodes that are `known` have the first numbers, in their order,
    and are described only by `describe`.
    """

    def __init__(self, known: Sequence[Any] = ()):
        self.nodes: list[Any] = []
        self.index: dict[int, int] = {}
        self.described: list[Any] = []
        self.slots: list[list[tuple[Any, Any]]] = []
        self.checks: list[tuple[Any, Any, list[Any]]] = []
        self.again: set[int] = set()
        self._path: list[Any] = []
        for node in known:
            self._add(node)

    def _add(self, node: Any) -> int:
        self.index[id(node)] = len(self.nodes)
        self.nodes.append(node)
        self.described.append(None)
        self.slots.append([])
        return len(self.nodes) - 1

    def number(self, node: Any) -> int:
        """The number of a node; one that is new is described, with all that it leads to."""
        if id(node) in self.index:
            self.again.add(self.index[id(node)])
        else:
            self.describe(self._add(node))
        return self.index[id(node)]

    def describe(self, index: int) -> None:
        """Find out the structure of a node, and of new nodes that it leads to."""
        value, slots = self.nodes[index], self.slots[index]
        if isinstance(value, Variable):
            slots.append((value._cell, 0))
            metadata = Static(value._metadata, "metadata")
            self.described[index] = Node(type(value), metadata, (("value", LEAF),))
            return
        inside: Any = contents(value)
        static: Any = None
        found: Any
        if isinstance(value, Pytree):
            found = [(k, n, v, is_tagged_data(value, n)) for k, n, v in sorted_attributes(value)]
            static = Static({k: v for k, v in value._tags.items() if k in attributes_of(value)})
        else:
            pairs = enumerate(inside) if isinstance(inside, list) else inside.items()
            found = [(key, key, each, False) for key, each in pairs]
            if isinstance(value, defaultdict):
                static = Static(value.default_factory)
        self.described[index] = Node(type(value), static, self._items(found, inside, slots))
        if not isinstance(value, Pytree) or value._exposed:
            self.checks.append((inside, *_inside(inside)))

    def _items(self, found: Any, inside: Any, slots: list[Any]) -> tuple[tuple[Any, Any], ...]:
        items = []
        for path, key, value, tagged in found:
            self._path.append(path)
            items.append((path, self.item(value, slots, (inside, key), tagged)))
            self._path.pop()
        return tuple(items)

    def item(self, value: Any, slots: list[Any], own: tuple[Any, Any], tagged: bool = False) -> Any:
        """The item for a value that sits at `own`; the slots of its leaves are appended."""
        kind = kind_of(type(value))
        if kind == NODE:
            return Ref(self.number(value))
        if kind == VALUE or (tagged and isinstance(value, _SCALARS)):
            slots.append(own)
            return LEAF
        level = _one_level(value) if kind == OTHER else None
        if level is not None:
            keys, children, treedef = level
            found = [
                (key, i, each, tagged)
                for i, (key, each) in enumerate(zip(keys, children, strict=True))
            ]
            items = tuple(item for _, item in self._items(found, children, slots))
            if not _is_fixed(type(value)):
                self.checks.append((value, treedef, children))
            if not (isinstance(value, tuple) and all(isinstance(i, Static) for i in items)):
                return Tree(treedef, keys, items)
        static = Static(value, f"path {tuple(self._path)!r}")
        if kind == OTHER and not _compares_by_identity(value):
            self.checks.append((value, static.key, []))
        return static


def walked(roots: Sequence[Any]) -> tuple[Definition, list[Any], list[tuple[Any, Any]], Walk]:
    """The structure of a graph; `built` is the inverse (OBJ-1).

    Args:
      roots: The values that the graph starts from.

    Returns:
      The definition, the nodes in order, the slots of the leaves in order, and the walk.

    Raises:
      UnhashableStaticError: There is static data that cannot be compared, at the path it names.
    """
    walk, slots = Walk(), list[tuple[Any, Any]]()
    items = tuple(walk.item(root, slots, (roots, i)) for i, root in enumerate(roots))
    definition = interned(Definition(tuple(walk.described), items))
    return definition, walk.nodes, [*slots, *(s for each in walk.slots for s in each)], walk


def read(slots: Sequence[tuple[Any, Any]]) -> list[Any]:
    """The leaf values in these slots."""
    return [container[key] for container, key in slots]


class Plan:
    """A flattened graph that knows whether it is still true (JIT-3).

    It holds cells and plain containers, not objects, so that it keeps none of them alive.
    """

    __slots__ = (
        *("cells", "checks", "containers", "definition", "epoch", "keys", "level", "others"),
        *("versions", "withheld"),
    )

    def __init__(self, roots: Sequence[Any]):
        self.epoch = EPOCH[0]
        self.definition, nodes, slots, walk = walked(roots)
        self.containers, self.keys = [c for c, _ in slots], [key for _, key in slots]
        self.checks = walk.checks
        self.others: tuple[Any, ...] = ()  # They watch for the death of the other roots.
        objects = [node for node in nodes if is_object(node)]
        self.cells = [node._cell for node in objects]
        for cell in self.cells:
            cell[-1] = cell[-1] or 1  # From now on, changes of this object concern somebody.
        self.versions = [cell[-1] for cell in self.cells]
        levels = [node._level for node in objects]
        self.level = levels[0] if levels and levels.count(levels[0]) == len(levels) else None
        # A container in the plan might lead back to a root that the plan must not keep alive.
        variables = sum(isinstance(node, Variable) for node in nodes)
        later = {item.number for item in self.definition.roots[1:] if isinstance(item, Ref)}
        self.withheld = bool(walk.again & later) and bool(self.checks or len(slots) != variables)

    def holds(self) -> bool:
        """Whether the graph has this structure still."""
        epoch = EPOCH[0]
        if self.epoch != epoch:
            if [cell[-1] for cell in self.cells] != self.versions:
                return False
            self.epoch = epoch
        return all(map(_is_unchanged, self.checks))


def _is_unchanged(check: tuple[Any, Any, list[Any]]) -> bool:
    structure, parts = _inside(check[0])
    same = len(parts) == len(check[2]) and all(map(is_, parts, check[2]))
    return same and bool(structure == check[1])


EMPTY = Plan(())


def planned(roots: tuple[Any, ...]) -> Plan:
    """A new plan of a graph that starts from objects, kept on the first of them.

    It is dropped when one of the others dies. One that might keep them alive is not kept.
    """
    plan = Plan(roots)
    if not plan.withheld:
        key = tuple(map(id, roots[1:]))
        if roots[0]._plans is None:
            object.__setattr__(roots[0], "_plans", {})
        plans = roots[0]._plans
        plan.others = tuple(weakref.ref(o, lambda _: plans.pop(key, None)) for o in roots[1:])
        plans[key] = plan
    return plan
