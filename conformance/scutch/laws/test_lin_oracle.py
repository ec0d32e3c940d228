"""`apply` of a lifted module is JAX's own transformation of `apply` of the module: LIN-9.

See `scutch.inputs.linen_calls`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.lawkit.marks import dear, reached, requirement
from scutch.strategies.linen_calls import linen_calls

CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def _made(function, *arguments):
    try:
        return function(*arguments), None
    except Exception as error:
        return None, error


def _assert_close(ours, theirs, what):
    one, other = jax.tree.structure(ours), jax.tree.structure(theirs)
    assert one == other, f"{what} are {one}; with JAX {other}"
    pairs = zip(jax.tree_util.tree_leaves_with_path(ours), jax.tree.leaves(theirs), strict=True)
    for (path, mine), its in pairs:
        where = f"{what}{jax.tree_util.keystr(path)}"
        assert mine.shape == its.shape, f"{where} has shape {mine.shape}; with JAX {its.shape}"
        assert np.allclose(mine, its, **CLOSE), f"{where} is {mine}; with JAX {its}"


def _assert_same(call, *, gradients=True):
    """Outputs, changed collections and gradients of both routes; refusals of both."""
    variables, x = call.variables(), call.x()
    ours, theirs = call.by_lift(), call.by_jax()
    expected, refusal = _made(theirs, variables, x)
    found, error = _made(ours, variables, x)
    reached("refused" if refusal is not None else "applied")
    if refusal is not None:
        assert error is not None, f"it was accepted; JAX refuses: {refusal}"
        return
    assert error is None, f"it raised {error!r}; JAX accepts"
    _assert_close(found[0], expected[0], "output")
    _assert_close(found[1], expected[1], "updates")
    if gradients:
        weights = jnp.arange(1.0, 1 + expected[0].size).reshape(expected[0].shape)

        def slopes(route):
            def loss(params, x):
                return jnp.sum(route({**variables, "params": params}, x)[0] * weights)

            return jax.grad(loss, (0, 1))(variables.get("params", {}), x)

        _assert_close(slopes(ours), slopes(theirs), "gradient")


@requirement("LIN-9a", must_reach=("applied", "refused"))
@dear
@given(call=linen_calls("vmap"))
def test_a_mapped_module_is_jax_vmap_of_the_module(call):
    """Axes of collections, negative and `None` too, by filters of every spelling; methods."""
    _assert_same(call, gradients=not call.described.train)


@requirement("LIN-9b", must_reach=("applied",))
@dear
@given(call=linen_calls("scan"))
def test_a_looped_module_is_jax_scan_of_the_module(call):
    """Collections that are sliced, carried and shared."""
    _assert_same(call, gradients=not call.described.train)


@requirement("LIN-9c", must_reach=("applied",))
@dear
@given(call=st.sampled_from(["jit", "remat"]).flatmap(linen_calls))
def test_a_compiled_or_rematerialized_module_is_the_module(call):
    """With filters of collections and streams."""
    _assert_same(call)


NESTED = (
    ("vmap", "vmap"), ("vmap", "remat"), ("remat", "vmap"), ("scan", "remat"), ("vmap", "jit"),
    ("jit", "vmap"),
)  # fmt: skip


@requirement("LIN-9d", must_reach=("applied",))
@dear
@given(call=st.sampled_from(NESTED).flatmap(lambda kinds: linen_calls(*kinds, max_size=1)))
def test_nested_lifts_of_a_module_are_nested_transformations_of_jax(call):
    """Two of `vmap`, `scan`, `jit` and `remat`."""
    _assert_same(call, gradients=False)
