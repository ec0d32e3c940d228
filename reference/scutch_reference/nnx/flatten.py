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
from collections.abc import Hashable, Sequence
from itertools import chain
from operator import call, is_
from typing import Any

from .filters import Path
from .graphdef import LEAF, GraphDef, Item, NodeDescription, Ref, TreeNode, interned
from .node_types import ARRAY, ATOM, OBJECT, OTHER, SCALARS, VARIABLE, one_level, type_of
from .static import Static, frozen
from .tracking import EPOCH, Tracked

Location = tuple[Any, Any]

LEAVES = "numbers are leaves"
"""An option of `Walk`: bare numbers beside objects in an argument are leaves, as for JAX."""


def is_object(value: object) -> bool:
    """Return whether a value is an object or a variable: more than a tree of arrays."""
    return isinstance(value, Tracked)


def _keeps_its_children(cls: type[Any]) -> bool:
    """Whether values of a class keep their children or members for life."""
    parameters = getattr(cls, "__dataclass_params__", None)
    return issubclass(cls, tuple | frozenset) or getattr(parameters, "frozen", False)


def structure_and_parts(value: object) -> tuple[Any, list[Any]]:
    """Return the structure and the parts of a value, by which `Plan.holds` recognizes a change.

    Args:
      value: A tree node of JAX, or a leaf of JAX such as a frozen dataclass or a set.

    Returns:
      For a tree node its treedef and its children; for a leaf its frozen form and no parts. The
      value has changed if the structure is not equal, or a part is another object.
    """
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
      containers: The mutable lists, dictionaries and sets that report no changes.
      checks: The other mutable values that report none, each with its structure and parts.
      repeated: Numbers of nodes that occur more than once.
    """

    def __init__(self, known: Sequence[Any] = ()):
        self.nodes = list(known)
        self.index = {id(node): i for i, node in enumerate(known)}
        self.described: list[Any] = [None] * len(known)
        self.leaves: list[list[tuple[Any, Any, Path]]] = [[] for _ in known]
        self.containers: list[Any] = []
        self.checks: list[tuple[Any, Any, list[Any]]] = []
        self.repeated: set[int] = set()

    def number(self, node: object, path: Path, numbers: str | None = None) -> int:
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

    def describe(self, index: int, path: Path, numbers: str | None = None) -> None:
        """Describe the node of a number, and every node that it leads to without a number yet.

        This sets `described[index]` and appends the leaves of the node to `leaves[index]`, both in
        the order of `NodeType.keys`. A node that is not a root and does not report its changes is
        appended to `containers`, where a plan finds it.

        Args:
          index: The number of the node; its entry in `described` is None until now.
          path: A path that leads to it.
          numbers: As in `number`. In an object they are static data, unless they are tagged.
        """
        value, leaves = self.nodes[index], self.leaves[index]
        node_type = type_of(type(value))
        static, tags = node_type.static(value), {}
        if node_type is VARIABLE:
            leaves.append((value._cell, 0, path))
            self.described[index] = NodeDescription(type(value), static, ())
            return
        if node_type is OBJECT:
            tags, numbers = static.value, None
        container = node_type.container(value)
        items = [
            (key, self.item(container, key, (*path, key), leaves, tags.get(key, numbers)))
            for key in node_type.keys(container)
        ]
        self.described[index] = NodeDescription(type(value), static, tuple(items))
        if path and not node_type.reports(value):
            self.containers.append(container)

    def item(
        self,
        inside: Any,
        key: Hashable,
        path: Path,
        leaves: list[Any],
        tag: bool | str | None = None,
    ) -> Item:
        """Return the item for a value inside a container.

        Args:
          inside: The container.
          key: Where the value is in it.
          path: The path of the value.
          leaves: A list; the leaves of the item are appended.
          tag: Whether the value is tagged as data, so that numbers in it are leaves; `LEAVES` where
            they are without a tag.

        Returns:
          A `Ref` for a node, `LEAF` for an array or another leaf, a `TreeNode` for a tree node of
          JAX that is no node, such as a tuple of arrays, and a `Static` for anything else.
        """
        value = inside[key]
        cls: Any = type(value)
        node_type = type_of(cls)
        if node_type.is_node:
            return Ref(self.number(value, path, LEAVES if tag is LEAVES else None))
        if node_type is ARRAY or (tag and isinstance(value, SCALARS)):
            leaves.append((inside, key, path))
            return LEAF
        level = None if node_type is ATOM else one_level(value)
        if level is not None:
            keys, children, treedef = level
            items = [self.item(children, i, (*path, k), leaves, tag) for i, k in enumerate(keys)]
            if not _keeps_its_children(cls):
                self.checks.append((value, treedef, children))
            if not (isinstance(value, tuple) and all(isinstance(i, Static) for i in items)):
                return TreeNode(treedef, tuple(zip(keys, items, strict=True)))
        static = Static(value, f"path {path[1:]!r}")
        by_identity = cls.__hash__ is object.__hash__ or callable(value)
        if node_type.views:
            self.containers.append(value)
        elif node_type is OTHER and not (by_identity or _keeps_its_children(cls)):
            self.checks.append((value, static.key, []))
        return static


def flatten(
    roots: Sequence[Any], numbers: str | None = None
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
      checks: The changeable values that are compared by Python code; see `Walk`.
      views, viewed: The views of the other changeable containers, and their arguments. All are
        compared at once, by maps that run in C: their number costs no Python call (JIT-3).
      sizes, inside: The sizes of these containers, and the values in all of them.
      level: The trace level of the objects, or None where they have several or there are none.
    """

    def __init__(self, roots: Sequence[Any]):
        self.epoch = EPOCH[0]
        self.definition, nodes, locations, walk = flatten(roots, LEAVES)
        self.containers, self.keys = [c for c, _ in locations], [key for _, key in locations]
        self.checks = walk.checks
        views = [(view, each) for each in walk.containers for view in type_of(type(each)).views]
        self.views, self.viewed = [view for view, _ in views], [each for _, each in views]
        self.sizes = [*map(len, self.viewed)]
        self.inside = [*chain(*map(call, self.views, self.viewed))]
        self.other_roots: tuple[Any, ...] = ()  # Weak references, which watch for their deaths.
        objects = [node for node in nodes if is_object(node)]
        self.cells = [node._cell for node in objects]
        for cell in self.cells:
            cell[-1] = cell[-1] or 1  # From now on, changes of this object concern somebody.
        self.versions = [cell[-1] for cell in self.cells]
        levels = [node._level for node in objects]
        self.level = levels[0] if levels and levels.count(levels[0]) == len(levels) else None
        # A container in the plan might lead back to a root that the plan must not keep alive.
        variables = sum(node.is_variable for node in self.definition.nodes)
        self.has_only_variables = len(locations) == variables
        later = {item.number for _, item in walk.described[0].items[1:] if isinstance(item, Ref)}
        holds_containers = bool(views or self.checks) or not self.has_only_variables
        self.may_be_kept = not (walk.repeated & later and holds_containers)

    def holds(self) -> bool:
        """Return whether the graph still has the structure that it had when it was flattened."""
        epoch = EPOCH[0]
        if self.epoch != epoch:
            if [cell[-1] for cell in self.cells] != self.versions:
                return False
            self.epoch = epoch
        for value, structure, parts in self.checks:
            new, present = structure_and_parts(value)
            if len(present) != len(parts) or not all(map(is_, present, parts)) or new != structure:
                return False
        inside = chain(*map(call, self.views, self.viewed))
        return [*map(len, self.viewed)] == self.sizes and all(map(is_, inside, self.inside))


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
