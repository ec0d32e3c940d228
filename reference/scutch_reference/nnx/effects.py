"""Effects: the changes that a function made to the objects that it was given.

Inside a transformation, a function works on copies of the objects. Then `report` compares each copy
with its structure and leaves before the call. The transformation outputs the arrays that changed,
in the groups of the frame; all other changes are static data, an `Effects`. Outside, `commit` makes
the same changes to the real objects:

    outside              commit: objects <- effects + arrays
                                     ^
    transformation                   |
    inside               report: copies -> effects + arrays

Words: a *source* tells where to get a value: it is the number of an input leaf, or the number of a
group of output arrays and an index in it. A node is *known* if the arguments contained it before
the call; other nodes are *new*, and are numbered on from the known ones. A *rewrite* describes a
node that is new or has another structure.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import ne, or_
from typing import Any, NamedTuple

import jax

from ..errors import TraceLevelError
from ..jax_versions import trace_level
from .filters import Path
from .flatten import LEAVES, Walk, flatten, is_object
from .frames import Call, Frame
from .graphdef import (
    Node,
    Ref,
    Tree,
    blank,
    occurrences,
    refill,
    unflatten,
)
from .node_types import entries, type_of
from .prefixes import RETURNED

# The number of a group of arrays that come out, and the index in it.
Source = tuple[int, int]
# Gets the frame, the copies of the nodes, and a function without parameters; calls that function.
Inside = Callable[[Frame, list[Any], Callable[[], Any]], Any]


class Rewrite(NamedTuple):
    """A node that is new or has another structure, with the sources of its leaves."""

    number: int
    node: Node
    sources: list[int | Source]


class Effects:
    """The changes that a function made to its objects, with sources in place of arrays.

    It travels through JAX as a pytree node without leaves.

    Args:
      changed: The source of the new value of each changed leaf, by the number of the leaf.
      rewrites: Nodes that are new or have another structure.
      returned: The numbers of the objects in the output, in their order.
    """

    def __init__(self, changed: dict[int, Source], rewrites: list[Rewrite], returned: list[int]):
        self.changed = changed
        self.rewrites = rewrites
        self.returned = returned
        self.are_values_only = not rewrites and not returned
        self.are_none = self.are_values_only and not changed


jax.tree_util.register_pytree_node(Effects, lambda x: ((), x), lambda x, _: x)


def runner(
    frame: Frame,
    function: Callable[..., Any],
    inside: Inside,
    statics: Sequence[Any],
    *,
    structural: bool,
) -> Callable[..., Any]:
    """Return the function of arrays that the transformation of JAX gets to see.

    Args:
      frame: The frame of the call.
      function: The user's function.
      inside: Calls the user's function on the copies; see `Inside`.
      statics: The static arguments.
      structural: Whether to output changes of structure, beside values and metadata.

    Returns:
      A function of the arguments that `frame.arguments` arranges. It calls the user's function on
      copies of the objects, and returns the result of `report`.
    """

    def run(*arguments: Any) -> Any:
        leaves, plain = frame.leaves_and_plain(*arguments)
        nodes = unflatten(frame.definition, leaves)
        args, kwargs = frame.signature.assembled(*nodes[0], *plain, *statics)
        out = inside(frame, nodes, lambda: function(*args, **kwargs))
        return report(frame, nodes, leaves, out, structural=structural)

    return run


def report(
    frame: Frame, nodes: list[Any], leaves: Sequence[Any], out: Any, *, structural: bool = True
) -> tuple[Effects, tuple[Any, ...], Any]:
    """Compare copies of objects with their state before the call, and collect the changes (JIT-1).

    Args:
      frame: The frame of the call.
      nodes: The copies by number.
      leaves: The values of their leaves before the call.
      out: The output of the function.
      structural: Whether to output changes of structure, beside values and metadata.

    Returns:
      The effects, the arrays of each group, and the output without objects.

    Raises:
      AliasingError: The prefix of the output gives a returned variable another value than the
        prefix of its argument; or it gives two occurrences of a new variable different values.
      TraceLevelError: The output or an argument contains an object of another trace level, such as
        one that the function captured; only a copy of it could be returned.
    """
    walk = Walk(nodes)
    objects = {
        path
        for path, node in zip(frame.definition.node_paths, nodes, strict=True)
        if is_object(node)
    }
    for number, path in enumerate(frame.definition.node_paths[1:], 1):
        in_object = any(path[:i] in objects for i in range(len(path)))
        walk.describe(number, path, None if in_object else LEAVES)
    out, returned = _without_objects(walk, out, len(nodes[0]))
    level = trace_level()
    for node in walk.nodes[len(nodes) :]:
        if getattr(node, "_level", level) != level:
            raise TraceLevelError(tried="return", node=node, what="an object")
    comparison = _Comparison(frame, walk, leaves, returned, structural=structural)
    rewrites = [
        Rewrite(number, node, comparison.sources_of_leaves(number))
        for number, node in enumerate(walk.described[1:], 1)
        if comparison.is_rewritten(number) and (structural or comparison.is_new_or_alike(number))
    ]
    effects = Effects(comparison.changed, rewrites, [ref.number for _, ref in returned])
    return effects, tuple(comparison.arrays), out


def _without_objects(walk: Walk, out: Any, root: int) -> tuple[Any, list[tuple[Path, Ref]]]:
    """Replace objects in an output by marks; return paths and numbers, and describe new objects."""
    returned: list[tuple[Path, Ref]] = []

    def is_node(value: Any) -> bool:
        return is_object(value) or id(value) in walk.index

    def marked(entry: Any, value: Any) -> Any:
        if not is_node(value):
            return value
        path = (root, *entries(entry))
        returned.append((path, Ref(walk.number(value, path))))
        return RETURNED

    return jax.tree_util.tree_map_with_path(marked, out, is_leaf=is_node), returned


class _Comparison:
    """The arrays to output, and the source of the value of each leaf.

    `groups` has the group of each known leaf. `must` has whether a known leaf is output even if it
    is unchanged: because the frame says so (`always_out`), or because an occurrence of the leaf in
    the output gives it another prefix value.
    """

    def __init__(
        self,
        frame: Frame,
        walk: Walk,
        leaves: Sequence[Any],
        returned: Sequence[tuple[Path, Ref]],
        *,
        structural: bool,
    ):
        self.frame, self.walk = frame, walk
        self.leaves = leaves
        self.changed: dict[int, Source] = {}
        self.arrays: list[list[Any]] = [[] for _ in frame.groups]
        ways = [way for path, ref in returned for way in occurrences(walk.described, ref, path)]
        others = ways if frame.rules.none_is_free else ()
        prefixes = frame.reconciled(frame.leaf_prefixes, walk.nodes, others)
        self.groups = list(map(frame.groups.index, prefixes))
        self.must = list(map(or_, frame.always_out, map(ne, prefixes, frame.leaf_prefixes)))
        # By the identity of a value and its group.
        self.sources: dict[tuple[int, int], Any] = {
            (id(leaf), self.groups[i]): i for i, leaf in enumerate(leaves) if not self.must[i]
        }
        self.new = self._of_new_variables(ways if len(frame.groups) > 1 else (), structural)

    def _of_new_variables(self, ways: Any, structural: bool) -> dict[int, Any]:
        """Return the prefix value of each new variable in the output, by number.

        All occurrences of a variable must have the same value. Occurrences in an argument count
        only if changes of structure are output (`structural`).
        """
        known, arguments = len(self.frame.definition.nodes), len(self.walk.nodes[0])
        found: dict[int, tuple[Path, Any]] = {}
        for path, number, _ in ways:
            variable = self.walk.nodes[number]
            if number < known or not self.walk.described[number].is_variable:
                continue
            if number not in found:
                ((_, _, first),) = self.walk.leaves[number]
                place = first if structural or first[0] == arguments else path
                found[number] = place, self.frame.prefix_at(place, variable)
            place, value = found[number]
            found[number] = place, self.frame.agreed(place, value, path, variable)
        return {number: value for number, (_, value) in found.items()}

    def is_rewritten(self, number: int) -> bool:
        """Output the changed leaves of a known node; return whether the node needs a rewrite."""
        old, node = self.frame.definition, self.walk.described[number]
        is_same = number < len(old.nodes) and node == old.nodes[number]
        if number >= len(old.nodes) or not (is_same or node.is_variable):
            return True
        before = len(self.changed)
        for i, (container, key, _) in enumerate(self.walk.leaves[number], old.first_leaves[number]):
            if container[key] is not self.leaves[i] or self.must[i]:
                self.changed[i] = self._send(container[key], self.groups[i])
        # A leaf inside a container without identity cannot be set: the container is made anew.
        in_trees = any(isinstance(item, Tree) for _, item in node.items)
        return not is_same or (in_trees and len(self.changed) > before)

    def is_new_or_alike(self, number: int) -> bool:
        """Whether a node is new, or a known variable of the same type (its metadata may differ)."""
        known, node = self.frame.definition.nodes, self.walk.described[number]
        return number >= len(known) or (node.is_variable and node.type is known[number].type)

    def sources_of_leaves(self, number: int) -> list[int | Source]:
        """Return the source of each leaf of a node; first output leaves that the caller lacks."""
        is_variable = self.walk.described[number].is_variable
        known, sources = len(self.frame.definition.nodes), []
        # `self.changed` has the new value of a known variable.
        leaves = [] if is_variable and number < known else self.walk.leaves[number]
        for container, key, path in leaves:
            leaf = self.walk.nodes[number] if is_variable else container[key]
            prefix = self.new[number] if number in self.new else self.frame.prefix_at(path, leaf)
            group = self.frame.groups.index(prefix)
            if (id(container[key]), group) not in self.sources:
                self._send(container[key], group)
            sources.append(self.sources[id(container[key]), group])
        return sources

    def _send(self, value: Any, group: int) -> Source:
        """Append a value to the output arrays of a group, and return its (group, index)."""
        self.arrays[group].append(value)
        source = (group, len(self.arrays[group]) - 1)
        self.sources[id(value), group] = source
        return source


def commit(call: Call, effects: Effects, groups: Any, out: Any) -> Any:
    """Make the changes of the copies to the real objects (JIT-1).

    In the usual case no walk over the objects is needed: only values changed, and all objects are
    of the running trace level.

    Args:
      call: The call.
      effects: The changes.
      groups: The arrays of each group.
      out: The output, with a mark in place of each object.

    Returns:
      The output, with the real objects in place of the marks.

    Raises:
      TraceLevelError: An object to change was made outside the transformation that runs; then no
        object is changed.
    """
    frame, plan, roots, leaves, _ = call
    level = trace_level()
    nodes = [] if effects.are_values_only and plan.level == level else flatten(roots)[1]
    if nodes:
        _check_levels(frame, nodes, effects, level)
    containers, keys = plan.containers, plan.keys
    for number, (group, index) in effects.changed.items():
        containers[number][keys[number]] = groups[group][index]
    if effects.are_values_only:
        return out
    _restructure(frame, nodes, effects, leaves, groups)
    returned = iter(effects.returned)
    return jax.tree.map(
        lambda part: nodes[next(returned)] if part is RETURNED else part,
        out,
        is_leaf=lambda part: part is RETURNED,
    )


def _check_levels(frame: Frame, nodes: Sequence[Any], effects: Effects, level: Any) -> None:
    """Raise a `TraceLevelError` if an object to change is of another trace level."""
    starts = frame.definition.first_leaves
    touched = {bisect_right(starts, number) - 1 for number in effects.changed}
    touched |= {each.number for each in effects.rewrites}
    for number, node in enumerate(nodes):
        if number in touched and getattr(node, "_level", level) != level:
            raise TraceLevelError(
                tried="change", node=node, what=frame.where(frame.definition.node_paths[number])
            )


def _restructure(
    frame: Frame, nodes: list[Any], effects: Effects, leaves: Sequence[Any], groups: Any
) -> None:
    """Append new nodes to the real ones, then rewrite those with another structure, new or not."""
    known, rewrites = frame.definition.nodes, effects.rewrites
    pairs = [
        (each, [leaves[s] if isinstance(s, int) else groups[s[0]][s[1]] for s in each.sources])
        for each in rewrites
    ]
    nodes += [blank(each.node, *own[:1]) for each, own in pairs if each.number >= len(known)]
    for each, own in pairs:
        before = known[each.number] if each.number < len(known) else None
        rewrite_node(nodes, each, before, own)


def rewrite_node(
    nodes: Sequence[Any], rewrite: Rewrite, before: Node | None, values: Sequence[Any]
) -> None:
    """Give a real node the type, the static data and the items that its copy has (JIT-1).

    The value of a variable stays.

    Args:
      nodes: The real nodes by number.
      rewrite: The number of the node, and its new description.
      before: The old description of the node, if it has one.
      values: The values of the node's leaves; not used for a variable.
    """
    node, described = nodes[rewrite.number], rewrite.node
    if type(node) is not described.type:
        object.__setattr__(node, "__class__", described.type)
    type_of(described.type).restate(node, described.static)
    refill(node, described, nodes, iter(values), frozenset(before.items if before else ()))
