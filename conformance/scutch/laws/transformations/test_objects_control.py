"""Branches, loops and derivatives of functions of objects are JAX's own: OBJ-8.

The judge takes objects apart by its own means; see `scutch.engine.carriers.objects`.
"""

from hypothesis import given
from hypothesis import strategies as st

from scutch.engine.relations import agreement
from scutch.inputs import graphs
from scutch.inputs.programs import UNSHARED, VARIABLE_CHANGES, inputs
from scutch.lawkit.domain import assume, not_available
from scutch.lawkit.equality import holds
from scutch.lawkit.marks import at_least, costly, reached, requirement
from scutch.lawkit.modes import takes_modes
from scutch.strategies import copies
from scutch.strategies.moded_calls import FLAGS, unshared_programs
from scutch.strategies.object_control import controlled_calls, custom_calls

CONTROL = ("cond", "switch", "while_loop", "fori_loop", "vjp", "jvp", "custom_vjp")
"""The lifts that these laws are about."""


def _agrees(call, transforms, *, only_in_modes=False):
    """Make the call by both routes, and compare; the lift must have the mode of the call.

    Lifts that are documented for modes alone need not be there without them.
    """
    (each,) = (each for each in call.under if holds(CONTROL, each.kind))
    kind, modes = each.kind, each.modes
    has_modes = takes_modes(getattr(transforms, kind), *modes)
    if only_in_modes and not has_modes:
        not_available(f"{kind} has no modes")
    assume(has_modes)
    reached(kind)
    reached(agreement(call, transforms))


@requirement(
    "transformations/equals-jax/branches-of-objects",
    must_reach=("cond", "switch", "returned", "refused"),
)
@costly
@at_least(40)
@given(call=controlled_calls("cond", "switch"))
def test_branches_of_objects_are_those_of_jax(transforms, call):
    """Lifted `cond` and `switch` give the outputs, values and refusals of JAX's own of pure
    functions of the leaves, whichever branch is taken, and whatever each of them changes.
    """
    _agrees(call, transforms)


@requirement(
    "transformations/equals-jax/loops-of-objects",
    must_reach=("while_loop", "fori_loop", "returned", "refused"),
)
@costly
@at_least(40)
@given(call=controlled_calls("while_loop", "fori_loop"))
def test_loops_of_objects_are_those_of_jax(transforms, call):
    """Lifted `while_loop` and `fori_loop` give the last state, the values and the refusals of JAX's
    own over the leaves, also if no turn is taken, and return the very objects that they got.
    """
    _agrees(call, transforms)


@requirement("transformations/equals-jax/derivatives-of-objects", must_reach=("vjp", "jvp"))
@costly
@given(call=controlled_calls("vjp", "jvp"))
def test_derivatives_of_objects_are_those_of_jax(transforms, call):
    """Lifted `vjp` and `jvp` give the outputs, cotangents, tangents and values that JAX's own give
    for the pure function of the leaves.
    """
    _agrees(call, transforms, only_in_modes=True)


@requirement("transformations/equals-jax/custom-vjp-of-objects", must_reach=("returned",))
@costly
@given(call=custom_calls())
def test_gradients_of_the_users_own_are_those_of_jax(transforms, call):
    """Lifted `custom_vjp` gives the outputs, gradients, and values of variables afterwards, of
    `jax.custom_vjp` of the pure function of the leaves, for the same backward function.
    """
    _agrees(call, transforms)


@requirement(
    "transformations/equals-jax/custom-vjp-of-objects",
    must_reach=("by default", "graph", "graph_updates"),
)
@costly
@given(
    mode=st.sampled_from([{}, *FLAGS]),
    program_copies=copies(unshared_programs(VARIABLE_CHANGES, UNSHARED)),
)
def test_a_call_without_derivatives_is_that_of_the_function(transforms, nnx, mode, program_copies):
    """A function under `custom_vjp` that is not differentiated gives the results and changes of the
    function itself, in every mode, and its forward function is not called.
    """
    if not takes_modes(transforms.custom_vjp, *mode):
        not_available("custom_vjp has no modes")
    reached(next(iter(mode), "by default"))
    eager, lifted = program_copies
    forward_calls = []
    custom = transforms.custom_vjp(lifted.function, **mode)
    custom.defvjp(
        lambda *given: (lifted.function(*given), forward_calls.append(given)),
        lambda residuals, cotangents: cotangents,
    )
    expected = eager.function(*eager.arguments, inputs(0))
    found = custom(*lifted.arguments, inputs(0))
    difference = graphs.differences(nnx, (eager.arguments, expected), (lifted.arguments, found))
    assert not difference, f"the function and that under custom_vjp: {difference}"
    assert not forward_calls, "the forward function is called"
