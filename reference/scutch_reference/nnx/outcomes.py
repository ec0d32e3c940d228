"""Outcomes: what a function did to the objects that it was given.

Inside a transformation a function works on copies of the objects. Afterwards the copies are
compared with what they were. The arrays that changed go out through the transformation, in groups
of those that are to be treated alike; the rest of the story (which leaf each array belongs to,
which nodes have another structure, which are new) is an `Outcome`, which is static. `commit`
retells it on the real objects.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import jax

from ..errors import TraceLevelError
from .definitions import (
    Definition,
    Node,
    Ref,
    Tree,
    blank,
    contents,
    filled,
    is_variable,
    leaf_count,
    refill,
)
from .epochs import note_change
from .filters import Path
from .objects import Pytree, set_tags
from .prefixes import RETURNED
from .tracing import current_level
from .variables import Variable
from .walking import Walk, entries, is_object, walked

if TYPE_CHECKING:
    from .lifting import Call, Frame


class Rewrite(NamedTuple):
    """A node that is new or has another structure than before.

    Each of its leaves comes from an input leaf, by number, or from a group of arrays, by the number
    of the group and the place in it. (The value of an old variable is among the changed leaves.)
    """

    number: int
    node: Node
    sources: tuple[int | tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What happened, without the arrays. It travels through JAX as a node without leaves.

    Args:
      changed: For each array of each group, the number of the leaf that it replaces, or -1.
      rewrites: Nodes with another structure, then new ones, numbered on from the old ones.
      returned: The numbers of the objects in the output, in order.
    """

    changed: tuple[tuple[int, ...], ...]
    rewrites: tuple[Rewrite, ...]
    returned: tuple[int, ...]

    @cached_property
    def is_plain(self) -> bool:
        """Whether nothing happened but to values."""
        return not self.rewrites and not self.returned

    @cached_property
    def is_nothing(self) -> bool:
        """Whether nothing happened at all."""
        return self.is_plain and not any(self.changed)


jax.tree_util.register_pytree_node(Outcome, lambda x: ((), x), lambda x, _: x)


def ways(nodes: Iterable[Node], starts: Iterable[tuple[Path, Any]]) -> Iterator[tuple[Path, int]]:
    """Path and number of each node that items lead to, from each item anew."""
    for start, item in starts:
        for _, path, each, _ in Definition(tuple(nodes), (item,)).visits:
            yield (*start, *path), each.number


def report(frame: Frame, nodes: list[Any], leaves: Sequence[Any], out: Any) -> tuple[Any, ...]:
    """Compare copies with what they were (JIT-1).

    Args:
      frame: Knows what they were, and how leaves are to be treated.
      nodes: The copies, after the function.
      leaves: The values that they had before.
      out: What the function returned.

    Returns:
      What happened, the arrays of each group, and the output without objects.
    """
    old, walk = frame.definition, Walk(nodes)
    for index, (root, path) in enumerate(old.places):
        walk.describe(index, (root, *path))
    returned: list[tuple[Path, Any]] = []

    def is_known(value: Any) -> bool:
        return is_object(value) or id(value) in walk.index

    def without(entry: Any, value: Any) -> Any:
        if not is_known(value):
            return value
        path = (len(old.roots), *entries(entry))
        returned.append((path, Ref(walk.number(value, path))))
        return RETURNED

    out = jax.tree_util.tree_map_with_path(without, out, is_leaf=is_known)
    asked = frame.asked
    if frame.lifted.free is None:
        asked = frame.agreed(asked, walk.nodes, ways(walk.described, returned))
    always = [a or x != y for a, x, y in zip(frame.always, asked, frame.asked, strict=True)]
    groups = list(map(frame.groups.index, asked))
    # Where a value comes from, if it is to be treated so.
    sources: dict[tuple[int, int], Any] = {
        (id(leaf), groups[i]): i for i, leaf in enumerate(leaves) if not always[i]
    }
    changed: list[list[int]] = [[] for _ in frame.groups]
    arrays: list[list[Any]] = [[] for _ in frame.groups]
    rewrites = []

    def send(value: Any, group: int, number: int = -1) -> None:
        sources[id(value), group] = (group, len(arrays[group]))
        changed[group].append(number)
        arrays[group].append(value)

    for index, node in enumerate(walk.described):
        places, found = walk.leaves[index], []
        if index < len(nodes):
            first, is_same = old.starts[index], node == old.nodes[index]
            if is_same or is_variable(node):
                values = [container[key] for container, key, _ in places]
                moved = [i for i, v in enumerate(values, first) if v is not leaves[i] or always[i]]
                for i in moved:
                    send(values[i - first], groups[i], i)
                in_trees = any(isinstance(item, Tree) for _, item in node.items)
                if is_same and not (moved and in_trees):
                    continue
                places = [] if is_variable(node) else places
        for container, key, path in places:
            value = container[key]
            group = frame.groups.index(
                frame.at(path, walk.nodes[index] if is_variable(node) else value)
            )
            if (id(value), group) not in sources:
                send(value, group)
            found.append(sources[id(value), group])
        rewrites.append(Rewrite(index, node, tuple(found)))
    numbers = tuple(ref.number for _, ref in returned)
    return Outcome(tuple(map(tuple, changed)), tuple(rewrites), numbers), tuple(arrays), out


