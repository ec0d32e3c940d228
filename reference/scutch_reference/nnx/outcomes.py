"""Outcomes: what a function did to the objects that it was given.

Inside a transformation a function works on copies of the objects. Afterwards the copies are
compared with what they were. The arrays that changed go out through the transformation; the rest
of the story (which leaf each array belongs to, which nodes have another structure, which are new)
is an `Outcome`, which is static. `Commit` retells it on the real objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax

from ..errors import TraceLevelError
from .definitions import (
    LEAF,
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
from .objects import Pytree, set_tags
from .prefixes import FilterPrefix
from .statics import copied
from .tracing import current_level
from .variables import Variable
from .walking import Walk, is_object


class Kept(NamedTuple):
    """A leaf that is leaf `number` of the input."""

    number: int


class Sent(NamedTuple):
    """A leaf that comes out as an array: number `place` of a group, or of an output."""

    group: int
    place: int
    output: int | None = None


class Rewrite(NamedTuple):
    """A node that has another structure than before, and where its leaves come from."""

    number: int
    node: Node
    sources: tuple[Kept | Sent, ...]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What happened, without the arrays. It travels through JAX as a node without leaves.

    Args:
      changed: For each group of arrays, the numbers of the input leaves that they replace.
      rewrites: Surviving nodes with another structure; values of variables are among the changed.
      fresh: New nodes, numbered on from the old ones.
      outputs: The structure of the output, and an item or None (an array) for each part of it;
        None if there are arrays only.
    """

    changed: tuple[tuple[int, ...], ...]
    rewrites: tuple[Rewrite, ...] = ()
    fresh: tuple[Rewrite, ...] = ()
    outputs: tuple[Any, tuple[Any, ...]] | None = None

    @cached_property
    def is_plain(self) -> bool:
        """Whether nothing happened but to values."""
        return not self.rewrites and not self.fresh and self.outputs is None

    @cached_property
    def is_nothing(self) -> bool:
        """Whether nothing happened at all."""
        return self.is_plain and not any(self.changed)


jax.tree_util.register_pytree_node(
    Outcome, lambda outcome: ((), outcome), lambda outcome, _: outcome
)


class Groups(NamedTuple):
    """How leaves are told apart on the way out, because their groups are treated differently.

    Args:
      values: What each group is given (a sharding, a spec, an axis).
      of_leaf: The group of each input leaf.
      place: The group of a new leaf, by root, path and value.
      always: Whether an input leaf goes out even if it did not change.
    """

    values: tuple[Any, ...]
    of_leaf: tuple[int, ...]
    place: Callable[[int, tuple[Any, ...], Any], int]
    always: tuple[bool, ...]


