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
from scutch.lawkit.equality import alike, alike_in_any_order, assert_close, leaf_pairs
from scutch.lawkit.marks import costly, dear, raised, reached, refused, requirement
from scutch.lawkit.tolerances import MODELS
from scutch.strategies import models as drawn_models
from scutch.strategies.models import PLAIN, layers, lifts
from scutch.strategies.names import numbered_names

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


@requirement("linen/names/unnamed-parts-are-numbered")
@given(model=st.one_of(*[drawn_models(of, max_size=4) for of in (layers(), layers(("Shift",)))]))
def test_parts_are_named_by_class_and_count(model):
    """The variables of a compact module stand under the class of their part and its count, such as
    `Dense_0`, or under the name that the part was given.
    """
    found = jax.eval_shape(model.initialized)
    paths = {
        tuple(str(key.key) for key in path)
        for path, _ in jax.tree_util.tree_flatten_with_path(
            found, is_leaf=model.meta.is_axis_metadata
        )[0]
    }
    assert alike_in_any_order(paths, model.declared_variables())


PLACES = ("compact", "setup", "list", "dict", "field")


@requirement("linen/names/unnamed-parts-are-numbered", must_reach=PLACES)
@given(
    place=st.sampled_from(PLACES), names=st.lists(st.sampled_from("abc"), min_size=1, unique=True),
    given_name=st.booleans(),
)  # fmt: skip
def test_a_part_knows_the_name_of_its_variables(linen, place, names, given_name):
    """The `name` of each part is the key under which its variables stand, in a compact method, in
    `setup`, there also in lists and dictionaries, and in a field.
    """
    reached(place)

    class Part(linen.Module):
        @linen.compact
        def __call__(self, x):
            return x + self.param("w", linen.initializers.ones, ())

    def part(number):
        """A part to be, the first of them perhaps with a name of its own."""
        return Part(**({"name": "own"} if given_name and not number else {}))

    found = []

    def set_up(self):
        for number, name in enumerate(names):
            setattr(self, name, part(number))
        match place:
            case "list":
                self.parts = [Part() for _ in names]
            case "dict":
                self.parts = {name: Part() for name in names}

    def call(self, x):
        if place == "compact":
            parts = [part(number) for number in range(len(names))]
        else:
            parts = [getattr(self, name) for name in names]
        if place in ("list", "dict"):
            parts += self.parts if place == "list" else self.parts.values()
        for each in parts:
            x = each(x)
            found.append(each.name)
        return x

    members = {"__module__": __name__, "__call__": call}
    if place == "compact":
        members["__call__"] = linen.compact(call)
    elif place == "field":
        members |= {"__annotations__": dict.fromkeys(names, linen.Module)}
    else:
        members["setup"] = set_up
    fields = {name: Part() for name in names} if place == "field" else {}
    whole = type("Whole", (linen.Module,), members)(**fields)
    variables = jax.eval_shape(whole.init, small_key(0), 1.0)
    assert alike_in_any_order(found, variables["params"])


NAMED = ("none", "jit", "remat", "vmap")


@requirement("linen/names/unnamed-parts-are-numbered", must_reach=NAMED)
@given(
    lift=st.sampled_from(NAMED), classes=st.lists(st.sampled_from("AB"), min_size=2, max_size=4),
    named=st.integers(0, 4),
)  # fmt: skip
def test_parts_of_another_class_shift_no_number(linen, lift, classes, named):
    """The parts of one class have the names that they have without the parts of another class,
    lifted or not; a part that has a name of its own shifts no number either.
    """
    reached(lift)
    shared = {"variable_axes": {"params": None}, "split_rngs": {"params": False}}
    options = shared if lift == "vmap" else {}

    def part_of(cls):
        def call(self, x):
            return x + self.param("w", linen.initializers.ones, ())

        made = type(cls, (linen.Module,), {"__module__": __name__, "__call__": linen.compact(call)})
        return made if lift == "none" else getattr(linen, lift)(made, **options)

    parts = {cls: part_of(cls) for cls in "AB"}

    def names(chosen, named=None):
        """The names of the parts of the classes, in their order; one of them is given."""
        found = []

        class Whole(linen.Module):
            @linen.compact
            def __call__(self, x):
                for n, cls in enumerate(chosen):
                    part = parts[cls](**({"name": "own"} if alike(n, named) else {}))
                    x = part(x)
                    found.append(part.name)
                return x

        jax.eval_shape(Whole().init, small_key(0), np.ones(2))
        return found

    every = names(classes, named)
    for cls in "AB":
        places = [n for n, each in enumerate(classes) if alike(each, cls) and n != named]
        ours, alone = [every[n] for n in places], names([cls] * len(places))
        assert alike(ours, alone), f"they are {ours}; alone they are {alone}"


