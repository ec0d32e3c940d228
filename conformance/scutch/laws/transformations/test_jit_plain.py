"""On functions of plain arrays lifted `jit` is `jax.jit`: JIT-10 and JIT-12b.

The oracle is JAX's own `jit`, called with equal arguments. The laws compare results, shardings,
deleted buffers, numbers of traces, and refusals.
"""

import functools

import jax
from hypothesis import given
from hypothesis import strategies as st

from scutch.engine.agreement import attempted, difference
from scutch.lawkit.domain import assume, not_available
from scutch.lawkit.equality import alike, plain_text
from scutch.lawkit.marks import costly, dear, raised, reached, requirement
from scutch.lawkit.modes import takes_modes
from scutch.strategies.jit_calls import plain_jit_calls


def _assert_same(transforms, call):
    """Make a described call with JAX and with the lift, and fail unless their outcomes agree."""
    theirs = call.made(jax.jit)
    different = difference(call.made(transforms.jit), theirs, traces=True)
    assert not different, different
    return theirs


def _assert_accepted_same(transforms, call, *, first=False):
    """Make a described call with JAX, if it lets us, and with the lift, a decorator if asked."""
    theirs = call.made(jax.jit)
    assume(theirs.error is None)
    different = difference(call.made(transforms.jit, first=first), theirs, traces=True)
    assert not different, different
    return theirs


@requirement(
    "transformations/equals-jax/jit-of-arrays",
    must_reach=("sharded and static", "donated", "two traces", "first"),
)
@costly
@given(call=plain_jit_calls(), first=st.booleans())
def test_on_plain_arrays_lifted_jit_is_the_one_of_jax(transforms, call, first):
    """For drawn options in combination, lifted `jit`, as a decorator or with the function, gives
    the values and shardings of `jax.jit`, deletes the same donated buffers, and traces as often.
    """
    bare = first and raised(transforms.jit) is None  # some lifts come with their function only
    theirs = _assert_accepted_same(transforms, call, first=bare)
    options = call.described.options
    if options.get("in_shardings") and any("static" in plain_text(name) for name in options):
        reached("sharded and static")
    if any(theirs.deleted):
        reached("donated")
    if int(theirs.traces) == 2:
        reached("two traces")


@requirement("transformations/refuses/jit-of-arrays", must_reach=("refused",))
@costly
@given(call=plain_jit_calls(illegal=True, calls=1))
def test_lifted_jit_refuses_what_jax_refuses(transforms, call):
    """Lifted `jit` refuses every wrong option, argument or sharding that `jax.jit` refuses."""
    if _assert_same(transforms, call).error is not None:
        reached("refused")


def _staged(jit, call):
    """Lower and compile a described function, call it with all but its static argument."""
    traces, arguments = [], call.arguments()

    def stages():
        jitted = jit(call.function(traces), **call.options())
        (positional, named), static = arguments[0], call.described.is_static("scale")
        foreseen = jitted.eval_shape(*positional, **named)
        compiled = jitted.trace(*positional, **named).lower().compile()
        if static:
            positional, named = (
                positional[:2],
                {n: v for n, v in named.items() if not alike(n, "scale")},
            )
        return foreseen, compiled(*positional, **named)

    return attempted(stages, watched=arguments, traces=traces)


def _assert_stages_same(transforms, call):
    """Go through the stages of `jit` with JAX, if it lets us, and with the lift."""
    theirs = _staged(jax.jit, call)
    assume(theirs.error is None)
    different = difference(_staged(transforms.jit, call), theirs)
    assert not different, different
    return theirs


@requirement("transformations/stages/jit-of-arrays", must_reach=("static", "donated"))
@dear
@given(call=plain_jit_calls(calls=1, both=False))
def test_on_plain_arrays_the_staged_forms_are_those_of_jax(transforms, call):
    """`eval_shape` and the compiled form of lifted `jit` agree with those of `jax.jit`.

    The compiled form is called without the static arguments.
    """
    theirs = _assert_stages_same(transforms, call)
    if call.described.is_static("scale"):
        reached("static")
    if any(theirs.deleted):
        reached("donated")


@requirement("transformations/options/jit-of-arrays[shardings]")
@dear
@given(call=plain_jit_calls(calls=1, both=True))
def test_a_compiled_form_has_shardings_beside_static_arguments(transforms, call):
    """With `in_shardings` beside static arguments, one for each argument that is not static, the
    compiled form takes arrays with these shardings, and no others.
    """
    _assert_stages_same(transforms, call)


