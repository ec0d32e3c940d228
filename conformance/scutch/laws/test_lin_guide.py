"""The scaling guide, run small, and what it claims: LIN-5, LIN-6 and LIN-7."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from scutch.lawkit.equality import assert_close
from scutch.lawkit.marks import costly, reached, requirement
from scutch.lawkit.placement import entries, has_sharding, in_context
from scutch.lawkit.tolerances import TRAINING
from scutch.lawkit.training import ADAM

BATCH, WIDTH, LAYERS, STEPS = 8, 8, 2, 3
RULES = (("batch", "data"), ("hidden", "model"))
FORMS = ("direct unrolled", "direct scanned", "logical unrolled", "logical scanned")
NAMES = {"direct": {"kernel": (None, "model"), "W2": ("model", None)}}
NAMES["logical"] = {"kernel": ("embed", "hidden"), "W2": ("hidden", "embed")}
forms = st.sampled_from(FORMS)


@functools.lru_cache(maxsize=16)
def model_of(nn, form, mesh):
    """The guide's model: a stack of layers of two matrices, cut by columns and by rows."""
    naming, how = form.split()
    wrap = nn.with_partitioning if naming == "direct" else nn.with_logical_partitioning
    start = nn.initializers.xavier_normal()

    class DotReluDot(nn.Module):
        depth: int

        @nn.compact
        def __call__(self, x, _=None):
            kernel_init = wrap(start, NAMES[naming]["kernel"])
            y = nn.Dense(self.depth, kernel_init=kernel_init, use_bias=False)(x)
            y = jax.nn.relu(y)
            y = jax.lax.with_sharding_constraint(y, NamedSharding(mesh, P("data", "model")))
            shape = (self.depth, x.shape[-1])
            z = jnp.dot(y, self.param("W2", wrap(start, NAMES[naming]["W2"]), shape))
            if naming == "logical":
                return nn.with_logical_constraint(z, ("batch", "embed")), None
            return jax.lax.with_sharding_constraint(z, NamedSharding(mesh, P("data", None))), None

    class MLP(nn.Module):
        @nn.compact
        def __call__(self, x):
            if how == "scanned":
                stack = nn.scan(
                    DotReluDot, length=LAYERS, variable_axes={"params": 0},
                    split_rngs={"params": True}, metadata_params={nn.PARTITION_NAME: None},
                )  # fmt: skip
                return stack(WIDTH, name="stack")(x, None)[0]
            for n in range(LAYERS):
                x, _ = DotReluDot(WIDTH, name=f"layer_{n}")(x)
            return x

    return MLP()


class Run(NamedTuple):
    """What came of the guide's steps on one mesh."""

    abstract: Any
    specs: Any
    shardings: Any
    states: list[Any]
    losses: list[float]
    grads: Any
    output: Any
    x: Any
    traces: int


@functools.lru_cache(maxsize=16)
def guide(nn, form, devices=8):
    """Every step of the guide, on a mesh of 2 by 4 devices or of one."""
    assume(len(jax.devices()) >= devices)
    shape = (2, 4) if devices == 8 else (1, 1)
    mesh = Mesh(np.array(jax.devices()[:devices]).reshape(shape), ("data", "model"))
    model = model_of(nn, form, mesh)
    x_sharding = NamedSharding(mesh, P("data", None))
    x = jax.device_put(
        np.linspace(-1, 1, BATCH * WIDTH, dtype="float32").reshape(BATCH, -1), x_sharding
    )
    key = jax.random.key(0)

    def init_fn(k, x, model, optimizer):
        variables = model.init(k, x)
        return nn.TrainState.create(apply_fn=model.apply, params=variables["params"], tx=optimizer)

    abstract = jax.eval_shape(functools.partial(init_fn, model=model, optimizer=ADAM), key, x)
    specs = nn.get_partition_spec(abstract)
    if form.startswith("logical"):
        shardings = nn.logical_to_mesh_sharding(specs, mesh, RULES)
    else:
        shardings = nn.get_sharding(abstract, mesh)
    jit_init = jax.jit(
        init_fn, static_argnums=(2, 3), in_shardings=(NamedSharding(mesh, P()), x_sharding),
        out_shardings=shardings,
    )  # fmt: skip
    with jax.threefry_partitionable(True):  # Before JAX 0.5, shardings change random numbers.
        states, losses, traces = [jit_init(key, x, model, ADAM)], [], []

    @functools.partial(
        jax.jit, in_shardings=(shardings, x_sharding),
        out_shardings=(shardings, NamedSharding(mesh, P()), shardings.params),
    )  # fmt: skip
    def train_step(state, x):
        traces.append(1)

        def loss(params):
            return ((model.apply({"params": params}, x) - 1) ** 2).sum()

        value, grads = jax.value_and_grad(loss)(state.params)
        return state.apply_gradients(grads=grads), value, grads

    @functools.partial(jax.jit, in_shardings=(shardings, x_sharding), out_shardings=x_sharding)
    def apply_fn(state, x):
        return state.apply_fn({"params": state.params}, x)

    first = None
    with in_context(mesh):
        for _ in range(STEPS):
            state, value, grads = train_step(states[-1], x)
            first = grads if first is None else first
            states.append(state)
            losses.append(float(value))
        output = apply_fn(states[0], x)
    return Run(abstract, specs, shardings, states, losses, first, output, x, len(traces))


