"""Walking: from objects to a definition, their leaf values, and a proof that it is still true."""

from __future__ import annotations

import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from .definitions import LEAF, Definition, Node, Ref, Tree, contents, interned
from .epochs import EPOCH, watch
from .objects import Pytree, attributes_of, is_tagged_data, sorted_attributes
from .states import State
from .statics import Static, frozen
from .tracing import Tracer
from .variables import Variable

_DICTS = (dict, OrderedDict, defaultdict)
_SCALARS = (bool, int, float, complex, np.generic)
_ATOMS = (
    *_SCALARS,
    str,
    bytes,
    type(None),
    type,
    np.dtype,
    Enum,
    jax.sharding.Sharding,
    jax.sharding.Mesh,
    jax.sharding.PartitionSpec,
)
_SIMPLE = object()
_NODE, _VALUE, _ATOM, _OTHER = range(4)


@lru_cache(maxsize=2048)
def _kind(cls: Any) -> int:
    """What values of a type are; the cache is bounded."""
    if issubclass(cls, Pytree | Variable | State | list) or cls in _DICTS:
        return _NODE
    if issubclass(cls, np.ndarray | jax.Array | Tracer | jax.ShapeDtypeStruct):
        return _VALUE
    return _ATOM if issubclass(cls, _ATOMS) else _OTHER


def _kind_of(value: Any) -> int:
    cls: Any = type(value)
    return _kind(cls)


def is_node(value: Any) -> bool:
    """Whether a value has an identity in a graph."""
    return _kind_of(value) == _NODE


def is_object(value: Any) -> bool:
    """Whether a value is what makes an argument more than a tree of arrays."""
    return isinstance(value, Pytree | Variable)


def has_objects(value: Any) -> bool:
    """Whether there is an object in a tree."""
    return any(map(is_object, jax.tree.leaves(value, is_leaf=is_object)))


def _one_level(value: Any) -> tuple[tuple[Any, ...], list[Any], Any] | None:
    """Keys, children and structure of a tree node of JAX, or None if it is a leaf."""
    pairs, treedef = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda x: x is not value)
    if len(pairs) == 1 and pairs[0][1] is value:
        return None
    keys = []
    for (entry,), _ in pairs:
        name = next(n for n in ("idx", "key", "name") if hasattr(entry, n))
        keys.append(getattr(entry, name))
    return tuple(keys), [child for _, child in pairs], treedef


def _is_fixed(cls: type[Any]) -> bool:
    """Whether tree nodes of a class keep their children for life."""
    parameters = getattr(cls, "__dataclass_params__", None)
    return issubclass(cls, tuple) or bool(parameters and parameters.frozen)


def _compares_by_identity(value: Any) -> bool:
    by_identity: Any = object.__hash__
    return type(value).__hash__ is by_identity or callable(value) or _is_fixed(type(value))


class Walk:
    """One walk over a graph, depth first.

    After it, `nodes` are the objects in order, `slots` say where each leaf sits (a container and a
    key, to read and to write), and `checks` are the mutable parts that nobody reports about.

    Args:
      known: Nodes that have the first numbers already, in this order.
    """

    def __init__(self, known: Sequence[Any] = ()):
        self.nodes: list[Any] = list(known)
        self.index = {id(node): i for i, node in enumerate(known)}
        self.described: list[Node | None] = [None] * len(known)
        self.slots: list[list[tuple[Any, Any]]] = [[] for _ in known]
        self.checks: list[tuple[Any, Any, Any]] = []
        self.path: list[Any] = []
        self.again: set[int] = set()

    def reach(self, value: Any, slots: list[tuple[Any, Any]], own: tuple[Any, Any]) -> Any:
        """The item for a value, which sits at `own`; the slots of its leaves are appended."""
        return self._item(value, False, slots, own)

    def describe(self, index: int) -> Node:
        """The structure of a node, and of all that it leads to."""
        found = self.described[index]
        if found is None:
            found = self._described(self.nodes[index], index)
        return found

    def _entries(self, value: Any) -> list[tuple[Any, Any, Any, bool]]:
        """(path entry, key in the contents, value, marked as data) for each item of a node."""
        if isinstance(value, Pytree):
            return [(k, n, v, is_tagged_data(value, n)) for k, n, v in sorted_attributes(value)]
        inside = contents(value)
        pairs = enumerate(inside) if isinstance(inside, list) else inside.items()
        return [(key, key, each, False) for key, each in pairs]

    def _described(self, value: Any, index: int) -> Node:
        slots = self.slots[index]
        self.described[index] = Node(object, None, ())  # For cycles: it is on its way.
        if isinstance(value, Variable):
            slots.append((value._cell, 0))
            node = Node(type(value), Static(value._metadata, "metadata"), (("value", LEAF),))
        else:
            entries = self._entries(value)
            inside = contents(value)
            items = self._items(entries, inside, slots)
            node = Node(type(value), self._static(value), tuple(items))
            if not isinstance(value, Pytree) or value._exposed:
                self._check(inside)
        self.described[index] = node
        return node

    def _static(self, value: Any) -> Any:
        if isinstance(value, Pytree):
            present = attributes_of(value)
            return Static({k: v for k, v in value._tags.items() if k in present})
        return Static(value.default_factory) if isinstance(value, defaultdict) else None

    def _check(self, inside: Any) -> None:
        """Remember what is in a plain list or dict; the snapshot keeps the identities taken."""
        if isinstance(inside, list):
            self.checks.append((inside, None, list(inside)))
        else:
            self.checks.append((inside, list(inside), list(inside.values())))

    def _items(self, entries: Any, inside: Any, slots: list[Any]) -> list[tuple[Any, Any]]:
        items = []
        for path, key, each, tagged in entries:
            self.path.append(path)
            items.append((path, self._item(each, tagged, slots, (inside, key))))
            self.path.pop()
        return items

    def _item(self, value: Any, tagged: bool, slots: list[Any], own: tuple[Any, Any]) -> Any:
        kind = _kind_of(value)
        if kind == _NODE:
            return Ref(self._number(value))
        if kind == _VALUE or (tagged and isinstance(value, _SCALARS)):
            slots.append(own)
            return LEAF
        if kind == _OTHER and (level := _one_level(value)) is not None:
            keys, children, treedef = level
            entries = zip(keys, range(len(keys)), children, [tagged] * len(keys), strict=True)
            items = [item for _, item in self._items(entries, children, slots)]
            if not _is_fixed(type(value)):
                self.checks.append((value, _SIMPLE, (treedef, children)))
            if all(isinstance(item, Static) for item in items) and isinstance(value, tuple):
                return Static(value, f"path {tuple(self.path)!r}")
            return Tree(treedef, keys, tuple(items))
        static = Static(value, f"path {tuple(self.path)!r}")
        if kind == _OTHER and not _compares_by_identity(value):
            self.checks.append((value, None, static.key))
        return static

    def _number(self, value: Any) -> int:
        index = self.index.get(id(value))
        if index is None:
            index = len(self.nodes)
            self.index[id(value)] = index
            self.nodes.append(value)
            self.described.append(None)
            self.slots.append([])
            self._described(value, index)
        else:
            self.again.add(index)
        return index


