"""Layers of Linen on inputs of every shape and dtype: LIN-4, 4g, 4i, 4j and LIN-8d (`002_`).

The oracle is the function of `jax.numpy` that the layer is named for. For stacks of layers it is
their description, evaluated in plain JAX by `scutch.inputs.evaluation`.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.engine.agreement import compare_routes
from scutch.inputs.keys import small_key
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, assert_close, holds
from scutch.lawkit.marks import costly, reached, refused, requirement
from scutch.lawkit.parts import weighted_gradients
from scutch.lawkit.tolerances import CALLS, GRADIENTS, near
from scutch.lawkit.training import assert_trains_as_evaluated
from scutch.laws.linen.explicit_axes import assert_computes_as_jax, sharded_input
from scutch.laws.linen.formulas import normalized
from scutch.laws.linen.products import PRECISIONS, negative_product, products
from scutch.strategies import logical_placements, models
from scutch.strategies.models import PLAIN, layers

SHAPES = ((3,), (2, 2), (0,), (1, 3), ())
seeds = st.integers(0, 99)
inputs = {
    "features": st.integers(1, 3),
    "seed": seeds,
    "dtype": st.sampled_from(["int32", "uint8"]),
    "computed": st.sampled_from([None, "float16"]),
    "boxed": st.booleans(),
}


def _check_rows(linen, rows, shape, features, seed, dtype, computed, boxed):
    """Compare an embedding with `jax.numpy.take`."""
    numbers = np.random.default_rng(seed)
    indices = numbers.integers(0, rows, shape).astype(dtype)
    table = numbers.normal(size=(rows, features)).astype("float32")
    weights = numbers.normal(size=(*shape, features)).astype("float32")
    module = linen.Embed(rows, features, dtype=computed)

    def by_module(table):
        held = linen.Partitioned(table, ("data", None)) if boxed else table
        return module.apply({"params": {"embedding": held}}, indices)

    def by_jax(table):
        return jnp.take(jnp.asarray(table, computed), indices, axis=0)

    def seen(route):
        return lambda table: (route(table), jax.grad(lambda t: (route(t) * weights).sum())(table))

    def check(ours, theirs):
        assert alike((ours[0].shape, ours[0].dtype), (theirs[0].shape, theirs[0].dtype))
        assert np.array_equal(ours[0], theirs[0])
        rounded = (each[1].astype(each[0].dtype) for each in (ours, theirs))  # as sums were
        assert_close(*rounded, "gradients", **CALLS)

    compare_routes(seen(by_module), seen(by_jax), (table,), check)
    refused(lambda: module.apply({"params": {"embedding": table}}, indices.astype("float32")))


@requirement("linen/layers/embedding-takes-rows", must_reach=("one row", "several"))
@costly
@given(rows=st.integers(1, 4), shape=st.sampled_from(SHAPES), **inputs)
def test_an_embedding_takes_rows_of_its_table(
    linen, rows, shape, features, seed, dtype, computed, boxed
):
    """`Embed` gives for integers of any shape the rows of its table, in the dtype that it computes
    in, and has the gradient, that `jax.numpy.take` gives and has. Like that, it refuses numbers
    that are no integers.
    """
    assume(rows > 1 or shape)  # a row for a number is LIN-4j
    reached("one row" if rows == 1 else "several")
    _check_rows(linen, rows, shape, features, seed, dtype, computed, boxed)


@requirement("linen/layers/embedding-takes-rows")
@costly
@given(**inputs)
def test_an_embedding_of_one_row_takes_a_number(linen, features, seed, dtype, computed, boxed):
    """`Embed` with a table of one row gives that row for one integer, and refuses a number that is
    none.
    """
    _check_rows(linen, 1, (), features, seed, dtype, computed, boxed)


DTYPES = ("float32", "bfloat16", "float16")


LAYERS = {
    "Dense": (("kernel", "bias"), lambda x, kernel, bias: x @ kernel + bias),
    "bare": (("kernel",), lambda x, kernel: x @ kernel),
    "attend": (("embedding",), lambda x, table: x @ table.T),
    "LayerNorm": (("scale", "bias"), normalized),
}
"""Parameters of layers of two inputs and two outputs, and their formulas, with one dtype."""


@requirement(
    "linen/layers/layers-compute-formulas", must_reach=(*LAYERS, "narrow", "whole numbers")
)
@costly
@given(
    layer=st.sampled_from(list(LAYERS)),
    seed=seeds,
    held=st.sampled_from(DTYPES),
    given=st.sampled_from((*DTYPES, "int32")),
    computed=st.sampled_from((None, *DTYPES)),
    around=st.sampled_from([(3,), (), (2, 1)]),
)
def test_layers_compute_in_the_dtype_that_jax_promotes_to(
    linen, layer, seed, held, given, computed, around
):
    """`Dense`, with a bias and without, `LayerNorm` and `Embed.attend` compute in the dtype that
    they are told, or else in that to which JAX promotes inputs and parameters, and have the
    outputs of their formulas.
    """
    names, formula = LAYERS[layer]
    numbers = np.random.default_rng(seed)
    x = numbers.integers(-4, 4, (*around, 2)).astype(jnp.dtype(given))
    shapes = {"kernel": (2, 2), "embedding": (2, 2)}
    params = [numbers.normal(size=shapes.get(n, 2)).astype(jnp.dtype(held)) for n in names]
    dtype = jnp.dtype(computed) if computed else jnp.result_type(x, *params)
    reached("whole numbers" if given == "int32" else "wide" if dtype == "float32" else "narrow")
    module = {
        "Dense": lambda: linen.Dense(2, dtype=computed),
        "bare": lambda: linen.Dense(2, use_bias=False, dtype=computed),
        "attend": lambda: linen.Embed(2, 2, dtype=computed),
        "LayerNorm": lambda: linen.LayerNorm(dtype=computed),
    }[layer]()
    method = {"method": "attend"} if layer == "attend" else {}

    def by_module(x, *params):
        return module.apply({"params": dict(zip(names, params, strict=True))}, x, **method)

    def by_formula(*inputs):
        if layer != "LayerNorm":
            inputs = [jnp.asarray(each, dtype) for each in inputs]
        return jnp.asarray(formula(*inputs), dtype)

    def check(found, expected):
        assert alike((found.shape, found.dtype), (expected.shape, expected.dtype))
        assert_close(found, expected, **CALLS)

    compare_routes(by_module, by_formula, (x, *params), check)


SHARDED = {
    "Dense": (lambda linen: linen.Dense(3), lambda x, kernel, bias: x @ kernel + bias),
    "DenseGeneral": (
        lambda linen: linen.DenseGeneral((3, 2)),
        lambda x, kernel, bias: jnp.tensordot(x, kernel, 1) + bias,
    ),
    "LayerNorm": (
        lambda linen: linen.LayerNorm(),
        normalized,
    ),
}
"""Layers, and their formulas, that take arrays which are sharded over several devices."""


@requirement("linen/layers/layers-compute-formulas", must_reach=(*SHARDED, "jitted", "not jitted"))
@costly
@given(
    placed=logical_placements(explicit=True),
    layer=st.sampled_from(list(SHARDED)),
    seed=seeds,
    jitted=st.booleans(),
)
def test_layers_compute_their_formulas_of_sharded_arrays(linen, placed, layer, seed, jitted):
    """`Dense`, `DenseGeneral` and `LayerNorm` of an array that is sharded over `Explicit` mesh axes
    have the outputs that they have on one device, laid out as plain JAX lays out the formula.
    """
    x, sharding = sharded_input(placed)
    make, formula = SHARDED[layer]
    module, draw = make(linen), np.random.default_rng(seed)
    made = jax.eval_shape(lambda: module.init(jax.random.key(0), jnp.asarray(x)))["params"]
    params = {name: draw.normal(size=its.shape).astype("float32") for name, its in made.items()}
    ordered = [params[n] for n in ("kernel", "scale", "bias") if holds(params, n)]
    assert_computes_as_jax(
        lambda x: module.apply({"params": params}, x),
        lambda x: formula(x, *ordered),
        x,
        sharding,
        jitted,
    )


@requirement("linen/layers/embedding-takes-rows", must_reach=("jitted", "not jitted"))
@costly
@given(
    placed=logical_placements(explicit=True),
    rows=st.integers(2, 4),
    features=st.integers(1, 3),
    jitted=st.booleans(),
)
def test_an_embedding_takes_rows_of_its_table_for_sharded_numbers(
    linen, placed, rows, features, jitted
):
    """`Embed` of numbers that are sharded over `Explicit` mesh axes gives the rows that it gives on
    one device. It may refuse the numbers where `jax.numpy.take` does so, too.
    """
    x, sharding = sharded_input(placed)
    table = np.arange(rows * features, dtype="float32").reshape(rows, features)
    module = linen.Embed(rows, features)
    assert_computes_as_jax(
        lambda x: module.apply({"params": {"embedding": table}}, x),
        lambda x: jnp.take(jnp.asarray(table), x, axis=0),
        x.astype("int32") % rows,
        sharding,
        jitted,
    )


@requirement(
    "linen/layers/layers-compute-formulas",
    must_reach=("Dense", "DenseGeneral", "precision", "no precision", "own"),
)
@given(
    kind=st.sampled_from(["Dense", "DenseGeneral"]),
    precision=st.sampled_from(PRECISIONS),
    own=st.booleans(),
    bias=st.booleans(),
    computed=st.sampled_from([None, "float16"]),
    seed=seeds,
)
def test_layers_multiply_as_they_are_told(linen, kind, precision, own, bias, computed, seed):
    """`Dense` and `DenseGeneral` multiply by the product that they are given, or else by
    `jax.lax.dot_general`, with the precision that they are given.
    """
    reached("precision" if precision else "no precision")
    numbers = np.random.default_rng(seed)
    x, kernel, shift = (numbers.normal(size=s).astype("float32") for s in ((5, 3), (3, 2), (2,)))
    options = {"dot_general": negative_product} if own else {}
    module = getattr(linen, kind)(2, use_bias=bias, dtype=computed, precision=precision, **options)

    def by_module(x, kernel, shift):
        params = {"kernel": kernel, **({"bias": shift} if bias else {})}
        return module.apply({"params": params}, x)

    def by_jax(x, kernel, shift):
        x, kernel, shift = (jnp.asarray(each, computed) for each in (x, kernel, shift))
        product = negative_product if own else jax.lax.dot_general
        y = product(x, kernel, (((1,), (0,)), ((), ())), precision=precision)
        return y + shift if bias else y

    arguments = (x, kernel, shift)
    assert alike(products(by_module, *arguments), products(by_jax, *arguments))
    compare_routes(
        by_module, by_jax, arguments, lambda ours, theirs: assert_close(ours, theirs, **CALLS)
    )


def _statistics(x, over, mask):
    """Mean and variance over axes, of the entries that count."""
    x = x.astype("float64")
    mean = x.mean(over, where=mask, keepdims=True)
    return mean, ((x - mean) ** 2).mean(over, where=mask, keepdims=True)


@requirement(
    "linen/layers/layers-compute-formulas",
    must_reach=("LayerNorm", "BatchNorm", "running", "masked", "exact"),
)
@costly
@given(
    kind=st.sampled_from(["LayerNorm", "BatchNorm", "running"]),
    seed=seeds,
    rank=st.integers(2, 3),
    axes=st.permutations([0, 1, 2]),
    negative=st.booleans(),
    used=st.sampled_from([("scale", "bias"), ("scale",), ("bias",), ()]),
    masked=st.booleans(),
    fast=st.booleans(),
    in_call=st.booleans(),
    numbers=st.sampled_from([(1e-3, 0.9), (0.1, 0.25)]),
)
def test_normalizations_compute_their_formulas(
    linen, kind, seed, rank, axes, negative, used, masked, fast, in_call, numbers
):
    """`LayerNorm` and `BatchNorm` over any axes, with a scale, a bias or neither, and of entries
    that a mask counts, compute the formula with the mean and variance of these entries; without the
    fast variance also where the mean is large.
    """
    reached("masked" if masked else "whole", "fast" if fast else "exact")
    draw, (epsilon, momentum) = np.random.default_rng(seed), numbers
    x = draw.normal(0 if fast else 1000, 1, (2, 3, 4)[:rank]).astype("float32")
    feature, *others = (axis for axis in axes if axis < rank)
    over = tuple(others) if kind != "LayerNorm" else tuple(axes[: 1 + seed % 2])
    over = tuple(axis for axis in over if axis < rank) or (0,)
    counts = draw.random(x.shape) < 0.6
    counts[tuple(0 if axis in over else slice(None) for axis in range(rank))] = True
    options = {"mask": counts} if masked else {}
    size, signed = x.shape[feature], (lambda axis: axis - rank) if negative else (lambda axis: axis)
    along = [1] * rank
    along[feature] = size
    params = {name: draw.normal(size=size).astype("float32") for name in used}
    shared = {
        "epsilon": epsilon,
        "use_fast_variance": fast,
        "use_scale": "scale" in used,
        "use_bias": "bias" in used,
    }
    statistics = _statistics(x, over, counts if masked else True)
    variables = {"params": params}
    if kind == "LayerNorm":
        axes = {"reduction_axes": tuple(map(signed, over)), "feature_axes": signed(feature)}
        module = linen.LayerNorm(**axes, **shared)
    else:
        kept = {name: draw.random(size).astype("float32") for name in ("mean", "var")}
        flag = {"use_running_average": kind == "running"}
        module = linen.BatchNorm(
            axis=signed(feature), momentum=momentum, **shared, **({} if in_call else flag)
        )
        variables["batch_stats"] = kept
        options |= {"mutable": ["batch_stats"], **(flag if in_call else {})}
        if kind == "running":
            statistics = [kept[name].reshape(along) for name in ("mean", "var")]
    found = jax.jit(partial(module.apply, **options))(variables, x)
    found = found if kind == "LayerNorm" else found[0]
    mean, variance = statistics
    expected = (x - mean) / np.sqrt(variance + epsilon)
    expected = expected * np.reshape(params.get("scale", np.ones(size)), along)
    expected = expected + np.reshape(params.get("bias", np.zeros(size)), along)
    assert alike((found.shape, found.dtype), (x.shape, x.dtype))
    assert near(found, expected, rtol=1e-2, atol=1e-2)


@requirement(
    "linen/streams/dropout-follows-key",
    must_reach=("kept", "some", "dropped", "along an axis", "both", "neither"),
)
@costly
@given(
    rate=st.sampled_from([0.0, 0.5, 0.75, 1.0]),
    seed=seeds,
    where=st.sampled_from(["layer", "call", "both", "neither"]),
    along=st.sampled_from([(), (0,), (1,), (-1,), (0, 2)]),
)
def test_dropout_drops_whole_axes(linen, rate, seed, where, along):
    """Dropout leaves each entry zero or scaled, all along a broadcast axis alike and along another
    one not; a rate of 0 keeps everything, a rate of 1 nothing, and neither needs a key. That
    the layer and the call both say `deterministic`, or neither does, is an error.
    """
    reached({0.0: "kept", 1.0: "dropped"}.get(rate, "some"))
    x = np.arange(1, 513, dtype="float32").reshape(8, 8, 8)
    flag = {"deterministic": False}
    of_layer = flag if where in ("layer", "both") else {}
    of_call = flag if where in ("call", "both") else {}
    module = linen.Dropout(rate, broadcast_dims=along, **of_layer)
    rngs = {"dropout": small_key(seed)} if 0 < rate < 1 else {}
    if where in ("both", "neither"):
        reached(where)
        refused(lambda: module.apply({}, x, rngs=rngs, **of_call), naming=("deterministic",))
        return
    found = np.asarray(module.apply({}, x, rngs=rngs, **of_call))
    if rate in (0.0, 1.0):
        assert np.array_equal(found, x if rate == 0.0 else np.zeros_like(x))
        return
    kept = np.not_equal(found, 0)
    assert near(found, np.where(kept, x / (1 - rate), 0), **CALLS)
    if along:
        reached("along an axis")
    for axis in range(3):
        alike_along = np.array_equal(kept, np.broadcast_to(kept.take([0], axis), kept.shape))
        if axis in along or axis - 3 in along:
            assert alike_along
        elif len(along) < 2:  # enough entries that they are not alike by chance
            assert not alike_along


@requirement("linen/layers/layers-compute-formulas", must_reach=("train", "not train"))
@costly
@given(model=models(layers((*PLAIN, "BatchNorm", "Counter", "Sow"), ("",))), train=st.booleans())
def test_layers_compute_their_formulas(model, train):
    """Each layer has the outputs and gradients of its formula in plain JAX, and changes in training
    the statistics that the formula says.
    """
    if train:
        assert_trains_as_evaluated(model)
        return
    variables = model.variables(boxed=False)

    def seen(evaluate):
        def of_params(params, x):
            return evaluate({**variables, "params": params}, x), None

        return lambda *given: weighted_gradients(of_params, *given)

    routes = [seen(each) for each in (model.module().apply, lambda *v: model.evaluated(*v)[0])]
    both = jax.jit(lambda *given: [route(*given) for route in routes])
    ours, theirs = both(variables.get("params", {}), model.x)
    assert_close(ours[0][1], theirs[0][1], "outputs", **GRADIENTS)
    assert_close(ours[1], theirs[1], "gradients", **GRADIENTS)
