"""The scope of one run, which has the variables and keys of modules, and filters of names.

Linen keeps variables in *collections*, such as `params` and `batch_stats`: nested dictionaries that
lead from a collection through the names of modules (the *path* of a module) to a variable. Keys for
random numbers come from *streams*, which have names too. A *filter* of Linen selects collections or
streams by name. A *scope* holds all that one run of `init` or `apply`, or of the body of a lifted
transformation, reads and writes; it is thrown away after the run.

>>> matches(["params", "cache"], "cache"), matches(DenyList("params"), "params")
(True, False)
>>> scope = Scope({"params": {"dense": {"kernel": 1}}}, mutable="params")
>>> scope.at(("dense",))
{'params': {'kernel': 1}}
"""

import hashlib
import itertools
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import jax

from ..errors import NameInUseError
from ..types import Tree

ModulePath: TypeAlias = tuple[str, ...]
_SORTS = {None: "sub-module", "params": "parameter"}  # else it is a variable


@dataclass(frozen=True)
class DenyList:
    """A filter that takes every name that the filter `deny` does not take."""

    deny: Any


Filter: TypeAlias = bool | str | Collection[Any] | DenyList


def matches(choice: Filter, name: str) -> bool:
    """Tell whether a filter takes a name (LIN-8a).

    Args:
      choice: A name, which takes itself; `True` for all names and `False` for none; a `DenyList`;
        or a collection of filters, which takes a name if any of them takes it.
      name: The name of a collection or a stream.
    """
    if isinstance(choice, DenyList):
        return not matches(choice.deny, name)
    if isinstance(choice, bool | str):
        return choice is True or choice == name
    return any(matches(each, name) for each in choice)


def divided(held: Mapping[str, Any], choice: Filter) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide collections into those that a filter takes, and all others.

    Args:
      held: Trees by collection.
      choice: The filter.

    Returns:
      Two dictionaries, which together have all the collections.
    """
    taken = {name: tree for name, tree in held.items() if matches(choice, name)}
    return taken, {name: tree for name, tree in held.items() if name not in taken}


def both(one: Filter, other: Filter) -> DenyList:
    """Return the filter that takes the names that both filters take.

    Args:
      one: A filter of names of collections: a boolean, a name, several, or a `DenyList`.
      other: Another.
    """
    return DenyList((DenyList(one), DenyList(other)))


def hashable_filter(choice: Filter) -> Any:
    """Return the same filter in a form that can be hashed, as part of a compilation key."""
    if isinstance(choice, DenyList):
        return DenyList(hashable_filter(choice.deny))
    return choice if isinstance(choice, bool | str) else frozenset(map(hashable_filter, choice))


def as_dicts(tree: Tree) -> Tree:
    """Return nested mappings as new dictionaries; whatever is no mapping is the same object."""
    if isinstance(tree, Mapping):
        return {key: as_dicts(child) for key, child in tree.items()}
    return tree


def put_at(tree: dict[Any, Any], path: tuple[Any, ...], value: Tree) -> None:
    """Write a value into nested dictionaries, which are made where they are missing.

    Args:
      tree: The outermost dictionary, which is changed.
      path: At least one key; all but the last lead to dictionaries.
      value: The value to write under the last key.
    """
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
    tree[path[-1]] = value


def key_at(key: jax.Array, path: ModulePath, count: int) -> Any:
    """Return the key that a module draws from a stream; each path and count has its own (LIN-8d).

    The keys are those of Flax where its option `flax_fix_rng_separator` is on. Flax leaves it off
    by default, and then a module `c` in `ab` and a module `bc` in `a` draw the same keys.

    Args:
      key: The key of the stream.
      path: The path of the module.
      count: How many keys the module has drawn from the stream, this one included.

    Returns:
      A key of `jax.random`.
    """
    parts = [*map(str.encode, path), count.to_bytes((count.bit_length() + 7) // 8, "big")]
    digest = hashlib.sha1(b"".join(b"\0" + part for part in parts), usedforsecurity=False).digest()
    return jax.random.fold_in(key, int.from_bytes(digest[:4], "big"))


class NamesInUse(set[tuple[str, str | None]]):
    """The names that one module has given to its parameters, variables and sub-modules (LIN-1h).

    It is a set of pairs of a name and the collection that has it, `None` for a sub-module.
    """

    def reserve(self, path: ModulePath, name: str, collection: str | None = None) -> None:
        """Take a name for a variable of a collection, or (`None`) for a sub-module.

        Args:
          path: The path of the module, for the error.
          name, collection: The pair to add.

        Raises:
          NameInUseError: The collection has the name already, or a sub-module and a variable would
            share it.
        """
        for other in [its for taken, its in self if taken == name]:
            if other == collection or None in (other, collection):
                new, old = (_SORTS.get(each, "variable") for each in (collection, other))
                raise NameInUseError(path=path, new=new, name=name, old=old)
        self.add((name, collection))

    def free_name(self, cls: str) -> str:
        """Return the name of a sub-module that was given none: its class and a count (LIN-1e)."""
        numbered = (f"{cls}_{count}" for count in itertools.count())
        return next(name for name in numbered if (name, None) not in self)


@dataclass
class Scope:
    """The variables, keys and settings of one run of `init`, `apply`, or the body of a lift.

    Args:
      variables: The collections, nested by the paths of modules; changed in place.
      mutable: Which collections may change.
      rngs: A key for each stream.
      initializing: Whether `init` runs.
      making: Whether only missing variables are written, and present ones keep their values.
      capture: Which outputs are sown: `True` for the outputs of `__call__`, or a predicate of a
        module and a method name.
      counts: How many keys were drawn, by path and stream.
    """

    variables: dict[str, Any]
    mutable: Filter = False
    rngs: Mapping[str, Any] = field(default_factory=dict)
    initializing: bool = False
    making: bool = False
    capture: Any = False
    counts: Counter[Any] = field(default_factory=Counter)

    def ended(self) -> dict[str, Any]:
        """Return the collections that may have changed (LIN-8a); none may any more (LIN-1m)."""
        changed = {name: v for name, v in self.variables.items() if matches(self.mutable, name)}
        self.mutable = False
        return changed

    def at(self, path: ModulePath, choice: Filter = True) -> dict[str, Any]:
        """Return the variables of the module at a path, by collection.

        Args:
          path: The path of the module.
          choice: The filter of collections.

        Returns:
          A dictionary by collection, without the collections that have no variables at the path.
        """
        found = {name: tree for name, tree in self.variables.items() if matches(choice, name)}
        for key in path:
            found = {n: t[key] for n, t in found.items() if isinstance(t, Mapping) and key in t}
        return {name: tree for name, tree in found.items() if isinstance(tree, Mapping) and tree}
