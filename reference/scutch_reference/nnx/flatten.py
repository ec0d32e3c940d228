"""Flattening: from objects to a graph definition and leaf values, and a proof that it holds.

To flatten a graph takes a walk over it in Python. A call that did so each time would cost more than
the compiled function. But structure changes rarely, so the first object of a call keeps a *plan*:
the definition of the graph, and the locations of its leaves. A later call asks the plan whether it
`holds`, in three steps of growing cost: the epoch of the process has not moved (the usual case); or
the versions of its objects have not; and the mutable parts that report no changes are the same.

Words: the *location* of a leaf is a container and a key, where its value can be read and written;
for a variable that is its cell. A *check* is a mutable part of a graph that reports no changes,
such as a list, with its structure and the values that were directly in it.

>>> from scutch_reference import nnx
>>> model = nnx.Dict(a=nnx.Param(1.0), b=[nnx.Param(2.0)])
>>> definition, nodes, locations, _ = flatten([model])
>>> read(locations)
[1.0, 2.0]
>>> plan = Plan([model])
>>> plan.holds()
True
>>> model.b.append(nnx.Param(3.0))  # in place: the list tells nobody
>>> plan.holds()
False
"""

import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from enum import Enum
from functools import lru_cache
from itertools import chain, repeat
from operator import is_, methodcaller
from typing import Any

import jax
import numpy as np

from ..jax_versions import Tracer
from .filters import Path
from .graphdef import LEAF, GraphDef, Node, Ref, Tree, contents, interned
from .objects import Pytree
from .states import State
from .static import Static, frozen
from .tracking import EPOCH, Tracked
from .variables import Variable

Location = tuple[Any, Any]

_DICTS = (dict, OrderedDict, defaultdict)
_SETS = (set, frozenset)
_VALUES: Callable[[Any], Any] = methodcaller("values")
SCALARS = (bool, int, float, complex, np.generic)
_ATOMS = (
    *(str, bytes, type(None), type, np.dtype, Enum, GraphDef),
    *(jax.sharding.Sharding, jax.sharding.Mesh, jax.sharding.PartitionSpec),
)


# The kinds of values in a graph. They are no `Enum`: to look up a member of one is a Python call.
NODE = "node"
VALUE = "leaf: an array"
ATOM = "static data without parts"
OTHER = "to be looked into: static data, or a container without identity"

LEAVES = "numbers are leaves"
"""An option of `Walk`: bare numbers beside objects in an argument are leaves, as for JAX."""


def _kind(cls: type[Any]) -> str:
    if issubclass(cls, Tracked | State | list) or cls in _DICTS:
        return NODE
    if issubclass(cls, np.ndarray | jax.Array | Tracer | jax.ShapeDtypeStruct):
        return VALUE
    return ATOM if issubclass(cls, (*SCALARS, *_ATOMS)) else OTHER


kind_of: Any = lru_cache(maxsize=2048)(_kind)
"""Return the kind of the values of a type."""


def is_node(value: Any) -> bool:
    """Return whether a value has an identity in a graph."""
    return bool(kind_of(type(value)) is NODE)


def is_object(value: Any) -> bool:
    """Return whether a value is an object or a variable: more than a tree of arrays."""
    return isinstance(value, Tracked)


def entries(path: Sequence[Any]) -> Path:
    """Return a path of JAX as the keys, indices and names that it is made of.

    An entry of a class of the user's own stands for itself.
    """
    names = ("idx", "key", "name")
    return tuple(next((getattr(e, name) for name in names if hasattr(e, name)), e) for e in path)


def one_level(value: Any) -> tuple[Path, list[Any], Any] | None:
    """Return keys, children and structure of a tree node of JAX, or None for a leaf of JAX."""
    pairs, treedef = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda x: x is not value)
    if pairs and not pairs[0][0]:
        return None
    return tuple(entries(path)[0] for path, _ in pairs), [child for _, child in pairs], treedef


def _keeps_its_children(cls: Any) -> bool:
    """Whether tree nodes of a class keep their children for life."""
    parameters = getattr(cls, "__dataclass_params__", None)
    return issubclass(cls, tuple) or getattr(parameters, "frozen", False)


def keys_in(node: Any) -> Any:
    """Return the attribute names (sorted), keys or indices of the items of a node, in order."""
    inside = contents(node)
    if isinstance(inside, list):
        return range(len(inside))
    return sorted(inside) if isinstance(node, Pytree) else list(inside)


def structure_and_parts(value: Any) -> tuple[Any, list[Any]]:
    """Return a structure, which a check compares by `==`, and the parts, compared by identity."""
    if isinstance(value, list):
        return None, list(value)
    if type(value) in _DICTS:
        return None, [*value, *value.values()]
    level = one_level(value)
    return (frozen(value), []) if level is None else (level[2], level[1])


