"""Modules of one kind wrapped as modules of the other: BRG-7, BRG-9.

The oracle is the wrapped module itself, used without the wrapper, on the layer of
`scutch.inputs.paired_layers`. `ToNNX` wraps a Linen module, `ToLinen` an NNX class.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.graphs import follow
from scutch.inputs.keys import small_key
from scutch.inputs.paired_layers import (
    COUNTING,
    INITIALIZERS,
    INPUTS,
    NEGATED,
    PLAIN,
    X,
    flat,
    in_nnx,
    names_in_context,
    start,
    variables_of,
)
from scutch.lawkit.equality import alike, assert_close
from scutch.lawkit.marks import few, raised, reached, refused, requirement
from scutch.lawkit.tolerances import CALLS
from scutch.laws.bridge.layers import features, linen_layer, seeds, wrapped_layer

initials = st.sampled_from(list(INITIALIZERS))
scales = st.sampled_from([1.0, 2.0, -0.5])
modes = st.sampled_from([PLAIN, NEGATED])
KINDS = {"params": "Param", "batch_stats": "BatchStat"}


def _object(nnx, size=2, collections=None):
    """The NNX layer itself, with the values that collections hold."""
    made = in_nnx(nnx)(INPUTS, start, size, rngs=nnx.Rngs(0))
    for _, path, value in flat(collections or {}):
        follow(nnx, made, path).set_value(value)
    return made


def _typed(collections):
    """Types and values of Linen variables by path, in the form in which `variables_of` reads an
    object.
    """
    return {path: (KINDS.get(name, name), value) for name, path, value in flat(collections)}


@jax.jit
def _loss(output):
    """A scalar of an output, to differentiate."""
    return jnp.sum(output**2)


@requirement("bridge/wrappers/tonnx-equals-module", must_reach=("boxed", "not boxed"))
@given(seed=seeds, boxed=st.booleans(), initial=initials, size=features)
def test_a_wrapped_linen_module_has_its_variables_and_outputs(
    linen, nnx, bridge, meta, seed, boxed, initial, size
):
    """A Linen module wrapped by `ToNNX` and initialized with a key has the variables that `init`
    makes with that key, and gives the outputs of `apply` with them.
    """
    module, key = linen_layer(linen, meta, boxed, initial, size), jax.random.key(seed)
    with names_in_context():
        variables = module.init(key, X)
        wrapper = bridge.ToNNX(module).lazy_init(X, rngs=key)
        assert_close(variables_of(nnx, wrapper), _typed(meta.unbox(variables)), **CALLS)
        assert_close(wrapper(X), module.apply(variables, X), **CALLS)


@requirement("bridge/wrappers/gradients-pass-through", must_reach=("boxed", "not boxed"))
@given(boxed=st.booleans(), scale=scales, size=features)
def test_gradients_reach_the_variables_of_a_wrapped_linen_module(
    linen, nnx, transforms, bridge, meta, boxed, scale, size
):
    """Gradients of a wrapped Linen module equal the gradients of `apply` in its parameters."""
    module, key = linen_layer(linen, meta, boxed, size=size), small_key(0)
    with names_in_context():
        variables = meta.unbox(module.init(key, X))
        wrapper = bridge.ToNNX(module).lazy_init(X, rngs=key)
        found = transforms.grad(lambda wrapper: _loss(wrapper(X, scale)))(wrapper)

        def loss(params):
            return _loss(module.apply({**variables, "params": params}, X, scale))

        expected = jax.jit(jax.grad(loss))(variables["params"])
    assert_close(nnx.to_pure_dict(found), expected, **CALLS)


@requirement("bridge/wrappers/gradients-pass-through")
@given(scale=scales, size=features)
def test_gradients_reach_the_collections_of_a_wrapped_nnx_module(
    nnx, transforms, bridge, scale, size
):
    """Gradients with respect to the collections of a wrapped NNX module are those with respect to
    the object.
    """
    module = wrapped_layer(bridge, nnx, size=size)
    variables = module.init(small_key(0), X)

    def loss(params):
        return _loss(module.apply({**variables, "params": params}, X, scale))

    own = transforms.grad(lambda layer: _loss(layer(X, scale)))(_object(nnx, size))
    found = jax.jit(jax.grad(loss))(variables.get("params", {}))
    assert_close(found, nnx.to_pure_dict(own), **CALLS)


@requirement("bridge/wrappers/tonnx-keeps-collections", must_reach=("changed", "kept"))
@given(
    boxed=st.booleans(),
    calls=st.lists(st.sampled_from([None, ["batch_stats"], "batch_stats", True]), max_size=3),
)
def test_collections_that_a_wrapped_linen_module_changes_are_kept(
    linen, nnx, bridge, meta, boxed, calls
):
    """After each call with `mutable`, the variables of the wrapper are the collections that `apply`
    returned; after a call without it, they are as before.
    """
    module, key = linen_layer(linen, meta, boxed), small_key(0)
    with names_in_context():
        variables = module.init(key, X)
        wrapper = bridge.ToNNX(module).lazy_init(X, rngs=key)
        for mutable in calls:
            reached("kept" if mutable is None else "changed")
            if mutable is None:
                assert_close(wrapper(X), module.apply(variables, X), **CALLS)
            else:
                output, changed = module.apply(variables, X, mode=COUNTING, mutable=mutable)
                variables = {**variables, **changed}
                assert_close(wrapper(X, mode=COUNTING, mutable=mutable), output, **CALLS)
            assert_close(variables_of(nnx, wrapper), _typed(meta.unbox(variables)), **CALLS)


ways = ("attribute", "name", "function", "call")


@requirement(
    "bridge/wrappers/tonnx-hands-arguments-on", must_reach=(*ways, "keyword", "not keyword")
)
@given(
    way=st.sampled_from(ways), scale=scales, mode=modes, keyword=st.booleans(), boxed=st.booleans()
)
def test_arguments_and_methods_of_a_wrapped_linen_module(
    linen, bridge, meta, way, scale, mode, keyword, boxed
):
    """Positional, keyword and static arguments reach the Linen module unchanged; its methods can be
    called as attributes of the wrapper, or by name or function as `method=`, and no others.
    """
    module, key = linen_layer(linen, meta, boxed), small_key(0)
    arguments = () if keyword else (scale,)
    keywords = {"mode": mode, **({"scale": scale} if keyword else {})}
    with names_in_context():
        wrapper = bridge.ToNNX(module).lazy_init(X, rngs=key)
        method = {"name": "doubled", "function": type(module).doubled}.get(way)
        named = {} if method is None else {"method": method}
        call = wrapper.doubled if way == "attribute" else wrapper
        found = call(X, *arguments, **keywords, **named)
        expected = module.apply(
            module.init(key, X),
            X,
            scale,
            mode=mode,
            method="__call__" if way == "call" else "doubled",
        )
    assert_close(found, expected, **CALLS)
    assert not hasattr(wrapper, "halved"), "the wrapper has a method that the module has not"


@requirement("bridge/wrappers/tolinen-equals-module")
@given(seed=seeds, initial=initials, size=features, scale=scales)
def test_a_wrapped_nnx_module_has_its_variables_and_outputs(
    nnx, bridge, meta, seed, initial, size, scale
):
    """The collections of a wrapped NNX module have the types, paths and values of an object's
    variables, and give that object's outputs, without a warning, which would be an error for users
    who turn warnings into errors.
    """
    module = wrapped_layer(bridge, nnx, initial, size)
    variables = module.init(small_key(seed), X)
    values = meta.unbox(variables)
    layer = _object(nnx, size, values)
    assert_close(_typed(values), variables_of(nnx, layer), **CALLS)
    if initial == "start":
        assert_close(_typed(values), variables_of(nnx, _object(nnx, size)), **CALLS)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = module.apply(variables, X, scale)
    assert_close(found, layer(X, scale), **CALLS)
    assert not [each for each in told if each.category is UserWarning], f"it warns: {told}"


@requirement(
    "bridge/wrappers/tolinen-returns-collections",
    must_reach=("mutable", "not mutable", COUNTING),
)
@given(
    mutables=st.lists(st.sampled_from([False, ["batch_stats"], True]), min_size=1, max_size=3),
    mode=st.sampled_from([COUNTING, COUNTING, PLAIN, NEGATED]),
    scale=scales,
    size=features,
)
def test_collections_that_a_wrapped_nnx_module_changes_are_returned(
    nnx, bridge, meta, mutables, mode, scale, size
):
    """Variables that a wrapped NNX module changes are returned by `apply` where they are mutable;
    the variables passed in stay as they were.
    """
    module, layer = wrapped_layer(bridge, nnx, size=size), _object(nnx, size)
    variables = module.init(small_key(0), X)
    for mutable in mutables:
        reached("mutable" if mutable else "not mutable")
        before = jax.tree.map(np.array, variables)
        found = module.apply(variables, X, scale, mode=mode, mutable=mutable)
        assert alike(jax.tree.map(np.array, variables), before)
        output, changed = found if mutable else (found, {})
        expected = _object(nnx, size, meta.unbox(variables))(X, scale, mode=mode)
        assert_close(output, expected, **CALLS)
        if mutable:
            layer(X, scale, mode=mode)
            variables = {**variables, **changed}
        assert_close(_typed(meta.unbox(variables)), variables_of(nnx, layer), **CALLS)


@requirement("bridge/wrappers/tolinen-hands-arguments-on", must_reach=("short", "not short"))
@given(short=st.booleans(), size=features, scale=scales, mode=modes, keyword=st.booleans())
def test_arguments_of_a_wrapped_nnx_module(nnx, bridge, short, size, scale, mode, keyword):
    """Arguments of the constructor and of the call reach the NNX module, by position and by
    keyword; `to_linen` takes the constructor's arguments and a `name`.
    """
    args, kwargs = (
        ((INPUTS, _tripled), {"features": size}) if keyword else ((INPUTS, _tripled, size), {})
    )
    if short:
        module = bridge.to_linen(in_nnx(nnx), *args, name="layer", **kwargs)
        assert alike(module.name, "layer")
    else:
        module = bridge.ToLinen(in_nnx(nnx), args=args, kwargs=kwargs)
    keywords = {"mode": mode, **({"scale": scale} if keyword else {})}
    arguments = X, *(() if keyword else (scale,))
    at_first, variables = module.init_with_output(small_key(0), *arguments, **keywords)
    found = module.apply(variables, *arguments, **keywords)
    layer = in_nnx(nnx)(*args, **kwargs, rngs=nnx.Rngs(0))
    assert_close((at_first, found), (layer(X, scale, mode=mode),) * 2, **CALLS)


def _tripled(key, shape, dtype=jnp.float32):
    """An initializer that no other test uses, to be told apart from a default."""
    return 3 * start(key, shape, dtype)


@requirement("bridge/wrappers/tolinen-finds-methods")
@few("every method and mode of the layer that both worlds have")
@given(scale=scales, mode=modes)
def test_methods_of_a_wrapped_nnx_module(nnx, bridge, scale, mode):
    """A method of the NNX module can be applied by its name as `method=`."""
    module = wrapped_layer(bridge, nnx)
    variables = module.init(small_key(0), X)
    found = module.apply(variables, X, scale, mode=mode, method="doubled")
    assert_close(found, _object(nnx).doubled(X, scale, mode=mode), **CALLS)


@requirement("bridge/wrappers/linen-wrapped-twice", must_reach=("boxed", "not boxed"))
@few("three sizes and scales of the layer that both worlds have, boxed or bare")
@given(boxed=st.booleans(), size=features, scale=scales)
def test_a_linen_module_wrapped_twice_behaves_as_itself(linen, bridge, meta, boxed, size, scale):
    """`ToLinen` of `ToNNX` of a Linen module has its variables, outputs, changed collections and
    gradients, or is refused.
    """
    module, key = linen_layer(linen, meta, boxed, size=size), small_key(0)
    twice = bridge.ToLinen(bridge.ToNNX, args=(module,))

    def run(module):
        variables = meta.unbox(module.init(key, X))
        output, changed = module.apply(variables, X, mode=COUNTING, mutable=["batch_stats"])

        def loss(params):
            return _loss(module.apply({**variables, "params": params}, X, scale))

        return variables, output, changed, jax.grad(loss)(variables.get("params", {}))

    with names_in_context():
        expected, found = run(module), []
        if raised(lambda: found.append(run(twice))) is None:
            assert_close(found[0], expected, **CALLS)


@requirement("bridge/wrappers/nnx-wrapped-twice")
@few("every method and mode of the layer that both worlds have")
@given(size=features, scale=scales)
def test_an_nnx_module_wrapped_twice_behaves_as_itself(nnx, transforms, bridge, size, scale):
    """`ToNNX` of `ToLinen` of an NNX module has its outputs, gradients and updated variables."""
    twice = bridge.ToNNX(wrapped_layer(bridge, nnx, size=size)).lazy_init(X, rngs=small_key(0))
    layer = _object(nnx, size)

    def run(module, **mutable):
        slope = transforms.grad(lambda module: _loss(module(X, scale)))(module)
        output = module(X, mode=COUNTING, **mutable)
        return output, nnx.to_pure_dict(slope), variables_of(nnx, module)

    assert_close(run(twice, mutable=["batch_stats"]), run(layer), **CALLS)


MAKING = ("method", "function", "of a part", "by a method of what it is a part of")


@requirement("bridge/wrappers/lazy-init-makes-variables", must_reach=MAKING)
@given(seed=seeds, boxed=st.booleans(), way=st.sampled_from(MAKING), size=features)
def test_a_call_makes_the_variables(linen, nnx, bridge, meta, seed, boxed, way, size):
    """`lazy_init` makes the variables of a wrapper by a call, and returns its argument.

    The call is of the wrapper, of a module that holds it, or of a method of that module. Under
    `jax.eval_shape` the variables have the same shapes and dtypes. A call of the wrapper before
    `lazy_init` is an error.
    """
    module, key = linen_layer(linen, meta, boxed, "drawn", size), small_key(seed)

    class Whole(nnx.Module):
        def __init__(self, part):
            self.part = part

        def __call__(self, x, **named):
            return self.part(x, **named)

        def encode(self, x, **named):
            return self.part(x, **named)

    def make():
        wrapper = bridge.ToNNX(module)
        if way == "method":
            assert wrapper.lazy_init(X, rngs=key) is wrapper
            return wrapper
        called = {"function": wrapper, "of a part": Whole(wrapper)}.get(way, Whole(wrapper).encode)
        assert bridge.lazy_init(called, X, rngs=key) is called
        return wrapper

    with names_in_context():
        refused(lambda: bridge.ToNNX(module)(X, rngs=key))
        abstract = jax.eval_shape(lambda: nnx.to_pure_dict(nnx.state(make())))
        values = nnx.to_pure_dict(nnx.state(make()))
    shapes = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), (abstract, values))
    assert alike(shapes[0], shapes[1])
    assert len([*values]) > 0
