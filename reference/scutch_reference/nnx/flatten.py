"""Walking: from objects to a definition, their leaf values, and a proof that it is still true."""

import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from operator import is_
from typing import Any

import jax
import numpy as np

from .filters import Path
from .graphdef import LEAF, Definition, Node, Ref, Tree, contents, interned
from .objects import Pytree
from .states import State
from .tracking import EPOCH, Static, Tracer, Tracked, frozen
from .variables import Variable

_DICTS = (dict, OrderedDict, defaultdict)
_SCALARS = (bool, int, float, complex, np.generic)
_ATOMS = (
    *(str, bytes, type(None), type, np.dtype, Enum),
    *(jax.sharding.Sharding, jax.sharding.Mesh, jax.sharding.PartitionSpec),
)
NODE, VALUE, ATOM, OTHER = range(4)


def _kind(cls: type[Any]) -> int:
    if issubclass(cls, Tracked | State | list) or cls in _DICTS:
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
    return isinstance(value, Tracked)


def entries(path: Sequence[Any]) -> Path:
    """A path of JAX, as the keys, indices and names that it is made of."""
    names = ("idx", "key", "name")
    return tuple(next(getattr(e, name) for name in names if hasattr(e, name)) for e in path)


def one_level(value: Any) -> tuple[Path, list[Any], Any] | None:
    """Keys, children and structure of a tree node of JAX, or None if it is a leaf."""
    pairs, treedef = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda x: x is not value)
    if pairs and not pairs[0][0]:
        return None
    return tuple(entries(path)[0] for path, _ in pairs), [child for _, child in pairs], treedef


def _is_fixed(cls: Any) -> bool:
    """Whether tree nodes of a class keep their children for life."""
    parameters = getattr(cls, "__dataclass_params__", None)
    return issubclass(cls, tuple) or getattr(parameters, "frozen", False)


def _inside(value: Any) -> tuple[Any, list[Any]]:
    """A structure to compare, and the very parts, of a value that reports no changes."""
    if isinstance(value, list):
        return None, list(value)
    if type(value) in _DICTS:
        return None, [*value, *value.values()]
    level = one_level(value)
    return (frozen(value), []) if level is None else (level[2], level[1])


def keys_in(node: Any) -> Any:
    """The path entries of what is directly in a node."""
    inside = contents(node)
    if isinstance(inside, list):
        return range(len(inside))
    return sorted(inside) if isinstance(node, Pytree) else list(inside)


class Walk:
    """One walk over a graph, depth first: nodes, their descriptions, and leaves of each.

    Nodes that are `known` before have the first numbers, and are described only when asked for. A
    leaf is a container, a key and a path; `checks` are for mutable parts that report no changes.
    """

    def __init__(self, known: Sequence[Any] = ()):
        self.nodes = list(known)
        self.index = {id(node): i for i, node in enumerate(known)}
        self.described: list[Any] = [None] * len(known)
        self.leaves: list[list[tuple[Any, Any, Path]]] = [[] for _ in known]
        self.checks: list[tuple[Any, Any, list[Any]]] = []
        self.again: set[int] = set()

    def number(self, node: Any, path: Path) -> int:
        """The number of a node; one that is new is described, with all that it leads to."""
        index = self.index.setdefault(id(node), len(self.nodes))
        if index < len(self.nodes):
            self.again.add(index)
        else:
            self.nodes.append(node)
            self.described.append(None)
            self.leaves.append([])
            self.describe(index, path)
        return index

    def describe(self, index: int, path: Path) -> None:
        """Find out the structure of a node at a path, and of new nodes that it leads to."""
        value, leaves = self.nodes[index], self.leaves[index]
        if isinstance(value, Variable):
            leaves.append((value._cell, 0, path))
            self.described[index] = Node(type(value), value._static, (("value", LEAF),))
            return
        inside, tags, static = contents(value), {}, None
        if isinstance(value, Pytree):
            tags = {key: tag for key, tag in value._tags.items() if key in inside}
            static = Static(tags)
        elif isinstance(value, defaultdict):
            static = Static(value.default_factory)
        found = [(k, self.item(inside, k, (*path, k), leaves, tags.get(k))) for k in keys_in(value)]
        self.described[index] = Node(type(value), static, tuple(found))
        if path and (not isinstance(value, Pytree) or value._exposed):
            self.checks.append((inside, *_inside(inside)))

    def item(self, inside: Any, key: Any, path: Path, leaves: list[Any], tag: Any = None) -> Any:
        """The item for the value inside something, at a path; its leaves are appended."""
        value, kind = inside[key], kind_of(type(inside[key]))
        if kind == NODE:
            return Ref(self.number(value, path))
        if kind == VALUE or (tag and isinstance(value, _SCALARS)):
            leaves.append((inside, key, path))
            return LEAF
        level = one_level(value) if kind == OTHER else None
        cls: Any = type(value)
        if level is not None:
            keys, children, treedef = level
            items = [self.item(children, i, (*path, k), leaves, tag) for i, k in enumerate(keys)]
            if not _is_fixed(cls):
                self.checks.append((value, treedef, children))
            if not (isinstance(value, tuple) and all(isinstance(i, Static) for i in items)):
                return Tree(treedef, tuple(zip(keys, items, strict=True)))
        static = Static(value, f"path {path[1:]!r}")
        by_identity = cls.__hash__ is object.__hash__ or callable(value)
        if kind == OTHER and not (by_identity or _is_fixed(cls)):
            self.checks.append((value, static.key, []))
        return static


def walked(roots: Sequence[Any]) -> tuple[Definition, list[Any], list[tuple[Any, Any]], Walk]:
    """Definition, nodes, slots of the leaves, and the walk; `built` is the inverse (OBJ-1)."""
    walk = Walk()
    walk.number(list(roots), ())
    slots = [(container, key) for some in walk.leaves for container, key, _ in some]
    return interned(tuple(walk.described)), walk.nodes, slots, walk


def read(slots: Sequence[tuple[Any, Any]]) -> list[Any]:
    """The leaf values in these slots."""
    return [container[key] for container, key in slots]


class Plan:
    """A flattened graph that knows whether it is still true (JIT-3), and keeps no object alive."""

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
        later = {item.number for _, item in walk.described[0].items[1:] if isinstance(item, Ref)}
        self.withheld = bool(walk.again & later) and bool(self.checks or len(slots) != variables)

    def holds(self) -> bool:
        """Whether the graph has this structure still."""
        epoch = EPOCH[0]
        if self.epoch != epoch:
            if [cell[-1] for cell in self.cells] != self.versions:
                return False
            self.epoch = epoch
        for value, structure, parts in self.checks:
            new, inside = _inside(value)
            if len(inside) != len(parts) or not all(map(is_, inside, parts)) or new != structure:
                return False
        return True


EMPTY = Plan(())


def planned(roots: tuple[Any, ...]) -> Plan:
    """A new plan, kept on the first root until another dies, if it keeps none of them alive."""
    plan = Plan(roots)
    if not plan.withheld:
        key = tuple(map(id, roots[1:]))
        if roots[0]._plans is None:
            object.__setattr__(roots[0], "_plans", {})
        plans = roots[0]._plans
        plan.others = tuple(weakref.ref(o, lambda _: plans.pop(key, None)) for o in roots[1:])
        plans[key] = plan
    return plan
