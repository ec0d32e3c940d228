"""Nodes: what variables, objects and states have in common.

All of them are nodes of JAX's trees. Variables and objects are *tracked*, too: they know the trace
level that they were made at, and say when their structure changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax

from .epochs import note_change
from .tracing import check_level, current_level


def entries_of(path: Iterable[Any]) -> tuple[Any, ...]:
    """A path of JAX as one of ours: the indices, keys and names alone."""
    names = ("idx", "key", "name")
    return tuple(next(getattr(key, n) for n in names if hasattr(key, n)) for key in path)


class TreeNode:
    """A base whose subclasses JAX takes apart, unless they say `pytree=False`.

    `_flatten` gives the children and what is static, `_keys` the keys of the children by what is
    static; `_unflatten` makes a node of what is static and the children.
    """

    __slots__ = ()

    def __init_subclass__(cls, *, pytree: bool = True, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        kind: Any = cls

        def with_keys(node: Any) -> tuple[list[tuple[Any, Any]], Any]:
            children, static = node._flatten()
            return list(zip(node._keys(static), children, strict=True)), static

        if pytree:
            jax.tree_util.register_pytree_with_keys(kind, with_keys, kind._unflatten, kind._flatten)


class Tracked(TreeNode, pytree=False):
    """A base for what lifted functions are given: it has a cell (see `epochs`) and a level."""

    __slots__ = ("__weakref__", "_cell", "_level", "_plans")
    _cell: list[Any]
    _level: Any
    _plans: dict[Any, Any] | None

    def _begin(self, *cell: Any) -> None:
        put = object.__setattr__
        put(self, "_cell", [*cell, 0])
        put(self, "_level", current_level())
        put(self, "_plans", None)

    def _check(self, tried: str) -> None:
        """Raise `TraceLevelError` if this was made at another trace level."""
        check_level(self._level, tried, self)

    def _changed(self) -> None:
        """Say that the structure is another one now."""
        note_change(self._cell)
