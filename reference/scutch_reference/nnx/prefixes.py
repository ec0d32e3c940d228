"""Prefixes: one value for a whole argument, or one for each part of it.

A transformation is told what to do with its arguments (a sharding, a spec, an axis) by a tree that
ends where one value stands for all that is below. Inside an object the values may differ by
variable: a `StateSharding` or `StateAxes` gives one for each filter.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import jax
from jax.sharding import PartitionSpec

from ..errors import AliasingError, NoFilterMatchError
from . import filters as filterlib
from .definitions import Definition, Ref, is_variable
from .states import State, to_flat_state
from .statics import frozen
from .variables import Variable


class FilterPrefix:
    """A value for each filter; the first filter that takes a variable gives its value (JIT-6).

    Args:
      values: A mapping of filters to values; or pairs; or a `State`, whose leaves are the values
        for exactly their paths.
    """

    __slots__ = ("_predicates", "filters", "values_")

    def __init__(self, values: State[Any, Any] | Mapping[Any, Any] | Iterable[tuple[Any, Any]], /):
        if isinstance(values, State):
            pairs = list(_paths_by_value(values))
        else:
            pairs = list(values.items() if isinstance(values, Mapping) else values)
        self.filters = tuple(each for each, _ in pairs)
        self.values_ = tuple(value for _, value in pairs)
        self._predicates = filterlib.to_predicates(self.filters)

    def which(self, path: tuple[Any, ...], variable: Any, where: str = "") -> int:
        """The number of the first filter that takes a variable.

        Raises:
          NoFilterMatchError: None does; the message has the path.
        """
        for i, predicate in enumerate(self._predicates):
            if predicate(path, variable):
                return i
        raise NoFilterMatchError(where or f"path {path!r}", variable, self.filters)

    def map_prefix(self, path: tuple[Any, ...], variable: Any) -> Any:
        """The value for a variable."""
        return self.values_[self.which(path, variable)]

    def __eq__(self, other: object) -> bool:
        return (
            type(self) is type(other)
            and self.filters == other.filters
            and self.values_ == other.values_
        )

    def __hash__(self) -> int:
        return hash((tuple(map(frozen, self.filters)), self.values_))

    def __repr__(self) -> str:
        pairs = ", ".join(f"{f!r}: {v!r}" for f, v in zip(self.filters, self.values_, strict=True))
        return f"{type(self).__name__}({{{pairs}}})"


def _paths_by_value(state: State[Any, Any]) -> Iterable[tuple[Any, Any]]:
    paths: dict[Hashable, list[Any]] = {}
    for path, leaf in to_flat_state(state):
        value = leaf.get_raw_value() if isinstance(leaf, Variable) else leaf
        paths.setdefault(value, []).append(path)
    return ((filterlib.PathIn(*each), value) for value, each in paths.items())


class StateSharding(FilterPrefix):
    """A sharding, or a partition spec, for each filter (JIT-6)."""

    @property
    def shardings(self) -> tuple[Any, ...]:
        """The values, in the order of the filters."""
        return self.values_


class StateAxes(FilterPrefix, Mapping[Any, Any]):
    """An axis, `None` or `Carry` for each filter."""

    @property
    def axes(self) -> tuple[Any, ...]:
        """The values, in the order of the filters."""
        return self.values_

    def __getitem__(self, key: Any) -> Any:
        return dict(zip(self.filters, self.values_, strict=True))[key]

    def __iter__(self) -> Any:
        return iter(self.filters)

    def __len__(self) -> int:
        return len(self.filters)

    __eq__ = FilterPrefix.__eq__
    __hash__ = FilterPrefix.__hash__


def is_branch(prefix: Any) -> bool:
    """Whether a prefix goes on below, so that its parts differ."""
    return isinstance(prefix, list | tuple | dict) and not isinstance(prefix, PartitionSpec)


def at(prefix: Any, path: tuple[Any, ...], leaf: Any, where: str = "") -> Any:
    """The value that a prefix has for a leaf at a path below it."""
    while is_branch(prefix) and path:
        prefix, path = prefix[path[0]], path[1:]
    if isinstance(prefix, FilterPrefix):
        return prefix.values_[prefix.which(path, leaf, where)]
    return prefix


def for_leaves(
    definition: Definition,
    prefixes: tuple[Any, ...],
    leaves: list[Any],
    names: tuple[str, ...],
    what: str,
) -> list[Any]:
    """The value for each leaf of a graph.

    Args:
      definition: The structure.
      prefixes: One for each root.
      leaves: The raw values, for the filters to see.
      names: What each root is called in messages.
      what: What the values are called in messages.

    Raises:
      NoFilterMatchError: No filter takes a variable.
      AliasingError: A variable is reached at two places with different values (JIT-2).
    """

    def value(root: int, path: tuple[Any, ...], owner: int | None, number: int) -> Any:
        leaf = leaves[number]
        if owner is not None and isinstance(prefixes[root], FilterPrefix | list | tuple | dict):
            node = definition.nodes[owner]
            leaf = node.type.from_metadata(leaf, node.static.value)  # type: ignore[attr-defined]
        return at(prefixes[root], path, leaf, f"{names[root]}, path {path!r}")

    if all(prefix is None for prefix in prefixes):
        return [None] * len(leaves)
    found = [value(*leaf, number) for number, leaf in enumerate(definition.leaves)]
    numbers = {owner: i for i, (_, _, owner) in enumerate(definition.leaves) if owner is not None}
    for root, path, index in _aliases(definition):
        if index in numbers:
            first_root, first_path, _ = definition.leaves[numbers[index]]
            mine, first = value(root, path, index, numbers[index]), found[numbers[index]]
            if mine != first:
                variable = definition.nodes[index].type
                raise AliasingError(
                    what,
                    variable.from_metadata(leaves[numbers[index]], {}),
                    (f"{names[first_root]}, path {first_path!r}", first),
                    (f"{names[root]}, path {path!r}", mine),
                )
    return found


def _aliases(definition: Definition) -> Iterable[tuple[int, tuple[Any, ...], int]]:
    """Root, path and number of every variable below each second way into a node."""
    for root, path, item, first in definition.visits:
        if isinstance(item, Ref) and not first:
            seen: set[int] = set()
            todo: list[tuple[tuple[Any, ...], Any]] = [(path, item)]
            while todo:
                here, each = todo.pop()
                if isinstance(each, Ref) and each.number not in seen:
                    seen.add(each.number)
                    node = definition.nodes[each.number]
                    if is_variable(node):
                        yield root, here, each.number
                    else:
                        todo.extend(((*here, key), inner) for key, inner in node.items)
                elif hasattr(each, "items") and not isinstance(each, Ref):
                    todo.extend(
                        ((*here, key), inner)
                        for key, inner in zip(each.keys, each.items, strict=True)
                    )


def without_filters(prefix: Any) -> Any:
    """A prefix for JAX: the values of the filters in a tuple."""
    return jax.tree.map(
        lambda x: x.values_ if isinstance(x, FilterPrefix) else x,
        prefix,
        is_leaf=lambda x: x is None or isinstance(x, FilterPrefix | PartitionSpec),
    )
