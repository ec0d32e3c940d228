"""Logical axis names: boxes that do not know the mesh, and rules that do (document 002).

A *logical* name says what an axis is for: 'batch', 'embed'. A *rule* pairs it with the mesh axes
that it may be sharded over; *rules* are tried in order, and of the mesh axes each array uses each
one once. So the model is annotated once, and another layout is another tuple of rules.

>>> rules = (("batch", "data"), ("hidden", "model"), ("heads", "model"))
>>> tuple(logical_to_mesh_axes(("batch", "heads", "hidden"), rules))
('data', None, 'model')
"""

from __future__ import annotations

import contextlib
import enum
import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from . import errors
from .meta import A, Partitioned, axis_names
from .placement import ARRAYS, UNCONSTRAINED, constrain, context_mesh, mesh_axes, partition_spec

Rules: TypeAlias = Sequence[tuple[str, Any]]


# Rules --------------------------------------------------------------------------------------------


def _checked(rules: Any) -> tuple[tuple[str, Any], ...]:
    """The rules as nested tuples, or an error that says which one is wrong."""
    if not isinstance(rules, (tuple, list)):
        raise errors.AxisRulesError(f"Axis rules must be a tuple or a list, got {rules!r}.")
    return tuple(map(_checked_rule, rules))


def _checked_rule(rule: Any) -> tuple[str, Any]:
    if not isinstance(rule, (tuple, list)) or len(rule) != 2:
        raise errors.AxisRulesError(f"An axis rule must be a pair, got {rule!r}.")
    name, axes = rule[0], tuple(rule[1]) if isinstance(rule[1], list) else rule[1]
    if not isinstance(name, str):
        raise errors.AxisRulesError(f"An axis rule must begin with a logical name, got {rule!r}.")
    parts = mesh_axes(axes)
    if not all(isinstance(axis, str) for axis in parts):
        raise errors.AxisRulesError(f"An axis rule must end with mesh axes, got {rule!r}.")
    if len(set(parts)) < len(parts):
        raise errors.AxisRulesError(f"An axis rule may use a mesh axis once, got {rule!r}.")
    return name, axes


class _Context(threading.local):
    """The rules in context. The one owner of this state; each thread has its own (LOG-6)."""

    rules: tuple[tuple[str, Any], ...] = ()


_context = _Context()


def get_logical_axis_rules() -> tuple[tuple[str, Any], ...]:
    """Return the rules in context; `()` where there are none."""
    return _context.rules


def set_logical_axis_rules(rules: Rules) -> None:
    """Put rules in context, in this thread, until others replace them.

    Raises:
      AxisRulesError: `rules` are no sequence of pairs.
    """
    _context.rules = _checked(rules)


@contextlib.contextmanager
def logical_axis_rules(rules: Rules) -> Iterator[None]:
    """Put rules in context for a `with` block; the former ones come back after it (LOG-6).

    Raises:
      AxisRulesError: `rules` are no sequence of pairs.
    """
    former = _context.rules
    set_logical_axis_rules(rules)
    try:
        yield
    finally:
        _context.rules = former


# From names to mesh axes --------------------------------------------------------------------------


def _repeated(names: Iterable[Any]) -> list[Any]:
    return [name for name, count in Counter(names).items() if count > 1]


@functools.lru_cache(maxsize=4096)
def _assigned(
    names: tuple[Any, ...], rules: tuple[Any, ...]
) -> tuple[PartitionSpec, tuple[str, ...]]:
    """The spec for the names, and the names that no rule took."""
    logical = {name: place for place, name in enumerate(names) if isinstance(name, str)}
    if repeated := _repeated(name for name in names if isinstance(name, str)):
        raise errors.RepeatedAxisError(repeated, names)
    # A tuple among the names speaks of mesh axes itself, and takes them before any rule does.
    taken = [axis for name in names if not isinstance(name, str) for axis in mesh_axes(name)]
    if repeated := _repeated(taken):
        raise errors.RepeatedAxisError(repeated, names)
    spec = [None if isinstance(name, str) else name for name in names]
    for name, axes in rules:
        if name in logical and not set(mesh_axes(axes)) & set(taken):
            spec[logical.pop(name)] = axes
            taken += mesh_axes(axes)
    return partition_spec(tuple(spec)), tuple(logical)


def _rules_or_context(rules: Rules | None) -> tuple[tuple[str, Any], ...]:
    return get_logical_axis_rules() if rules is None else _checked(rules)


def logical_to_mesh_axes(
    array_dim_names: Sequence[Any] | None, rules: Rules | None = None
) -> PartitionSpec | None:
    """Map the logical names of one array to mesh axes (LOG-1 to LOG-4).

    Args:
      array_dim_names: For each axis a logical name, or what stays as it is: `None`,
        `UNCONSTRAINED`, or a tuple of mesh axes. `None` in their place gives `None`.
      rules: Tried in order: a rule gives its mesh axes to its name, if that has none yet and all
        of them are still free in this array. Default: the rules in context.

    Returns:
      The spec, with one entry for each name. A name that no rule took is unsharded.

    Raises:
      RepeatedAxisError: A logical name, or a mesh axis, occurs twice.
      NamesError: The names are no sequence.
      AxisRulesError: The rules are no sequence of pairs.
    """
    if array_dim_names is None:
        return None
    return _assigned(axis_names(array_dim_names), _rules_or_context(rules))[0]


