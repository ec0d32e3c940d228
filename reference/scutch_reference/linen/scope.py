"""Where modules find their variables and keys: the scope of one run, and filters of names."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class DenyList:
    """A filter that takes all but what the filter `deny` takes."""

    deny: Any


Filter = bool | str | Collection[Any] | DenyList


def matches(choice: Filter, name: str) -> bool:
    """Whether a filter takes a name: the same name, a boolean, a `DenyList`, or any of several."""
    if isinstance(choice, DenyList):
        return not matches(choice.deny, name)
    if isinstance(choice, bool | str):
        return choice is True or choice == name
    return any(matches(each, name) for each in choice)


def both(one: Filter, other: Filter) -> DenyList:
    """The filter that takes what both take."""
    return DenyList((DenyList(one), DenyList(other)))


def hashable(choice: Filter) -> Any:
    """The same filter, as part of a compilation key."""
    if isinstance(choice, DenyList):
        return DenyList(hashable(choice.deny))
    return choice if isinstance(choice, bool | str) else frozenset(map(hashable, choice))


def copied(tree: Any) -> Any:
    """Mappings as dictionaries of their own, and all else as it is."""
    if isinstance(tree, Mapping):
        return {key: copied(child) for key, child in tree.items()}
    return tree


def put(tree: dict[Any, Any], path: tuple[Any, ...], value: Any) -> None:
    """Write a value into nested dictionaries."""
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
    tree[path[-1]] = value


@dataclass(eq=False)
class Scope:
    """One run of `init`, of `apply`, or of the body of a lifted transformation."""

    variables: dict[str, Any]  # by collection, nested by the paths of modules; changed in place
    mutable: Filter = False
    rngs: Mapping[str, Any] = field(default_factory=dict)
    initializing: bool = False
    making: bool = False  # whether variables are made only: those that are there keep their values
    capture: Any = False  # whether outputs are sown: of `__call__`, or of what a predicate takes
    counts: Counter[Any] = field(default_factory=Counter)  # of keys, by path and stream

    def mutated(self) -> dict[str, Any]:
        """The collections that may have changed."""
        return {name: v for name, v in self.variables.items() if matches(self.mutable, name)}

    def at(self, path: tuple[str, ...], choice: Filter = True) -> dict[str, Any]:
        """What the collections that a filter takes hold at a path, where they hold something."""
        found = {name: tree for name, tree in self.variables.items() if matches(choice, name)}
        for key in path:
            trees = found.items()
            found = {name: t[key] for name, t in trees if isinstance(t, Mapping) and key in t}
        return {name: tree for name, tree in found.items() if isinstance(tree, Mapping) and tree}
