"""Where a module finds its variables and its keys.

A *root* is one run of `init` or `apply`: collections of variables, which of them may change, and a
key for each seed stream. A *scope* is a place in it: the path of one module. A lifted
transformation runs its body with a root of its own, whose collections begin at the lifted path.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax

from ..errors import InvalidRngError, ModifyScopeVariableError


@dataclass(frozen=True)
class DenyList:
    """A filter that takes all collections but those of `deny`."""

    deny: Any


@dataclass(frozen=True)
class Chosen:
    """A filter that takes what a function says: that of the body of a lifted transformation."""

    takes: Callable[[str], bool]


CollectionFilter = bool | str | Collection[str] | DenyList | Chosen


def matches(choice: CollectionFilter, name: str) -> bool:
    """Whether a filter takes a collection or a stream: a name, names, a boolean, a `DenyList`."""
    if isinstance(choice, DenyList):
        return not matches(choice.deny, name)
    if isinstance(choice, Chosen):
        return choice.takes(name)
    if isinstance(choice, bool):
        return choice
    return name == choice if isinstance(choice, str) else name in choice


def hashable(choice: CollectionFilter) -> Any:
    """The same filter, as part of a compilation key."""
    if isinstance(choice, DenyList):
        return DenyList(hashable(choice.deny))
    return choice if isinstance(choice, bool | str | Chosen) else tuple(sorted(choice))


def copied(tree: Any) -> Any:
    """Mappings as dictionaries of their own, and all else as it is."""
    if isinstance(tree, Mapping):
        return {key: copied(child) for key, child in tree.items()}
    return tree


def _write(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
    tree[path[-1]] = value


@dataclass
class Root:
    """One run of `init`, of `apply`, or of the body of a lifted transformation.

    Args:
      variables: By collection, a tree of dictionaries. Changed in place where mutable.
      mutable: Which collections may change.
      rngs: A key for each stream.
      initializing: Whether this is `init`.
      base: The length of the path at which the trees begin.
      counts: How many keys were drawn, by path and stream.
    """

    variables: dict[str, Any]
    mutable: CollectionFilter = False
    rngs: Mapping[str, Any] = field(default_factory=dict)
    initializing: bool = False
    base: int = 0
    counts: dict[tuple[tuple[str, ...], str], int] = field(default_factory=dict)
    created: dict[str, Any] = field(default_factory=dict)
    """The variables that this run created, with their first values."""
    capture: Any = False
    """Whether the outputs of methods are sown: of `__call__`, or those that a predicate takes."""

    def mutated(self) -> dict[str, Any]:
        """The collections that may have changed."""
        return {name: v for name, v in self.variables.items() if matches(self.mutable, name)}


@dataclass(frozen=True, eq=False)
class Scope:
    """The place of one module: its root, and its path from the outermost module."""

    root: Root
    path: tuple[str, ...] = ()

    def child(self, name: str) -> Scope:
        """The place of a sub-module."""
        return Scope(self.root, (*self.path, name))

    def collection(self, name: str) -> Mapping[str, Any]:
        """What a collection holds at this path; empty where it holds nothing."""
        tree = self.root.variables.get(name, {})
        for key in self.path[self.root.base :]:
            tree = tree.get(key, {}) if isinstance(tree, Mapping) else {}
        return tree if isinstance(tree, Mapping) else {}

    def is_mutable(self, collection: str) -> bool:
        """Whether the variables of a collection may change."""
        return matches(self.root.mutable, collection)

    def put(self, collection: str, name: str, value: Any) -> None:
        """Write a variable (LIN-8).

        Raises:
          ModifyScopeVariableError: The collection is not mutable.
        """
        if not self.is_mutable(collection):
            raise ModifyScopeVariableError(collection, name, self.path)
        path = (collection, *self.path[self.root.base :], name)
        if name not in self.collection(collection):
            _write(self.root.created, path, value)
        _write(self.root.variables, path, value)

    def replace(self, collection: str, tree: Any) -> None:
        """Write all that a collection holds at this path."""
        _write(self.root.variables, (collection, *self.path[self.root.base :]), tree)

    def stream(self, name: str) -> str | None:
        """The stream that answers for `name`: itself, else `params`, else none."""
        return next((stream for stream in (name, "params") if stream in self.root.rngs), None)

    def make_rng(self, name: str) -> Any:
        """A key that no other path and no earlier call gets.

        Raises:
          InvalidRngError: No key was passed for the stream.
        """
        stream = self.stream(name)
        if stream is None:
            raise InvalidRngError(name, self.path, self.root.rngs)
        place = (self.path, stream)
        count = self.root.counts[place] = self.root.counts.get(place, 0) + 1
        label = "/".join((*self.path, str(count)))
        return jax.random.fold_in(self.root.rngs[stream], zlib.crc32(label.encode()))