def _map_specs(fn: Callable[[PartitionSpec], Any], tree: Any) -> Any:
    """Map over a tree whose leaves are all specs."""

    def checked(leaf: Any) -> Any:
        if not isinstance(leaf, PartitionSpec):
            raise errors.NamesError(leaf)
        return fn(leaf)

    return jax.tree_util.tree_map(checked, tree, is_leaf=lambda x: isinstance(x, PartitionSpec))


def logical_to_mesh(tree: Any, rules: Rules | None = None) -> Any:
    """Map a tree of logical specs, as of `get_partition_spec`, to specs of mesh axes (LOG-5).

    Raises:
      NamesError: A leaf is no `PartitionSpec`.
      RepeatedAxisError, AxisRulesError: As for `logical_to_mesh_axes`.
    """
    rules = _rules_or_context(rules)
    return _map_specs(lambda spec: _assigned(tuple(spec), rules)[0], tree)


def logical_to_mesh_sharding(tree: Any, mesh: Mesh, rules: Rules | None = None) -> Any:
    """Map a tree of logical specs to shardings on `mesh`; see `logical_to_mesh` (LOG-5)."""
    on_mesh = functools.cache(functools.partial(NamedSharding, mesh))
    return _map_specs(on_mesh, logical_to_mesh(tree, rules))


# Constraints --------------------------------------------------------------------------------------


class RulesFallback(enum.Enum):
    """What `with_logical_constraint` does about a name that no rule took (LOG-8)."""

    AXIS_IS_UNSHARDED = "axis_is_unsharded"
    RAISE_ERROR = "raise_error"
    NO_CONSTRAINT = "no_constraint"


def _is_names(spec: Any) -> bool:
    """Whether this is the spec of one array, and not a tree of specs."""
    if spec is None or isinstance(spec, PartitionSpec):
        return True
    if type(spec) is not tuple:
        return False
    return any(isinstance(name, str) or name is UNCONSTRAINED for name in spec) or (
        all(name is None for name in spec)
    )


def with_logical_constraint(
    x: Any,
    logical_axis_resources: Any,
    rules: Rules | None = None,
    mesh: Mesh | None = None,
    fallback: RulesFallback = RulesFallback.AXIS_IS_UNSHARDED,
) -> Any:
    """Constrain arrays to the mesh axes of their logical names (LOG-8).

    Args:
      x: An array, or a tree of them.
      logical_axis_resources: The names for each array: a tuple with one entry for each axis or a
        `PartitionSpec`; a tree of those that is a prefix of `x`. `None` leaves `x` alone.
      rules: Default: the rules in context. Without rules, `x` is returned.
      mesh: Default: the mesh in context. Without a mesh, `x` is returned.
      fallback: What to do for an array with a name that no rule took.

    Returns:
      `x`, constrained.

    Raises:
      RankMismatchError: An array has more or fewer axes than names.
      UnmatchedAxisError: No rule took a name, and the fallback is `RAISE_ERROR`.
      RepeatedAxisError, NamesError, AxisRulesError: As for `logical_to_mesh_axes`.
    """
    checked = _rules_or_context(rules)
    if not checked or (mesh is None and context_mesh() is None):
        return x

    def constrained(names: Any, part: Any) -> Any:
        if names is None:
            return part
        names = axis_names(names)
        spec, unmatched = _assigned(names, checked)
        if unmatched and fallback is RulesFallback.RAISE_ERROR:
            raise errors.UnmatchedAxisError(unmatched, names, checked)

        def leaf(array: Any) -> Any:
            if isinstance(array, ARRAYS) and len(names) != array.ndim:
                raise errors.RankMismatchError(names, array.shape)
            if unmatched and fallback is RulesFallback.NO_CONSTRAINT:
                return array
            return constrain(array, spec, mesh)

        return jax.tree_util.tree_map(leaf, part)

    if jax.tree_util.all_leaves([x]):
        return constrained(logical_axis_resources, x)
    return jax.tree_util.tree_map(constrained, logical_axis_resources, x, is_leaf=_is_names)


# Boxes --------------------------------------------------------------------------------------------


class LogicallyPartitioned(Partitioned[A]):
    """A box whose names are logical; its partition spec stays logical too (LOG-9).

    Args:
      value, names, mesh: As for `Partitioned`; the names are logical.
      rules: The rules for `unbox`, where they are not to be those in context.
    """

    rules: Rules | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rules is not None:
            object.__setattr__(self, "rules", _checked(self.rules))

    def _mesh_spec(self) -> PartitionSpec | None:
        rules = get_logical_axis_rules() if self.rules is None else self.rules
        return logical_to_mesh_axes(self.names, rules) if rules else None


def with_logical_partitioning(
    fn: Callable[..., Any], names: Any, mesh: Mesh | None = None, rules: Rules | None = None
) -> Callable[..., LogicallyPartitioned[Any]]:
    """Box what an initializer returns, with logical names; see `with_partitioning` (BOX-19, LOG-9).

    Args:
      fn: Called with the arguments of the returned function, whose name and docstring it gives.
      names: The logical axis names of the box.
      mesh: The mesh of the box.
      rules: The rules of the box.
    """

    @functools.wraps(fn)
    def init(*args: Any, **kwargs: Any) -> LogicallyPartitioned[Any]:
        return LogicallyPartitioned(fn(*args, **kwargs), names, mesh=mesh, rules=rules)

    return init
