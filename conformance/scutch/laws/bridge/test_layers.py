"""Layers of NNX, wrapped for Linen and not, beside those of Linen: BRG-7b, 7f (`004_`).

Each layer of NNX has a layer of Linen that computes the same of the same variables. Attention has
its formula.
"""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.engine.agreement import compare_routes
from scutch.lawkit.domain import not_available
from scutch.lawkit.equality import alike, assert_close, holds
from scutch.lawkit.marks import costly, reached, refused, requirement
from scutch.lawkit.placement import assert_placed
from scutch.lawkit.tolerances import CALLS, MODELS, near
from scutch.laws.linen.explicit_axes import (
    assert_computes_as_jax,
    on_mesh,
    reach_ways,
    sharded_input,
)
from scutch.laws.linen.formulas import normalized
from scutch.laws.linen.products import PRECISIONS, negative_product, products
from scutch.strategies import logical_placements

seeds = st.integers(0, 99)
SIZES = (5, 3, 4)
"""The shape of the inputs."""


def _pair(linen, nnx, kind, flags, axes, dtype):
    """A layer of NNX, as class, arguments and options, and the layer of Linen that is like it."""
    bias, scale = flags
    options = {"use_bias": bias, "dtype": dtype}
    if kind == "Linear":
        return (nnx.Linear, (4, 6), options), linen.Dense(6, **options)
    if kind == "LinearGeneral":
        features, over = (2, 3) if scale else 6, tuple(axes[: 1 + scale])
        batch, options = bias and 0 not in over, options | {"axis": over}
        own = {**options, "batch_axis": {0: SIZES[0]} if batch else {}}
        layer = nnx.LinearGeneral, (tuple(SIZES[axis] for axis in over), features), own
        return layer, linen.DenseGeneral(features, batch_dims=(0,) if batch else (), **options)
    if kind in ("Embed", "attend"):
        return (nnx.Embed, (7, 4), {"dtype": dtype}), linen.Embed(7, 4, dtype=dtype)
    options = {"use_bias": bias, "use_scale": scale, "epsilon": 0.1}
    if kind == "LayerNorm":
        options |= {"feature_axes": axes[0], "reduction_axes": tuple(axes[:2])}
    else:
        options |= {"axis": axes[0], "momentum": 0.75}
    layer = getattr(nnx, kind), (SIZES[axes[0]],), options
    return layer, getattr(linen, kind)(**options)


KINDS = ("Linear", "LinearGeneral", "Embed", "attend", "LayerNorm", "BatchNorm")


@requirement("bridge/wrappers/tolinen-equals-module", must_reach=(*KINDS, "running", "masked"))
@costly
@given(
    kind=st.sampled_from(KINDS),
    seed=seeds,
    flags=st.tuples(st.booleans(), st.booleans()),
    axes=st.permutations([0, 1, 2]),
    dtype=st.sampled_from([None, "float16"]),
    running=st.booleans(),
    in_call=st.booleans(),
    masked=st.booleans(),
)
def test_a_layer_of_nnx_computes_what_linen_computes(
    linen, nnx, bridge, kind, seed, flags, axes, dtype, running, in_call, masked
):
    """`Linear`, `LinearGeneral`, `Embed`, `LayerNorm` and `BatchNorm` have the variables, outputs
    and changed statistics of the layer of Linen with the same options; wrapped, its outputs.
    """
    draw = np.random.default_rng(seed)
    if kind == "LinearGeneral":  # Flax takes axes in the order of the inputs
        axes = [*sorted(axes[: 1 + flags[1]]), *axes[1 + flags[1] :]]
    (cls, sizes, own), module = _pair(linen, nnx, kind, flags, axes, dtype)
    layer, wrapped = cls(*sizes, **own, rngs=nnx.Rngs(seed)), bridge.ToLinen(cls, sizes, own)
    x = draw.normal(size=(5, 3, 4)).astype("float32")
    if kind == "Embed":
        x = draw.integers(0, 7, (5, 3))
    options = {"method": "attend"} if kind == "attend" else {}
    if kind == "BatchNorm":
        options = {"use_running_average": running}
        reached("running" if running else "batch")
    if masked and kind in ("LayerNorm", "BatchNorm"):
        reached("masked")
        options["mask"] = draw.random(x.shape) < 0.9
    numbers = draw.integers(0, 7, (5, 3)) if kind == "attend" else x  # `init` runs `__call__`
    inits = {} if kind == "attend" else options
    variables, ours = (
        jax.eval_shape(lambda m=m: m.init(jax.random.key(0), numbers, **inits))
        for m in (module, wrapped)
    )
    assert alike(jax.tree.map(jnp.shape, ours), jax.tree.map(jnp.shape, variables))
    assert alike(*(jax.tree.map(lambda made: made.dtype, each) for each in (ours, variables)))
    variables = jax.tree.map(
        lambda made: jnp.asarray(abs(draw.normal(size=made.shape)), made.dtype), variables
    )
    state = nnx.state(layer)
    nnx.replace_by_pure_dict(state, {k: v for c in variables.values() for k, v in c.items()})
    nnx.update(layer, state)
    expected, changed = module.apply(variables, x, **options, mutable=["batch_stats"])
    if kind != "attend":
        found, _ = wrapped.apply(variables, x, **options, mutable=["batch_stats"])
        assert_close(found, expected, "wrapped", **(MODELS if dtype else CALLS))
    method = getattr(layer, options.pop("method", "__call__"))
    if kind == "BatchNorm" and not in_call:
        layer.eval() if options.pop("use_running_average") else layer.train()
    found = method(x, **options)
    assert alike((found.shape, found.dtype), (expected.shape, expected.dtype))
    assert_close(found, expected, "outputs", **(MODELS if dtype else CALLS))
    for name, kept in changed.get("batch_stats", {}).items():
        assert_close(nnx.to_pure_dict(nnx.state(layer))[name], kept, name, **CALLS)