def _sum_of(first, second, third, fourth, *, more=1):
    """A function whose arguments all count differently."""
    return first + 10 * second + 100 * third + 1000 * fourth + 10000 * more


@requirement(
    "transformations/options/jit-of-arrays[partial]",
    must_reach=("compiled", "called", "static", "bound", "bound by name"),
)
@costly
@given(
    bound=st.integers(0, 2),
    by_name=st.booleans(),
    static=st.sampled_from([None, 0, 1, -1]),
    way=st.sampled_from(["compiled", "called"]),
)
def test_static_numbers_of_a_partial_count_what_is_not_bound(
    transforms, bound, by_name, static, way
):
    """With a partial function, `static_argnums` counts from the first argument that is not bound;
    its compiled form is called with all but bound and static arguments, as that of `jax.jit` is.
    """
    said = {"static": static is not None, "bound": bound > 0, "bound by name": by_name, way: True}
    reached(*[name for name, holds in said.items() if holds])
    numbers = [jax.numpy.float32(n) for n in range(1, 5)]
    rest = numbers[bound:]
    if static is not None:
        rest[static] = 7

    def result(jit):
        named = {"more": jax.numpy.float32(2)} if by_name else {}
        jitted = jit(functools.partial(_sum_of, *numbers[:bound], **named), static_argnums=static)
        if way == "called":
            return jitted(*rest)
        without = [each for each in rest if isinstance(each, jax.Array)]
        return jitted.lower(*rest).compile()(*without)

    assert alike(result(transforms.jit), result(jax.jit))


def _assert_lowered_same(transforms, call):
    """Lower a described call with JAX, if it lets us; then the lift must let us, too."""

    def lowered(jit):
        def only_lowered(function, **options):
            return lambda *args, **kwargs: bool(jit(function, **options).lower(*args, **kwargs))

        return only_lowered

    theirs = call.made(lowered(jax.jit))
    assume(theirs.error is None)
    different = difference(call.made(lowered(transforms.jit)), theirs)
    assert not different, different


@requirement("transformations/options/jit-of-arrays[shardings]")
@costly
@given(call=plain_jit_calls(calls=1, listed=True))
def test_shardings_of_arguments_may_be_a_list(transforms, call):
    """`in_shardings` may be a list of shardings in the place of a tuple of them."""
    _assert_lowered_same(transforms, call)


@requirement("transformations/options/jit-of-arrays[shardings]")
@costly
@given(call=plain_jit_calls(calls=1, both=True, negative=True))
def test_a_negative_static_number_counts_from_the_end_beside_shardings(transforms, call):
    """A negative number in `static_argnums` counts from the last argument; `in_shardings` then has
    entries for the arguments before it.
    """
    _assert_lowered_same(transforms, call)


@requirement("transformations/options/jit-of-arrays[shardings]")
@costly
@given(call=plain_jit_calls(calls=1, both=True, left_out=True))
def test_a_static_argument_may_be_left_out_beside_shardings(transforms, call):
    """Where a static argument has its default, `in_shardings` has entries for the others, as for
    `jax.jit`.
    """
    _assert_accepted_same(transforms, call)


MODES = ({"graph": False}, {"graph_updates": False}, {"graph": False, "graph_updates": False})


@requirement(
    "transformations/equals-jax/jit-of-arrays[graph=False]", must_reach=("static", "donated")
)
@costly
@given(mode=st.sampled_from(MODES), call=plain_jit_calls())
def test_on_plain_arrays_every_mode_is_the_jit_of_jax(transforms, mode, call):
    """In every mode, lifted `jit` agrees with `jax.jit` on plain arrays.

    The modes are `graph=False` and `graph_updates=False`; the other options are drawn in
    combination.
    """
    if not takes_modes(transforms.jit, *mode):
        not_available("there are no modes of jit")
    theirs = call.made(jax.jit)
    assume(theirs.error is None)
    different = difference(
        call.made(functools.partial(transforms.jit, **mode)), theirs, traces=True
    )
    assert not different, different
    if any("static" in plain_text(name) for name in call.described.options):
        reached("static")
    if any(theirs.deleted):
        reached("donated")
