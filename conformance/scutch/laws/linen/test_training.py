"""Generated models train on a mesh as they train on one device: LIN-6e, LIN-7d (`002_`).

LIN-5 and LIN-6 are about the guide's model; these laws try the same on drawn models, with drawn
layers, lifts, names, rules and meshes. The oracles are the same steps on one device, and for
shardings the names of the description.
"""

import functools
import math
import types
from typing import Any, Generic, TypeVar

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from scutch.lawkit.domain import assume, need_devices
from scutch.lawkit.equality import alike, assert_close, holds
from scutch.lawkit.marks import at_least, dear, reached, requirement
from scutch.lawkit.placement import has_sharding, in_context
from scutch.lawkit.tolerances import TRAINING
from scutch.lawkit.training import MOMENTUM
from scutch.strategies import models
from scutch.strategies.models import layers, lifts

AXES = ("data", "model", "layers", "stage")
STEPS = 2
WIDE = 3
"""Axes of two devices that a mesh of eight has at most."""


def _models(box):
    """Models with boxes of one class around some of their parameters."""
    boxed = layers(("Dense", "Scale", "Mix", "Shift"), ("", box, box))
    return models(st.one_of(boxed, lifts(of=boxed)), max_size=2)


def _mesh(described, renamed, wide):
    """A mesh with two devices along each axis in `wide` that every named size allows.

    Args:
      described: The variables that the model declares.
      renamed: The mesh axis of each name.
      wide: The axes that get two devices, unless their name stands at an odd size.
    """
    odd = {
        renamed.get(name)
        for each in described
        for size, name in zip(each.shape, each.names, strict=bool(each.names))
        if size % 2
    }
    sizes = [2 if axis in wide and not holds(odd, axis) else 1 for axis in AXES]
    need_devices(math.prod(sizes))
    return Mesh(np.array(jax.devices()[: math.prod(sizes)]).reshape(sizes), AXES)


def _trained(linen, model, params, placed=None):
    """The state of a model, boxed, before its training and after each step, and the losses.

    Args:
      linen: The namespace of modules.
      model: An instance of a described model.
      params: Its parameters, boxed.
      placed: A function from the abstract state to the shardings of the state; where left out, all
        stays on one device.
    """
    module, traces = model.module(), []

    def create(params):
        return linen.TrainState.create(apply_fn=module.apply, params=params, tx=MOMENTUM)

    def step(state, x):
        traces.append(1)

        def loss(params):
            return ((module.apply({"params": params}, x) - 1) ** 2).mean()

        value, gradients = jax.value_and_grad(loss)(state.params)
        return state.apply_gradients(grads=gradients), value

    if placed is None:
        step = jax.jit(step)
    else:
        shardings = placed(jax.eval_shape(create, params))
        create = jax.jit(create, out_shardings=shardings)
        step = jax.jit(step, in_shardings=(shardings, None), out_shardings=(shardings, None))
    states, losses = [create(params)], []
    for _ in range(STEPS):
        state, value = step(states[-1], model.x)
        states.append(state)
        losses.append(value)
    assert len(traces) == 1, f"the step was traced {len(traces)} times"
    return states, losses


def _assert_placed(linen, declared, mesh, renamed, states):
    """Fail unless every parameter and its momentum lie as their names say, after every step."""
    for state in states:
        for tree in (state.params, state.opt_state):
            bare = linen.meta.unbox(tree)
            for (_, *path), each in declared.items():
                array = functools.reduce(lambda inner, name: inner[name], path, bare)
                spec = P(*(renamed.get(name) for name in each.names))
                assert has_sharding(array, NamedSharding(mesh, spec)), (
                    f"{'/'.join(path)} has the sharding {array.sharding}, expected {spec}"
                )


def _trains_as_on_one_device(linen, model, renamed, wide, *, logical):
    """Fail unless a model on a mesh has the losses, parameters and momenta of one device.

    Training that diverges on one device is out of the domain: rounding decides its last numbers.
    """
    declared = model.declared_variables()
    mesh = _mesh(declared.values(), renamed, wide)
    params = model.variables()["params"]

    def placed(abstract):
        if not logical:
            return linen.get_sharding(abstract, mesh)
        specs = linen.get_partition_spec(abstract)
        return linen.logical_to_mesh_sharding(specs, mesh, list(renamed.items()))

    with in_context(mesh):
        states, losses = _trained(linen, model, params, placed)
    _assert_placed(linen, declared, mesh, renamed, states)
    if mesh.size > 1 and any(each.names for each in declared.values()):
        reached("several devices")
    expected, their_losses = _trained(linen, model, linen.meta.unbox(params))
    assume(all(np.isfinite(each).all() for each in jax.tree_util.tree_leaves(expected[-1])))
    assert_close(losses, their_losses, "losses", **TRAINING)
    for what in ("params", "opt_state"):
        found, wanted = (linen.meta.unbox(getattr(s[-1], what)) for s in (states, expected))
        assert_close(found, wanted, what, **TRAINING)