@requirement(
    "bridge/wrappers/tolinen-equals-module",
    must_reach=("Linear", "LinearGeneral", "wrapped", "precision", "element type", "own product"),
)
@costly
@given(
    kind=st.sampled_from(["Linear", "LinearGeneral"]),
    precision=st.sampled_from(PRECISIONS),
    element=st.sampled_from([None, "float32", "bfloat16"]),
    own=st.booleans(),
    bias=st.booleans(),
    dtype=st.sampled_from([None, "float16"]),
    wrapped=st.booleans(),
    seed=seeds,
)
def test_a_layer_of_nnx_multiplies_as_it_is_told(
    nnx, bridge, kind, precision, element, own, bias, dtype, wrapped, seed
):
    """`Linear` and `LinearGeneral`, wrapped and not, multiply by the product that they are given,
    or else by `jax.lax.dot_general`, with the precision and the element type that they are given.
    """
    cls = getattr(nnx, kind)
    if not holds(inspect.signature(cls.__init__).parameters, "preferred_element_type"):
        not_available("layers have no preferred_element_type")
    told = {"wrapped": wrapped, "precision": precision, "element type": element, "own product": own}
    reached(*[name for name, is_so in told.items() if is_so])
    options = {
        "use_bias": bias,
        "dtype": dtype,
        "precision": precision,
        "preferred_element_type": element,
        **({"dot_general": negative_product} if own else {}),
    }
    draw = np.random.default_rng(seed)
    x, kernel, shift = (draw.normal(size=s).astype("float32") for s in ((5, 3), (3, 2), (2,)))

    def by_layer(x, kernel, shift):
        params = {"kernel": kernel, **({"bias": shift} if bias else {})}
        if wrapped:
            return bridge.ToLinen(cls, (3, 2), options).apply({"params": params}, x)
        layer = cls(3, 2, **options, rngs=nnx.Rngs(0))
        nnx.update(layer, params)
        return layer(x)

    def by_jax(x, kernel, shift):
        x, kernel, shift = (jnp.asarray(each, dtype) for each in (x, kernel, shift))
        product = negative_product if own else jax.lax.dot_general
        chosen = {"precision": precision, "preferred_element_type": element and jnp.dtype(element)}
        y = product(x, kernel, (((1,), (0,)), ((), ())), **chosen)
        return y + shift if bias else y

    arguments = (x, kernel, shift)
    assert alike(products(by_layer, *arguments), products(by_jax, *arguments))

    def check(found, expected):
        assert alike((found.shape, found.dtype), (expected.shape, expected.dtype))
        assert_close(found, expected, "outputs", **MODELS)

    compare_routes(by_layer, by_jax, arguments, check)


