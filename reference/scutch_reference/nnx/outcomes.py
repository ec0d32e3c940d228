"""Outcomes: what a function did to the objects that it was given.

Inside a transformation a function works on copies of the objects. Afterwards the copies are
compared with what they were. The arrays that changed go out through the transformation, in groups
of those that are to be treated alike; the rest of the story (which leaf each array belongs to,
which nodes have another structure, which are new) is an `Outcome`, which is static. `commit`
retells it on the real objects.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
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
    leaf_paths,
    refill,
)
from .epochs import note_change
from .objects import Pytree, set_tags
from .prefixes import RETURNED
from .statics import copied
from .tracing import current_level
from .variables import Variable
from .walking import Walk, entries, is_object, read, walked

if TYPE_CHECKING:
    from .lifting import Frame


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


jax.tree_util.register_pytree_node(
    Outcome, lambda outcome: ((), outcome), lambda outcome, _: outcome
)


def below(
    nodes: Sequence[Node], item: Any, path: tuple[Any, ...], seen: set[int]
) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Path and number of each node that an item leads to, once."""
    items: Any = ()
    if isinstance(item, Tree):
        items = zip(item.keys, item.items, strict=True)
    elif isinstance(item, Ref) and item.number not in seen:
        seen.add(item.number)
        yield path, item.number
        items = nodes[item.number].items
    for key, each in items:
        yield from below(nodes, each, (*path, key), seen)


def again(definition: Definition) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Path and number of each node below each second way into a node."""
    for root, path, item, first in definition.visits:
        if isinstance(item, Ref) and not first:
            yield from below(definition.nodes, item, (root, *path), set())


def report(
    frame: Frame, nodes: list[Any], leaves: Sequence[Any], out: Any
) -> tuple[Outcome, tuple[list[Any], ...], Any]:
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
    for index in range(len(nodes)):
        walk.describe(index)

    def is_known(value: Any) -> bool:
        return is_object(value) or id(value) in walk.index

    returned: list[tuple[tuple[Any, ...], int]] = []

    def without(path: Any, value: Any) -> Any:
        if not is_known(value):
            return value
        returned.append(((len(old.roots), *entries(path)), walk.number(value)))
        return RETURNED

    out = jax.tree_util.tree_map_with_path(without, out, is_leaf=is_known)
    asked = frame.asked
    if frame.lifted.free is None:
        ways = (way for path, n in returned for way in below(walk.described, Ref(n), path, set()))
        asked = frame.agreed(asked, walk.nodes, ways)
    always = [a or x != y for a, x, y in zip(frame.always, asked, frame.asked, strict=True)]
    groups = list(map(frame.groups.index, asked))
    roots = [((i,), item) for i, item in enumerate(old.roots)] + [(p, Ref(n)) for p, n in returned]
    seen: set[int] = set()
    places = {i: (root, *path) for i, (root, path) in enumerate(old.places)}
    places |= {n: p for path, item in roots for p, n in below(walk.described, item, path, seen)}

    # Where a value comes from, if it is to be treated so.
    sources: dict[tuple[int, int], Any] = {
        (id(leaf), group): i
        for i, (leaf, group) in enumerate(zip(leaves, groups, strict=True))
        if not always[i]
    }
    changed: list[list[int]] = [[] for _ in frame.groups]
    arrays: list[list[Any]] = [[] for _ in frame.groups]
    rewrites = []

    def send(value: Any, group: int, number: int = -1) -> None:
        sources[id(value), group] = (group, len(arrays[group]))
        changed[group].append(number)
        arrays[group].append(value)

    for index, new in enumerate(walk.described):
        values = read(walk.slots[index])
        if index < len(nodes):
            start, is_same = old.starts[index], new == old.nodes[index]
            if is_same or is_variable(new):
                moved = [i for i, v in enumerate(values, start) if v is not leaves[i] or always[i]]
                for i in moved:
                    send(values[i - start], groups[i], i)
                in_trees = any(isinstance(item, Tree) for _, item in new.items)
                if is_same and not (moved and in_trees):
                    continue
                if is_variable(new):
                    rewrites.append(Rewrite(index, new, ()))
                    continue
        found = []
        for path, value in zip(_paths(new, places.get(index)), values, strict=True):
            leaf = walk.nodes[index] if is_variable(new) else value
            group = frame.groups.index(frame.at(path, leaf)) if path else 0
            if (id(value), group) not in sources:
                send(value, group)
            found.append(sources[id(value), group])
        rewrites.append(Rewrite(index, new, tuple(found)))
    numbers = tuple(number for _, number in returned)
    outcome = Outcome(tuple(map(tuple, changed)), tuple(rewrites), numbers)
    return outcome, tuple(arrays), out


def _paths(node: Node, path: tuple[Any, ...] | None) -> list[Any]:
    """The path of each leaf of a node, or None if the node is nowhere."""
    if is_variable(node):
        return [path]
    found = [(key, *p) for key, item in node.items for p in leaf_paths(item, ())]
    return [path and (*path, *each) for each in found]


def commit(
    frame: Frame, roots: Sequence[Any], leaves: Sequence[Any], outcome: Outcome, groups: Any
) -> list[Any]:
    """Make the real objects what the copies have become (JIT-1).

    Args:
      frame: Knows what the objects were.
      roots: The real arguments that have objects.
      leaves: The leaves that went in.
      outcome: What happened.
      groups: The arrays that came out.

    Returns:
      All objects, old and new.

    Raises:
      TraceLevelError: An object that changed was made at another trace level.
    """
    old, (_, nodes, slots, _) = frame.definition, walked(roots)
    known, nodes = len(nodes), list(nodes)
    touched = {each.number for each in outcome.rewrites if each.number < known}
    touched |= {bisect_right(old.starts, n) - 1 for some in outcome.changed for n in some if n >= 0}
    level = current_level()
    for number in sorted(touched):
        if getattr(nodes[number], "_level", level) != level:
            root, path = old.places[number]
            raise TraceLevelError("change", nodes[number], frame.where((root, *path)))
    for numbers, arrays in zip(outcome.changed, groups, strict=True):
        for number, array in zip(numbers, arrays, strict=True):
            if number >= 0:
                container, key = slots[number]
                container[key] = array

    def own(each: Rewrite) -> list[Any]:
        return [leaves[s] if isinstance(s, int) else groups[s[0]][s[1]] for s in each.sources]

    new = [each for each in outcome.rewrites if each.number >= known]
    nodes += [blank(each.node, next(iter(own(each)), None)) for each in new]
    for each in outcome.rewrites if frame.lifted.structural else new:
        before = old.nodes[each.number] if each.number < known else None
        _rewrite(nodes[each.number], each.node, before, nodes, iter(own(each)))
    return nodes


def _rewrite(node: Any, new: Node, old: Node | None, nodes: list[Any], own: Iterator[Any]) -> None:
    if type(node) is not new.type:
        object.__setattr__(node, "__class__", new.type)
    if is_object(node):
        note_change(node._cell)
    static: Any = new.static
    if isinstance(node, Variable):
        if old is not None and old.static != static:
            node._replace_metadata(copied(static.value))
        return
    before, inside, items = dict(old.items) if old else {}, contents(node), []
    for key, item in new.items:
        if key in before and before[key] == item and not leaf_count(item):
            # Equal static data stays the object that it was.
            items.append((key, inside[str(key) if isinstance(node, Pytree) else key]))
        else:
            items.append((key, filled(item, nodes, own)))
    if isinstance(node, Pytree):
        set_tags(node, static.value)
    refill(node, items)
