"""Logical axis names: boxes that do not know the mesh, and rules that do (document 002, LOG).

A *logical* name tells the role of an axis: 'batch', 'hidden'. A *rule* pairs a logical name with
the mesh axes that such an axis is cut along: one mesh axis, a tuple of several, or `None` for none.
Rules are tried in order, and an array uses each mesh axis once, so that a later rule for the same
name can serve when the mesh axis of an earlier one is taken. To lay a model out on another mesh is
to write other rules; the model stays. Rules are passed, or kept in a *context*, of which each
thread has its own.

>>> rules = (("batch", "data"), ("hidden", "model"), ("heads", "model"))
>>> tuple(logical_to_mesh_axes(("batch", "heads", "hidden"), rules))
('data', None, 'model')
"""

import contextlib
import enum
import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.tree_util import all_leaves, tree_leaves, tree_map

from . import errors
from .meta import A, P, Partitioned, boxing
from .names import axis_names
from .placement import UNCONSTRAINED, constrain, context_mesh, mesh_axes, partition_spec
from .types import Prefix, Tree

MeshAxes: TypeAlias = str | Sequence[str] | None
Rules: TypeAlias = Sequence[tuple[str, MeshAxes]]
CheckedRules: TypeAlias = tuple[tuple[str, Any], ...]


def checked_rules(rules: object) -> CheckedRules:
    """Return rules as nested tuples, which can be hashed.

    Args:
      rules: A tuple or list of pairs of a logical name and mesh axes.

    Raises:
      AxisRuleFormError: They are not; the error shows the rule that is wrong (LOG-10).
    """
    if not isinstance(rules, (tuple, list)):
        raise errors.AxisRuleFormError(
            part="Axis rules", expected="be a tuple or a list", rule=rules
        )
    checked = []
    for rule in rules:
        if not isinstance(rule, (tuple, list)) or len(rule) != 2:
            raise errors.AxisRuleFormError(part="An axis rule", expected="be a pair", rule=rule)
        name, axes = rule[0], tuple(rule[1]) if isinstance(rule[1], list) else rule[1]
        parts = mesh_axes(axes)
        if not isinstance(name, str):
            raise errors.AxisRuleFormError(
                part="An axis rule", expected="begin with a logical name", rule=rule
            )
        if not all(isinstance(axis, str) for axis in parts):
            raise errors.AxisRuleFormError(
                part="An axis rule", expected="end with mesh axes", rule=rule
            )
        if len(set(parts)) < len(parts):
            raise errors.AxisRuleFormError(
                part="An axis rule", expected="use each mesh axis once", rule=rule
            )
        checked.append((name, axes))
    return tuple(checked)


context = threading.local()
"""The one owner of the rules in context: each thread has its own attribute `rules`."""


def get_logical_axis_rules() -> CheckedRules:
    """Return the rules in context in this thread; `()` if there are none (LOG-6)."""
    return getattr(context, "rules", ())


def set_logical_axis_rules(rules: Rules) -> None:
    """Put rules in context in this thread, until others replace them (LOG-6).

    Raises:
      AxisRulesError: They are no list of pairs; then those in context stay.
    """
    context.rules = checked_rules(rules)


@contextlib.contextmanager
def logical_axis_rules(rules: Rules) -> Iterator[None]:
    """Put rules in context for a `with` block; the former ones are back after it (LOG-6b).

    Raises:
      AxisRulesError: They are no list of pairs.
    """
    former = get_logical_axis_rules()
    set_logical_axis_rules(rules)
    try:
        yield
    finally:
        context.rules = former


def rules_or_context(rules: Rules | None) -> CheckedRules:
    """Return the rules that are passed, checked, or for `None` those in context (LOG-6a)."""
    return get_logical_axis_rules() if rules is None else checked_rules(rules)