def _by_path(tree, **options):
    found, _ = jax.tree_util.tree_flatten_with_path(tree, **options)
    return {jax.tree_util.keystr(path): leaf for path, leaf in found}


def _is_box(leaf):
    return hasattr(leaf, "names")


def _boxes(tree):
    """The boxes in a tree by their paths: class, names, mesh."""
    found = _by_path(tree, is_leaf=_is_box)
    return {p: (type(b), b.names, b.mesh) for p, b in found.items() if _is_box(b)}


def _annotated(form):
    """The entries of the spec of each matrix, by its name."""
    naming, how = form.split()
    lead = (None,) if how == "scanned" else ()
    return {name: (*lead, *names) for name, names in NAMES[naming].items()}


@requirement("LIN-5a", must_reach=FORMS)
@given(form=forms)
def test_the_guide_runs(linen, form):
    """Direct and logical, unrolled and scanned."""
    reached(form)
    run = guide(linen, form)
    assert len(run.losses) == STEPS
    assert np.isfinite(run.losses).all()


@requirement("LIN-5b", must_reach=("direct unrolled", "direct scanned"))
@given(form=st.sampled_from(FORMS[:2]))
def test_the_abstract_state_knows_every_sharding(linen, form):
    """A leaf for each array: parameters, both moments, step and counter."""
    reached(form)
    run = guide(linen, form)
    arrays = _by_path(linen.meta.unbox(run.states[0]))
    shardings = _by_path(run.shardings)
    assert set(shardings) == set(arrays)
    matrices = 0
    for path, sharding in shardings.items():
        expected = next((spec for name, spec in _annotated(form).items() if name in path), ())
        matrices += bool(expected)
        assert entries(sharding.spec) == entries(expected), path
    layers = 1 if form.endswith("scanned") else LAYERS
    assert matrices == 3 * 2 * layers
    assert len(shardings) == matrices + 2


@requirement("LIN-5c", must_reach=FORMS)
@given(form=forms)
def test_jitted_init_lands_where_it_should(linen, form):
    """Each array has its sharding, each parameter its box and names."""
    reached(form)
    run = guide(linen, form)
    _assert_sharded(linen, run, run.states[0])
    boxes = _boxes(run.states[0].params)
    assert boxes == _boxes(run.abstract.params)
    for path, (_, names, _) in boxes.items():
        assert names == next(s for n, s in _annotated(form).items() if n in path)


def _assert_sharded(linen, run, state):
    shardings = _by_path(run.shardings)
    for path, array in _by_path(linen.meta.unbox(state)).items():
        assert has_sharding(array, shardings[path]), (
            f"{path} has the sharding {array.sharding}, expected {shardings[path]}"
        )


@requirement("LIN-5d", must_reach=("unrolled", "scanned"))
@given(how=st.sampled_from(["unrolled", "scanned"]))
def test_direct_and_logical_annotation_shard_alike(linen, how):
    """Logical specs keep logical names, for moments too; mapped, they are the direct ones."""
    reached(how)
    direct, logical = (guide(linen, f"{naming} {how}") for naming in ("direct", "logical"))
    for path, spec in _by_path(logical.specs, is_leaf=lambda leaf: isinstance(leaf, P)).items():
        expected = next((s for n, s in _annotated(f"logical {how}").items() if n in path), ())
        assert entries(spec) == entries(expected), path
    one, other = _by_path(direct.shardings), _by_path(logical.shardings)
    assert one.keys() == other.keys()
    for path, sharding in one.items():
        assert sharding.mesh == other[path].mesh
        assert entries(sharding.spec) == entries(other[path].spec), path


