"""Layers of Linen over several axes and over windows: LIN-4g (`002_`).

The oracles are `numpy.einsum`, `jax.lax.conv_general_dilated` and means of NumPy's own windows.
"""

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.lawkit.equality import alike, assert_close
from scutch.lawkit.marks import costly, reached, requirement
from scutch.lawkit.tolerances import CALLS

seeds = st.integers(0, 99)
paddings = st.sampled_from(["SAME", "VALID", "pairs"])


@requirement(
    "linen/layers/layers-compute-formulas",
    must_reach=("batch", "several", "negative", "bias", "not bias"),
)
@costly
@given(
    seed=seeds,
    axes=st.permutations([1, 2, 3]),
    mapped=st.integers(1, 2),
    negative=st.booleans(),
    batch=st.booleans(),
    features=st.sampled_from([3, (3,), (2, 3)]),
    bias=st.booleans(),
)
def test_a_general_dense_layer_sums_over_its_axes(
    linen, seed, axes, mapped, negative, batch, features, bias
):
    """`DenseGeneral` sums over any axes of its inputs, with other parameters for each index along
    the batch axes, and puts the axes of features last.
    """
    reached("negative" if negative else "positive")
    reached("several" if mapped > 1 else "one")
    draw, summed, ends = np.random.default_rng(seed), sorted(axes[:mapped]), np.atleast_1d(features)
    x = draw.normal(size=(2, 3, 4, 5)).astype("float32")
    lead = x.shape[:1] if batch else ()
    kernel = draw.normal(size=(*lead, *(x.shape[axis] for axis in summed), *ends))
    params = {"kernel": kernel.astype("float32")}
    names, own = "abcd", "a" * batch
    over, new = "".join(names[axis] for axis in summed), "yz"[: len(ends)]
    outer = "".join(name for name in names if name not in over)
    expected = np.einsum(f"{names},{own}{over}{new}->{outer}{new}", x, params["kernel"])
    if bias:
        params["bias"] = draw.normal(size=(*lead, *ends)).astype("float32")
        between = (1,) * (len(outer) - len(lead))
        expected = expected + params["bias"].reshape(*lead, *between, *ends)
    module = linen.DenseGeneral(
        features,
        axis=tuple(axis - 4 * negative for axis in summed),
        use_bias=bias,
        batch_dims=(0,) if batch else (),
    )
    shapes = jax.eval_shape(module.init, jax.random.key(seed), x)["params"]
    assert alike({n: s.shape for n, s in shapes.items()}, {n: p.shape for n, p in params.items()})
    assert_close(module.apply({"params": params}, x), expected, "outputs", **CALLS)


@requirement(
    "linen/layers/layers-compute-formulas",
    must_reach=("pairs", "groups", "masked", "bias", "not bias", "several"),
)
@costly
@given(
    seed=seeds,
    rank=st.integers(1, 2),
    lead=st.sampled_from([(), (2,), (2, 1)]),
    window=st.tuples(*[st.integers(1, 3)] * 2),
    padding=paddings,
    steps=st.tuples(*[st.integers(1, 2)] * 3),
    one_number=st.booleans(),
    groups=st.sampled_from([1, 2]),
    masked=st.booleans(),
    bias=st.booleans(),
)
def test_a_convolution_is_that_of_jax(
    linen, seed, rank, lead, window, padding, steps, one_number, groups, masked, bias
):
    """`Conv` with any strides, padding, dilations and groups, a bias and a mask of its kernel, for
    one input or several, gives what `jax.lax.conv_general_dilated` gives.
    """
    for name, is_so in {"groups": groups > 1, "masked": masked, "several": len(lead) > 1}.items():
        if is_so:
            reached(name)
    draw, window = np.random.default_rng(seed), window[:rank]
    x = draw.normal(size=(*lead, *(6, 7)[:rank], 4)).astype("float32")
    shape = (*window, 4 // groups, 2)
    kernel, offset = (draw.normal(size=s).astype("float32") for s in (shape, (2,)))
    mask = (draw.random(shape) < 0.5).astype("float32") if masked else None
    pads = ((1, 0), (2, 1))[:rank] if padding == "pairs" else padding
    if padding != "pairs":  # JAX takes no other padding with a dilation of the inputs
        steps = (steps[0], 1, steps[2])
    strides, apart, between = ((step,) * rank for step in steps)
    spatial = "HW"[:rank]
    expected = jax.lax.conv_general_dilated(
        x.reshape(-1, *x.shape[len(lead) :]),
        kernel if mask is None else kernel * mask,
        strides,
        pads,
        lhs_dilation=apart,
        rhs_dilation=between,
        feature_group_count=groups,
        dimension_numbers=(f"N{spatial}C", f"{spatial}IO", f"N{spatial}C"),
    )
    expected = expected.reshape(*lead, *expected.shape[1:]) + (offset if bias else 0)
    module = linen.Conv(
        2,
        window,
        strides=steps[0] if one_number else strides,
        padding=pads,
        mask=mask,
        input_dilation=steps[1] if one_number else apart,
        kernel_dilation=steps[2] if one_number else between,
        feature_group_count=groups,
        use_bias=bias,
    )
    params = {"kernel": kernel, **({"bias": offset} if bias else {})}
    shapes = jax.eval_shape(module.init, jax.random.key(seed), x)["params"]
    assert alike({n: s.shape for n, s in shapes.items()}, {n: p.shape for n, p in params.items()})
    assert_close(module.apply({"params": params}, x), expected, "outputs", **CALLS)


@requirement(
    "linen/layers/layers-compute-formulas",
    must_reach=("SAME", "pairs", "counted", "not counted", "no strides"),
)
@given(
    seed=seeds,
    lead=st.sampled_from([(), (2,)]),
    window=st.tuples(*[st.integers(1, 3)] * 2),
    padding=paddings,
    counted=st.booleans(),
    strides=st.none() | st.tuples(*[st.integers(1, 2)] * 2),
)
def test_pooling_takes_means_of_windows(linen, seed, lead, window, padding, counted, strides):
    """`avg_pool` gives the mean of each window; zeros around the input count in it or not."""
    reached("no strides" if strides is None else "strides")
    x = np.random.default_rng(seed).normal(size=(*lead, 5, 6, 2)).astype("float32")
    steps = strides or (1, 1)
    pads = ((1, 0), (1, 1)) if padding == "pairs" else padding
    around = pads if padding == "pairs" else jax.lax.padtype_to_pads((5, 6), window, steps, padding)
    axes = (len(lead), len(lead) + 1)

    def sums(values):
        padded = np.pad(values, [*[(0, 0)] * len(lead), *around, (0, 0)])
        windows = np.lib.stride_tricks.sliding_window_view(padded, window, axes)
        strided = windows[(slice(None),) * len(lead) + tuple(slice(None, None, s) for s in steps)]
        return strided.sum((-2, -1))

    # A window of zeros alone has no mean where these do not count.
    counts = window[0] * window[1] if counted else np.maximum(sums(np.ones_like(x)), 1)
    found = linen.avg_pool(x, window, strides=strides, padding=pads, count_include_pad=counted)
    inside = np.ones_like(found) if counted else sums(np.ones_like(x)) > 0
    assert_close(
        np.where(inside, found, 0), np.where(inside, sums(x) / counts, 0), "means", **CALLS
    )
