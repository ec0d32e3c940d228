"""A jitted call changes the objects and returns results as the eager call does: JIT-1.

The oracle is the eager call of the same function on another copy of the objects. Each law draws
programs with steps of one group (see `scutch.inputs.programs`), so that it judges one kind of
change.
"""

import jax
import jax.numpy as jnp
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs import graphs
from scutch.inputs.programs import ATTRIBUTES, DICTS, LISTS, METADATA, PLACES, STEPS, VALUES, inputs
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, holds
from scutch.lawkit.marks import at_least, costly, raised, reached, refused, requirement
from scutch.strategies import copies, programs, small_graphs


def _run(transforms, nnx, program_copies, *, calls=1, kept=False, alone=False, close=False):
    """Call the function of one copy eagerly and of the other jitted, and compare after each
    call.

    Args:
      transforms: The namespace with the `jit` under judgment.
      nnx: The namespace of objects.
      program_copies: One program, built twice.
      calls: How often the function is called.
      kept: Whether objects that were there must be the same Python objects afterwards.
      close: Whether floats may differ by rounding.
      alone: Whether inputs are discarded on which more than identities differs: other laws judge
        it.
    """
    eager, lifted = program_copies
    jitted = transforms.jit(lifted.function)
    for call in range(calls):
        pairs = list(zip(eager.nodes(), lifted.nodes(), strict=True)) if kept else ()
        expected = eager.function(*eager.arguments, inputs(call))
        result = jitted(*lifted.arguments, inputs(call))
        one, other = (eager.arguments, expected), (lifted.arguments, result)
        if alone:
            assume(not graphs.differences(nnx, one, other))
        difference = graphs.differences(nnx, one, other, pairs, close=close)
        assert not difference, f"after call {call + 1}, eager and jitted: {difference}"
        if call + 1 < calls:
            eager.after(call)
            lifted.after(call)


@requirement("transformations/nothing-lost/jit-of-objects")
@costly
@given(program_copies=copies(programs(VALUES, results=("value",), max_steps=4)))
def test_values_are_the_eager_ones(transforms, nnx, program_copies):
    """Returned arrays and variables have the values of the eager call, floats up to rounding."""
    _run(transforms, nnx, program_copies, close=True)


@requirement("transformations/nothing-lost/jit-of-objects[metadata]")
@costly
@given(program_copies=copies(programs((*METADATA, "bump"), results=())))
def test_metadata_is_the_eager_one(transforms, nnx, program_copies):
    """Metadata that the function sets or deletes is set or deleted after the jitted call, which
    may be refused, but not lose it.
    """
    eager, lifted = program_copies
    before = _metadata(nnx, eager)
    expected = eager.function(*eager.arguments, inputs(0))
    found = []
    error = raised(
        lambda: found.append(transforms.jit(lifted.function)(*lifted.arguments, inputs(0)))
    )
    if error is not None and not alike(_metadata(nnx, eager), before):
        return
    if error is not None:
        raise error
    difference = graphs.differences(nnx, (eager.arguments, expected), (lifted.arguments, found[0]))
    assert not difference, f"eager and jitted: {difference}"


def _metadata(nnx, program):
    """The metadata of each variable that can be reached from the arguments of a program."""
    return [graphs.metadata(each) for each in program.nodes() if isinstance(each, nnx.Variable)]


@requirement("transformations/nothing-lost/jit-of-objects[attributes]")
@costly
@given(program_copies=copies(programs((*ATTRIBUTES, "call"), results=())))
def test_attributes_are_the_eager_ones(transforms, nnx, program_copies):
    """Attributes that the function adds, replaces or deletes, static data included, are as after
    the eager call.
    """
    _run(transforms, nnx, program_copies)


@requirement("transformations/nothing-lost/jit-of-objects[sharing]")
@costly
@given(program_copies=copies(programs((*PLACES, "bump"), results=())))
def test_sharing_is_the_eager_one(transforms, nnx, program_copies):
    """Objects that the function puts in a second place, swaps, copies apart, or closes to a cycle
    sit in the places where the eager call leaves them.
    """
    _run(transforms, nnx, program_copies)


containers = small_graphs(kinds=("List", "Dict", "Param"), plain=("list", "dict"), size=3)


@requirement("transformations/nothing-lost/jit-of-objects[containers]")
@costly
@given(program_copies=copies(programs((*LISTS, *DICTS), results=(), graphs=containers)))
def test_containers_are_the_eager_ones(transforms, nnx, program_copies):
    """Lists and dicts of objects, tracked or plain, that the function changes in place have the
    content that the eager call leaves.
    """
    _run(transforms, nnx, program_copies)


