"""Lies of `with_logical_constraint`: LOG-8."""

import inspect

import jax
import numpy as np
from jax.sharding import PartitionSpec
from scutch_reference.errors import UnmatchedAxisError
from scutch_reference.logical import (
    RulesFallback,
    get_logical_axis_rules,
    logical_to_mesh_axes,
    with_logical_constraint,
)
from scutch_reference.placement import constrain, context_mesh
from trials.liars.tale import instead_of

_SIGNATURE = inspect.signature(with_logical_constraint)


def constraint(lie):
    """Tell a lie of `with_logical_constraint` that is given all its arguments by name."""

    def told(*args, **kwargs):
        given = _SIGNATURE.bind(*args, **kwargs)
        given.apply_defaults()
        return lie(given.arguments)

    told.__name__, told.__doc__ = lie.__name__, lie.__doc__
    instead_of("with_logical_constraint")(told)
    return lie


def _traced(call):
    return isinstance(call["x"], jax.core.Tracer)


@constraint
def to_device(call):
    """Breaks LOG-8a: without a mesh, the array is put on a device."""
    if call["mesh"] is None and context_mesh() is None:
        return jax.numpy.asarray(call["x"])
    return with_logical_constraint(**call)


@constraint
def replicated_without_rules(call):
    """Breaks LOG-8b: without rules, the array is replicated."""
    rules = get_logical_axis_rules() if call["rules"] is None else call["rules"]
    return (
        with_logical_constraint(**call)
        if rules
        else constrain(call["x"], PartitionSpec(), call["mesh"])
    )


@constraint
def eager_only(call):
    """Breaks LOG-8c: a traced program has no constraint."""
    return call["x"] if _traced(call) else with_logical_constraint(**call)


@constraint
def traced_only(call):
    """Breaks LOG-8d: an array that exists already stays where it is."""
    constrained = with_logical_constraint(**call)
    return constrained if _traced(call) else call["x"]


def _names(call):
    return tuple(call["logical_axis_resources"])


@constraint
def drops_names(call):
    """Breaks LOG-8e: names that are too many are dropped."""
    if not hasattr(call["x"], "shape"):
        return with_logical_constraint(**call)
    return with_logical_constraint(
        **{**call, "logical_axis_resources": _names(call)[: np.ndim(call["x"])]}
    )


@constraint
def pads_names(call):
    """Breaks LOG-8f: where names are missing, the first axes go without."""
    if not hasattr(call["x"], "shape"):
        return with_logical_constraint(**call)
    missing = np.ndim(call["x"]) - len(_names(call))
    return with_logical_constraint(
        **{**call, "logical_axis_resources": (None,) * missing + _names(call)}
    )


@instead_of("with_logical_constraint")
def cautious(x, names, rules=None, mesh=None, fallback=RulesFallback.NO_CONSTRAINT):
    """Breaks LOG-8g: the default is `NO_CONSTRAINT`."""
    return with_logical_constraint(x, names, rules, mesh, fallback)


@constraint
def never_raises(call):
    """Breaks LOG-8h: the fallback `RAISE_ERROR` is ignored."""
    if call["fallback"] is RulesFallback.RAISE_ERROR:
        call["fallback"] = RulesFallback.AXIS_IS_UNSHARDED
    return with_logical_constraint(**call)


@constraint
def raises_unnamed(call):
    """Breaks LOG-8k: the error of `RAISE_ERROR` does not say which name has no rule."""
    try:
        return with_logical_constraint(**call)
    except UnmatchedAxisError as error:
        raise ValueError("a name has no rule") from error


@constraint
def always_constrains(call):
    """Breaks LOG-8i: the fallback `NO_CONSTRAINT` is ignored."""
    if call["fallback"] is RulesFallback.NO_CONSTRAINT:
        call["fallback"] = RulesFallback.AXIS_IS_UNSHARDED
    return with_logical_constraint(**call)


@constraint
def auto_axes_only(call):
    """Breaks LOG-8j: a mesh of explicit axes is passed over."""
    types = getattr(context_mesh(), "axis_types", None)
    constrained = with_logical_constraint(**call)
    explicit = isinstance(types, tuple) and any(its.name == "Explicit" for its in types)
    return call["x"] if explicit else constrained


@constraint
def first_leaf_alone(call):
    """Breaks LOG-8l: of the arrays of a tree, the first alone is constrained."""
    leaves, structure = jax.tree.flatten(call["x"])
    if jax.tree_util.all_leaves([call["x"]]):
        return with_logical_constraint(**call)
    constrained = jax.tree.leaves(with_logical_constraint(**call))
    return jax.tree.unflatten(structure, constrained[:1] + leaves[1:])


@constraint
def knows_no_manual_axes(call):
    """Breaks metadata/logical-constraints/manual-axes-are-passed-over: they are refused."""
    manual = getattr(context_mesh(), "manual_axes", ())
    spec = logical_to_mesh_axes(call["logical_axis_resources"], call["rules"])
    if set(manual) & set(jax.tree.leaves(tuple(spec))):
        raise ValueError(f"{spec} names axes that are manual: {manual}")
    return with_logical_constraint(**call)
