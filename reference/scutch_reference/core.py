"""Frozen dictionaries: nested mappings that cannot change, as trees of parameters may be kept.

`freeze` and `unfreeze` are inverse. Linen itself returns plain dictionaries, and takes either.

>>> import jax
>>> params = freeze({"dense": {"bias": 1.0}})
>>> jax.tree.map(lambda leaf: 2 * leaf, params)
FrozenDict({'dense': {'bias': 2.0}})
>>> unfreeze(params)
{'dense': {'bias': 1.0}}
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import jax

from . import meta as meta
from .types import Tree

K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(Mapping[K, V]):
    """A mapping that cannot change, and a pytree; mappings inside it are frozen too.

    Args:
      args, kwargs: As for `dict`; nested dictionaries are copied.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        self._held: dict[K, V] = unfreeze(dict(*args, **kwargs))

    def __getitem__(self, key: K) -> Any:
        value = self._held[key]
        return FrozenDict(value) if isinstance(value, dict) else value

    def __iter__(self) -> Iterator[K]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __hash__(self) -> int:
        return hash(frozenset(self.items()))

    def __repr__(self) -> str:
        return f"FrozenDict({self._held!r})"

    def copy(self, add_or_replace: Mapping[K, V] = {}) -> "FrozenDict[K, V]":
        """Return a frozen dictionary with further, or other, entries.

        Args:
          add_or_replace: The entries.
        """
        return FrozenDict({**self, **add_or_replace})

    def pop(self, key: K) -> tuple["FrozenDict[K, V]", V]:
        """Return a frozen dictionary without an entry, and the value of the entry.

        Args:
          key: The key of the entry.
        """
        return FrozenDict({k: v for k, v in self.items() if k != key}), self[key]

    def unfreeze(self) -> dict[K, V]:
        """Return plain nested dictionaries with the same leaves; see `unfreeze`."""
        return unfreeze(self)  # type: ignore[no-any-return]

    def _flatten(self) -> tuple[list[tuple[Any, V]], tuple[Any, ...]]:
        keys = tuple(sorted(self._held))  # type: ignore[type-var]
        return [(jax.tree_util.DictKey(key), self._held[key]) for key in keys], keys


jax.tree_util.register_pytree_with_keys(
    FrozenDict,
    FrozenDict._flatten,
    lambda keys, children: FrozenDict(zip(keys, children, strict=True)),
)
freeze = FrozenDict


def unfreeze(x: Tree) -> Tree:
    """Return nested dictionaries, frozen or not, as new plain ones with the same leaves.

    Args:
      x: A dictionary; anything else is returned itself.
    """
    if not isinstance(x, FrozenDict | dict):
        return x
    held = x._held if isinstance(x, FrozenDict) else x
    return {key: unfreeze(value) for key, value in held.items()}


def copy(x: Tree, add_or_replace: Mapping[Any, Any] = {}) -> Tree:
    """Return a dictionary, frozen if `x` is, with further, or other, entries.

    Args:
      x: The dictionary.
      add_or_replace: The entries.
    """
    return type(x)({**unfreeze(x), **add_or_replace})


def pop(x: Tree, key: Any) -> tuple[Any, Any]:
    """Return a dictionary, frozen if `x` is, without an entry, and the value of the entry.

    Args:
      x: The dictionary.
      key: The key of the entry.
    """
    return type(x)({k: v for k, v in x.items() if k != key}), x[key]