@functools.lru_cache(maxsize=4096)
def composed_rules(own: CheckedRules, context: CheckedRules) -> CheckedRules:
    """Return own rules, followed by the rules in context for other names (LOG-10d).

    Args:
      own, context: As `checked_rules` returns them.

    Raises:
      RulesConflictError: Both have rules for one name, and they differ (LOG-10e).
    """
    mine = {name: [rule for rule in own if rule[0] == name] for name, _ in own}
    for name, rules in mine.items():
        theirs = [rule for rule in context if rule[0] == name]
        if theirs and theirs != rules:
            raise errors.RulesConflictError(name=name, own=rules, context=theirs)
    return own + tuple(rule for rule in context if rule[0] not in mine)


@functools.lru_cache(maxsize=4096)
def resolve(names: tuple[Any, ...], rules: CheckedRules) -> tuple[PartitionSpec, tuple[str, ...]]:
    """Apply rules to the names of one array: the one place where names become mesh axes.

    Args:
      names: As `meta.axis_names` returns them. A string is a logical name; a tuple names mesh axes
        itself, and has them before any rule is tried.
      rules: As `checked_rules` returns them.

    Returns:
      The spec in terms of mesh axes, and the logical names for which no rule decided.

    Raises:
      RepeatedNameError: A logical name, or a mesh axis in a tuple, occurs twice (LOG-2, LOG-3c).
    """
    logical = {name: place for place, name in enumerate(names) if isinstance(name, str)}
    taken = [axis for name in names if not isinstance(name, str) for axis in mesh_axes(name)]
    for used in (filter(logical.__contains__, names), taken):
        if repeated := [name for name, count in Counter(used).items() if count > 1]:
            raise errors.RepeatedNameError(repeated=tuple(repeated), names=names)
    spec = [None if isinstance(name, str) else name for name in names]
    for name, axes in rules:
        if name in logical and {*taken}.isdisjoint(mesh_axes(axes)):
            spec[logical.pop(name)] = axes
            taken += mesh_axes(axes)
    return partition_spec(tuple(spec)), tuple(logical)


def logical_to_mesh_axes(
    array_dim_names: Sequence[Any] | None, rules: Rules | None = None
) -> PartitionSpec | None:
    """Map the names of one array to mesh axes (LOG-1 to LOG-4).

    Args:
      array_dim_names: For each axis a logical name, `None`, a tuple of mesh axes, or
        `PartitionSpec.UNCONSTRAINED`; the last three stay as they are. `None` means no names.
      rules: The rules; `None` means those in context.

    Returns:
      A spec with an entry for each name: the mesh axes of the first rule for the name whose axes
      are all still free in this array, or `None` without such a rule. `None` for no names.

    Raises:
      NamesError: A name occurs twice, or the names are no sequence.
      AxisRulesError: The rules are no list of pairs.
    """
    if array_dim_names is None:
        return None
    return resolve(axis_names(array_dim_names), rules_or_context(rules))[0]


def logical_to_mesh(tree: Tree, rules: Rules | None = None) -> Tree:
    """Map every spec of logical names in a tree to a spec of mesh axes (LOG-5a).

    Args:
      tree: A tree of `PartitionSpec` and `None`, as `get_partition_spec` returns.
      rules: The rules; `None` means those in context.

    Raises:
      NoNamesError: A leaf is no spec.
      RepeatedNameError: A name occurs twice in a spec.
    """
    checked = rules_or_context(rules)

    def mapped(spec: object) -> PartitionSpec:
        if not isinstance(spec, PartitionSpec):
            raise errors.NoNamesError(names=spec)
        return resolve(tuple(spec), checked)[0]

    return tree_map(mapped, tree)


def logical_to_mesh_sharding(tree: Tree, mesh: Mesh, rules: Rules | None = None) -> Tree:
    """Map every spec of logical names in a tree to a sharding on a mesh (LOG-5b).

    Args:
      tree, rules: As for `logical_to_mesh`, which lists the errors.
      mesh: A mesh that has the axes of the rules.

    Returns:
      A tree of `NamedSharding`, ready for `jax.jit(..., out_shardings=)`.
    """
    return tree_map(functools.partial(NamedSharding, mesh), logical_to_mesh(tree, rules))


