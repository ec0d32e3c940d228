"""The scaling guide of `002_` and its claims, run at a small size: LIN-5, LIN-6 and LIN-7.

The guide trains a stack of layers of two matrices on a mesh of 2 by 4 devices. It does so in four
*forms*: annotated directly or logically, with its layers unrolled or scanned. `guide` runs every
step of one form, once for each implementation; the laws check the results in a `Run`.

The oracles are the annotations themselves, the same run on one device, and the run of another form.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from scutch.inputs.keys import small_key
from scutch.lawkit.domain import need_devices
from scutch.lawkit.equality import alike, alike_in_any_order, assert_close, leaf_pairs, plain_text
from scutch.lawkit.marks import costly, few, reached, requirement
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
    """The guide's model over an implementation: layers of two matrices, the first cut by columns
    and the second by rows.

    Args:
      nn: The namespace of modules.
      form: One of `FORMS`.
      mesh: Has the axes `data` and `model`.
    """
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
    """The results of the guide's steps on one mesh.

    Args:
      abstract: The training state, abstract, from `eval_shape` of init.
      specs: The partition specs of that state, logical ones where it is annotated logically.
      shardings: The shardings of that state on the mesh.
      states: The state of jitted init, and the state after each train step.
      losses: The loss of each train step.
      grads: The gradients of the first train step.
      output: The output of the model for the batch, in the inference step.
      x: The batch.
      traces: How often the train step was traced.
    """

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
    """Run every step of the guide: abstract init, shardings, jitted init, train steps, inference.

    Args:
      nn: The namespace of modules.
      form: One of `FORMS`.
      devices: 8, for a mesh of 2 by 4, or 1.
    """
    need_devices(devices)
    shape = (2, 4) if devices == 8 else (1, 1)
    mesh = Mesh(np.array(jax.devices()[:devices]).reshape(shape), ("data", "model"))
    model = model_of(nn, form, mesh)
    x_sharding = NamedSharding(mesh, P("data", None))
    x = jax.device_put(
        np.linspace(-1, 1, BATCH * WIDTH, dtype="float32").reshape(BATCH, -1), x_sharding
    )
    key = small_key(0)

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
    """The leaves of a tree by their paths."""
    found, _ = jax.tree_util.tree_flatten_with_path(tree, **options)
    return {jax.tree_util.keystr(path): leaf for path, leaf in found}


def _is_box(leaf):
    """Whether a node of a tree is a box: only boxes of this model have names."""
    return hasattr(leaf, "names")


def _boxes(tree):
    """The class, names and mesh of each box in a tree, by its path."""
    found = _by_path(tree, is_leaf=_is_box)
    return {p: (type(b), b.names, b.mesh) for p, b in found.items() if _is_box(b)}


def _assert_same_boxes(found, expected):
    """Fail unless two trees have boxes, in the same places, of one class, with the same names and
    mesh.
    """
    assert _boxes(found), "there are no boxes"
    assert alike(_boxes(found), _boxes(expected))


def _annotated(form, path):
    """The names that a form gives the matrix at a path; none where no matrix is."""
    naming, how = form.split()
    lead = (None,) if how == "scanned" else ()
    named = NAMES[naming].items()
    return next(((*lead, *names) for name, names in named if name in plain_text(path)), ())


@requirement("linen/training/guide-runs", must_reach=FORMS)
@few("the guide has these forms: direct or logical, unrolled or scanned")
@given(form=forms)
def test_the_guide_runs(linen, form):
    """Each form of the guide runs as it is written, and every loss is finite."""
    reached(form)
    run = guide(linen, form)
    assert len([*run.losses]) == STEPS
    assert np.isfinite(run.losses).all()


@requirement(
    "linen/training/abstract-state-knows-shardings",
    must_reach=("direct unrolled", "direct scanned"),
)
@few("the guide has these forms: direct or logical, unrolled or scanned")
@given(form=st.sampled_from(FORMS[:2]))
def test_the_abstract_state_knows_every_sharding(linen, form):
    """The abstract training state has a sharding for each array: that of their annotation for the
    matrices and both their moments, no axis for the counters.
    """
    reached(form)
    run = guide(linen, form)
    arrays = _by_path(linen.meta.unbox(run.states[0]))
    shardings = _by_path(run.shardings)
    assert alike_in_any_order(shardings, arrays)
    matrices = 0
    for path, sharding in shardings.items():
        expected = _annotated(form, path)
        matrices += bool(expected)
        assert entries(sharding.spec) == entries(expected), path
    layers = 1 if form.endswith("scanned") else LAYERS
    assert matrices == 3 * 2 * layers
    assert len([*shardings]) == matrices + 2


@requirement("linen/training/init-lands-as-asked", must_reach=FORMS)
@few("the guide has these forms: direct or logical, unrolled or scanned")
@given(form=forms)
def test_jitted_init_lands_where_it_should(linen, form):
    """The arrays of jitted init have the shardings of the abstract state, in boxes of the same
    classes and names.
    """
    reached(form)
    run = guide(linen, form)
    _assert_sharded(linen, run, run.states[0])
    boxes = _boxes(run.states[0].params)
    assert alike(boxes, _boxes(run.abstract.params))
    for path, (_, names, _) in boxes.items():
        assert alike(names, _annotated(form, path)), path


def _assert_sharded(linen, run, state):
    """Fail unless every array of a state has the sharding that was asked for."""
    shardings = _by_path(run.shardings)
    for path, array in _by_path(linen.meta.unbox(state)).items():
        assert has_sharding(array, shardings[path]), (
            f"{path} has the sharding {array.sharding}, expected {shardings[path]}"
        )


@requirement("linen/training/logical-specs-keep-names", must_reach=("unrolled", "scanned"))
@few("the guide has these forms: direct or logical, unrolled or scanned")
@given(how=st.sampled_from(["unrolled", "scanned"]))
def test_direct_and_logical_annotation_shard_alike(linen, how):
    """The specs of the logical form have the logical names, those of moments too; mapped by rules,
    they are the shardings of the direct form.
    """
    reached(how)
    direct, logical = (guide(linen, f"{naming} {how}") for naming in ("direct", "logical"))
    for path, spec in _by_path(logical.specs, is_leaf=lambda leaf: isinstance(leaf, P)).items():
        expected = _annotated(f"logical {how}", path)
        assert entries(spec) == entries(expected), path
    one, other = _by_path(direct.shardings), _by_path(logical.shardings)
    assert alike_in_any_order(one, other)
    for path, sharding in one.items():
        assert alike(sharding.mesh, other[path].mesh)
        assert entries(sharding.spec) == entries(other[path].spec), path


@requirement("linen/training/steps-return-what-asked", must_reach=FORMS)
@few("the guide has these forms: direct or logical, unrolled or scanned")
@given(form=forms)
def test_train_and_inference_steps_return_what_is_asked(linen, form):
    """A train step counts one step, changes the parameters whose gradient is not zero, and keeps
    the structure; the output has the shape, dtype and sharding of the batch.
    """
    reached(form)
    run = guide(linen, form)
    before, after = run.states[:2]
    assert int(before.step) == 0
    assert int(after.step) == 1
    leaf_pairs(after, before)
    updated = zip(leaf_pairs(after.params, before.params), jax.tree.leaves(run.grads), strict=True)
    for (_, new, old), grad in updated:
        assert np.array_equal(old, new) is not bool(np.any(grad))
    assert alike((run.output.shape, run.output.dtype), (run.x.shape, run.x.dtype))
    assert has_sharding(run.output, run.x.sharding)


@requirement("linen/training/sharded-equals-one-device", must_reach=FORMS)
@few("the guide has these forms: direct or logical, unrolled or scanned")
@given(form=forms)
def test_a_sharded_model_computes_what_one_device_does(linen, form):
    """Parameters, outputs and gradients on eight devices are those on one device, up to
    rounding.
    """
    reached(form)
    many, one = guide(linen, form), guide(linen, form, devices=1)
    assert_close(many.states[0].params, one.states[0].params, **TRAINING)
    assert_close(many.output, one.output, **TRAINING)
    assert_close(many.grads, one.grads, **TRAINING)


@requirement("linen/training/sharded-equals-one-device", must_reach=FORMS)
@few("the guide has these forms: direct or logical, unrolled or scanned")
@given(form=forms)
def test_several_steps_give_the_losses_of_one_device(linen, form):
    """The losses of several train steps, the last parameters and the last moments on eight devices
    are those on one device, up to rounding.
    """
    reached(form)
    many, one = guide(linen, form), guide(linen, form, devices=1)
    assert_close(many.losses, one.losses, **TRAINING)
    assert len({*map(float, many.losses)}) == STEPS
    last = [
        linen.meta.unbox((run.states[-1].params, run.states[-1].opt_state)) for run in (many, one)
    ]
    assert_close(*last, **TRAINING)


@requirement("linen/training/shardings-do-not-drift", must_reach=FORMS)
@few("the guide has these forms: direct or logical, unrolled or scanned")
@given(form=forms)
def test_shardings_do_not_drift(linen, form):
    """After every train step each array has the sharding that it had after init, and the train step
    is traced once.
    """
    reached(form)
    run = guide(linen, form)
    for state in run.states:
        _assert_sharded(linen, run, state)
    assert int(run.traces) == 1


@requirement("linen/training/logical-trains-like-direct", must_reach=("unrolled", "scanned"))
@few("the guide has these forms: direct or logical, unrolled or scanned")
@given(how=st.sampled_from(["unrolled", "scanned"]))
def test_direct_and_logical_models_train_alike(linen, how):
    """From equal parameters, the direct and the logical form have equal losses, and after every
    train step the same shardings.
    """
    reached(how)
    direct, logical = (guide(linen, f"{naming} {how}") for naming in ("direct", "logical"))
    assert_close(direct.losses, logical.losses, **TRAINING)
    for one, other in zip(direct.states, logical.states, strict=True):
        # The boxes are of two classes, so the structures differ.
        pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
        assert all(has_sharding(a, b.sharding) for a, b in pairs)


WHERE = ("parameters", "optimizer", "put back")


@requirement("linen/boxes/trees-keep-boxes", must_reach=WHERE)
@few("the guide has these forms: direct or logical, unrolled or scanned")
@given(form=forms, where=st.sampled_from(WHERE))
def test_maps_keep_the_boxes(linen, form, where):
    """`jax.tree.map` over parameters, or over the optimizer's state, gives boxes of the same
    classes, names and meshes; so does `replace_boxed` with new values.
    """
    reached(where)
    state = guide(linen, form).states[0]
    if where == "put back":
        zeros = jax.tree.map(jnp.zeros_like, linen.meta.unbox(state.params))
        found = linen.meta.replace_boxed(state.params, zeros)
        _assert_same_boxes(found, state.params)
        assert not any(np.any(leaf) for leaf in jax.tree.leaves(found))
        return
    tree = state.params if where == "parameters" else state.opt_state
    found = jax.tree.map(lambda a, b: a - b, tree, tree)
    _assert_same_boxes(found, tree)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(found))
    layers = 1 if form.endswith("scanned") else LAYERS
    assert len([*_boxes(tree)]) == 2 * layers * (1 if where == "parameters" else 2)


@requirement("linen/boxes/mapped-parameters-stay-placed")
@few("the guide has these forms: direct or logical, unrolled or scanned")
@costly
@given(form=forms, scale=st.sampled_from([0.5, 2.0, -1.0]))
def test_mapped_parameters_stay_where_they_lie(linen, form, scale):
    """An elementwise `jax.tree.map` over sharded parameters gives arrays with the same
    shardings.
    """
    params = guide(linen, form).states[0].params
    found = jax.tree.map(lambda a: a * scale, params)
    for path, one, other in leaf_pairs(found, params):
        assert has_sharding(one, other.sharding), path


@requirement("linen/boxes/gradients-keep-boxes")
@few("the guide has these forms: direct or logical, unrolled or scanned")
@costly
@given(form=forms, scale=st.sampled_from([0.5, 2.0, -1.0]))
def test_applying_gradients_keeps_boxes(linen, form, scale):
    """`apply_gradients` outside of `jit` gives a state whose parameters and moments are in boxes of
    the same classes, names and meshes, one step further.
    """
    run = guide(linen, form)
    state, grads = run.states[0], jax.tree.map(lambda g: g * scale, run.grads)
    found = state.apply_gradients(grads=grads)
    _assert_same_boxes(found.params, state.params)
    _assert_same_boxes(found.opt_state, state.opt_state)
    assert int(found.step) == int(state.step) + 1
