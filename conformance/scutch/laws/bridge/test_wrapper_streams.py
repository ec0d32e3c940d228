"""Streams and keys of wrapped modules: BRG-7, BRG-9.

The oracle is the wrapped module itself, or a second wrapper with streams of the same seed.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.keys import small_key
from scutch.inputs.paired_layers import (
    NOISY,
    X,
    variables_of,
)
from scutch.lawkit.equality import alike, assert_close, close
from scutch.lawkit.marks import reached, requirement
from scutch.lawkit.tolerances import CALLS
from scutch.laws.bridge.layers import features, linen_layer, seeds, wrapped_layer


@requirement("bridge/wrappers/streams-follow-seeds")
@given(seed=seeds, calls=st.integers(1, 3))
def test_streams_passed_to_a_call_reach_a_wrapped_linen_module(
    linen, nnx, bridge, meta, seed, calls
):
    """Streams passed to a call of the wrapper give the Linen module the next key of each stream, by
    name.
    """
    module = linen_layer(linen, meta)
    variables = module.init(small_key(0), X)
    wrapper = bridge.ToNNX(module).lazy_init(X, rngs=small_key(0))
    streams, others = nnx.Rngs(dropout=seed), nnx.Rngs(dropout=seed)
    for _ in range(calls):
        expected = module.apply(variables, X, mode=NOISY, rngs={"dropout": others.dropout()})
        assert_close(wrapper(X, mode=NOISY, rngs=streams), expected, **CALLS)


@requirement("bridge/wrappers/streams-follow-seeds")
@given(seed=seeds, calls=st.integers(2, 3))
def test_streams_of_a_wrapper_are_seeded_and_move_on(linen, nnx, bridge, meta, seed, calls):
    """Wrappers whose streams have the same seed initialize and call alike, those with another seed
    do not, and each call draws other numbers than the call before.
    """
    module = linen_layer(linen, meta, initial="drawn")

    def run(seed):
        wrapper = bridge.ToNNX(module, rngs=nnx.Rngs(seed, dropout=seed + 1)).lazy_init(X)
        return [wrapper(X), *(wrapper(X, mode=NOISY) for _ in range(calls))]

    outputs = run(seed)
    assert_close(run(seed), outputs, **CALLS)
    assert not close(run(seed + 4), outputs, **CALLS)
    assert not any(close(one, two, **CALLS) for one, two in itertools.pairwise(outputs[1:]))


@requirement("bridge/wrappers/shared-streams-start-apart")
@given(seed=seeds, used=st.integers(0, 1), size=features)
def test_wrappers_that_share_streams_start_differently(linen, nnx, bridge, meta, seed, used, size):
    """Two wrappers of one module that are given the same streams have other parameters, and draw
    other numbers in a call.
    """
    module, streams = (
        linen_layer(linen, meta, initial="drawn", size=size),
        nnx.Rngs(seed, dropout=seed),
    )
    for _ in range(used):
        streams.params()
    one, other = (bridge.ToNNX(module, rngs=streams).lazy_init(X) for _ in range(2))
    assert not close(variables_of(nnx, one), variables_of(nnx, other), **CALLS)
    nnx.update(other, nnx.state(one, nnx.Param))
    first, second = (wrapper(X, mode=NOISY) for wrapper in (one, other))
    assert not close(first, second, **CALLS)


@requirement("bridge/wrappers/streams-follow-seeds")
@given(seed=seeds, other=seeds)
def test_keys_reach_a_wrapped_nnx_module(nnx, bridge, seed, other):
    """A wrapped NNX module has the same variables and outputs for the same keys, and others for
    other keys.
    """
    module = wrapped_layer(bridge, nnx, "drawn")

    def run(first, second):
        keys = {"params": small_key(first), "dropout": jax.random.key(10 + first)}
        variables = module.init(keys, X)
        rngs = {"dropout": small_key(second)}
        return variables, module.apply(variables, X, mode=NOISY, rngs=rngs)

    variables, output = run(seed, other)
    assert_close(run(seed, other), (variables, output), **CALLS)
    assert not close(run(seed + 4, other)[0], variables, **CALLS)
    assert not close(run(seed, other + 4)[1], output, **CALLS)


@requirement("bridge/wrappers/streams-follow-seeds", must_reach=("one key", "several keys"))
@given(seed=st.integers(0, 3), other=st.integers(0, 3), split=st.sampled_from([None, 2, 3]))
def test_streams_that_an_object_splits_follow_the_keys(nnx, bridge, seed, other, split):
    """In a wrapped NNX module, the streams that its constructor forks have as many keys as it asks
    for, no two of them equal: the same ones for the same key of a call, others for another key. A
    call that draws nothing needs no key.
    """
    reached("one key" if split is None else "several keys")

    class Noise(nnx.Module):
        def __init__(self, *, rngs):
            self.scale = nnx.Param(jnp.ones(3))
            self.streams = rngs.fork() if split is None else rngs.fork(split=split)

        def __call__(self, x, draws=True):
            if draws:
                return jax.random.key_data(self.streams.dropout.key.get_value())
            return x * self.scale.get_value()

    module, x = bridge.ToLinen(Noise), np.arange(6, dtype="float32").reshape(2, 3)
    keys = {"params": small_key(0), "dropout": small_key(seed)}
    variables = module.init(keys, x)
    assert alike(module.apply(variables, x, draws=False), x)

    def drawn(number):
        """The keys of the stream in a call, one in each row."""
        rngs = {"dropout": small_key(number)}
        return np.atleast_2d(module.apply(variables, x, rngs=rngs))

    rows, count = drawn(seed), split or 1
    assert alike((rows.shape[0], len(np.unique(rows, axis=0))), (count, count))
    assert np.array_equal(drawn(seed), rows)
    together = np.concatenate([rows, drawn(other + 4)])
    assert alike(len(np.unique(together, axis=0)), 2 * count)
