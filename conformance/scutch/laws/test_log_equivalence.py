"""Logical annotation against direct annotation: LOG-7."""

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.lawkit.marks import reached, requirement
from scutch.lawkit.states import raw_value
from scutch.lawkit.training import ADAM
from scutch.strategies import logical_placements


def _annotated(meta, logical, models):
    """The same parameters, annotated logically and directly."""
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
    return {"step": np.zeros((), "int32"), "params": params, "opt_state": (ADAM.init(params), ())}


def _check(meta, logical, logically, directly, placed):
    specs = meta.get_partition_spec(logically)
    mapped = logical.logical_to_mesh(specs, placed.rules)
    shardings = logical.logical_to_mesh_sharding(specs, placed.mesh, placed.rules)
    for ours, theirs in (
        (mapped, meta.get_partition_spec(directly)),
        (shardings, meta.get_sharding(directly, placed.mesh)),
    ):
        assert jax.tree_util.tree_structure(ours) == jax.tree_util.tree_structure(theirs)
        assert jax.tree_util.tree_leaves(ours) == jax.tree_util.tree_leaves(theirs)


@requirement("LOG-7a", must_reach=("sharded",))
@given(placed=logical_placements(), order=st.booleans())
def test_logical_parameters_have_the_direct_shardings(meta, logical, placed, order):
    """Naming axes logically and mapping the names is naming the mesh axes."""
    reached("sharded")
    logically, directly = _annotated(meta, logical, [placed, placed] if order else [placed])
    _check(meta, logical, logically, directly, placed)


@requirement("LOG-7b", must_reach=("sharded",))
@given(placed=logical_placements())
def test_a_logical_train_state_has_the_direct_shardings(meta, logical, placed):
    """Moments and counters follow their parameters."""
    reached("sharded")
    logically, directly = _annotated(meta, logical, [placed])
    _check(meta, logical, _train_state(logically), _train_state(directly), placed)
    abstract = jax.eval_shape(
        lambda: _train_state(jax.tree_util.tree_map(jax.numpy.asarray, logically))
    )
    _check(meta, logical, abstract, _train_state(directly), placed)


@requirement("LOG-7c", must_reach=("sharded", "own rules", "rules in context"))
@given(placed=logical_placements(), how=st.sampled_from(["own rules", "rules in context"]))
def test_a_variable_has_the_spec_of_the_box(logical, nnx, placed, how):
    """Names and rules mean on a variable what they mean on a box."""
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
    reached(how)
    assert found == expected
    assert placing == jax.sharding.NamedSharding(placed.mesh, expected)