def walked(roots: Sequence[Any]) -> tuple[Definition, list[Any], list[tuple[Any, Any]], Walk]:
    """The structure of a graph; `built` is the inverse (OBJ-1).

    Args:
      roots: The values that the graph starts from.

    Returns:
      The definition, the nodes in order, the slots of the leaves in order, and the walk.

    Raises:
      UnhashableStaticError: There is static data that cannot be compared, at the path it names.
    """
    walk = Walk()
    own: list[tuple[Any, Any]] = []
    items = tuple(walk.reach(root, own, (roots, i)) for i, root in enumerate(roots))
    definition = interned(Definition(tuple(walk.described), items))  # type: ignore[arg-type]
    slots = [*own, *(slot for each in walk.slots for slot in each)]
    return definition, walk.nodes, slots, walk


def read(slots: Sequence[tuple[Any, Any]]) -> list[Any]:
    """The leaf values in these slots."""
    return [container[key] for container, key in slots]


class Plan:
    """A flattened graph that knows whether it is still true (JIT-3).

    It holds cells and plain containers, not objects, so that it keeps none of them alive.
    """

    __slots__ = (
        "cells",
        "checks",
        "definition",
        "epoch",
        "level",
        "others",
        "slots",
        "versions",
        "withheld",
        "written",
    )

    def __init__(self, roots: Sequence[Any]):
        epoch = EPOCH[0]
        self.definition, nodes, self.slots, walk = walked(roots)
        tracked = [node for node in nodes if isinstance(node, Pytree | Variable)]
        self.cells = [node._cell for node in tracked]
        for cell in self.cells:
            watch(cell)
        self.versions = [cell[-1] for cell in self.cells]
        self.checks = walk.checks
        self.epoch = epoch
        levels = [node._level for node in tracked]
        self.level = levels[0] if levels and all(lv == levels[0] for lv in levels) else None
        self.others: tuple[Any, ...] = ()
        # Where all leaves are values of variables, their cells are faster to read and to write.
        values = [node._cell for node in nodes if isinstance(node, Variable)]
        self.written = values if len(values) == len(self.slots) else None
        # A container in the plan might lead back to a root that the plan must not keep alive.
        roots_again = walk.again & {item.number for item in self.definition.roots[1:]}
        self.withheld = bool(roots_again) and (bool(self.checks) or self.written is None)

    def holds(self) -> bool:
        """Whether the graph has this structure still."""
        if self.epoch != EPOCH[0]:
            epoch = EPOCH[0]
            if [cell[-1] for cell in self.cells] != self.versions:
                return False
            self.epoch = epoch
        return not self.checks or all(map(_is_unchanged, self.checks))

    def values(self) -> list[Any]:
        """The leaf values."""
        if self.written is not None:
            return [cell[0] for cell in self.written]
        return [container[key] for container, key in self.slots]


def _same(left: Any, right: Any) -> bool:
    """Whether two sequences hold the very same objects."""
    return list(map(id, left)) == list(map(id, right))


def _is_unchanged(check: tuple[Any, Any, Any]) -> bool:
    container, keys, snapshot = check
    if isinstance(container, list):
        return _same(container, snapshot)
    if isinstance(container, dict):
        return list(container) == keys and _same(container.values(), snapshot)
    if keys is _SIMPLE:
        level, (treedef, children) = _one_level(container), snapshot
        return level is not None and bool(level[2] == treedef) and _same(level[1], children)
    return bool(frozen(container) == snapshot)


def planned(first: Any, others: tuple[Any, ...]) -> Plan:
    """The plan of a graph that starts from objects; it is kept on the first of them.

    It is dropped when one of the `others` dies. One that might keep them alive is not kept.
    """
    plans = first._plans
    key = tuple(map(id, others)) if others else ()
    if plans is None:
        plans = {}
        object.__setattr__(first, "_plans", plans)
    plan: Plan | None = plans.get(key)
    if plan is None or ((plan.epoch != EPOCH[0] or plan.checks) and not plan.holds()):
        plan = Plan((first, *others))
        if plan.withheld:
            return plan
        plan.others = tuple(weakref.ref(o, lambda _: plans.pop(key, None)) for o in others)
        plans[key] = plan
    return plan