CALLS = ("init_with_output", "method", "bind", "method of init", "by name", "apply of a bound one")


@requirement("linen/methods/ways-to-call-agree", must_reach=CALLS)
@costly
@given(model=still_models, how=st.sampled_from(CALLS))
def test_other_calls_compute_alike(model, how):
    """Other calls of a module compute the same as `init` and `apply`.

    The calls are `init_with_output`, other methods, arguments by name, and calls of a bound module.

    With `mutable=True`, `init` also returns the values that a module sows.
    """
    reached(how)
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
    how=st.sampled_from(["param", "variable"]), shape=st.sampled_from([(), (2,), (3, 2)]),
    dtype=st.sampled_from(["float32", "int32"]), by_name=st.integers(0, 3),
    mean=st.integers(1, 9),
)  # fmt: skip
def test_initializers_are_called_with_the_arguments(linen, how, shape, dtype, by_name, mean):
    """`param` and `variable` pass their further arguments on to the initializer.

    Arguments go by position and by name, in `init`, and in `apply`, where `param` checks the passed
    value against the initializer.
    """
    reached(how)
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
    reached(how)
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
    reached(how)
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


PAIRS = (
    "param param", "variable variable", "param module", "module module", "variable module",
    "field param", "field variable", "field module",
)  # fmt: skip
"""Two things with one name. A field holds a module, which has the name of the field."""


@requirement("linen/names/second-name-is-refused", must_reach=PAIRS)
@given(pair=st.sampled_from(PAIRS), name=numbered_names("weight", "W", "inner_part"))
def test_one_name_for_two_things_is_refused(linen, pair, name):
    """A name that is given to two variables of a collection, to two sub-modules, or to a variable
    and a sub-module raises an error.
    """
    reached(pair)
    refused(lambda: _twofold(linen, pair, name)().init(small_key(0), np.ones((2, 2))))


@requirement("linen/names/second-name-is-refused[message]", must_reach=PAIRS)
@given(pair=st.sampled_from(PAIRS), name=numbered_names("weight", "W", "inner_part"))
def test_the_refusal_of_a_second_name_has_the_name(linen, pair, name):
    """The error for a name that is given twice has the name in its message."""
    reached(pair)
    twofold = _twofold(linen, pair, name)()
    refused(lambda: twofold.init(small_key(0), np.ones((2, 2))), naming=(name,))


def _twofold(linen, pair, name):
    """A class of modules that gives one name to two things, of the kinds in `pair`."""

    held = {"__module__": __name__}
    if "field" in pair:
        held |= {"__annotations__": {name: linen.Module}, name: linen.Dense(2)}
    base = type("Held", (linen.Module,), held)

    class Twofold(base):
        @linen.compact
        def __call__(self, x):
            for kind in pair.split():
                if kind == "field":
                    x = getattr(self, name)(x)
                elif kind == "param":
                    x = x + self.param(name, linen.initializers.zeros, ())
                elif kind == "variable":
                    x = x + self.variable("cache", name, jnp.zeros, ()).value
                else:
                    x = linen.Dense(2, name=name)(x)
            return x

    return Twofold


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
