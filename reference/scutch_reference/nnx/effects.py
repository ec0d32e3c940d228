"""Outcomes: what a function did to the objects that it was given.

A function works on copies, which are then compared with what they were. The arrays that changed go
out through the transformation, in groups of those that are to be treated alike; the rest of the
story is static. `commit` retells it on the real objects.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax

from ..errors import TraceLevelError
from .filters import Path
from .flatten import Walk, entries, is_object, walked
from .graphdef import Node, Ref, Tree, blank, is_variable, refill, visits
from .objects import Pytree, set_tags
from .prefixes import RETURNED
from .tracking import current_level

if TYPE_CHECKING:
    from .lifting import Call, Frame

# The number of a group of arrays that come out, and the place in it.
Source = tuple[int, int]


class Rewrite(NamedTuple):
    """A node that is new or has another structure: its leaves are of the input, or come out."""

    number: int
    node: Node
    sources: list[int | Source]


class Outcome:
    """What happened, without the arrays. It travels through JAX as a node without leaves.

    That is, leaves with another value, nodes with another structure and then new ones, numbered on
    from the old ones, and the objects in the output.
    """

    def __init__(self, changed: dict[int, Source], rewrites: list[Rewrite], returned: list[int]):
        self.changed, self.rewrites, self.returned = changed, rewrites, returned
        self.is_plain = not rewrites and not returned
        self.is_nothing = self.is_plain and not changed


jax.tree_util.register_pytree_node(Outcome, lambda x: ((), x), lambda x, _: x)


def report(frame: Frame, nodes: list[Any], leaves: Sequence[Any], out: Any) -> tuple[Any, ...]:
    """Compare copies with what they were before the function, when they had these leaves (JIT-1).

    It returns an `Outcome`, the arrays of each group, and the output without objects.
    """
    old, walk, returned = frame.definition, Walk(nodes), list[tuple[Path, Any]]()
    inputs = len(nodes[0])
    for index, path in enumerate(old.places[1:], 1):
        walk.describe(index, path)

    def is_known(value: Any) -> bool:
        return is_object(value) or id(value) in walk.index

    def without(entry: Any, value: Any) -> Any:
        if not is_known(value):
            return value
        path = (inputs, *entries(entry))
        returned.append((path, Ref(walk.number(value, path))))
        return RETURNED

    out = jax.tree_util.tree_map_with_path(without, out, is_leaf=is_known)
    others = returned if frame.lifted.free is None else ()
    ways = (way for path, item in others for way in visits(walk.described, item, path))
    asked = frame.agreed(frame.asked, walk.nodes, ways)
    always = [a or x != y for a, x, y in zip(frame.always, asked, frame.asked, strict=True)]
    groups = list(map(frame.groups.index, asked))
    # Where a value comes from, if it is to be treated so.
    sources: dict[tuple[int, int], Any] = {
        (id(leaf), groups[i]): i for i, leaf in enumerate(leaves) if not always[i]
    }
    arrays: list[list[Any]] = [[] for _ in frame.groups]
    changed, rewrites = {}, []

    def send(value: Any, group: int) -> Source:
        arrays[group].append(value)
        sources[id(value), group] = source = (group, len(arrays[group]) - 1)
        return source

    for index, node in enumerate(walk.described[1:], 1):
        values, found = [(c[key], path) for c, key, path in walk.leaves[index]], []
        if index < len(nodes):
            first, is_same, has_moved = old.starts[index], node == old.nodes[index], False
            if is_same or is_variable(node):
                for i, (value, _) in enumerate(values, first):
                    if value is not leaves[i] or always[i]:
                        changed[i], has_moved = send(value, groups[i]), True
                in_trees = any(isinstance(item, Tree) for _, item in node.items)
                if is_same and not (has_moved and in_trees):
                    continue
                values = [] if is_variable(node) else values
        for value, path in values:
            leaf = walk.nodes[index] if is_variable(node) else value
            group = frame.groups.index(frame.at(path, leaf, is_new=path[0] < inputs))
            if (id(value), group) not in sources:
                send(value, group)
            found.append(sources[id(value), group])
        rewrites.append(Rewrite(index, node, found))
    outcome = Outcome(changed, rewrites, [ref.number for _, ref in returned])
    return outcome, tuple(arrays), out


def commit(call: Call, outcome: Outcome, groups: Any, out: Any) -> Any:
    """Make the real objects what the copies have become, and return the output (JIT-1)."""
    (frame, plan, roots, leaves, _), level = call, current_level()
    old, nodes = frame.definition, []
    if not (outcome.is_plain and plan.level == level):
        nodes = walked(roots)[1]
        touched = {bisect_right(old.starts, number) - 1 for number in outcome.changed}
        touched |= {each.number for each in outcome.rewrites}
        for number, node in enumerate(nodes):
            if number in touched and getattr(node, "_level", level) != level:
                raise TraceLevelError("change", node, frame.where(old.places[number]))
    containers, keys = plan.containers, plan.keys
    for number, (group, place) in outcome.changed.items():
        containers[number][keys[number]] = groups[group][place]
    if outcome.is_plain:
        return out

    def own(each: Rewrite) -> list[Any]:
        return [leaves[s] if isinstance(s, int) else groups[s[0]][s[1]] for s in each.sources]

    new = [each for each in outcome.rewrites if each.number >= len(old.nodes)]
    nodes += [blank(each.node, *own(each)[:1]) for each in new]
    for each in outcome.rewrites if frame.lifted.structural else new:
        node, described = nodes[each.number], each.node
        before = old.nodes[each.number] if each.number < len(old.nodes) else None
        if type(node) is not described.type:
            object.__setattr__(node, "__class__", described.type)
        if is_object(node):
            node._changed()
        if not is_variable(described):
            if isinstance(node, Pytree):
                set_tags(node, described.static.value)
            same = frozenset(before.items if before else ())
            refill(node, described, nodes, iter(own(each)), same)
        elif before and before.static != described.static:
            node._become(described.static)
    again = iter(outcome.returned)

    def known(part: Any) -> Any:
        return nodes[next(again)] if part is RETURNED else part

    return jax.tree.map(known, out, is_leaf=lambda part: part is RETURNED)
