"""Modules: init, apply, names, and the ways to write and to call them: LIN-1."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from scutch.inputs import models
from scutch.inputs.descriptions import Model
from scutch.lawkit.equality import alike, assert_close
from scutch.lawkit.marks import costly, dear, reached, refused, requirement
from scutch.lawkit.tolerances import MODELS
from scutch.strategies import models as drawn_models
from scutch.strategies.models import PLAIN, layers, lifts

any_models = drawn_models(st.one_of(layers(), lifts(negative=False)), max_size=2)
flat_models = drawn_models()
still_models = drawn_models(layers((*PLAIN, "BatchNorm", "Counter", "Sow")))
parametric = drawn_models(layers(PLAIN))


@requirement("LIN-1a", must_reach=("draws",))
@costly
@given(model=flat_models, seeds=st.tuples(st.integers(0, 3), st.integers(4, 7)))
def test_init_follows_its_key(model, seeds):
    """The same key gives the same variables, another key others."""
    one, again, other = (model.initialized(s) for s in (seeds[0], *seeds))
    assert alike(one, again)
    for mine, its in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        # What begins as zeros or ones draws nothing.
        if not np.isin(mine, (0, 1)).all():
            reached("draws")
            assert not np.array_equal(mine, its)


@requirement("LIN-1b")
@dear
@given(model=any_models, train=st.booleans(), seed=st.integers(0, 3))
def test_apply_depends_on_its_arguments_alone(model, train, seed):
    """And changes none of them."""
    variables, before, x = model.variables(seed), model.variables(seed), model.x.copy()
    module = model.module(train=train)
    given = {"mutable": train and ["batch_stats", "counts"], "rngs": models.keys(seed)}
    one, other = (module.apply(variables, model.x, **given) for _ in range(2))
    assert alike(one, other)
    assert alike(variables, before)
    assert np.array_equal(model.x, x)


@requirement("LIN-1c", must_reach=("boxed",))
@dear
@given(model=any_models)
def test_abstract_init_foresees_the_variables(model):
    """Structure, shapes, dtypes, and boxes with their names."""
    foreseen, found = jax.eval_shape(model.initialized), model.initialized()
    if any(slot.box for slot in model.slots().values()):
        reached("boxed")
    assert jax.tree.structure(foreseen) == jax.tree.structure(found)
    for one, other in zip(jax.tree.leaves(foreseen), jax.tree.leaves(found), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)


@requirement("LIN-1d")
@dear
@given(model=drawn_models(max_size=2))
def test_jitted_init_is_the_eager_one(model):
    """The tree, the boxes, and the values to float tolerance."""
    assert_close(jax.jit(model.initialized)(), model.initialized(), **MODELS)


@requirement("LIN-1e")
@given(model=drawn_models(max_size=4))
def test_parts_are_named_by_class_and_count(model):
    """A name that is given replaces that; each collection has the same names."""
    found = jax.eval_shape(model.initialized)
    paths = {
        tuple(str(key.key) for key in path)
        for path, _ in jax.tree_util.tree_flatten_with_path(
            found, is_leaf=model.meta.is_axis_metadata
        )[0]
    }
    assert paths == set(model.slots())


@requirement("LIN-1f", must_reach=("init_with_output", "method", "bind"))
@costly
@given(model=still_models, how=st.sampled_from(["init_with_output", "method", "bind"]))
def test_other_calls_compute_alike(model, how):
    """What is initialized with an output, called by another method, or bound."""
    reached(how)
    module = model.module()
    if how == "init_with_output":
        output, variables = module.init_with_output(models.keys(), model.x)
        assert alike(variables, model.initialized())
        assert_close(output, module.apply(variables, model.x), **MODELS)
        return
    variables = model.variables()
    expected = 2 * module.apply(variables, model.x)
    if how == "bind":
        assert_close(module.bind(variables).doubled(model.x), expected, **MODELS)
    else:
        for method in ("doubled", type(module).doubled):
            assert_close(module.apply(variables, model.x, method=method), expected, **MODELS)


@requirement("LIN-1g", must_reach=("missing", "shape"))
@given(model=parametric, at=st.integers(0, 20), how=st.sampled_from(["missing", "shape"]))
def test_a_missing_parameter_is_refused(model, at, how):
    """The error has its name and the path of its module."""
    paths = sorted(path for path in model.slots() if path[0] == "params")
    path = paths[at % len(paths)]
    variables = model.variables(boxed=False)
    *inner, name = path
    holder = variables
    for key in inner:
        holder = holder[key]
    if how == "missing":
        assume(len(holder) > 1)  # an empty module's collection is another error
        del holder[name]
    else:
        holder[name] = np.zeros((7, *holder[name].shape), "float32")
    reached(how)
    refused(lambda: model.module().apply(variables, model.x), naming=(name, path[1]))


PAIRS = ("param param", "variable variable", "param module", "module module", "variable module")


@requirement("LIN-1h", must_reach=PAIRS)
@given(pair=st.sampled_from(PAIRS), name=st.sampled_from(["weight", "W2", "inner_part"]))
def test_one_name_for_two_things_is_refused(linen, pair, name):
    """Two of a collection, two sub-modules, or a sub-module and something else."""
    reached(pair)

    class Twofold(linen.Module):
        @linen.compact
        def __call__(self, x):
            for kind in pair.split():
                if kind == "param":
                    x = x + self.param(name, linen.initializers.zeros, ())
                elif kind == "variable":
                    x = x + self.variable("cache", name, jnp.zeros, ()).value
                else:
                    x = linen.Dense(2, name=name)(x)
            return x

    refused(lambda: Twofold().init(jax.random.key(0), np.ones((2, 2))), naming=(name,))


@requirement("LIN-1i", must_reach=("several",))
@costly
@given(model=still_models)
def test_setup_and_compact_define_one_module(model):
    """Variables of the same paths, and for them the same outputs."""
    if len(model.described.layers) > 1:
        reached("several")
    described: Model = model.described
    one, other = (model.module(form=form) for form in ("named", "setup"))
    keys = models.keys()
    assert alike(one.init(keys, model.x), other.init(keys, model.x)), described
    variables = one.init(keys, model.x)
    outputs = [module.apply(variables, model.x) for module in (one, other)]
    assert_close(*outputs, **MODELS)