class Report:
    """Compares nodes after a function with what they were before."""

    def __init__(self, definition: Definition, nodes: list[Any], leaves: list[Any], groups: Groups):
        self.definition = definition
        self.before = leaves
        self.numbers = {id(leaf): i for i, leaf in enumerate(leaves)}
        self.groups = groups
        # For each group, the arrays that replace input leaves, then all others.
        self.changed: list[list[int]] = [[] for _ in groups.values]
        self.replacements: list[list[Any]] = [[] for _ in groups.values]
        self.additions: list[list[Any]] = [[] for _ in groups.values]
        self.rewrites: list[Rewrite] = []
        self.fresh: list[Rewrite] = []
        self.walk = Walk(nodes)
        self.known = len(nodes)
        self.places = dict(enumerate(definition.places))

    def _send(self, value: Any, group: int) -> Sent:
        self.additions[group].append(value)
        return Sent(group, len(self.additions[group]) - 1)

    def _change(self, number: int, value: Any) -> None:
        group = self.groups.of_leaf[number]
        self.changed[group].append(number)
        self.replacements[group].append(value)

    def arrays(self) -> tuple[list[Any], ...]:
        """The arrays that go out, by group."""
        return tuple(map(list.__add__, self.replacements, self.additions))

    def known_nodes(self) -> None:
        """Compare every node of the input, reachable or not."""
        for index in range(self.known):
            self.walk.describe(index)
        for index in range(self.known):
            self._compare(index)
        self.new_nodes(None)

    def _compare(self, index: int) -> None:
        """Tell what changed in a node."""
        new, old = self.walk.describe(index), self.definition.nodes[index]
        values = [container[key] for container, key in self.walk.slots[index]]
        start = self.definition.starts[index]
        same = new == old
        if same or is_variable(new):
            direct = [item is LEAF for _, item in old.items for _ in range(leaf_count(item))]
            moved = [
                i
                for i, value in enumerate(values)
                if value is not self.before[start + i] or self.groups.always[start + i]
            ]
            for i in moved:
                self._change(start + i, values[i])
            if same and all(direct[i] for i in moved):
                return
            if is_variable(new):
                self.rewrites.append(Rewrite(index, new, ()))
                return
        sources = tuple(self._source(index, value) for value in values)
        self.rewrites.append(Rewrite(index, new, sources))

    def _source(self, index: int, value: Any) -> Kept | Sent:
        number = self._input(value)
        return Kept(number) if number is not None else self._send(value, self._place(index, value))

    def _input(self, value: Any) -> int | None:
        """The number of the input leaf that a value is, if it will still be there."""
        number = self.numbers.get(id(value))
        return None if number is None or self.groups.always[number] else number

    def _place(self, index: int, value: Any) -> int:
        """The group of a new leaf of a node."""
        root, path = self.places.get(index, (0, ()))
        return self.groups.place(root, path, value)

    def new_nodes(self, send: Callable[[int, Any], Sent] | None) -> None:
        """Describe the nodes that were found since the last time."""
        for index in range(self.known + len(self.fresh), len(self.walk.nodes)):
            node = self.walk.describe(index)
            values = [container[key] for container, key in self.walk.slots[index]]
            if index not in self.places and send is None:
                self._locate(index)
            sources: list[Kept | Sent] = []
            for value in values:
                number = self._input(value)
                if number is not None:
                    sources.append(Kept(number))
                elif send is None:
                    sources.append(self._send(value, self._place(index, value)))
                else:
                    sources.append(send(index, value))
            self.fresh.append(Rewrite(index, node, tuple(sources)))

    def _locate(self, index: int) -> None:
        """Where a new node sits: below the first node that leads to it."""
        for parent in range(len(self.walk.nodes)):
            described = self.walk.described[parent]
            for key, item in described.items if described else ():
                if parent in self.places and _mentions(item, index):
                    root, path = self.places[parent]
                    self.places[index] = (root, (*path, key))
                    return

    def outputs(self, out: Any, prefix: Any) -> tuple[Any, Any]:
        """The output as arrays, and its structure if there are objects in it.

        An object becomes the list of its new leaves; with filters, a tuple of such lists.
        """
        pairs, treedef = jax.tree_util.tree_flatten_with_path(out, is_leaf=self._is_node)
        if not any(self._is_node(value) for _, value in pairs):
            return out, None
        arrays: list[Any] = []
        items: list[Any] = []
        for path, value in pairs:
            if not self._is_node(value):
                arrays.append(value)
                items.append(None)
                continue
            mapping = _prefix_below(prefix, tuple(map(_entry, path)))
            lists: list[list[Any]] = [[] for _ in mapping.filters] if mapping else [[]]
            output = len(items)

            def send(
                index: int,
                leaf: Any,
                mapping: Any = mapping,
                lists: Any = lists,
                output: int = output,
                value: Any = value,
            ) -> Sent:
                group = 0
                if mapping is not None:
                    group = mapping.which(self._path_to(value, index), self.walk.nodes[index])
                lists[group].append(leaf)
                return Sent(group, len(lists[group]) - 1, output)

            items.append(self.walk.reach(value, [], (None, None)))
            self.new_nodes(send)
            arrays.append(tuple(lists) if mapping else lists[0])
        return jax.tree.unflatten(treedef, arrays), (treedef, tuple(items))

    def _is_node(self, value: Any) -> bool:
        return is_object(value) or id(value) in self.walk.index

    def _path_to(self, value: Any, index: int) -> tuple[Any, ...]:
        """The path from an output to a node in it."""
        seen: set[int] = set()

        def search(item: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
            if isinstance(item, Ref) and item.number == index:
                yield path
            elif isinstance(item, Ref) and item.number not in seen:
                seen.add(item.number)
                described = self.walk.described[item.number]
                for key, each in described.items if described else ():
                    yield from search(each, (*path, key))
            elif isinstance(item, Tree):
                for key, each in zip(item.keys, item.items, strict=True):
                    yield from search(each, (*path, key))

        return next(search(Ref(self.walk.index[id(value)]), ()))

    def outcome(self, outputs: Any) -> Outcome:
        """The story."""
        return Outcome(
            tuple(map(tuple, self.changed)), tuple(self.rewrites), tuple(self.fresh), outputs
        )


def _entry(key: Any) -> Any:
    return next(getattr(key, name) for name in ("idx", "key", "name") if hasattr(key, name))


def _prefix_below(prefix: Any, path: tuple[Any, ...]) -> FilterPrefix | None:
    while isinstance(prefix, list | tuple | dict) and path:
        prefix, path = prefix[path[0]], path[1:]
    return prefix if isinstance(prefix, FilterPrefix) else None


def _mentions(item: Any, index: int) -> bool:
    if isinstance(item, Ref):
        return item.number == index
    return isinstance(item, Tree) and any(_mentions(each, index) for each in item.items)


class Commit:
    """Makes the real objects what the copies have become (JIT-1).

    Args:
      definition: The structure before.
      nodes: The real nodes, in order.
      slots: Where their leaves sit.
      values: The leaves that went in.
      outcome: What happened.
      groups: The arrays that came out, by group.
    """

    def __init__(
        self,
        definition: Definition,
        nodes: list[Any],
        slots: Sequence[tuple[Any, Any]],
        values: Sequence[Any],
        outcome: Outcome,
        groups: Sequence[Sequence[Any]],
    ):
        self.definition, self.nodes, self.slots = definition, list(nodes), slots
        self.outcome, self.groups = outcome, groups
        self.values = values

    def check_levels(self, label: Callable[[int], str]) -> None:
        """Refuse to change objects of another trace level.

        Raises:
          TraceLevelError: `label(node number)` says where it is.
        """
        level = current_level()
        starts = self.definition.starts
        moved = {n for numbers in self.outcome.changed for n in numbers}
        touched = {rewrite.number for rewrite in self.outcome.rewrites}
        for i, node in enumerate(self.nodes):
            changed = i in touched or any(n in moved for n in range(starts[i], starts[i + 1]))
            if changed and getattr(node, "_level", level) != level:
                raise TraceLevelError("change", node, label(i))

    def store_values(self) -> None:
        """Put the changed leaves in their slots."""
        for numbers, arrays in zip(self.outcome.changed, self.groups, strict=True):
            for number, array in zip(numbers, arrays, strict=False):
                container, key = self.slots[number]
                container[key] = array

    def rebuild(self, out: Any) -> Any:
        """Change the structure of nodes, make the new ones, and return the output."""
        outputs = self.outcome.outputs
        parts = outputs[0].flatten_up_to(out) if outputs else []
        for fresh in self.outcome.fresh:
            leaves = self._leaves(fresh, parts)
            self.nodes.append(blank(fresh.node, leaves[0] if leaves else None))
        for each in (*self.outcome.rewrites, *self.outcome.fresh):
            self._rewrite(each, self._leaves(each, parts))
        if not outputs:
            return out
        treedef, items = outputs
        return jax.tree.unflatten(
            treedef,
            [
                part if item is None else filled(item, self.nodes, iter(()))
                for part, item in zip(parts, items, strict=True)
            ],
        )

    def _leaves(self, rewrite: Rewrite, parts: Sequence[Any]) -> list[Any]:
        found = []
        for source in rewrite.sources:
            if isinstance(source, Kept):
                found.append(self.values[source.number])
            elif source.output is None:
                skipped = len(self.outcome.changed[source.group])
                found.append(self.groups[source.group][skipped + source.place])
            else:
                part = parts[source.output]
                part = part[source.group] if isinstance(part, tuple) else part
                found.append(part[source.place])
        return found

    def _rewrite(self, rewrite: Rewrite, leaves: list[Any]) -> None:
        node, new = self.nodes[rewrite.number], rewrite.node
        if type(node) is not new.type:
            object.__setattr__(node, "__class__", new.type)
        is_old = rewrite.number < len(self.definition.nodes)
        old = self.definition.nodes[rewrite.number] if is_old else None
        if isinstance(node, Variable):
            if old is not None and old.static != new.static:
                node._replace_metadata(copied(new.static.value))  # type: ignore[attr-defined]
            return
        before = dict(old.items) if old else {}
        own, items = iter(leaves), []
        for key, item in new.items:
            value = filled(item, self.nodes, own)
            if key in before and before[key] == item and not leaf_count(item):
                value = self._present(node, key)
            items.append((key, value))
        if isinstance(node, Pytree):
            set_tags(node, new.static.value)  # type: ignore[attr-defined]
            note_change(node._cell)
        refill(node, items)

    @staticmethod
    def _present(node: Any, key: Any) -> Any:
        """What is there: equal static data stays the object that it was."""
        return contents(node)[key]