wide_axes = st.lists(st.sampled_from(AXES), min_size=1, max_size=WIDE, unique=True)


@requirement("linen/training/generated-models-train-alike", must_reach=("several devices",))
@dear
@given(model=_models("Partitioned"), wide=wide_axes)
def test_a_generated_model_trains_on_a_mesh_as_on_one_device(linen, model, wide):
    """A model annotated directly, on a mesh, has after every train step the losses, parameters and
    momenta of one device; every array lies as its names say, and the step is traced once.
    """
    _trains_as_on_one_device(linen, model, {axis: axis for axis in AXES}, wide, logical=False)


@requirement("linen/training/generated-models-train-alike", must_reach=("several devices",))
@dear
@at_least(26)
@given(model=_models("LogicallyPartitioned"), wide=wide_axes, order=st.permutations(AXES))
def test_a_generated_logical_model_trains_on_a_mesh_as_on_one_device(linen, model, wide, order):
    """So does a model annotated logically, whose names rules map to other axes of the mesh."""
    renamed = dict(zip(AXES, order, strict=True))
    _trains_as_on_one_device(linen, model, renamed, wide, logical=True)


WRITTEN = ("plain", "generic", "by keyword", "generic, by keyword")
T = TypeVar("T")


def _extended(base, names, default, written):
    """A subclass of a train state with further fields, one of which has a default, and the class to
    make one of: with a parameter for its type, if it is generic.
    """
    bases = (base, Generic[T]) if "generic" in written else (base,)
    by_keyword = "keyword" in written  # then the field with a default may come first
    body = {"__module__": __name__, "__annotations__": dict.fromkeys(names, Any)}
    body[names[0 if by_keyword else -1]] = default
    options = {"kw_only": True} if by_keyword else {}
    cls = types.new_class("Extended", bases, options, lambda namespace: namespace.update(body))
    return cls, cls[int] if "generic" in written else cls


@requirement(
    "linen/training/train-state-subclass-holds-more",
    must_reach=("changed", "kept", "left out", "jitted", *WRITTEN),
)
@given(
    names=st.lists(st.sampled_from(["stats", "average", "metrics"]), min_size=1, unique=True),
    changed=st.lists(st.booleans(), min_size=3, max_size=3),
    given=st.booleans(),
    jitted=st.booleans(),
    scale=st.sampled_from([0.5, 2.0, -1.0]),
    written=st.sampled_from(WRITTEN),
)
def test_a_train_state_of_a_subclass_holds_more(
    linen, names, changed, given, jitted, scale, written
):
    """A subclass of `TrainState` can add fields.

    `create` sets each to the given value or to its default. `apply_gradients` changes the fields
    that it is given, keeps the others, and makes the same update as the class itself. The subclass
    may be generic, and may have keyword-only fields.
    """
    names, default = [*names], 7.0
    new = {name for name, each in zip(names, changed, strict=False) if each}
    for name, told in {"changed": new, "kept": len(new) < len(names), "jitted": jitted}.items():
        if told:
            reached(name)
    if not given:
        reached("left out")
    cls, maker = _extended(linen.TrainState, names, default, written)
    left_out = names[0 if "keyword" in written else -1]
    values = {name: np.full(2, n + 1, "float32") for n, name in enumerate(names)}
    passed = {name: values[name] for name in names if given or name != left_out}
    params = {"w": np.arange(3, dtype="float32")}
    common = {"apply_fn": abs, "params": params, "tx": MOMENTUM}
    state, plain = maker.create(**common, **passed), linen.TrainState.create(**common)

    def step(state, grads, more):
        return state.apply_gradients(grads=grads, **more)

    step = jax.jit(step) if jitted else step
    grads = jax.tree.map(lambda leaf: scale * (leaf + 1), params)
    for turn in range(2):
        held = {name: passed.get(name, default) for name in names}
        for name, each in held.items():
            found = np.asarray(getattr(state, name), "float32")
            assert alike(found, np.asarray(each, "float32")), f"{name}, after {turn} updates"
        assert len([*jax.tree.leaves(state)]) == len([*jax.tree.leaves(plain), *names])
        assert_close(
            [state.step, state.params, state.opt_state], [plain.step, plain.params, plain.opt_state]
        )
        more = {name: 2 * held[name] for name in names if name in new}
        passed |= more
        state, plain = step(state, grads, more), step(plain, grads, {})
    assert isinstance(state, cls)