@requirement("transformations/keeps-identity/jit-of-objects")
@costly
@given(program_copies=copies(programs()))
def test_survivors_keep_their_identity(transforms, nnx, program_copies):
    """Where the eager call leaves an object or variable that was there before, the jitted call
    leaves that very object, and not a copy.
    """
    _run(transforms, nnx, program_copies, kept=True, alone=True)


@requirement("transformations/keeps-identity/jit-of-objects[returned]")
@costly
@given(program_copies=copies(programs((), results=("node", "fresh", "value"))))
def test_results_hold_what_the_eager_ones_hold(transforms, nnx, program_copies):
    """An argument that the function returns comes back as itself, and a new object that it returns
    is new.
    """
    _run(transforms, nnx, program_copies, kept=True)


NEWCOMERS = ("add", "adopt", "append", "set item")
"""Steps that put new variables and objects in."""


@requirement("transformations/nothing-lost/jit-of-objects[several-calls]")
@costly
@at_least(24)
@given(
    program_copies=copies(
        programs((*STEPS, *VALUES * 3), between=(*STEPS, *NEWCOMERS * 4), calls=2, max_steps=2)
    )
)
def test_several_calls_leave_the_eager_world(transforms, nnx, program_copies):
    """A second jitted call leaves the objects as the second eager call does.

    In between, the objects are changed in any way.
    """
    _run(transforms, nnx, program_copies, calls=2)


IN_PLACES = {
    "attribute": lambda one, two: one,
    "list": lambda one, two: [one, two],
    "dict": lambda one, two: {"x": one, "y": two},
    "tuple": lambda one, two: (one, two),
    "tree": lambda one, two: {"x": (one,), "y": [two]},
}
"""Where two arrays stand in an attribute of an object, outside of variables."""


@requirement(
    "transformations/nothing-lost/jit-of-objects[arrays]",
    must_reach=(*IN_PLACES, "one of them", "other changes", "again"),
)
@costly
@given(
    places=st.lists(st.sampled_from(list(IN_PLACES)), min_size=1, max_size=3),
    changed=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    others=st.booleans(),
    calls=st.integers(1, 2),
)
def test_arrays_without_a_variable_are_the_eager_ones(
    transforms, nnx, places, changed, others, calls
):
    """Arrays that are no variables, as attributes of an object and in its plain containers, are
    after the jitted call those that the eager call leaves, also where the function changes static
    data and adds a variable beside.
    """

    def made():
        root = graphs.classes(nnx)["Node"]()
        for n, (name, place) in enumerate(zip("abc", places, strict=False)):
            reached(place)
            held = IN_PLACES[place](*(jnp.full(2, 10.0 * n + i) for i in range(2)))
            setattr(root, name, nnx.data(held))
        return root

    def work(root, x):
        parts = {name: getattr(root, name) for name in "abc"[: len(places)]}
        leaves, structure = jax.tree.flatten(parts)
        chosen = {each % len(leaves) for each in changed}
        if len(chosen) < len(leaves):
            reached("one of them")
        new = [leaf + x if holds(chosen, n) else leaf for n, leaf in enumerate(leaves)]
        for name, part in jax.tree.unflatten(structure, new).items():
            setattr(root, name, nnx.data(part))
        if others:
            reached("other changes")
            root.d, root.e = getattr(root, "d", 0) + 1, nnx.Param(x)
        return leaves

    if calls > 1:
        reached("again")
    eager, lifted, jitted = made(), made(), transforms.jit(work)
    for call in range(calls):
        expected, result = work(eager, jnp.float32(call + 1)), jitted(lifted, jnp.float32(call + 1))
        difference = graphs.differences(nnx, (eager, expected), (lifted, result))
        assert not difference, f"after call {call + 1}, eager and jitted: {difference}"


def _assigning(transforms, program):
    """A jitted function that assigns to a variable which it is not passed, and the variable."""
    captured = [n for n in program.nodes() if isinstance(n, program.nnx.Variable)]
    assume(captured)
    reached("variable")
    variable = captured[-1]

    @transforms.jit
    def assign(x):
        variable.set_value(x)
        return x

    return assign, variable


@requirement("transformations/refuses/jit-of-objects[captured]", must_reach=("variable",))
@given(program=programs((), results=()))
def test_a_captured_variable_is_not_changed(transforms, program):
    """Assigning inside a jitted function to a variable that was not passed to it is refused, and
    leaves the variable as it was.
    """
    assign, variable = _assigning(transforms, program)
    before = variable.get_raw_value()
    refused(lambda: assign(inputs(0)[0]))
    assert variable.get_raw_value() is before


@requirement("transformations/refuses/jit-of-objects[captured,message]", must_reach=("variable",))
@given(program=programs((), results=()))
def test_the_refusal_names_the_captured_variable(transforms, program):
    """The error for a variable that was not passed shows the variable's type."""
    assign, variable = _assigning(transforms, program)
    refused(lambda: assign(inputs(0)[0]), naming=(type(variable).__name__,))