class RulesFallback(enum.Enum):
    """The options of `with_logical_constraint` for a name that no rule decides (LOG-8)."""

    AXIS_IS_UNSHARDED = "axis_is_unsharded"
    RAISE_ERROR = "raise_error"
    NO_CONSTRAINT = "no_constraint"


def _is_names(spec: object) -> bool:
    """Whether `spec` has the names of one array; if not, it is a tree of names."""
    if type(spec) is not tuple:
        return False
    named = any(isinstance(name, str) or name is UNCONSTRAINED for name in spec)
    return named or all(name is None for name in spec)


def with_logical_constraint(
    x: A,
    logical_axis_resources: Prefix,
    rules: Rules | None = None,
    mesh: Mesh | None = None,
    fallback: RulesFallback = RulesFallback.AXIS_IS_UNSHARDED,
) -> A:
    """Constrain arrays to the mesh axes of their logical names (LOG-8, document 002).

    Args:
      x: An array or a tree of arrays.
      logical_axis_resources: The names of each axis, or a tree of them that is a prefix of `x`;
        `None` leaves `x` as it is.
      rules: The rules; `None` means those in context.
      mesh: The mesh; `None` means the one in context.
      fallback: The option for a name that no rule decides: leave its axis unsharded, raise an
        error, or leave the arrays unconstrained.

    Returns:
      `x` with its arrays sharded by the mapped spec. `x` itself without rules or without a mesh.

    Raises:
      NameCountError: There are not as many names as axes.
      RepeatedNameError: A name occurs twice.
      UnmatchedAxisError: No rule decides for a name, and `fallback` is `RAISE_ERROR`.
    """
    checked = rules_or_context(rules)
    if logical_axis_resources is None or not checked or (mesh is None and context_mesh() is None):
        return x

    def constrained(names: Prefix, part: Tree) -> Tree:
        names = axis_names(names)
        spec, unmatched = resolve(names, checked)
        if unmatched and fallback is RulesFallback.RAISE_ERROR:
            raise errors.UnmatchedAxisError(unmatched=unmatched, names=names, rules=checked)
        for rank in {*map(np.ndim, tree_leaves(part))} - {len(names)}:
            raise errors.NameCountError(count=len(names), names=names, rank=rank)
        if unmatched and fallback is RulesFallback.NO_CONSTRAINT:
            return part
        return tree_map(functools.partial(constrain, spec=spec, mesh=mesh), part)

    if all_leaves([x]):
        return constrained(logical_axis_resources, x)  # type: ignore[no-any-return]
    return tree_map(constrained, logical_axis_resources, x, is_leaf=_is_names)  # type: ignore[no-any-return]


class LogicallyPartitioned(Partitioned[A]):
    """A box whose names are logical, and whose partition spec stays logical (LOG-9).

    Args:
      value, mesh: As for `Partitioned`.
      names: For each axis of the value a logical name, a tuple of mesh axes, or `None`.
      rules: The rules that `unbox` maps the names by, instead of those in context (LOG-9c).

    Raises:
      AxisRulesError: `rules` is no list of pairs.
    """

    rules: Rules | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rules is not None:
            object.__setattr__(self, "rules", checked_rules(self.rules))

    def mesh_spec(self) -> PartitionSpec | None:
        """Return the names mapped by the rules, of the box or in context; or `None` (LOG-9b)."""
        rules = get_logical_axis_rules() if self.rules is None else self.rules
        return resolve(self.names, rules)[0] if rules else None


def with_logical_partitioning(
    fn: Callable[P, A], names: Iterable[Any], mesh: Mesh | None = None, rules: Rules | None = None
) -> Callable[P, LogicallyPartitioned[A]]:
    """Make an initializer return its array in a `LogicallyPartitioned` (BOX-19, LOG-9).

    Args:
      fn: An initializer, such as those of `jax.nn.initializers`.
      names, mesh, rules: The axis names, the mesh and the rules of the box.

    Returns:
      An initializer with the parameters, the name and the docstring of `fn`.
    """
    return boxing(fn, LogicallyPartitioned, names=names, mesh=mesh, rules=rules)
