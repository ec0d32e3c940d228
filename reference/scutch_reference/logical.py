"""Logical axis names: boxes that do not know the mesh, and rules that do (document 002).

A *logical* name says what an axis is for; a *rule* pairs it with mesh axes. Rules are tried in
order, and an array uses each mesh axis once. Another layout is another tuple of rules.

>>> rules = (("batch", "data"), ("hidden", "model"), ("heads", "model"))
>>> tuple(logical_to_mesh_axes(("batch", "heads", "hidden"), rules))
('data', None, 'model')
"""

import contextlib
import enum
import functools
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.tree_util import all_leaves, tree_leaves, tree_map

from . import errors
from .meta import A, Fn, Partitioned, axis_names, boxing
from .placement import ARRAYS, UNCONSTRAINED, constrain, context_mesh, mesh_axes, partition_spec

Rules: TypeAlias = Sequence[tuple[str, Any]]


def _checked(rules: Any) -> tuple[tuple[str, Any], ...]:
    """The rules as nested tuples, or an error that says which one is wrong."""
    if not isinstance(rules, (tuple, list)):
        raise errors.AxisRulesError("Axis rules must be a tuple or a list", rules)
    checked = []
    for rule in rules:
        if not isinstance(rule, (tuple, list)) or len(rule) != 2:
            raise errors.AxisRulesError("An axis rule must be a pair", rule)
        name, axes = rule[0], tuple(rule[1]) if isinstance(rule[1], list) else rule[1]
        parts = mesh_axes(axes)
        if not isinstance(name, str):
            raise errors.AxisRulesError("An axis rule must begin with a logical name", rule)
        if not all(isinstance(axis, str) for axis in parts):
            raise errors.AxisRulesError("An axis rule must end with mesh axes", rule)
        if len(set(parts)) < len(parts):
            raise errors.AxisRulesError("An axis rule may use a mesh axis once", rule)
        checked.append((name, axes))
    return tuple(checked)


_context = threading.local()  # The one owner of the rules in context; each thread has its own.


def get_logical_axis_rules() -> tuple[tuple[str, Any], ...]:
    """Return the rules in context; `()` where there are none."""
    return getattr(_context, "rules", ())


def set_logical_axis_rules(rules: Rules) -> None:
    """Put rules in context, in this thread, until others replace them."""
    _context.rules = _checked(rules)


@contextlib.contextmanager
def logical_axis_rules(rules: Rules) -> Iterator[None]:
    """Put rules in context for a `with` block; the former ones come back after it (LOG-6)."""
    former = get_logical_axis_rules()
    set_logical_axis_rules(rules)
    try:
        yield
    finally:
        _context.rules = former


def _rules_or_context(rules: Rules | None) -> tuple[tuple[str, Any], ...]:
    return get_logical_axis_rules() if rules is None else _checked(rules)


@functools.lru_cache(maxsize=4096)
def _assigned(names: tuple[Any, ...], rules: Any) -> tuple[PartitionSpec, tuple[str, ...]]:
    """The spec for the names, and the names that no rule took."""
    logical = {name: place for place, name in enumerate(names) if isinstance(name, str)}
    # A tuple among the names speaks of mesh axes itself, and takes them before any rule does.
    taken = [axis for name in names if not isinstance(name, str) for axis in mesh_axes(name)]
    for used in (filter(logical.__contains__, names), taken):
        if repeated := [name for name, count in Counter(used).items() if count > 1]:
            raise errors.NamesError(f"but {tuple(repeated)} occur more than once in {names!r}")
    spec = [None if isinstance(name, str) else name for name in names]
    for name, axes in rules:
        if name in logical and {*taken}.isdisjoint(mesh_axes(axes)):
            spec[logical.pop(name)] = axes
            taken += mesh_axes(axes)
    return partition_spec(tuple(spec)), tuple(logical)


