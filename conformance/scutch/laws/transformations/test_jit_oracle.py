"""Lifted `jit` of programs over objects is `jax.jit` of the pure function of their leaves: JIT-11.

The judge takes objects apart by its own means; see `scutch.engine.carriers.objects`.
"""

from hypothesis import given
from hypothesis import strategies as st

from scutch.engine.relations import agreement
from scutch.lawkit.domain import not_available
from scutch.lawkit.equality import alike, holds, plain_text
from scutch.lawkit.marks import at_least, dear, options, reached, requirement
from scutch.strategies.moded_calls import MODES, moded_calls
from scutch.strategies.object_calls import called_jits, object_calls


@requirement("transformations/equals-jax/jit-of-objects", must_reach=("returned",))
@dear
@at_least(14)
@given(call=object_calls("jit"))
def test_jit_over_objects_is_the_one_of_jax_over_their_leaves(transforms, call):
    """Lifted `jit` of a program that changes values, attributes, containers or the places of
    objects gives the outputs, objects and errors of `jax.jit` of the pure function of the leaves.
    """
    reached(agreement(call, transforms))


@requirement(
    "transformations/places-arrays/jit-of-objects", must_reach=("returned", "refused", "an object")
)
@dear
@given(call=object_calls("jit", sharded=True))
def test_jit_with_shardings_over_objects_is_the_one_of_jax_over_their_leaves(transforms, call):
    """With shardings of any form, lifted `jit` puts variables and outputs where `jax.jit` of the
    pure function of the leaves puts them.
    """
    how = agreement(call, transforms, shardings=True)
    reached(how)
    if alike(how, "returned") and holds([step.kind for step in call.described.results], "node"):
        reached("an object")


@requirement("transformations/equals-jax/jit-of-objects[calls]", must_reach=("returned",))
@dear
@given(call=called_jits())
def test_jit_over_objects_is_called_in_every_form_that_jax_takes(transforms, call):
    """Lifted `jit` agrees with `jax.jit` of the pure function of the leaves in every form of call.

    The forms are methods, decorated functions, arguments by name and by default, static and donated
    arguments, and compiled forms.
    """
    reached(agreement(call, transforms))


LIFTS = (("jit",), ("vmap",), ("jit", "shard_map"))
contained = st.sampled_from(LIFTS).flatmap(
    lambda kinds: object_calls(*kinds, sharded=alike(kinds, LIFTS[0]), whole=True)
)


@requirement("transformations/options/lifts-of-objects[filter-prefix]", must_reach=("returned",))
@dear
@given(call=contained)
def test_a_prefix_by_filter_stands_for_a_container_of_objects(transforms, call):
    """`StateSharding` and `StateAxes` can be the prefix of a list or dictionary of objects.

    They act as one prefix for each leaf does in JAX.
    """
    reached(agreement(call, transforms))


moded = st.sampled_from(list(MODES)).flatmap(
    lambda mode: st.tuples(st.just(mode), moded_calls(mode))
)


@requirement(
    "transformations/equals-jax/jit-of-objects[graph=False]",
    must_reach=("partial", "whole", "returned"),
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@dear
@at_least(30)
@given(moded=moded)
def test_modes_of_jit_change_values_as_jax_does(transforms, moded):
    """Every mode of `jit` that the implementation has changes the values of variables as `jax.jit`
    of the pure function of the leaves does, called in every form, with and without shardings.
    """
    mode, call = moded
    partial = "partial" in plain_text(mode)
    if partial and not hasattr(transforms, "jit_partial"):
        not_available("there is no jit_partial")
    reached("partial" if partial else "whole")
    reached(agreement(call, transforms, shardings=any(each.prefixes for each in call.under)))


laid_partials = st.sampled_from(("partial", "partial, graph=False")).flatmap(
    lambda mode: moded_calls(mode, laid=True)
)


@requirement(
    "transformations/places-arrays/jit-of-objects[jit_partial]", must_reach=("returned", "refused")
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@dear
@at_least(30)
@given(call=laid_partials)
def test_shardings_of_what_is_bound_come_first(transforms, call):
    """`jit_partial` takes `in_shardings` for the bound arguments first, and then for the others.

    It agrees with `jax.jit` of the pure function of all arguments, and refuses the calls that
    `jax.jit` refuses.
    """
    if not hasattr(transforms, "jit_partial"):
        not_available("there is no jit_partial")
    reached(agreement(call, transforms, shardings=True))