class Walk:
    """One walk over a graph, depth first.

    Args:
      known: Nodes that get the first numbers; they are described only when `describe` is called.

    Attributes:
      nodes: The nodes by number.
      index: Their numbers by `id`.
      described: The description of each node; None until it is described.
      leaves: For each node its leaves, as container, key and path.
      checks: The mutable values that report no changes, each with its structure and parts.
      repeated: Numbers of nodes that occur more than once.
    """

    def __init__(self, known: Sequence[Any] = ()):
        self.nodes = list(known)
        self.index = {id(node): i for i, node in enumerate(known)}
        self.described: list[Any] = [None] * len(known)
        self.leaves: list[list[tuple[Any, Any, Path]]] = [[] for _ in known]
        self.checks: list[tuple[Any, Any, list[Any]]] = []
        self.repeated: set[int] = set()

    def number(self, node: Any, path: Path, numbers: Any = None) -> int:
        """Return the number of a node; describe it, and all that it leads to, if it is new.

        Args:
          node: The node.
          path: A path that leads to it.
          numbers: `LEAVES` if bare numbers directly in the node are leaves; else None.

        Returns:
          Its number, which is its index in `nodes`.
        """
        index = self.index.setdefault(id(node), len(self.nodes))
        if index < len(self.nodes):
            self.repeated.add(index)
        else:
            self.nodes.append(node)
            self.described.append(None)
            self.leaves.append([])
            self.describe(index, path, numbers)
        return index

    def describe(self, index: int, path: Path, numbers: Any = None) -> None:
        """Describe the node of a number, and new nodes that it leads to.

        Args:
          index: The number of the node.
          path: A path that leads to it.
          numbers: As in `number`.
        """
        value, leaves = self.nodes[index], self.leaves[index]
        if isinstance(value, Variable):
            leaves.append((value._cell, 0, path))
            self.described[index] = Node(type(value), value._static, (("value", LEAF),))
            return
        inside, tags, static = contents(value), {}, None
        if isinstance(value, Pytree):
            tags = {key: tag for key, tag in value._tags.items() if key in inside}
            static, numbers = Static(tags), None
        elif isinstance(value, defaultdict):
            static = Static(value.default_factory)
        found = [
            (k, self.item(inside, k, (*path, k), leaves, tags.get(k, numbers)))
            for k in keys_in(value)
        ]
        self.described[index] = Node(type(value), static, tuple(found))
        if path and (not isinstance(value, Pytree) or value._exposed):
            self.checks.append((inside, *structure_and_parts(inside)))

    def item(self, inside: Any, key: Any, path: Path, leaves: list[Any], tag: Any = None) -> Any:
        """Return the item for a value inside a container.

        Args:
          inside: The container.
          key: Where the value is in it.
          path: The path of the value.
          leaves: A list; the leaves of the item are appended.
          tag: Whether the value is tagged as data, so that numbers in it are leaves; `LEAVES` where
            they are without a tag.

        Returns:
          A `Ref` for a node, `LEAF` for an array or another leaf, a `Tree` for a container that is
          no node, such as a tuple of arrays, and a `Static` for anything else.
        """
        value, kind = inside[key], kind_of(type(inside[key]))
        if kind is NODE:
            return Ref(self.number(value, path, LEAVES if tag is LEAVES else None))
        if kind is VALUE or (tag and isinstance(value, SCALARS)):
            leaves.append((inside, key, path))
            return LEAF
        level = one_level(value) if kind is OTHER else None
        cls: Any = type(value)
        if level is not None:
            keys, children, treedef = level
            items = [self.item(children, i, (*path, k), leaves, tag) for i, k in enumerate(keys)]
            if not _keeps_its_children(cls):
                self.checks.append((value, treedef, children))
            if not (isinstance(value, tuple) and all(isinstance(i, Static) for i in items)):
                return Tree(treedef, tuple(zip(keys, items, strict=True)))
        static = Static(value, f"path {path[1:]!r}")
        by_identity = cls.__hash__ is object.__hash__ or callable(value)
        if kind is OTHER and not (by_identity or _keeps_its_children(cls)):
            self.checks.append((value, static.key, []))
        return static


def flatten(
    roots: Sequence[Any], numbers: Any = None
) -> tuple[GraphDef[Any], list[Any], list[Location], Walk]:
    """Flatten a graph; `unflatten` is the inverse (OBJ-1).

    Args:
      roots: The objects that the graph starts from.
      numbers: `LEAVES` if numbers are leaves that lie in containers around the objects, and not in
        an object; otherwise they are static data.

    Returns:
      The definition; the nodes by number, where node 0 is the list of the roots; the locations of
      the leaves in their order; and the walk that found them.

    Raises:
      UnhashableStaticError: Static data in the graph have no hash.
    """
    walk = Walk()
    walk.number(list(roots), (), numbers)
    locations = [(container, key) for some in walk.leaves for container, key, _ in some]
    return interned(tuple(walk.described)), walk.nodes, locations, walk


