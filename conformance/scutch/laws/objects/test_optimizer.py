"""The optimizer of objects: OBJ-7.

The oracle is `optax`, on the values of the parameters.
"""

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from scutch.inputs.graphs import differences, nodes
from scutch.lawkit.domain import assume, import_or_leave
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import options, reached, requirement
from scutch.lawkit.placement import in_context
from scutch.laws.transformations.nested_modules import nested_model, node_pairs
from scutch.strategies import logical_placements


def _scaled(optax):
    """A transformation whose `update` takes a further argument."""

    def update(updates, state, params=None, *, scale, **_):
        return jax.tree.map(lambda update: -scale * update, updates), state

    return optax.GradientTransformationExtraArgs(lambda _: optax.EmptyState(), update)


TRANSFORMATIONS = {
    "sgd": lambda optax: optax.sgd(0.5),
    "momentum": lambda optax: optax.sgd(0.5, momentum=0.5),
    "adam": lambda optax: optax.adam(0.5),
    "scaled": lambda optax: _scaled(optax),
}
OPTIMIZED = {
    "Param": lambda nnx: nnx.Param,
    "BatchStat": lambda nnx: nnx.BatchStat,
    "either": lambda nnx: nnx.Any(nnx.Param, nnx.BatchStat),
}


@requirement(
    "objects/optimizer/update-equals-optax", must_reach=(*TRANSFORMATIONS, *OPTIMIZED, "keywords")
)
@options("nnx.Variable.out_sharding")
@given(
    name=st.sampled_from(list(TRANSFORMATIONS)),
    wanted=st.sampled_from(list(OPTIMIZED)),
    steps=st.lists(st.sampled_from([1.0, -2.0]), max_size=2),
    tied=st.booleans(),
    keywords=st.booleans(),
)
def test_the_optimizer_computes_what_optax_computes(
    transforms, nnx, name, wanted, steps, tied, keywords
):
    """After any number of updates the model's parameters and the optimizer's state are those that
    `optax` computes, in the same variables; these have the names of the parameters. Further
    arguments of an update reach the transformation.
    """
    optax = import_or_leave("optax", "optax, which the optimizer wraps, is not there")
    chosen, transformation = OPTIMIZED[wanted](nnx), TRANSFORMATIONS[name](optax)
    expected, model = nested_model(nnx, tied=tied), nested_model(nnx, tied=tied)
    for root in (expected, model):
        for i, variable in enumerate(v for v in nodes(nnx, root) if isinstance(v, nnx.Variable)):
            variable.set_metadata(out_sharding=(f"axis_{i}",), eager_sharding=False)
    pairs = node_pairs(nnx, expected, model)
    if keywords:
        reached("keywords")
        optimizer = transforms.Optimizer(model=model, tx=transformation, wrt=chosen)
    else:
        optimizer = transforms.Optimizer(model, transformation, wrt=chosen)
    kept = _kept(nnx, optimizer.opt_state)
    values = nnx.to_pure_dict(nnx.state(expected, chosen))
    state = transformation.init(values)
    for step in steps:
        further = {"scale": 1.5 + step} if name == "scaled" else {}
        slopes = jax.tree.map(lambda x: x * step, values)  # noqa: B023  used at once
        gradients = jax.tree.map(lambda x: x * step, nnx.state(model, chosen))  # noqa: B023
        updates, state = transformation.update(slopes, state, values, **further)
        values = optax.apply_updates(values, updates)
        optimizer.update(model, gradients, **further)
    nnx.update(expected, values)
    difference = differences(nnx, expected, model, pairs)
    assert not difference, f"optax and the optimizer: {difference}"
    assert alike(jax.tree.leaves(optimizer.opt_state), jax.tree.leaves(state))
    assert int(optimizer.step.get_value()) == len(steps)
    after = _kept(nnx, optimizer.opt_state)
    assert [*map(id, after)] == [*map(id, kept)], f"{kept} before and {after} after"
    names = [v.get_metadata("out_sharding") for v in _kept(nnx, nnx.state(model, chosen))]
    found = [v.get_metadata("out_sharding", None) for v in kept]
    copies = {"sgd": 0, "momentum": 1, "adam": 2, "scaled": 0}[name]
    assert alike([each for each in found if each is not None], names * copies)


def _kept(nnx, tree):
    """The variables in a tree."""
    leaves = jax.tree.leaves(tree, is_leaf=lambda x: isinstance(x, nnx.Variable))
    return [each for each in leaves if isinstance(each, nnx.Variable)]


AROUND = ("nothing", "same", "other")
"""The mesh in context while an optimizer is made: none, or that of one of its parameters."""


@requirement(
    "objects/optimizer/update-equals-optax",
    must_reach=(*AROUND, "stacked", "not stacked", "jitted"),
)
@options("nnx.Variable.out_sharding")
@given(
    placed=logical_placements(),
    around=st.sampled_from(AROUND),
    stacked=st.booleans(),
    jitted=st.booleans(),
)
def test_the_optimizer_keeps_its_state_where_the_parameters_lie(
    transforms, nnx, placed, around, stacked, jitted
):
    """What an optimizer keeps for a parameter has its names, one for each axis, and lies as what
    `optax` keeps for its value, on the parameter's own mesh, whatever mesh is in context. So it is
    for parameters on two meshes, made in one jitted call or not, and for one that `vmap` stacked.
    """
    optax = import_or_leave("optax", "optax, which the optimizer wraps, is not there")
    assume(placed.names)
    rules, devices = dict(placed.rules), placed.mesh.devices.reshape(-1)
    meshes = placed.mesh, Mesh(devices, ("elsewhere",))
    names = tuple(rules.get(name) for name in placed.names), ("elsewhere",)
    arrays = placed.array, np.arange(devices.size * 2, dtype="float32")

    def made(array, n):
        return nnx.Param(array, out_sharding=names[n], mesh=meshes[n])

    def model():
        first = made(arrays[0], 0)
        if stacked:
            first = transforms.vmap(
                lambda array: made(array, 0), transform_metadata={nnx.PARTITION_NAME: None}
            )(np.stack([arrays[0]] * 3))
        return nnx.Dict(first=first, second=made(arrays[1], 1))

    with nnx.use_eager_sharding(True):
        built = (transforms.jit(model) if jitted else model)()
        transformation = optax.sgd(0.5, momentum=0.5)
        with in_context({"same": meshes[0], "other": meshes[1]}.get(around)):
            optimizer = transforms.Optimizer(built, transformation, wrt=nnx.Param)
    parameters = [built.first, built.second]
    states = [v for v in _kept(nnx, optimizer.opt_state) if v.get_value().ndim]
    wanted = jax.tree.leaves(transformation.init([v.get_value() for v in parameters]))
    for n, (parameter, state, array) in enumerate(zip(parameters, states, wanted, strict=True)):
        own = (None,) * (stacked and n == 0) + names[n]
        lies = NamedSharding(meshes[n], PartitionSpec(*own))
        assert alike(tuple(parameter.get_metadata("out_sharding")), own)
        assert alike(tuple(state.get_metadata("out_sharding")), own)
        for value in (parameter.get_value(), array, state.get_value()):
            assert value.sharding.is_equivalent_to(lies, value.ndim), f"{value.sharding} for {lies}"
