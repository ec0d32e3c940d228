"""Prefixes: a sharding, a spec or an axis for a whole argument, or for each part of it.

Inside an object, a `StateSharding` or `StateAxes` gives one for each filter.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import jax
from jax.sharding import PartitionSpec, Sharding

from ..errors import IndivisibleSizeError, MeshAxisError, NoFilterMatchError
from ..placement import mesh_axes
from .filters import Path, PathIn, to_predicates
from .states import State, to_flat_state
from .tracking import frozen
from .variables import Variable


@dataclass(init=False)
class FilterPrefix:
    """A value for each filter; the first filter that takes a variable gives its value (JIT-6).

    It is made of a mapping or of pairs; or of a `State` of values for exactly their paths.
    """

    filters: tuple[Any, ...]
    values_: tuple[Any, ...]

    def __init__(self, values: State[Any, Any] | Mapping[Any, Any] | Iterable[tuple[Any, Any]], /):
        if isinstance(values, State):
            paths: dict[Any, list[Path]] = {}
            for path, leaf in to_flat_state(values):
                value = leaf.get_raw_value() if isinstance(leaf, Variable) else leaf
                paths.setdefault(value, []).append(path)
            values = [(PathIn(*each), value) for value, each in paths.items()]
        pairs = list(values.items() if isinstance(values, Mapping) else values)
        self.filters, self.values_ = (tuple(pair[i] for pair in pairs) for i in (0, 1))
        self._predicates = to_predicates(self.filters)

    def map_prefix(self, path: Path, variable: Any, where: str = "") -> Any:
        """The value for a variable; `NoFilterMatchError` says `where` it is, if there is none."""
        for predicate, value in zip(self._predicates, self.values_, strict=True):
            if predicate(path, variable):
                return value
        raise NoFilterMatchError(where or f"path {path!r}", variable, self.filters)

    def __hash__(self) -> int:
        return hash((tuple(map(frozen, self.filters)), self.values_))


class StateSharding(FilterPrefix):
    """A sharding, or a partition spec, for each filter (JIT-6)."""

    shardings = property(attrgetter("values_"))


class StateAxes(FilterPrefix):
    """An axis, `None` or `Carry` for each filter."""

    axes = property(attrgetter("values_"))


def is_branch(prefix: Any) -> bool:
    """Whether a prefix goes on below, so that its parts differ."""
    return isinstance(prefix, list | tuple | dict) and not isinstance(prefix, PartitionSpec)


def is_end(prefix: Any) -> bool:
    """Whether a prefix says something, though it may look like a tree to JAX."""
    return prefix is None or isinstance(prefix, FilterPrefix | PartitionSpec | Sharding)


class _Returned:
    """What stands in the output for an object that is returned: to JAX, a node without leaves."""


RETURNED = _Returned()
jax.tree_util.register_pytree_node(_Returned, lambda _: ((), None), lambda *_: RETURNED)


def for_jax(prefix: Any, default: Any) -> Any:
    """A prefix of what JAX sees: filters are for objects, which go a way of their own."""

    def end(value: Any) -> Any:
        if isinstance(value, FilterPrefix):
            return RETURNED
        return default if value is None else value

    return jax.tree.map(end, prefix, is_leaf=is_end)


def spread(prefix: Any, tree: Any, label: str) -> list[tuple[str, Any, Any]]:
    """Place, value and leaf for each leaf of a tree; nothing where JAX will say what is wrong."""
    found: list[tuple[str, Any, Any]] = []

    def end(path: Any, value: Any, part: Any) -> None:
        for inner, leaf in jax.tree_util.tree_flatten_with_path(part)[0]:
            key = jax.tree_util.keystr((*path, *inner))
            found.append((f"{label}, path {key}" if key else label, value, leaf))

    try:
        jax.tree_util.tree_map_with_path(end, prefix, tree, is_leaf=is_end)
    except (ValueError, TypeError):
        return []
    return found


def check_spec(where: str, shape: tuple[int, ...] | None, spec: Any, mesh: Any = None) -> None:
    """Refuse a spec, or a sharding, that a mesh or an array of this shape cannot have (SHM-4)."""
    mesh, spec = getattr(spec, "mesh", mesh), getattr(spec, "spec", spec)
    is_spec = mesh is not None and isinstance(spec, PartitionSpec)
    for axis, names in enumerate(map(mesh_axes, spec) if is_spec else ()):
        if unknown := [name for name in names if name not in mesh.axis_names]:
            raise MeshAxisError(where, spec, unknown[0], mesh.axis_names)
        parts = math.prod(mesh.shape[name] for name in names)
        if shape is not None and (shape[axis] % parts if axis < len(shape) else names):
            raise IndivisibleSizeError(where, shape, spec, axis, parts)