def read(locations: Sequence[Location]) -> list[Any]:
    """Return the leaf values at these locations."""
    return [container[key] for container, key in locations]


class Checks:
    """The mutable parts of a graph that report no changes, and whether they are as they were.

    All lists, dictionaries and sets are compared at once, by maps that run in C: their number
    costs no Python call (JIT-3). A list or dictionary is the same if the very same values are in
    it, in the same order; a set, if the very same values are in it.

    Args:
      checks: Each part, with its structure and the values that are directly in it.
    """

    def __init__(self, checks: Sequence[tuple[Any, Any, list[Any]]]):
        values = [value for value, _, _ in checks]
        self.dictionaries = [each for each in values if isinstance(each, dict)]
        self.containers = [each for each in values if isinstance(each, list)] + self.dictionaries
        self.sizes = [*map(len, self.containers)]
        values_inside = chain.from_iterable(map(_VALUES, self.dictionaries))
        self.inside = [*chain(chain.from_iterable(self.containers), values_inside)]
        self.sets = [each for each in values if type(each) in _SETS]
        self.members = [*map(list, self.sets)]  # Alive, so that no other value has their `id`.
        self.identities = [frozenset(map(id, each)) for each in self.sets]
        self.others = [
            each for each in checks if not isinstance(each[0], list | dict | set | frozenset)
        ]

    def hold(self) -> bool:
        """Return whether all parts are as they were: one Python call, whatever their number."""
        if [*map(len, self.containers)] != self.sizes:
            return False
        # The items of all lists and the keys of all dictionaries, then the values of the latter.
        values = chain.from_iterable(map(_VALUES, self.dictionaries))
        inside = chain(chain.from_iterable(self.containers), values)
        if not all(map(is_, inside, self.inside)):
            return False
        if self.sets and [*map(frozenset, map(map, repeat(id), self.sets))] != self.identities:
            return False
        for value, structure, parts in self.others:
            new, present = structure_and_parts(value)
            if len(present) != len(parts) or not all(map(is_, present, parts)) or new != structure:
                return False
        return True


class Plan:
    """A flattened graph that knows whether it is still true (JIT-3), and keeps no object alive.

    Args:
      roots: The objects that the graph starts from.

    Raises:
      UnhashableStaticError: Static data in the graph have no hash.

    Attributes:
      definition: The structure.
      containers: Where each leaf is: a container, and
      keys: the key in it.
      has_only_variables: Whether each leaf is the value of a variable, so that all keys are 0.
      level: The trace level of the objects, or None where they have several or there are none.
    """

    def __init__(self, roots: Sequence[Any]):
        self.epoch = EPOCH[0]
        self.definition, nodes, locations, walk = flatten(roots, LEAVES)
        self.containers, self.keys = [c for c, _ in locations], [key for _, key in locations]
        self.checks = Checks(walk.checks) if walk.checks else None
        self.other_roots: tuple[Any, ...] = ()  # Weak references, which watch for their deaths.
        objects = [node for node in nodes if is_object(node)]
        self.cells = [node._cell for node in objects]
        for cell in self.cells:
            cell[-1] = cell[-1] or 1  # From now on, changes of this object concern somebody.
        self.versions = [cell[-1] for cell in self.cells]
        levels = [node._level for node in objects]
        self.level = levels[0] if levels and levels.count(levels[0]) == len(levels) else None
        # A container in the plan might lead back to a root that the plan must not keep alive.
        variables = sum(isinstance(node, Variable) for node in nodes)
        self.has_only_variables = len(locations) == variables
        later = {item.number for _, item in walk.described[0].items[1:] if isinstance(item, Ref)}
        holds_containers = bool(self.checks) or not self.has_only_variables
        self.may_be_kept = not (walk.repeated & later and holds_containers)

    def holds(self) -> bool:
        """Return whether the graph still has the structure that it had when it was flattened."""
        epoch = EPOCH[0]
        if self.epoch != epoch:
            if [cell[-1] for cell in self.cells] != self.versions:
                return False
            self.epoch = epoch
        return not self.checks or self.checks.hold()


EMPTY = Plan(())
"""The plan of a call without objects."""


def kept_plan(roots: tuple[Any, ...]) -> Plan:
    """Return a new plan, which the first root keeps until another root dies.

    It is kept under the `id`s of the other roots, and not at all if it would keep one of the roots
    alive.

    Args:
      roots: The objects of a call, at least one.

    Raises:
      UnhashableStaticError: Static data in the graph have no hash.
    """
    plan = Plan(roots)
    if plan.may_be_kept:
        key = tuple(map(id, roots[1:]))
        if roots[0]._plans is None:
            object.__setattr__(roots[0], "_plans", {})
        plans = roots[0]._plans
        plan.other_roots = tuple(weakref.ref(o, lambda _: plans.pop(key, None)) for o in roots[1:])
        plans[key] = plan
    return plan