def commit(call: Call, outcome: Outcome, groups: Any, out: Any) -> Any:
    """Make the real objects what the copies have become, and return the output (JIT-1).

    Args:
      call: What went in.
      outcome: What happened.
      groups: The arrays that came out.
      out: The output without objects.

    Raises:
      TraceLevelError: An object that changed was made at another trace level.
    """
    frame, plan, roots, leaves, _ = call
    level = current_level()
    if outcome.is_plain and plan.level == level:
        containers, keys = plan.containers, plan.keys
        for numbers, arrays in zip(outcome.changed, groups, strict=True):
            for number, array in zip(numbers, arrays, strict=True):
                containers[number][keys[number]] = array
        return out
    old, (_, nodes, slots, _) = frame.definition, walked(roots)
    touched = {each.number for each in outcome.rewrites}
    touched |= {bisect_right(old.starts, n) - 1 for some in outcome.changed for n in some if n >= 0}
    for number, node in enumerate(nodes):
        if number in touched and getattr(node, "_level", level) != level:
            root, path = old.places[number]
            raise TraceLevelError("change", node, frame.where((root, *path)))
    for numbers, arrays in zip(outcome.changed, groups, strict=True):
        for number, array in zip(numbers, arrays, strict=True):
            if number >= 0:
                container, key = slots[number]
                container[key] = array

    def own(each: Rewrite) -> list[Any]:
        return [leaves[s] if isinstance(s, int) else groups[s[0]][s[1]] for s in each.sources]

    new = [each for each in outcome.rewrites if each.number >= len(old.nodes)]
    nodes = nodes + [blank(each.node, next(iter(own(each)), None)) for each in new]
    for each in outcome.rewrites if frame.lifted.structural else new:
        before = old.nodes[each.number] if each.number < len(old.nodes) else None
        _rewrite(nodes[each.number], each.node, before, nodes, iter(own(each)))
    returned = iter(outcome.returned)
    return jax.tree.map(
        lambda x: nodes[next(returned)] if x is RETURNED else x,
        out,
        is_leaf=lambda x: x is RETURNED,
    )


def _rewrite(node: Any, new: Node, old: Node | None, nodes: list[Any], own: Iterator[Any]) -> None:
    if type(node) is not new.type:
        object.__setattr__(node, "__class__", new.type)
    if is_object(node):
        note_change(node._cell)
    static: Any = new.static
    if isinstance(node, Variable):
        if old is not None and old.static != static:
            node._replace_metadata(static.value)
        return
    before, inside, items = dict(old.items) if old else {}, contents(node), []
    for key, item in new.items:
        if key in before and before[key] == item and not leaf_count(item):
            # Equal static data stays the object that it was.
            items.append((key, inside[key]))
        else:
            items.append((key, filled(item, nodes, own)))
    if isinstance(node, Pytree):
        set_tags(node, static.value)
    refill(node, items)
