"""Lifted `shard_map` of programs over objects is JAX's of the pure function of leaves: SHM-7.

The judge takes objects apart by its own means; see `scutch.engine.carriers.objects`.
"""

from hypothesis import given
from hypothesis import strategies as st

from scutch.engine.relations import agreement
from scutch.lawkit.marks import dear, reached, requirement
from scutch.strategies.object_calls import object_calls


@requirement("transformations/equals-jax/shard-map-of-objects", must_reach=("returned", "refused"))
@dear
@given(call=object_calls("jit", "shard_map"))
def test_shard_map_over_objects_is_the_one_of_jax_over_their_leaves(transforms, call):
    """Under `jit`, with specs of any form, lifted `shard_map` gives the values that JAX's gives of
    the leaves, and variables and outputs are sharded alike.
    """
    reached(agreement(call, transforms, shardings=True))


NESTED = (("grad", "shard_map"), ("shard_map", "grad"), ("vmap", "shard_map"))


@requirement("transformations/nesting/shard-map-of-objects[lifts]", must_reach=("returned",))
@dear
@given(call=st.sampled_from(NESTED).flatmap(lambda kinds: object_calls("jit", *kinds)))
def test_shard_map_nests_over_objects_as_it_does_over_their_leaves(transforms, call):
    """`shard_map` nested with `grad` or `vmap` acts on objects as JAX's acts on their leaves.

    It stands inside of `grad` or of `vmap`, or has `grad` inside.
    """
    reached(agreement(call, transforms))
