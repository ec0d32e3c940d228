"""Calls of wrapped modules by their methods, without variables, and with new ones: BRG-7m to 9b.

The oracle is the wrapped module itself: `init` and `apply` of a Linen module.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.keys import small_key
from scutch.inputs.paired_layers import (
    COUNTING,
    INPUTS,
    NEGATED,
    PLAIN,
    flat,
    in_nnx,
    start,
    variables_of,
)
from scutch.inputs.paired_layers import X as ROWS
from scutch.lawkit.equality import alike, assert_close, holds
from scutch.lawkit.marks import costly, reached, refused, requirement
from scutch.lawkit.tolerances import CALLS
from scutch.strategies.names import numbered_names

WIDTHS = st.integers(1, 3)
_numbers = itertools.count()  # A class that was registered stays so: each input has its own.
X = np.arange(6, dtype="float32").reshape(2, 3)


def _several(linen):
    """A Linen module whose methods make parameters of their own."""

    class Several(linen.Module):
        width: int

        def _made(self, x, name, times):
            draw = linen.initializers.normal(1.0)
            kernel = self.param(name, draw, (x.shape[-1], self.width))
            return times * (x @ kernel)

        @linen.compact
        def __call__(self, x, times=1.0):
            return self._made(x, "first", times)

        @linen.compact
        def other(self, x, times=1.0):
            return self._made(x, "second", times)

        @linen.compact
        def third(self, x, times=1.0):
            return linen.Dense(self.width, name="inner")(x) * times

    return Several


METHODS = ("other", "third")


@requirement(
    "bridge/wrappers/lazy-init-takes-method", must_reach=(*METHODS, "by_name", "not by_name")
)
@costly
@given(
    method=st.sampled_from(METHODS),
    by_name=st.booleans(),
    width=WIDTHS,
    seed=st.integers(0, 9),
    times=st.sampled_from([2.0, -1.0]),
)
def test_the_method_that_is_asked_for_makes_the_variables(
    linen, nnx, bridge, method, by_name, width, seed, times
):
    """`lazy_init` of a wrapped Linen module with `method=` makes the variables that `init` makes
    with this method, and a call by this method has the output of `apply`.
    """
    cls = _several(linen)
    module, key = cls(width), small_key(seed)
    given = method if by_name else getattr(cls, method)
    variables = module.init(key, X, times, method=given)
    wrapper = bridge.ToNNX(module).lazy_init(X, times, rngs=key, method=given)
    found = nnx.to_pure_dict(nnx.state(wrapper, nnx.Param))
    assert alike(
        jax.tree.map(np.asarray, found), jax.tree.map(np.asarray, dict(variables["params"]))
    )
    expected = module.apply(variables, X, times, method=given)
    assert np.array_equal(wrapper(X, times, method=given), expected)


def _places(tree, path=()):
    """The paths of the arrays in nested dictionaries."""
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _places(value, (*path, name))
        else:
            yield (*path, name)


def _without(tree, path):
    """A copy of nested dictionaries without the entry at a path."""
    name, *rest = path
    if rest:
        return {**tree, name: _without(tree[name], rest)}
    return {key: value for key, value in tree.items() if not alike(key, name)}


@requirement("bridge/wrappers/tolinen-refuses-missing-parameters", must_reach=("deep", "shallow"))
@given(width=WIDTHS, place=st.integers(0, 9), seed=st.integers(0, 3))
def test_a_wrapped_nnx_module_does_not_start_anew(nnx, bridge, width, place, seed):
    """`apply` of a wrapped NNX module with variables of which one is missing raises an error."""

    class Part(nnx.Module):
        def __init__(self, width, *, rngs):
            self.kernel = nnx.Param(jax.random.normal(rngs.params(), (3, width)))
            self.bias = nnx.Param(jax.random.normal(rngs.params(), (width,)))

        def __call__(self, x):
            return x @ self.kernel.get_value() + self.bias.get_value()

    class Whole(nnx.Module):
        def __init__(self, width, *, rngs):
            self.part = Part(width, rngs=rngs)
            self.scale = nnx.Param(jax.random.normal(rngs.params(), (width,)))

        def __call__(self, x):
            return self.part(x) * self.scale.get_value()

    module = bridge.ToLinen(Whole, args=(width,))
    variables = jax.tree.map(np.asarray, module.init(small_key(seed), X))
    module.apply(variables, X)
    paths = list(_places(variables["params"]))
    path = paths[place % len(paths)]
    reached("deep" if len(path) > 1 else "shallow")
    lacking = {**variables, "params": _without(variables["params"], path)}
    refused(lambda: module.apply(lacking, X))


def _of_own_class(nnx, bridge, base, registered, made, value):
    """An NNX module with a variable of a new class, which it changes in each call, wrapped.

    Returns:
      The Linen module, and the collection that the variable belongs to.
    """
    kind = type(f"Own_{next(_numbers)}", (getattr(nnx, base),), {})
    name = f"own_{next(_numbers)}" if registered else kind.__name__
    if registered:
        bridge.register_variable_name_type_pair(name, kind)

    class Whole(nnx.Module):
        def __init__(self, *, rngs):
            self.scale = nnx.Param(jnp.ones(()))
            if not made:
                self.held = kind(jnp.float32(value))

        def __call__(self, x):
            if not hasattr(self, "held"):
                self.held = kind(jnp.float32(value))
            self.held.set_value(self.held.get_value() + 1)
            return x * self.held.get_value()

    return bridge.ToLinen(Whole), name


own_classes = {
    "base": st.sampled_from(["Variable", "Param", "BatchStat"]),
    "registered": st.booleans(),
    "value": st.integers(-9, 9),
}


@requirement("bridge/wrappers/tolinen-equals-module", must_reach=("registered", "not registered"))
@given(**own_classes)
def test_a_variable_of_a_class_of_the_users_own_is_in_its_collection(
    nnx, bridge, base, registered, value
):
    """A variable of a class of the user's own, registered or new, that a wrapped NNX module has is
    in the collection with the name of its class, and is read from it.
    """
    module, name = _of_own_class(nnx, bridge, base, registered, False, value)
    variables = module.init(small_key(0), X)
    start = np.asarray(variables[name]["held"])
    assert alike(np.asarray(module.apply(variables, X)), X * (start + 1))
    variables = {"params": {"scale": np.float32(1)}, name: {"held": np.float32(value)}}
    assert alike(np.asarray(module.apply(variables, X)), X * (value + 1))


@requirement(
    "bridge/wrappers/tolinen-returns-collections",
    must_reach=("registered", "not registered", "made"),
)
@given(**own_classes, made=st.booleans())
def test_variables_of_a_class_of_the_users_own_are_returned(
    nnx, bridge, base, registered, value, made
):
    """Variables of a class of the user's own, registered or new, that a wrapped NNX module has, or
    that its call makes, are returned, where they are mutable, with the values that it computed by.
    """
    module, name = _of_own_class(nnx, bridge, base, registered, made, value)
    variables = module.init(small_key(0), X)
    found, variables = module.apply(variables, X, mutable=[name])
    start = np.asarray(variables[name]["held"])
    assert alike(np.asarray(found), X * start)
    if made:
        return
    variables = {"params": {"scale": np.float32(1)}, name: {"held": np.float32(value)}}
    found, changed = module.apply(variables, X, mutable=[name])
    assert alike(np.asarray(found), X * (value + 1))
    assert alike(np.asarray(changed[name]["held"]), np.float32(value + 1))


@requirement("bridge/wrappers/tonnx-refuses-missing-parameters", must_reach=("missing", "shape"))
@given(width=WIDTHS, seed=st.integers(0, 3), how=st.sampled_from(["missing", "shape"]))
def test_a_wrapped_linen_module_does_not_start_anew(linen, nnx, bridge, width, seed, how):
    """A call of a wrapped Linen module of which a parameter is missing, or has another shape,
    raises an error.
    """

    class Two(linen.Module):
        @linen.compact
        def __call__(self, x):
            draw = linen.initializers.normal(1.0)
            kernel = self.param("kernel", draw, (x.shape[-1], width))
            return x @ kernel + self.param("bias", draw, (width,))

    wrapper = bridge.ToNNX(Two()).lazy_init(X, rngs=small_key(seed))
    wrapper(X)
    if how == "missing":
        del wrapper.bias
    else:
        wrapper.bias = nnx.Param(np.ones((7, width), "float32"))
    refused(lambda: wrapper(X))


def _counting(linen, collection, depth):
    """A Linen module that counts some of its calls, or one with it as a part of a part of it.

    It makes the count when it is first told to count, and not in `init`.

    Args:
      linen: The namespace of modules.
      collection: In which the count is.
      depth: How many modules are around the module that counts.
    """

    class Counting(linen.Module):
        @linen.compact
        def __call__(self, x, mode="read"):
            scale = self.param("scale", linen.initializers.normal(1.0), ())
            if alike(mode, "count") or self.has_variable(collection, "count"):
                count = self.variable(collection, "count", lambda: jnp.zeros(()))
                if alike(mode, "count"):
                    count.value = count.value + 1
                x = x + count.value
            return scale * x

    class Around(linen.Module):
        depth: int

        @linen.compact
        def __call__(self, x, mode="read"):
            part = Around(self.depth - 1, name="part") if self.depth > 1 else Counting(name="part")
            return part(x, mode)

    return Around(depth) if depth else Counting()


DEPTHS = ("alone", "a part", "a part of a part")


@requirement(
    "bridge/wrappers/to-linen-is-static", must_reach=("not keyword", "keyword", "equal", "another")
)
@costly
@given(widths=st.lists(WIDTHS, min_size=2, max_size=4), keyword=st.booleans())
def test_a_wrapped_nnx_module_is_a_static_argument(nnx, bridge, widths, keyword):
    """A module made by `to_linen` works as a static argument of `jax.jit`.

    The compiled function returns the result of `apply`. It is traced once for all modules that were
    made with equal arguments.
    """

    class Layer(nnx.Module):
        def __init__(self, width, *, rngs):
            self.kernel = nnx.Param(jax.random.normal(rngs.params(), (3, width)))

        def __call__(self, x):
            return x @ self.kernel.get_value()

    def wrapped(width):
        return bridge.to_linen(Layer, width=width) if keyword else bridge.to_linen(Layer, width)

    traced = []

    def applied(module, variables):
        traced.append(module)
        return module.apply(variables, X)

    compiled = jax.jit(applied, static_argnums=0)
    for number, width in enumerate(widths):
        module = wrapped(width)
        variables = module.init(small_key(number), X)
        assert_close(compiled(module, variables), module.apply(variables, X), **CALLS)
        reached("equal" if width in widths[:number] else "another")
        assert len(traced) == len({*widths[: number + 1]})


@requirement(
    "bridge/wrappers/later-variables-are-kept", must_reach=(*DEPTHS, "read", "counted again")
)
@given(
    seed=st.integers(0, 3),
    depth=st.integers(0, 2),
    collection=st.sampled_from(["cache", "batch_stats", "notes"]),
    calls=st.lists(st.sampled_from(["count", "read"]), min_size=1, max_size=5),
)
def test_what_a_later_call_makes_is_kept(linen, bridge, seed, depth, collection, calls):
    """A wrapped Linen module that makes a variable in a call gives, call after call, the outputs of
    `apply` to the variables that the calls before have returned.
    """
    module, key = _counting(linen, collection, depth), small_key(seed)
    variables = module.init(key, X)
    wrapper = bridge.ToNNX(module).lazy_init(X, rngs=key)
    for mode in calls:
        made = holds(variables, collection)
        if mode == "read":
            expected, updates = module.apply(variables, X), {}
            found = wrapper(X)
        else:
            expected, updates = module.apply(variables, X, "count", mutable=[collection])
            found = wrapper(X, "count", mutable=[collection])
        if made:
            reached(DEPTHS[depth], "read" if mode == "read" else "counted again")
        assert np.array_equal(found, expected)
        variables = {**variables, **updates}


WAYS = ("of a part", "of a part made in a method", "of a bound one", "by its name")
"""How a method of a wrapped NNX module is called."""


@requirement("bridge/wrappers/tolinen-has-methods", must_reach=(*WAYS, "by init", COUNTING, PLAIN))
@given(
    way=st.sampled_from(WAYS),
    mode=st.sampled_from([COUNTING, PLAIN, NEGATED]),
    width=WIDTHS,
    scale=st.sampled_from([1.0, -0.5]),
    by_init=st.booleans(),
    place=numbered_names("inner", "x"),
)
def test_a_wrapped_nnx_module_has_the_methods_of_its_class(
    linen, nnx, bridge, meta, way, mode, width, scale, by_init, place
):
    """A Linen module calls the methods of a wrapped NNX module that is its part as attributes, in
    `init` and `apply`; so does whoever has bound the wrapper, and a call is told the name of one as
    `nnx_method`. The output is that of the object's method, which changes the same variables.
    """
    whole = way.startswith("of a part")

    def wrapped(**named):
        settings = {"args": (INPUTS, start), "kwargs": {"features": width}}
        return bridge.ToLinen(in_nnx(nnx), **settings, **named)

    def call(self, x, scale, mode):
        part = wrapped(name=place) if "made" in way else getattr(self, place)
        return part.doubled(x, scale, mode=mode)

    body = {"__module__": __name__, "__call__": linen.compact(call)}
    if way == "of a part":
        body |= {"setup": lambda self: setattr(self, place, wrapped()), "__call__": call}
    module = type("Whole", (linen.Module,), body)() if whole else wrapped()
    named = {"mode": mode} | ({} if whole else {"nnx_method": "doubled"})
    layer = in_nnx(nnx)(INPUTS, start, width, rngs=nnx.Rngs(0))
    expected = layer.doubled(ROWS, scale, mode=mode)
    if by_init:
        reached("by init")
        output, _ = module.init_with_output(small_key(0), ROWS, scale, **named)
        assert_close(output, expected, **CALLS)
        return
    variables = wrapped().init(small_key(0), ROWS)
    if whole:
        variables = {name: {place: held} for name, held in variables.items()}
    if way == "of a bound one":
        bound = module.bind(variables, mutable=["batch_stats"])
        output = bound.doubled(ROWS, scale, mode=mode)
        changed = {"batch_stats": bound.variables["batch_stats"]}
    else:
        output, changed = module.apply(variables, ROWS, scale, **named, mutable=["batch_stats"])
    assert_close(output, expected, **CALLS)
    found = {path: value for _, path, value in flat(meta.unbox(changed))}
    kept = {
        ((place, *path) if whole else path): value
        for path, (kind, value) in variables_of(nnx, layer).items()
        if alike(kind, "BatchStat")
    }
    assert_close(found, kept, **CALLS)