@requirement(
    "bridge/wrappers/tolinen-equals-module",
    must_reach=("masked", "keys of their own", "bias", "not bias"),
)
@costly
@given(
    seed=seeds,
    heads=st.integers(1, 3),
    bias=st.booleans(),
    masked=st.booleans(),
    crossed=st.integers(0, 2),
    width=st.sampled_from([None, 2]),
    out=st.sampled_from([None, 5]),
    deterministic=st.booleans(),
)
def test_attention_is_a_mean_of_values_by_keys(
    nnx, bridge, seed, heads, bias, masked, crossed, width, out, deterministic
):
    """`MultiHeadAttention` gives the mean of the projected values with the weights of the softmax
    of queries and keys, of those that a mask counts, projected again. Nothing is dropped at a rate
    of 0, or where it is deterministic.
    """
    draw = np.random.default_rng(seed)
    options = {
        "in_features": 6 * heads,
        "qkv_features": width and width * heads,
        "out_features": out,
        "use_bias": bias,
        "dropout_rate": 0.5 if deterministic else 0.0,
        "deterministic": deterministic or None,
        "decode": False,
    }
    layer = nnx.MultiHeadAttention(heads, **options, rngs=nnx.Rngs(seed))
    state = nnx.state(layer, nnx.Param)
    params = jax.tree.map(
        lambda x: draw.normal(size=x.shape).astype("float32"), nnx.to_pure_dict(state)
    )
    nnx.replace_by_pure_dict(state, params)
    nnx.update(layer, state)
    inputs = [draw.normal(size=(2, n, 6 * heads)).astype("float32") for n in (3, 4, 4)]
    given, mask = inputs[: 1 + crossed], None
    query, key, value = (inputs[min(n, crossed)] for n in range(3))
    reached(*["keys of their own"] * bool(crossed))
    if masked:
        mask = draw.random((2, 1, query.shape[1], key.shape[1])) < 0.5
        mask[..., 0] = True

    def projected(x, name):
        y = np.einsum("btf,fhd->bthd", x, params[name]["kernel"])
        return y + params[name].get("bias", 0)

    q, k, v = map(projected, (query, key, value), ("query", "key", "value"))
    logits = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    weights = jax.nn.softmax(jnp.where(True if mask is None else mask, logits, -np.inf))
    mixed = np.einsum("bhqk,bkhd->bqhd", weights, v)
    expected = np.einsum("bqhd,hdf->bqf", mixed, params["out"]["kernel"])
    expected = expected + params["out"].get("bias", 0)
    assert_close(layer(*given, mask=mask), expected, "outputs", **MODELS)
    wrapped = bridge.ToLinen(nnx.MultiHeadAttention, (heads,), options)
    found = wrapped.apply({"params": params}, *given, mask=mask)
    assert_close(found, expected, "wrapped", **MODELS)


@requirement(
    "bridge/wrappers/streams-follow-seeds", must_reach=("together", "not together", "eval", "call")
)
@costly
@given(
    seed=seeds,
    heads=st.integers(2, 3),
    rate=st.sampled_from([0.25, 0.5]),
    together=st.booleans(),
    where=st.sampled_from(["layer", "call", "eval"]),
)
def test_attention_drops_weights(nnx, seed, heads, rate, together, where):
    """`MultiHeadAttention` drops weights at its rate, of all examples and heads alike or of each
    apart, by a stream of the layer or of the call; after `eval` it drops none.
    """
    size = 6
    layer = nnx.MultiHeadAttention(
        heads,
        size * heads,
        use_bias=False,
        dropout_rate=rate,
        broadcast_dropout=together,
        deterministic=False,
        decode=False,
        rngs=nnx.Rngs(seed),
    )
    # All weights are alike, and a value says of which key it is: so each output is a weight.
    state = nnx.state(layer, nnx.Param)
    shown = np.eye(size * heads, dtype="float32").reshape(heads, size, size * heads)
    first = np.eye(size * heads, size, dtype="float32")[:, None].repeat(heads, 1)
    kernels = {"query": 0 * first, "key": 0 * first, "value": first, "out": shown}
    nnx.replace_by_pure_dict(state, {name: {"kernel": each} for name, each in kernels.items()})
    nnx.update(layer, state)
    if where == "eval":
        layer.eval()
    x = np.eye(size, size * heads, dtype="float32")[None].repeat(8, 0)
    options = {"rngs": nnx.Rngs(dropout=seed)} if where == "call" else {}
    weights = np.asarray(layer(x, **options)).reshape(8, size, heads, size)
    kept = np.not_equal(weights, 0)
    if where == "eval":
        assert kept.all()
        rate = 0
    assert near(weights, kept / (size * (1 - rate)), **CALLS)
    if where != "eval":
        of_one = np.broadcast_to(kept[:1, :, :1], kept.shape)
        assert 0 < kept.mean() < 1
        assert alike(np.array_equal(kept, of_one), together)


