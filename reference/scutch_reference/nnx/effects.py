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
from ..types import Leaf, Tree
from .filters import Path
from .flatten import LEAVES, Walk, flatten, is_object
from .frames import Call, Frame, Groups
from .graphdef import (
    LeafPlace,
    NodeDescription,
    Ref,
    TreeNode,
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
    node: NodeDescription
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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Effects) and (
            (self.changed, self.rewrites, self.returned)
            == (other.changed, other.rewrites, other.returned)
        )

    def __hash__(self) -> int:
        return hash((*self.changed.items(), *self.returned))


jax.tree_util.register_pytree_node(Effects, lambda x: ((), x), lambda x, _: x)


def runner(
    frame: Frame, function: Callable[..., Any], inside: Inside, *, structural: bool
) -> Callable[..., Any]:
    """Return the function of arrays that the transformation of JAX gets to see.

    Args:
      frame: The frame of the call.
      function: The user's function.
      inside: Calls the user's function on the copies; see `Inside`.
      structural: Whether to output changes of structure, beside values and metadata.

    Returns:
      A function of the leaves and the plain arguments. It calls the user's function on copies of
      the objects, and returns the result of `report`. Its option `always_out` says whether each
      leaf is output even if it is unchanged; without it, none is.
    """

    # JAX inspects each parameter whenever it traces: one fewer saves 13 Python calls.
    def run(*arguments: Tree, always_out: Sequence[bool] = ()) -> Any:
        leaves, *plain = arguments
        nodes = unflatten(frame.definition, leaves)
        args, kwargs = frame.signature.assembled(*nodes[0], *plain, *frame.statics)
        out = inside(frame, nodes, lambda: function(*args, **kwargs))
        return report(frame, nodes, leaves, out, always_out, structural=structural)

    return run


def report(
    frame: Frame,
    nodes: list[Any],
    leaves: Sequence[Any],
    out: Tree,
    always_out: Sequence[bool] = (),
    *,
    structural: bool = True,
) -> tuple[Effects, tuple[Any, ...], Any]:
    """Compare copies of objects with their state before the call, and collect the changes (JIT-1).

    Args:
      frame: The frame of the call.
      nodes: The copies by number.
      leaves: The values of their leaves before the call.
      out: The output of the function.
      always_out: Whether each leaf is output even if it is unchanged; empty if none is.
      structural: Whether to output changes of structure, beside values and metadata.

    Returns:
      The effects, the arrays of each group, and the output without objects.

    Raises:
      AliasingError: The prefix of the output gives a returned variable another value than the
        prefix of its argument; or it gives two occurrences of a new variable different values.
      TraceLevelError: The output or an argument contains an object of another trace level, such as
        one that the function captured; only a copy of it could be returned.
    """
    walk = _described(frame, nodes)
    out, returned = _without_objects(walk, out, len(nodes[0]))
    level, known = trace_level(), frame.definition
    for node in walk.nodes[len(nodes) :]:
        if getattr(node, "_level", level) != level:
            raise TraceLevelError(tried="return", node=node, what="an object")
    ways = [way for path, ref in returned for way in occurrences(walk.described, ref, path)]
    prefixes = frame.reconciled(
        known.leaves, frame.leaf_prefixes, walk.nodes, ways if frame.rules.none_is_free else ()
    )
    # An occurrence of a leaf in the output may give it another prefix value than its argument.
    moved = list(map(ne, prefixes, frame.leaf_prefixes))
    must = list(map(or_, moved, always_out)) if always_out else moved
    arrays = _Arrays(frame, leaves, prefixes, must)
    new_values, rewritten = _compared(frame, walk, leaves, must, structural=structural)
    changed = {i: arrays.append(value, prefixes[i]) for i, value in new_values.items()}
    rewrites = [Rewrite(number, walk.described[number], []) for number in rewritten]
    _fill_sources(frame, walk, rewrites, ways, arrays, structural=structural)
    effects = Effects(changed, rewrites, [ref.number for _, ref in returned])
    return effects, tuple(arrays.groups), out


def _described(frame: Frame, nodes: list[Any]) -> Walk:
    """Describe the copies, and the new nodes that they lead to."""
    walk, paths = Walk(nodes), frame.definition.node_paths
    objects = {path for path, node in zip(paths, nodes, strict=True) if is_object(node)}
    for number, path in enumerate(paths[1:], 1):
        in_object = any(path[:i] in objects for i in range(len(path)))
        walk.describe(number, path, None if in_object else LEAVES)
    return walk