@requirement("LIN-5e", must_reach=FORMS)
@given(form=forms)
def test_train_and_inference_steps_return_what_is_asked(linen, form):
    """One step more, other parameters, the same structure; an output like the batch."""
    reached(form)
    run = guide(linen, form)
    before, after = run.states[:2]
    assert (int(before.step), int(after.step)) == (0, 1)
    assert jax.tree.structure(before) == jax.tree.structure(after)
    grads = jax.tree.leaves(run.grads)
    params = zip(jax.tree.leaves(before.params), jax.tree.leaves(after.params), grads, strict=True)
    for old, new, grad in params:
        assert np.array_equal(old, new) is not bool(np.any(grad))
    assert (run.output.shape, run.output.dtype) == (run.x.shape, run.x.dtype)
    assert has_sharding(run.output, run.x.sharding)


@requirement("LIN-6a", must_reach=FORMS)
@given(form=forms)
def test_a_sharded_model_computes_what_one_device_does(linen, form):
    """Parameters, outputs, gradients."""
    reached(form)
    many, one = guide(linen, form), guide(linen, form, devices=1)
    assert_close(many.states[0].params, one.states[0].params, **TRAINING)
    assert_close(many.output, one.output, **TRAINING)
    assert_close(many.grads, one.grads, **TRAINING)


@requirement("LIN-6b", must_reach=FORMS)
@given(form=forms)
def test_several_steps_give_the_losses_of_one_device(linen, form):
    """And the final parameters and moments."""
    reached(form)
    many, one = guide(linen, form), guide(linen, form, devices=1)
    assert_close(many.losses, one.losses, **TRAINING)
    assert len(set(many.losses)) == STEPS
    last = [
        linen.meta.unbox((run.states[-1].params, run.states[-1].opt_state)) for run in (many, one)
    ]
    assert_close(*last, **TRAINING)


@requirement("LIN-6c", must_reach=FORMS)
@given(form=forms)
def test_shardings_do_not_drift(linen, form):
    """After every step they are those of init, and no step is traced anew."""
    reached(form)
    run = guide(linen, form)
    for state in run.states:
        _assert_sharded(linen, run, state)
    assert run.traces == 1


@requirement("LIN-6d", must_reach=("unrolled", "scanned"))
@given(how=st.sampled_from(["unrolled", "scanned"]))
def test_direct_and_logical_models_train_alike(linen, how):
    """Equal losses and equal shardings at every step, from equal parameters."""
    reached(how)
    direct, logical = (guide(linen, f"{naming} {how}") for naming in ("direct", "logical"))
    assert_close(direct.losses, logical.losses, **TRAINING)
    for one, other in zip(direct.states, logical.states, strict=True):
        pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
        assert all(has_sharding(a, b.sharding) for a, b in pairs)


WHERE = ("parameters", "optimizer", "put back")


@requirement("LIN-7a", must_reach=WHERE)
@given(form=forms, where=st.sampled_from(WHERE))
def test_maps_keep_the_boxes(linen, form, where):
    """Of parameters, of the optimizer's state, and by taking them out and putting them back."""
    reached(where)
    state = guide(linen, form).states[0]
    if where == "put back":
        zeros = jax.tree.map(jnp.zeros_like, linen.meta.unbox(state.params))
        found = linen.meta.replace_boxed(state.params, zeros)
        assert _boxes(found) == _boxes(state.params) != {}
        assert not any(np.any(leaf) for leaf in jax.tree.leaves(found))
        return
    tree = state.params if where == "parameters" else state.opt_state
    found = jax.tree.map(lambda a, b: a - b, tree, tree)
    assert _boxes(found) == _boxes(tree) != {}
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(found))
    layers = 1 if form.endswith("scanned") else LAYERS
    assert len(_boxes(tree)) == 2 * layers * (1 if where == "parameters" else 2)


@requirement("LIN-7b")
@costly
@given(form=forms, scale=st.sampled_from([0.5, 2.0, -1.0]))
def test_mapped_parameters_stay_where_they_lie(linen, form, scale):
    """An elementwise map over sharded parameters."""
    params = guide(linen, form).states[0].params
    found = jax.tree.map(lambda a: a * scale, params)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(params), strict=True):
        assert has_sharding(one, other.sharding)


@requirement("LIN-7c")
@costly
@given(form=forms, scale=st.sampled_from([0.5, 2.0, -1.0]))
def test_applying_gradients_keeps_boxes(linen, form, scale):
    """Of parameters and of the optimizer's state."""
    run = guide(linen, form)
    state, grads = run.states[0], jax.tree.map(lambda g: g * scale, run.grads)
    found = state.apply_gradients(grads=grads)
    assert _boxes(found.params) == _boxes(state.params) != {}
    assert _boxes(found.opt_state) == _boxes(state.opt_state) != {}
    assert int(found.step) == int(state.step) + 1
