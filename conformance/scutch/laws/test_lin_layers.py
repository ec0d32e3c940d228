"""Layers of Linen on inputs of every shape: LIN-4i and LIN-4j (`002_`).

The oracle is the function of `jax.numpy` that the layer is named for.
"""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, assert_close
from scutch.lawkit.marks import costly, reached, requirement
from scutch.lawkit.tolerances import CALLS

SHAPES = ((3,), (2, 2), (0,), (1, 3), ())
seeds = st.integers(0, 99)
inputs = {
    "features": st.integers(1, 3), "seed": seeds, "dtype": st.sampled_from(["int32", "uint8"]),
    "computed": st.sampled_from([None, "float16"]), "boxed": st.booleans(),
}  # fmt: skip


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

    ours, theirs = by_module(table), by_jax(table)
    assert alike((ours.shape, ours.dtype), (theirs.shape, theirs.dtype))
    assert np.array_equal(ours, theirs)
    slopes = [jax.grad(lambda t, f=f: (f(t) * weights).sum())(table) for f in (by_module, by_jax)]
    assert_close(*slopes, "gradients", **CALLS)


@requirement("LIN-4i", must_reach=("one row", "several"))
@costly
@given(rows=st.integers(1, 4), shape=st.sampled_from(SHAPES), **inputs)
def test_an_embedding_takes_rows_of_its_table(
    linen, rows, shape, features, seed, dtype, computed, boxed
):
    """`Embed` gives for integers of any shape the rows of its table, in the dtype that it computes
    in, and has the gradient, that `jax.numpy.take` gives and has.
    """
    assume(rows > 1 or shape)  # a row for a number is LIN-4j
    reached("one row" if rows == 1 else "several")
    _check_rows(linen, rows, shape, features, seed, dtype, computed, boxed)


@requirement("LIN-4j")
@costly
@given(**inputs)
def test_an_embedding_of_one_row_takes_a_number(linen, features, seed, dtype, computed, boxed):
    """`Embed` with a table of one row gives that row for one integer."""
    _check_rows(linen, 1, (), features, seed, dtype, computed, boxed)
