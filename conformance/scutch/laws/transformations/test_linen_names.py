"""The names of axes under lifted transformations: LIN-2 and LIN-3 (`002_`).

`scan` and `vmap` stack the variables of a collection along a new axis, which `variable_axes` gives.
Where variables are boxed, `metadata_params` holds the *partition name* of that axis: outside the
lift a box has one name for each axis of the stacked value, inside the body one for each axis of the
slice.

The oracle is `scutch.inputs.model_variables`: the names that the description of the model says.
Everything is initialized abstractly, by `eval_shape`.
"""

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.boxes import PARTITION_NAME
from scutch.inputs.described_models import Lift, Model
from scutch.inputs.keys import small_key
from scutch.inputs.models import LIFTS
from scutch.lawkit.boxes import names_of
from scutch.lawkit.equality import alike, leaf_pairs
from scutch.lawkit.lifts import stacked
from scutch.lawkit.marks import is_partitioning_error, raised, reached, requirement
from scutch.strategies import lifted_models
from scutch.strategies.models import BOXES, LAYERS, PLAIN, layers

OWN = ("Partitioned", "LogicallyPartitioned")
FOREIGN = tuple(box for box in BOXES if box not in OWN)


def _named_as_described(model):
    """Fail unless abstract init gives each variable in the box and with the names that the
    description says.
    """
    for lift in model.described.layers:
        reached(lift.kind)
    found, expected = jax.eval_shape(model.initialized), model.abstract()
    for path, one, other in leaf_pairs(found, expected):
        assert alike(one, other), f"{path} is {one}, expected {other}"


own = layers(LAYERS, OWN)


@requirement("transformations/fits-rank/lifts-of-linen", must_reach=LIFTS)
@given(model=lifted_models(of=own, negative=False))
def test_the_added_axis_is_named(model):
    """Each stacked box has the partition name, which may be `None`, at the axis of the stack, and
    its other names in order.
    """
    _named_as_described(model)


@requirement("transformations/fits-rank/lifts-of-linen[negative]", must_reach=LIFTS)
@given(model=lifted_models(of=layers(PLAIN, OWN), negative=True, max_size=1))
def test_a_negative_axis_is_named_where_it_lies(model):
    """Where `variable_axes` is negative, the partition name stands at that axis of the stacked
    value.
    """
    _named_as_described(model)


@requirement("transformations/fits-rank/lifts-of-linen[nested]", must_reach=LIFTS)
@given(model=lifted_models(of=own, inner=LIFTS, negative=False))
def test_nested_lifts_name_each_axis(model):
    """Under two lifts, each partition name stands at the axis that its own lift added."""
    _named_as_described(model)


@requirement("transformations/fits-rank/lifts-of-linen[own-methods]", must_reach=(*LIFTS, *FOREIGN))
@given(model=lifted_models(of=layers(PLAIN, FOREIGN), negative=False))
def test_boxes_are_renamed_by_their_own_methods(model):
    """A foreign box gets the partition name by its own `add_axis`, and keeps its other fields."""
    for layer in model.described.layers[0].layers:
        reached(layer.box)
    _named_as_described(model)


def _seeing(linen, init, seen, kind, **options):
    """A module with a lifted body whose parameter `w` is made by `init`.

    Args:
      linen: The namespace of modules.
      init: An initializer, which may box the array that it makes.
      seen: A list; each run of the body appends its parameter, boxed.
      kind: `scan`, `vmap` or `add_metadata_axis`.
      options: Those of the lift.
    """

    class Body(linen.Module):
        @linen.compact
        def __call__(self, x, *_):
            value = self.param("w", init, (2, 3), unbox=False)
            seen.append(value)
            return (x, None) if kind == "scan" else x

    class Outer(linen.Module):
        @linen.compact
        def __call__(self, x):
            if kind == "add_metadata_axis":
                return linen.add_metadata_axis(Body, **options)(name="body")(x)
            lifted, rest = stacked(linen, kind, Body, 4, **options)
            return lifted(name="body")(x, *rest)

    return Outer()


X = np.ones((2,), "float32")
wrapped = st.sampled_from(["with_partitioning", "with_logical_partitioning"])
names = st.sampled_from([("data", "model"), (None, "model"), ("model", None), (None, None)])


