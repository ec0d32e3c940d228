"""`apply` of a lifted module is JAX's own transformation of `apply` of the module: LIN-9.

See `scutch.engine.carriers.linen`.
"""

import jax
from hypothesis import given
from hypothesis import strategies as st

from scutch.engine.agreement import compare_traces
from scutch.engine.carriers.arrays import CARRIED
from scutch.engine.carriers.linen import COLLECTIONS, LinenCall, LinenLift
from scutch.engine.relations import linen_routes
from scutch.engine.traces import traced
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import at_least, dear, reached, requirement
from scutch.lawkit.parts import weighted_gradients
from scutch.lawkit.tolerances import MODELS, near
from scutch.strategies.linen_calls import linen_calls
from scutch.strategies.models import layers


def _made(function, *arguments):
    try:
        return function(*arguments), None
    except Exception as error:
        return None, error


def _assert_close(ours, theirs, what):
    one, other = jax.tree.structure(ours), jax.tree.structure(theirs)
    assert alike(one, other), f"{what} are {one}; with JAX {other}"
    pairs = zip(jax.tree_util.tree_leaves_with_path(ours), jax.tree.leaves(theirs), strict=True)
    for (path, mine), its in pairs:
        where = f"{what}{jax.tree_util.keystr(path)}"
        assert alike(mine.shape, its.shape), f"{where} has shape {mine.shape}; with JAX {its.shape}"
        assert near(mine, its, **MODELS), f"{where} is {mine}; with JAX {its}"


def _assert_same(call, *, gradients=True):
    """Outputs, changed collections and gradients of both routes; refusals of both.

    The routes are traced alone, which is enough to see a refusal. Where their traces differ, or
    those of their gradients, they are compiled as one function.
    """
    inputs = call.variables(), call.x()
    routes = linen_routes(call)
    (ours, error), (theirs, refusal) = [_made(traced, each, *inputs) for each in routes]
    reached("refused" if refusal is not None else "applied")
    if refusal is not None:
        assert error is not None, f"it was accepted; JAX refuses: {refusal}"
        return
    assert error is None, f"it raised {error!r}; JAX accepts"
    if gradients:
        ours, theirs = (traced(_gradients(each), *inputs) for each in routes)
    compare_traces(ours, theirs, inputs, lambda ours, theirs: _assert_close(ours, theirs, "it"))


def _gradients(route):
    """A route that also gives the gradient of a weighted sum, in parameters and input."""

    def seen(variables, x):
        def of_params(params, x):
            return route({**variables, "params": params}, x)

        params = variables.get("params", {})
        (_, applied), gradient = weighted_gradients(of_params, params, x)
        return {"applied": applied, "gradient": gradient}

    return seen


@requirement("transformations/equals-jax/vmap-of-linen", must_reach=("applied",))
@dear
@at_least(22)
@given(call=linen_calls("vmap"))
def test_a_mapped_module_is_jax_vmap_of_the_module(call):
    """`vmap` of a module, or of its methods, equals `jax.vmap` of the module's `apply`.

    The collections are mapped along any axes, negative ones and `None` included, and chosen by
    filters of every spelling.
    """
    _assert_same(call, gradients=not call.described.train)


@requirement("transformations/equals-jax/scan-of-linen", must_reach=("applied",))
@dear
@at_least(22)
@given(call=linen_calls("scan", max_size=1))
def test_a_looped_module_is_jax_scan_of_the_module(call):
    """`scan` of a module equals `jax.lax.scan` of its `apply`.

    Collections are sliced, carried or shared.
    """
    _assert_same(call, gradients=not call.described.train)


@requirement("transformations/equals-jax/jit-of-linen", must_reach=("applied",))
@dear
@at_least(14)
@given(call=st.sampled_from(["jit", "remat"]).flatmap(lambda kind: linen_calls(kind, max_size=1)))
def test_a_compiled_or_rematerialized_module_is_the_module(call):
    """`apply` of a module under `jit` and `remat` equals plain `apply`.

    The lifts have filters of collections and streams.
    """
    _assert_same(call)


NESTED = (
    ("vmap", "vmap"),
    ("vmap", "remat"),
    ("remat", "vmap"),
    ("scan", "remat"),
    ("vmap", "jit"),
    ("jit", "vmap"),
    ("scan", "vmap"),
    ("vmap", "scan"),
    ("scan", "scan"),
)


@requirement("transformations/nesting/lifts-of-linen", must_reach=("applied",))
@dear
@given(call=st.sampled_from(NESTED).flatmap(lambda kinds: linen_calls(*kinds, max_size=1)))
def test_nested_lifts_of_a_module_are_nested_transformations_of_jax(call):
    """Two nested lifts of a module equal JAX's two transformations of its `apply`.

    The lifts are two of `vmap`, `scan`, `jit` and `remat`.
    """
    _assert_same(call, gradients=not call.described.train)


@requirement("transformations/equals-jax/scan-of-linen[carry-unchanged]")
@dear
@given(
    call=st.builds(
        lambda layer, axis, options: LinenCall(
            (layer,),
            (
                LinenLift(
                    "scan", dict.fromkeys(COLLECTIONS, CARRIED) | {"params": axis}, options=options
                ),
            ),
        ),
        layers(("BatchNorm", "Counter", "Scale"), ("",)),
        st.sampled_from((0, -1, None)),
        st.sampled_from(({}, {"reverse": True}, {"unroll": 2})),
    )
)
def test_a_carried_collection_need_not_change(call):
    """A lifted module with a carried collection can be applied without `mutable`.

    This is inference with the statistics of training; the results agree with JAX's.
    """
    _assert_same(call, gradients=False)