def _without_objects(walk: Walk, out: Tree, root: int) -> tuple[Any, list[tuple[Path, Ref]]]:
    """Replace objects in an output by marks; return paths and numbers, and describe new objects."""
    returned: list[tuple[Path, Ref]] = []

    def is_node(value: object) -> bool:
        return is_object(value) or id(value) in walk.index

    def marked(entry: Sequence[object], value: Leaf) -> Leaf:
        if not is_node(value):
            return value
        path = (root, *entries(entry))
        returned.append((path, Ref(walk.number(value, path))))
        return RETURNED

    return jax.tree_util.tree_map_with_path(marked, out, is_leaf=is_node), returned


class _Arrays:
    """The arrays to output in their groups, and the source of each value.

    An unchanged leaf needs no output, because the caller has it, unless `must` says so. Where every
    leaf must be output, as by each of several branches, equal values are output once more: which
    values are equal differs from branch to branch.
    """

    def __init__(
        self, frame: Frame, leaves: Sequence[Any], prefixes: Sequence[Any], must: Sequence[bool]
    ):
        self.numbers, self.reuses = frame.groups.index, not (must and all(must))
        self.groups: list[list[Any]] = [[] for _ in frame.groups]
        # By the identity of a value and its group.
        self.sources: dict[tuple[int, int], int | Source] = {
            (id(leaf), self.numbers(prefix)): i
            for i, (leaf, prefix) in enumerate(zip(leaves, prefixes, strict=True))
            if not must[i]
        }

    def append(self, value: Tree, prefix: object) -> Source:
        """Output a value in the group of a prefix value, and return its source."""
        group = self.numbers(prefix)
        self.groups[group].append(value)
        source = group, len(self.groups[group]) - 1
        self.sources |= {(id(value), group): source} if self.reuses else {}
        return source


def _compared(
    frame: Frame, walk: Walk, leaves: Sequence[Any], must: Sequence[bool], *, structural: bool
) -> tuple[dict[int, Any], list[int]]:
    """Return the new values of known leaves by number, and the numbers of nodes to rewrite.

    A node is rewritten if it is new, or has another structure. Without `structural`, of the known
    nodes only variables of the same type are, whose metadata may differ.
    """
    known, values, rewritten = frame.definition, dict[int, Any](), list[int]()
    for number, node in enumerate(walk.described[1:], 1):
        before = known.nodes[number] if number < len(known.nodes) else None
        is_variable, count = node.is_variable, len(values)
        if before and (is_variable or node == before):
            first = known.first_leaves[number]
            for i, (container, key, _) in enumerate(walk.leaves[number], first):
                if container[key] is not leaves[i] or must[i]:
                    values[i] = container[key]
        # A leaf inside a container without identity cannot be set: the container is made anew.
        in_trees = len(values) > count and any(isinstance(item, TreeNode) for _, item in node.items)
        is_alike = before is None or (is_variable and node.type is before.type)
        if (node != before or in_trees) and (structural or is_alike):
            rewritten.append(number)
    return values, rewritten


def _fill_sources(
    frame: Frame,
    walk: Walk,
    rewrites: Sequence[Rewrite],
    ways: Sequence[tuple[Path, int, bool]],
    arrays: _Arrays,
    *,
    structural: bool,
) -> None:
    """Append the sources of their leaves to rewrites; output the leaves that have none.

    `ways` are the occurrences of nodes in the output. All occurrences of a new variable must have
    the same prefix value. An occurrence in an argument counts only if changes of structure are
    output (`structural`).
    """
    in_output = {} if structural else {number: path for path, number, _ in reversed(ways)}
    parts: list[tuple[LeafPlace, Any, Rewrite]] = []
    for each in rewrites:
        is_variable = each.node.is_variable
        if is_variable and each.number < len(frame.definition.nodes):
            continue  # Its new value is a changed leaf.
        for container, key, path in walk.leaves[each.number]:
            place = in_output.get(each.number, path) if is_variable else path
            parts.append(((place, each.number if is_variable else None), container[key], each))
    leaves, values, _ = zip(*parts, strict=True) if parts else ((), (), ())
    prefixes = frame.prefixes_of(leaves, values, walk.nodes, ways)
    for (_, value, each), prefix in zip(parts, prefixes, strict=True):
        source = arrays.sources.get((id(value), arrays.numbers(prefix)))
        each.sources.append(arrays.append(value, prefix) if source is None else source)


def commit(call: Call, effects: Effects, groups: Groups, out: Tree) -> Tree:
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
    transformed, plan, roots, leaves, _ = call
    frame, level = transformed.frame, trace_level()
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


def _check_levels(frame: Frame, nodes: Sequence[Any], effects: Effects, level: object) -> None:
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
    frame: Frame, nodes: list[Any], effects: Effects, leaves: Sequence[Any], groups: Groups
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
    nodes: Sequence[Any], rewrite: Rewrite, before: NodeDescription | None, values: Sequence[Any]
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
