"""Prefixes: a sharding, a spec or an axis for a whole argument, or for each part of it.

Words: a *prefix* is a tree like the first levels of another tree, as in JAX: a value in it is for
all leaves below. Inside an object, a *filter prefix* (`StateSharding`, `StateAxes`) gives one value
for each filter. A *branch* is a prefix that goes on below, so that its parts differ. None leaves
the choice to the transformation.

>>> prefix = StateAxes({"frozen": None, ...: 0})
>>> prefix.map_prefix(("w",), 1.0), prefix.axes
(0, (None, 0))
>>> spread((1, {"b": 2}), ([3, 4], {"b": 5}), "x")
[('x, path [0][0]', 1, 3), ('x, path [0][1]', 1, 4), ("x, path [1]['b']", 2, 5)]
"""

import contextlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import PartitionSpec

from ..errors import IndivisibleSizeError, LiftingError, MeshAxisError, NoFilterMatchError
from ..placement import mesh_axes
from ..types import Leaf, Prefix, Tree
from .filters import Path, PathIn, to_predicates
from .flatten import is_object
from .graph import pure, state
from .node_types import entries, one_level
from .states import State, to_flat_state
from .static import frozen


@dataclass
class FilterPrefix:
    """A value for each filter; the first filter that takes a variable gives its value (JIT-6).

    Args:
      values: A mapping from filters to values, or pairs of both; or a `State` of values, each for
        exactly its path.

    Raises:
      FilterError: A filter is none, or hides those after it.
    """

    filters: tuple[Any, ...]
    values_: tuple[Any, ...]

    def __init__(self, values: State[Any, Any] | Mapping[Any, Any] | Iterable[tuple[Any, Any]], /):
        if isinstance(values, State):
            paths: dict[Any, list[Path]] = {}
            for path, leaf in to_flat_state(values):
                paths.setdefault(pure(leaf), []).append(path)
            values = [(PathIn(*each), value) for value, each in paths.items()]
        pairs = list(values.items() if isinstance(values, Mapping) else values)
        self.filters = tuple(filter for filter, _ in pairs)
        self.values_ = tuple(value for _, value in pairs)
        self._predicates = to_predicates(self.filters)

    def map_prefix(self, path: Path, variable: Leaf, where: str = "") -> Tree:
        """Return the value for a variable (JIT-6).

        Args:
          path: The path of the variable in its object.
          variable: The variable, or another leaf.
          where: The name of the variable in the message of an error.

        Returns:
          The value of the first filter that takes the variable.

        Raises:
          NoFilterMatchError: No filter takes the variable.
        """
        for predicate, value in zip(self._predicates, self.values_, strict=True):
            if predicate(path, variable):
                return value
        raise NoFilterMatchError(
            place=where or f"path {path!r}", value=variable, filters=self.filters
        )

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Return the pairs of a filter and its value, in their order."""
        return zip(self.filters, self.values_, strict=True)

    def __hash__(self) -> int:
        return hash((tuple(map(frozen, self.filters)), self.values_))


class StateSharding(FilterPrefix):
    """A sharding, or a partition spec, for each filter (JIT-6); see `FilterPrefix`."""

    shardings = property(lambda self: self.values_)


class StateAxes(FilterPrefix):
    """An axis, None or `Carry` for each filter (JIT-6); see `FilterPrefix`."""

    axes = property(lambda self: self.values_)


def prefix(node: Tree, filter_map: Any, /, *, graph: bool | None = None) -> Tree:
    """Return a prefix for arguments of a transformation, with a value for each leaf (OBJ-8).

    Args:
      node: The object, or the tree of objects and arrays, that the prefix is for.
      filter_map: A mapping from filters to values, such as axes or shardings; a leaf gets the value
        of the first filter that takes it. Or a function of the path and the leaf that returns the
        value. Paths begin at `node`.
      graph: Accepted and not needed: sharing is always kept.

    Returns:
      A tree like `node`, with a value for each array, and `StateAxes` for each object.

    Raises:
      NoFilterMatchError: No filter takes a leaf.
    """
    choose = filter_map if callable(filter_map) else FilterPrefix(filter_map).map_prefix

    def of_part(path: Any, part: Tree) -> Tree:
        if not is_object(part):
            return choose(entries(path), part)

        def value_at(inner: Path, leaf: Leaf) -> Tree:
            return choose((*entries(path), *inner), leaf)

        values = dict.fromkeys(value_at(*pair) for pair in to_flat_state(state(part)))
        return StateAxes(
            (lambda *at, value=value: value_at(*at) == value, value) for value in values
        )

    return jax.tree_util.tree_map_with_path(of_part, node, is_leaf=is_object)


def is_branch(prefix: Prefix) -> bool:
    """Return whether a prefix goes on below, so that its parts differ."""
    return isinstance(prefix, list | tuple | dict) and not isinstance(prefix, PartitionSpec)


def is_end(prefix: Prefix) -> bool:
    """Return whether a prefix is a value, though it looks like a tree to JAX."""
    return prefix is None or isinstance(prefix, FilterPrefix)


class _Returned:
    """The class of `RETURNED`; to JAX, its instance is a node without leaves."""


RETURNED = _Returned()
"""Replaces an object in the output, and the prefix of an object in `for_jax`."""
jax.tree_util.register_pytree_node(_Returned, lambda _: ((), None), lambda *_: RETURNED)


def for_jax(prefix: Prefix, default: Any) -> Any:
    """Return a prefix for the arrays that are no part of an object, as JAX takes it.

    Args:
      prefix: The user's prefix. A filter prefix in it is for an object, and becomes `RETURNED`.
      default: Replaces None.
    """

    def end(value: Leaf) -> Tree:
        if isinstance(value, FilterPrefix):
            return RETURNED
        return default if value is None else value

    return jax.tree.map(end, prefix, is_leaf=is_end)


def spread(prefix: Prefix, tree: Tree, label: str) -> list[tuple[str, Any, Any]]:
    """Return the value of a prefix for each leaf of a tree.

    Args:
      prefix: The prefix.
      tree: The tree.
      label: The name of the tree in messages.

    Returns:
      For each leaf its name in messages, the value, and the leaf itself. The list is empty if the
      prefix does not fit the tree; JAX then reports the error.
    """
    found: list[tuple[str, Any, Any]] = []

    def end(path: Any, value: Leaf, part: Tree) -> None:
        for inner, leaf in jax.tree_util.tree_flatten_with_path(part)[0]:
            key = jax.tree_util.keystr((*path, *inner))
            found.append((f"{label}, path {key}" if key else label, value, leaf))

    with contextlib.suppress(ValueError, TypeError):
        jax.tree_util.tree_map_with_path(end, prefix, tree, is_leaf=is_end)
    return found


def check_fits(where: str, prefix: Prefix, tree: Tree) -> None:
    """Refuse a prefix that does not fit a container of objects, as JAX does for arrays (OBJ-8p).

    Args:
      where: The name of the container in messages.
      prefix: The prefix.
      tree: The container. Objects in it are not entered: any value is a prefix of an object.

    Raises:
      LiftingError: Keys or lengths differ, or one is a list and the other a tuple.
    """
    if not is_branch(prefix) or is_object(tree):
        return
    level, own = one_level(tree), one_level(prefix)
    of_one_type = type(prefix) is type(tree) or not is_branch(tree)
    if level is None or own is None or set(level[0]) != set(own[0]) or not of_one_type:
        raise LiftingError(
            place=f"the prefix at {where}", given=prefix, expected=f"a prefix of {tree!r}"
        )
    for key, part in zip(level[0], level[1], strict=True):
        check_fits(f"{where}[{key!r}]", prefix[key], part)


def check_spec(where: str, shape: tuple[int, ...] | None, spec: Any, mesh: Any = None) -> None:
    """Refuse a spec, or a sharding, that a mesh or an array of a shape cannot have (SHM-4).

    Args:
      where: The name of the array in messages.
      shape: Its shape, if that is to be checked.
      spec: A `PartitionSpec` or a sharding; anything else passes.
      mesh: The mesh of a spec; without one, it passes.

    Raises:
      MeshAxisError: The mesh has no axis of a name.
      IndivisibleSizeError: The size of an axis is no multiple of the parts that it is cut into.
    """
    mesh, spec = getattr(spec, "mesh", mesh), getattr(spec, "spec", spec)
    is_spec = mesh is not None and isinstance(spec, PartitionSpec)
    for axis, names in enumerate(map(mesh_axes, spec) if is_spec else ()):
        if unknown := [name for name in names if name not in mesh.axis_names]:
            raise MeshAxisError(place=where, spec=spec, axis=unknown[0], axes=mesh.axis_names)
        parts = math.prod(mesh.shape[name] for name in names)
        if shape is not None and (shape[axis] % parts if axis < len(shape) else names):
            raise IndivisibleSizeError(place=where, spec=spec, shape=shape, axis=axis, parts=parts)