@requirement(
    "transformations/fits-rank/lifts-of-linen[inside]", must_reach=(*LIFTS, "add_metadata_axis")
)
@given(
    kind=st.sampled_from([*LIFTS, "add_metadata_axis"]),
    wrap=wrapped,
    names=names,
    axis=st.sampled_from([0, 1, 2]),
    name=st.sampled_from(["layers", None]),
)
def test_inside_the_body_the_added_name_is_gone(linen, kind, wrap, names, axis, name):
    """Inside the body of a lift, at init and at apply, a box has its names without the partition
    name, one for each axis of the slice.
    """
    seen = []
    split = {} if kind == "add_metadata_axis" else {"split_rngs": {"params": True}}
    module = _seeing(
        linen,
        getattr(linen, wrap)(linen.initializers.ones, names),
        seen,
        kind,
        variable_axes={"params": axis},
        metadata_params={PARTITION_NAME: name},
        **split,
    )
    variables = jax.eval_shape(module.init, small_key(0), X)
    at_init = len(seen)
    jax.eval_shape(module.apply, variables, X)
    assert 0 < at_init < len(seen)
    for box in seen:
        assert alike((names_of(box), box.value.shape), (names, (2, 3)))


@requirement(
    "transformations/fits-rank/lifts-of-linen[not-stacked]",
    must_reach=("scan broadcast", "scan carried", "vmap broadcast", "bare"),
)
@given(
    how=st.sampled_from(["scan broadcast", "scan carried", "vmap broadcast", "bare"]),
    names=names,
    wrap=wrapped,
)
def test_what_is_not_a_stacked_box_gains_no_name(linen, how, names, wrap):
    """A broadcast or carried box keeps its names, and a bare array needs no partition name."""
    init = getattr(linen, wrap)(linen.initializers.ones, names)
    metadata = {PARTITION_NAME: "layers"}
    options = {
        "scan broadcast": {"variable_broadcast": "params", "split_rngs": {"params": False}},
        "scan carried": {"variable_carry": "params", "split_rngs": {"params": False}},
        "vmap broadcast": {"variable_axes": {"params": None}, "split_rngs": {"params": False}},
        "bare": {"variable_axes": {"params": 0}, "split_rngs": {"params": True}},
    }[how]
    if how == "bare":
        for kind in LIFTS:
            for given in ({}, metadata):
                module = _seeing(
                    linen, linen.initializers.ones, [], kind, metadata_params=given, **options
                )
                (found,) = jax.tree.leaves(jax.eval_shape(module.init, small_key(0), X))
                assert alike(found.shape, (4, 2, 3))
        return
    kind = how.split()[0]
    module = _seeing(linen, init, [], kind, metadata_params=metadata, **options)
    if how == "scan carried":
        # A carried variable must exist before the loop.
        inner = _seeing(
            linen, init, [], "scan", variable_broadcast="params", split_rngs={"params": False}
        )
        variables = jax.eval_shape(inner.init, small_key(0), X)
        _, found = jax.eval_shape(lambda v: module.apply(v, X, mutable=["params"]), variables)
    else:
        found = jax.eval_shape(module.init, small_key(0), X)
    box = found["params"]["body"]["w"]
    assert alike((names_of(box), box.value.shape), (names, (2, 3)))


@requirement("transformations/fits-rank/lifts-of-linen[gradients]", must_reach=LIFTS)
@given(model=lifted_models(of=layers(PLAIN, OWN), negative=False))
def test_gradients_are_boxed_as_the_variables(model):
    """The gradient in the variables of a lifted model is in boxes of the same classes and names."""
    reached(model.described.layers[0].kind)
    variables = model.abstract()
    module = model.module()
    found = jax.eval_shape(jax.grad(lambda v: module.apply(v, model.x).sum()), variables)
    assert alike(jax.tree.structure(found), jax.tree.structure(variables))


nameless = st.builds(
    lambda kind, layer, axis: Model((Lift(kind, (layer,), 2, axis, named=False),)),
    st.sampled_from(LIFTS),
    layers(PLAIN, OWN),
    st.sampled_from([0, -1]),
)


@requirement("transformations/refuses/lifts-of-linen[partition-name]", must_reach=LIFTS)
@given(model=nameless)
def test_a_lifted_box_needs_a_partition_name(model):
    """Initializing a boxed variable under a lift without a partition name raises the partitioning
    error.
    """
    reached(model.described.layers[0].kind)
    error = raised(lambda: jax.eval_shape(model.initialized))
    assert error is not None, "it was accepted; expected the partitioning error"
    assert is_partitioning_error(error), repr(error)