def logical_to_mesh_axes(
    array_dim_names: Sequence[Any] | None, rules: Rules | None = None
) -> PartitionSpec | None:
    """Map the logical names of one array to mesh axes, by the rules given or in context.

    A name gets the axes of its first rule that are all still free, or none; `None`, a tuple of
    mesh axes, and `UNCONSTRAINED` stay as they are (LOG-1 to LOG-4).
    """
    if array_dim_names is None:
        return None
    return _assigned(axis_names(array_dim_names), _rules_or_context(rules))[0]


def logical_to_mesh(tree: Any, rules: Rules | None = None) -> Any:
    """Map a tree of logical specs, as of `get_partition_spec`, to specs of mesh axes (LOG-5)."""
    checked = _rules_or_context(rules)

    def mapped(spec: Any) -> PartitionSpec:
        if not isinstance(spec, PartitionSpec):
            raise errors.NamesError(f"got {spec!r}")
        return _assigned(tuple(spec), checked)[0]

    return tree_map(mapped, tree)


def logical_to_mesh_sharding(tree: Any, mesh: Mesh, rules: Rules | None = None) -> Any:
    """Map a tree of logical specs to shardings on `mesh`; see `logical_to_mesh` (LOG-5)."""
    return tree_map(functools.partial(NamedSharding, mesh), logical_to_mesh(tree, rules))


class RulesFallback(enum.Enum):
    """What `with_logical_constraint` does about a name that no rule took (LOG-8)."""

    AXIS_IS_UNSHARDED = "axis_is_unsharded"
    RAISE_ERROR = "raise_error"
    NO_CONSTRAINT = "no_constraint"


def _is_names(spec: Any) -> bool:
    """Whether this is the spec of one array, and not a tree of specs."""
    if type(spec) is not tuple:
        return spec is None or isinstance(spec, PartitionSpec)
    named = any(isinstance(name, str) or name is UNCONSTRAINED for name in spec)
    return named or all(name is None for name in spec)


def with_logical_constraint(
    x: Any,
    logical_axis_resources: Any,
    rules: Rules | None = None,
    mesh: Mesh | None = None,
    fallback: RulesFallback = RulesFallback.AXIS_IS_UNSHARDED,
) -> Any:
    """Constrain arrays to the mesh axes of their logical names (LOG-8).

    The names are those of each axis, or a tree of them that is a prefix of `x`. Without names,
    without rules, or without a mesh, given or in context, an array stays as it is.
    """
    checked = _rules_or_context(rules)
    if not checked or (mesh is None and context_mesh() is None):
        return x

    def constrained(names: Any, part: Any) -> Any:
        if names is None:
            return part
        spec, unmatched = _assigned(names := axis_names(names), checked)
        if unmatched and fallback is RulesFallback.RAISE_ERROR:
            raise errors.UnmatchedAxisError(unmatched, names, checked)
        axes = len(names)
        for rank in {leaf.ndim for leaf in tree_leaves(part) if isinstance(leaf, ARRAYS)} - {axes}:
            raise errors.NamesError(f"got {axes} axis names {names} for an array with {rank} axes")
        if unmatched and fallback is RulesFallback.NO_CONSTRAINT:
            return part
        return tree_map(functools.partial(constrain, spec=spec, mesh=mesh), part)

    if all_leaves([x]):
        return constrained(logical_axis_resources, x)
    return tree_map(constrained, logical_axis_resources, x, is_leaf=_is_names)


class LogicallyPartitioned(Partitioned[A]):
    """A box whose names are logical; its partition spec stays logical too (LOG-9).

    `rules` are those for `unbox`, where they are not to be the rules in context.
    """

    rules: Rules | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rules is not None:
            object.__setattr__(self, "rules", _checked(self.rules))

    def _mesh_spec(self) -> PartitionSpec | None:
        rules = get_logical_axis_rules() if self.rules is None else self.rules
        return _assigned(self.names, rules)[0] if rules else None


def with_logical_partitioning(
    fn: Fn[Any], names: Any, mesh: Mesh | None = None, rules: Rules | None = None
) -> Fn[LogicallyPartitioned[Any]]:
    """Box what an initializer returns, in a `LogicallyPartitioned` (BOX-19, LOG-9)."""
    return boxing(fn, functools.partial(LogicallyPartitioned, names=names, mesh=mesh, rules=rules))
