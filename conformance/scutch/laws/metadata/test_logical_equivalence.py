"""Logical annotation against direct annotation: LOG-7 (`002_`).

Parameters are *annotated directly* by a box with mesh axes as names, and *annotated logically* by a
box with logical names, which rules map to mesh axes. The guide of `002_` does one task in both
ways.

The oracle is the direct way: the same tree, annotated with the mapped names, must have the same
specs and the same shardings; likewise its training state, whose optimizer keeps two trees like the
parameters.
"""

import functools

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import NamedSharding

from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, leaf_pairs
from scutch.lawkit.marks import options, reached, requirement
from scutch.lawkit.states import raw_value
from scutch.lawkit.training import ADAM
from scutch.strategies import logical_placements


def _annotated(meta, logical, models):
    """The same parameters twice: annotated logically, and directly with the mapped names."""
    logically, directly = {}, {}
    for number, placed in enumerate(models):
        spec = logical.logical_to_mesh_axes(placed.names, placed.rules)
        layer = f"layer_{number}"
        logically[layer] = {
            "kernel": logical.LogicallyPartitioned(placed.array, placed.names),
            "bias": np.zeros(2, "float32"),
        }
        directly[layer] = {
            "kernel": meta.Partitioned(placed.array, tuple(spec)),
            "bias": np.zeros(2, "float32"),
        }
    return logically, directly


def _train_state(params):
    """A training state of `params`: a counter of steps, the parameters, and the state of an
    optimizer.
    """
    return {"step": np.zeros((), "int32"), "params": params, "opt_state": (ADAM.init(params), ())}


def _pairs(meta, logical, logically, directly, placed):
    """The specs and shardings of a logically and of a directly annotated tree, in pairs.

    Returns:
      Paths with both specs; and paths with both shardings on the mesh of `placed`.
    """
    specs = meta.get_partition_spec(logically)
    mapped = logical.logical_to_mesh(specs, placed.rules)
    shardings = logical.logical_to_mesh_sharding(specs, placed.mesh, placed.rules)
    return (
        leaf_pairs(mapped, meta.get_partition_spec(directly)),
        leaf_pairs(shardings, meta.get_sharding(directly, placed.mesh)),
    )


def _check(meta, logical, logically, directly, placed):
    """Fail unless by specs and by shardings every device has the same parts of both trees."""
    specs, shardings = _pairs(meta, logical, logically, directly, placed)
    on_mesh = functools.partial(NamedSharding, placed.mesh)
    pairs = [(path, on_mesh(found), on_mesh(expected)) for path, found, expected in specs]
    ranks = [np.ndim(array) for array in jax.tree_util.tree_leaves(meta.unbox(directly))]
    for (path, found, expected), rank in zip([*pairs, *shardings], ranks * 2, strict=True):
        assert found.is_equivalent_to(expected, rank), (
            f"{path} is sharded as {found} annotated logically, as {expected} directly"
        )


@requirement("metadata/logical-trees/parameters-match-direct-names", must_reach=("sharded",))
@given(placed=logical_placements(), order=st.booleans())
def test_logical_parameters_have_the_direct_shardings(meta, logical, placed, order):
    """Parameters with logical names, mapped by rules, are placed on the mesh like parameters that
    are annotated with the mapped names.
    """
    reached("sharded")
    logically, directly = _annotated(meta, logical, [placed, placed] if order else [placed])
    _check(meta, logical, logically, directly, placed)


@requirement("metadata/logical-trees/train-state-matches-too", must_reach=("sharded",))
@given(placed=logical_placements())
def test_a_logical_train_state_has_the_direct_shardings(meta, logical, placed):
    """A training state with logical names, its moments and counters included, is placed on the mesh
    like the one with mapped names; so is the abstract state.
    """
    reached("sharded")
    logically, directly = _annotated(meta, logical, [placed])
    _check(meta, logical, _train_state(logically), _train_state(directly), placed)
    abstract = jax.eval_shape(
        lambda: _train_state(jax.tree_util.tree_map(jax.numpy.asarray, logically))
    )
    _check(meta, logical, abstract, _train_state(directly), placed)


@requirement("metadata/logical-trees/specs-equal-direct-ones", must_reach=("sharded",))
@given(placed=logical_placements())
def test_logical_specs_equal_the_direct_ones(meta, logical, placed):
    """The specs and shardings of a logical training state, mapped by rules, are equal to those of
    the one with mapped names: no entry is left out because it makes no difference.
    """
    reached("sharded")
    logically, directly = map(_train_state, _annotated(meta, logical, [placed]))
    specs, shardings = _pairs(meta, logical, logically, directly, placed)
    for path, found, expected in [*specs, *shardings]:
        assert alike(found, expected), f"{path} is {found} annotated logically, {expected} directly"


@requirement(
    "metadata/logical-resolver/variables-resolve-as-boxes",
    must_reach=("own rules", "rules in context"),
)
@options("nnx.Variable.out_sharding")
@given(
    placed=logical_placements(),
    left_out=st.integers(0, 2),
    how=st.sampled_from(["own rules", "rules in context"]),
)
def test_a_name_of_a_variable_without_a_rule_is_unsharded(logical, nnx, placed, left_out, how):
    """A variable with logical names of which one has no rule, while others have one, has the spec
    that `logical_to_mesh_axes` gives the names: it is unsharded along that axis.
    """
    named = [name for name in placed.names if name is not None]
    assume(len(named) > 1)
    without = named[left_out % len(named)]
    rules = tuple(rule for rule in placed.rules if not alike(rule[0], without))
    own = how == "own rules"
    notes = {"sharding_rules": rules} if own else {}
    variable = nnx.Param(placed.array, out_sharding=placed.names, eager_sharding=False, **notes)
    with logical.logical_axis_rules(() if own else rules):
        found = nnx.get_partition_spec(nnx.state(nnx.Dict(kernel=variable)))["kernel"]
    expected = logical.logical_to_mesh_axes(placed.names, rules)
    assert alike(tuple(raw_value(nnx, found)), tuple(expected))


@requirement(
    "metadata/logical-resolver/variables-resolve-as-boxes",
    must_reach=("sharded", "own rules", "rules in context"),
)
@options("nnx.Variable.out_sharding")
@given(placed=logical_placements(), how=st.sampled_from(["own rules", "rules in context"]))
def test_a_variable_has_the_spec_of_the_box(logical, nnx, placed, how):
    """A variable with logical names, and rules of its own or in context, has the spec and the
    sharding that `logical_to_mesh_axes` gives the names.
    """
    own = how == "own rules"
    notes = {"sharding_rules": placed.rules} if own else {}
    root = nnx.Dict(
        kernel=nnx.Param(placed.array, out_sharding=placed.names, eager_sharding=False, **notes)
    )
    with logical.logical_axis_rules(() if own else placed.rules):
        found = nnx.get_partition_spec(nnx.state(root))["kernel"]
        placing = nnx.get_named_sharding(nnx.state(root), placed.mesh)["kernel"]
    found, placing = (raw_value(nnx, each) for each in (found, placing))
    expected = logical.logical_to_mesh_axes(placed.names, placed.rules)
    if any(expected):
        reached("sharded")
    assert alike(found, expected)
    assert alike(placing, NamedSharding(placed.mesh, expected))
