"""The claims of the scaling guide of `002_`: LIN-5, LIN-6 and LIN-7.

`guide` runs the guide's program. The oracles are the annotations themselves, the same run on one
device, and the run of another form.
"""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import PartitionSpec as P

from scutch.lawkit.equality import alike, alike_in_any_order, assert_close, leaf_pairs, plain_text
from scutch.lawkit.marks import costly, few, requirement
from scutch.lawkit.placement import entries, has_sharding
from scutch.lawkit.tolerances import TRAINING
from scutch.laws.linen.guide import FORMS, LAYERS, NAMES, STEPS, guide

forms = st.sampled_from(FORMS)


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