@requirement("bridge/wrappers/streams-follow-seeds", must_reach=("kept", "some", "dropped", "eval"))
@given(
    rate=st.sampled_from([0.0, 0.5, 0.75, 1.0]),
    seed=seeds,
    along=st.sampled_from([(), (0,), (-1,), (0, 2)]),
    off=st.sampled_from([None, "eval", "call"]),
    where=st.sampled_from(["layer", "call"]),
)
def test_dropout_of_nnx_drops_whole_axes(nnx, bridge, rate, seed, along, off, where):
    """`nnx.Dropout` leaves entries zero or scaled, all along a broadcast axis alike, by a stream of
    the layer or of the call, and all as they are after `eval`. Without a stream it is refused.
    """
    reached({0.0: "kept", 1.0: "dropped"}.get(rate, "some"))
    x = np.arange(1, 513, dtype="float32").reshape(8, 8, 8)
    layer = nnx.Dropout(
        rate, broadcast_dims=along, rngs=nnx.Rngs(seed) if where == "layer" else None
    )
    options = {"rngs": nnx.Rngs(dropout=seed)} if where == "call" else {}
    if off == "eval":
        reached("eval")
        layer.eval()
    found = np.asarray(layer(x, **options, **({"deterministic": True} if off == "call" else {})))
    if off or rate in (0.0, 1.0):
        assert np.array_equal(found, np.zeros_like(x) if rate == 1.0 and not off else x)
        return
    kept = np.not_equal(found, 0)
    assert near(found, np.where(kept, x / (1 - rate), 0), **CALLS)
    assert len(along) == 2 or 0 < kept.mean() < 1  # two axes leave eight entries to chance
    for axis in along:
        assert np.array_equal(kept, np.broadcast_to(kept.take([0], axis), kept.shape))
    wrapped = bridge.ToLinen(nnx.Dropout, (rate,), {"broadcast_dims": along})
    ours = [wrapped.apply({}, x, rngs={"dropout": jax.random.key(n)}) for n in (seed, seed)]
    assert np.array_equal(*ours)
    assert near(ours[0], np.where(np.not_equal(ours[0], 0), x / (1 - rate), 0), **CALLS)
    again = np.asarray(layer(x, **options))
    assert along or not np.array_equal(found, again)
    refused(lambda: nnx.Dropout(rate)(x))


SHARDED = {
    "Linear": lambda nnx, size, rngs: nnx.Linear(size, 3, rngs=rngs),
    "LinearGeneral": lambda nnx, size, rngs: nnx.LinearGeneral(size, (3, 2), rngs=rngs),
    "LayerNorm": lambda nnx, size, rngs: nnx.LayerNorm(size, rngs=rngs),
    "Embed": lambda nnx, size, rngs: nnx.Embed(4, 3, rngs=rngs),
}
"""Layers of NNX by the size of the last axis of their inputs."""


def _formula(nnx, kind, layer):
    """The computation of a layer of NNX in plain JAX."""
    held = nnx.to_pure_dict(nnx.state(layer))
    if kind == "Embed":
        return lambda x: jnp.take(held["embedding"], x, axis=0)
    if kind == "LayerNorm":
        return lambda x: normalized(x, held["scale"], held["bias"])
    return lambda x: jnp.tensordot(x, held["kernel"], 1) + held["bias"]


@requirement(
    "bridge/wrappers/tolinen-equals-module", must_reach=(*SHARDED, "jitted", "eager", "sharded")
)
@costly
@given(
    placed=logical_placements(explicit=True),
    kind=st.sampled_from(list(SHARDED)),
    seed=seeds,
    jitted=st.booleans(),
)
def test_a_layer_of_nnx_computes_its_formula_of_a_sharded_array(nnx, placed, kind, seed, jitted):
    """`Linear`, `LinearGeneral`, `LayerNorm` and `Embed` of an array that is sharded over
    `Explicit` mesh axes have the outputs that they have on one device, laid out as plain JAX lays
    out the formula. What plain JAX refuses may be refused.
    """
    x, sharding = sharded_input(placed)
    reach_ways(sharding, jitted)
    layer = SHARDED[kind](nnx, x.shape[-1], nnx.Rngs(seed))
    given_x = x.astype("int32") % 4 if kind == "Embed" else x
    assert_computes_as_jax(layer, _formula(nnx, kind, layer), given_x, sharding, jitted)


@requirement(
    "bridge/wrappers/streams-follow-seeds",
    must_reach=("jitted", "eager", "sharded", "along an axis"),
)
@costly
@given(
    placed=logical_placements(explicit=True),
    rate=st.sampled_from([0.5, 0.75]),
    seed=seeds,
    along=st.sampled_from([(), (), (0,), (-1,)]),
    jitted=st.booleans(),
)
def test_dropout_of_nnx_drops_the_same_of_a_sharded_array(nnx, placed, rate, seed, along, jitted):
    """`nnx.Dropout` of an array that is sharded over `Explicit` mesh axes drops the entries that it
    drops of the array on one device, by streams of the same seed; the result lies as the array.
    """
    x, sharding = sharded_input(placed)
    reach_ways(sharding, jitted)
    if along:
        reached("along an axis")

    def drop(x):
        return nnx.Dropout(rate, broadcast_dims=along, rngs=nnx.Rngs(seed))(x)

    assert_placed(on_mesh(drop, x, sharding, jitted), drop(x), sharding)
