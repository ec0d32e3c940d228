"""Lifted `jit` of programs over objects is `jax.jit` of the pure function of their leaves: JIT-11.

The judge takes objects apart by its own means; see `scutch.inputs.object_calls`.
"""

from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.object_calls import agreement
from scutch.lawkit.domain import not_available
from scutch.lawkit.marks import costly, dear, reached, requirement
from scutch.strategies.object_calls import MODES, moded_calls, object_calls


@requirement("JIT-11a", must_reach=("returned",))
@dear
@given(call=object_calls("jit"))
def test_jit_over_objects_is_the_one_of_jax_over_their_leaves(transforms, call):
    """Programs that change anything: values, attributes, containers, places."""
    reached(agreement(call, transforms))


@requirement("JIT-11b", must_reach=("returned", "refused"))
@dear
@given(call=object_calls("jit", sharded=True))
def test_jit_with_shardings_over_objects_is_the_one_of_jax_over_their_leaves(transforms, call):
    """Shardings of any form; variables and results lie where JAX lays them."""
    reached(agreement(call, transforms, shardings=True))


moded = st.sampled_from(list(MODES)).flatmap(
    lambda mode: st.tuples(st.just(mode), moded_calls(mode))
)


@requirement("JIT-12a", must_reach=tuple(MODES))
@costly
@given(moded=moded)
def test_modes_of_jit_change_values_as_jax_does(transforms, moded):
    """Programs that change values of variables in trees of objects, which every mode is for."""
    mode, call = moded
    if "partial" in mode and not hasattr(transforms, "jit_partial"):
        not_available("there is no jit_partial")
    reached(mode)
    agreement(call, transforms)
