"""On functions of plain arrays lifted `shard_map` is `jax.shard_map`: SHM-6.

The oracle is JAX's own `shard_map`, called with equal arguments.
"""

import jax
from hypothesis import given

from scutch.engine.agreement import difference
from scutch.lawkit.mapped import shard_map
from scutch.lawkit.marks import at_least, costly, dear, options, reached, requirement
from scutch.strategies.array_calls import plain_shard_map_calls


def _compiled(shard_map):
    """`shard_map`, compiled: outside `jit` JAX runs it operation by operation."""

    def compiled(function, **options):
        mapped = shard_map(function, **options)
        return jax.jit(lambda *args, **kwargs: mapped(*args, **kwargs))

    return compiled


def _abstract(shard_map):
    """`shard_map` that is traced and not run; JAX refuses a wrong call while it traces."""

    def traced(function, **options):
        mapped = shard_map(function, **options)

        def called(*args, **kwargs):
            return mapped(*args, **kwargs)

        return lambda *args, **kwargs: jax.eval_shape(called, *args, **kwargs)

    return traced


def _assert_same(transforms, call, way):
    """Make a described call with JAX and with the lift, and fail unless their outcomes agree."""
    theirs = call.made(way(shard_map))
    different = difference(call.made(way(transforms.shard_map)), theirs)
    assert not different, different
    return theirs


@requirement("transformations/equals-jax/shard-map-of-arrays", must_reach=("mapped",))
@options("transforms.shard_map.check_vma")
@dear
@given(call=plain_shard_map_calls())
def test_on_plain_arrays_lifted_shard_map_is_the_one_of_jax(transforms, call):
    """On arrays alone, lifted `shard_map` gives the values and shardings of `jax.shard_map`."""
    if _assert_same(transforms, call, _compiled).error is None:
        reached("mapped")


@requirement("transformations/options/shard-map-of-arrays[None]", must_reach=("returned",))
@options("transforms.shard_map.check_vma")
@costly
@given(call=plain_shard_map_calls(unsharded=True))
def test_none_is_the_spec_of_an_argument_that_is_not_sharded(transforms, call):
    """`None` as the spec of an array, or of a container of arrays, means that it is not sharded."""
    if _assert_same(transforms, call, _abstract).error is None:
        reached("returned")


@requirement("transformations/refuses/shard-map-of-arrays", must_reach=("refused", "accepted"))
@options("transforms.shard_map.check_vma")
@costly
@at_least(18)
@given(call=plain_shard_map_calls(illegal=True))
def test_lifted_shard_map_refuses_what_jax_refuses(transforms, call):
    """Lifted `shard_map` refuses every call that `jax.shard_map` refuses.

    The fault is an argument by name, or a wrong spec, size, output or option.
    """
    theirs = _assert_same(transforms, call, _abstract)
    reached("accepted" if theirs.error is None else "refused")
