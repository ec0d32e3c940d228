"""Modules, their variables, and the ways to write and to call them: LIN-1 (`002_`).

`init` makes the variables of a module from a key, `apply` computes its output from given variables.
A module is written in the *compact* form, with its parts inside `__call__`, or by `setup`.

The oracle is `scutch.inputs.model_variables`, which lists the variables of a described model
without running it; and two routes must agree: eager and jitted, compact and `setup`, `apply` and
`bind`.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs import models
from scutch.inputs.keys import small_key
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, assert_close, leaf_pairs
from scutch.lawkit.marks import at_least, costly, dear, raised, reached, refused, requirement
from scutch.lawkit.tolerances import MODELS
from scutch.strategies import models as drawn_models
from scutch.strategies.models import PLAIN, layers, lifts

any_models = drawn_models(st.one_of(layers(), lifts(negative=False)), max_size=2)
flat_models = drawn_models()
still_models = drawn_models(layers((*PLAIN, "BatchNorm", "Counter", "Sow")))
parametric = drawn_models(layers(PLAIN))


@requirement("linen/methods/init-follows-key", must_reach=("draws",))
@costly
@given(model=flat_models, seeds=st.tuples(st.integers(0, 3), st.integers(4, 7)))
def test_init_follows_its_key(model, seeds):
    """`init` makes equal variables from equal keys, and other random variables from another key."""
    one, again, other = (model.initialized(s) for s in (seeds[0], *seeds))
    assert alike(one, again)
    for path, mine, its in leaf_pairs(one, other):
        # Variables of zeros and ones only are not drawn at random.
        if not np.isin(mine, (0, 1)).all():
            reached("draws")
            assert not np.array_equal(mine, its), f"{path} is {mine} for both seeds"


@requirement("linen/methods/apply-is-pure")
@dear
@at_least(18)
@given(model=any_models, train=st.booleans(), seed=st.integers(0, 3))
def test_apply_depends_on_its_arguments_alone(model, train, seed):
    """`apply` gives the same results for the same arguments, and changes none of them."""
    variables, before, x = model.variables(seed), model.variables(seed), model.x.copy()
    module = model.module(train=train)
    given = {"mutable": train and ["batch_stats", "counts"], "rngs": models.keys(seed)}
    one, other = (module.apply(variables, model.x, **given) for _ in range(2))
    assert alike(one, other)
    assert alike(variables, before)
    assert np.array_equal(model.x, x)


@requirement("linen/methods/abstract-init-foresees-variables", must_reach=("boxed",))
@dear
@given(model=any_models)
def test_abstract_init_foresees_the_variables(model):
    """`eval_shape(init)` gives the structure, shapes, dtypes and boxes of the variables that `init`
    gives.
    """
    foreseen, found = jax.eval_shape(model.initialized), model.initialized()
    if any(declared.box for declared in model.declared_variables().values()):
        reached("boxed")
    for path, one, other in leaf_pairs(foreseen, found):
        assert alike((one.shape, one.dtype), (other.shape, other.dtype)), path


@requirement("linen/methods/jitted-init-is-init")
@dear
@given(model=drawn_models(max_size=2))
def test_jitted_init_is_the_eager_one(model):
    """Jitted `init` gives the variables that eager `init` gives, in the same boxes, up to
    rounding.
    """
    assert_close(jax.jit(model.initialized)(), model.initialized(), **MODELS)


CALLS = ("init_with_output", "method", "bind", "method of init", "by name", "apply of a bound one")


@requirement("linen/methods/ways-to-call-agree", must_reach=CALLS)
@costly
@given(model=still_models, how=st.sampled_from(CALLS))
def test_other_calls_compute_alike(model, how):
    """Other calls of a module compute the same as `init` and `apply`.

    The calls are `init_with_output`, other methods, arguments by name, and calls of a bound module.

    With `mutable=True`, `init` also returns the values that a module sows.
    """
    module = model.module()
    if how in ("init_with_output", "method of init", "by name"):
        initialized = model.initialized()
        if how == "method of init":
            for method in ("doubled", type(module).doubled):
                assert alike(module.init(models.keys(), model.x, method=method), initialized)
            return
        if how == "by name":
            assert alike(module.init(models.keys(), x=model.x), initialized)
        output, variables = module.init_with_output(models.keys(), model.x)
        assert alike(variables, initialized)
        _, everything = module.init_with_output(models.keys(), model.x, mutable=True)
        assert alike(module.init(models.keys(), model.x, mutable=True), everything)
        errors = [
            raised(lambda call=call: call(models.keys(), model.x, mutable=["intermediates"]))
            for call in (module.init, module.init_with_output)
        ]
        assert alike(*map(type, errors)), f"variables that may not be made: {errors}"
        sown = everything.pop("intermediates", {})
        assert alike(bool(sown), any(alike(layer.kind, "Sow") for layer in model.described.layers))
        assert alike(everything, initialized)
        expected = module.apply(variables, x=model.x)
        assert_close(output, expected, **MODELS)
        assert_close(expected, module.apply(variables, model.x), **MODELS)
        return
    variables = model.variables()
    if how == "apply of a bound one":
        bound = module.bind(model.variables(1))
        assert_close(bound.apply(variables, model.x), module.apply(variables, model.x), **MODELS)
        return
    expected = 2 * module.apply(variables, model.x)
    if how == "bind":
        assert_close(module.bind(variables).doubled(model.x), expected, **MODELS)
    else:
        for method in ("doubled", type(module).doubled):
            assert_close(module.apply(variables, model.x, method=method), expected, **MODELS)


@requirement(
    "linen/methods/initializer-gets-arguments",
    must_reach=("param", "variable", "by name", "by position"),
)
@given(
    how=st.sampled_from(["param", "variable"]),
    shape=st.sampled_from([(), (2,), (3, 2)]),
    dtype=st.sampled_from(["float32", "int32"]),
    by_name=st.integers(0, 3),
    mean=st.integers(1, 9),
)
def test_initializers_are_called_with_the_arguments(linen, how, shape, dtype, by_name, mean):
    """`param` and `variable` pass their further arguments on to the initializer.

    Arguments go by position and by name, in `init`, and in `apply`, where `param` checks the passed
    value against the initializer.
    """
    names = ("shape", "dtype", "mean")[3 - by_name :]
    reached("by name" if names else "by position")

    def filled(shape, dtype, mean):
        return jnp.full(shape, mean, dtype)

    def with_key(key, *args, **kwargs):
        return filled(*args, **kwargs)

    class Holds(linen.Module):
        @linen.compact
        def __call__(self):
            given = [shape, dtype, mean]
            named = dict(zip(names, given[3 - by_name :], strict=True))
            rest = given[: 3 - by_name]
            if how == "variable":
                return self.variable("held", "w", filled, *rest, **named).value
            return self.param("w", with_key, *rest, **named)

    variables, expected = Holds().init(small_key(0)), jnp.full(shape, mean, dtype)
    assert all(alike(leaf, expected) for leaf in jax.tree.leaves(variables))
    assert alike(Holds().apply(variables), expected)


@requirement("linen/collections/misfit-variables-are-refused", must_reach=("missing", "shape"))
@given(model=parametric, at=st.integers(0, 20), how=st.sampled_from(["missing", "shape"]))
def test_a_missing_parameter_is_refused(model, at, how):
    """`apply` without one of the parameters, or with one of another shape, raises an error."""
    variables, _ = _unfit(model, at, how)
    refused(lambda: model.module().apply(variables, model.x))


@requirement(
    "linen/collections/misfit-variables-are-refused[message]", must_reach=("missing", "shape")
)
@given(model=parametric, at=st.integers(0, 20), how=st.sampled_from(["missing", "shape"]))
def test_the_refusal_of_a_parameter_names_it(model, at, how):
    """The error for a parameter that is missing, or has another shape, has its name and the name of
    its module.
    """
    variables, path = _unfit(model, at, how)
    refused(lambda: model.module().apply(variables, model.x), naming=(path[-1], path[1]))


def _unfit(model, at, how):
    """Variables without one of the parameters of a model, or with one of another shape.

    Returns:
      The variables, and the path of that parameter.
    """
    paths = sorted(path for path in model.declared_variables() if alike(path[0], "params"))
    path = paths[at % len(paths)]
    *inner, name = path
    variables = model.variables(boxed=False)
    holder = functools.reduce(dict.__getitem__, inner, variables)
    if how == "missing":
        assume(len(holder) > 1)  # an empty module's collection is another error
        del holder[name]
    else:
        holder[name] = np.zeros((7, *holder[name].shape), "float32")
    return variables, path


@requirement("linen/methods/setup-equals-compact", must_reach=("several",))
@costly
@given(model=still_models)
def test_setup_and_compact_define_one_module(model):
    """The same layers in the compact form and by `setup` have the same variables, and the same
    outputs for them.
    """
    if len(model.described.layers) > 1:
        reached("several")
    one, other = (model.module(form=form) for form in ("named", "setup"))
    keys = models.keys()
    assert alike(one.init(keys, model.x), other.init(keys, model.x))
    variables = one.init(keys, model.x)
    outputs = [module.apply(variables, model.x) for module in (one, other)]
    assert_close(*outputs, **MODELS)
