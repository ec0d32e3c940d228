"""Programs run eagerly and jitted leave the same program: JIT-1."""

from hypothesis import assume, given

from scutch.inputs import graphs
from scutch.inputs.programs import ATTRIBUTES, DICTS, LISTS, METADATA, PLACES, STEPS, VALUES, inputs
from scutch.lawkit.marks import costly, reached, refused, requirement
from scutch.strategies import copies, programs, small_graphs


def _run(transforms, nnx, program_copies, *, calls=1, kept=False, alone=False):
    """Run one program eagerly and the other jitted; compare them after each call.

    Args:
      transforms: Has the `jit` under judgment.
      nnx: The namespace of the objects.
      program_copies: One program, built twice.
      calls: How often the function is called.
      kept: Whether survivors must be the objects that they were.
      alone: Whether program_copies that differ in more than that are no matter of this law.
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
        difference = graphs.differences(nnx, one, other, pairs)
        assert not difference, f"after call {call + 1}, eager and jitted: {difference}"
        if call + 1 < calls:
            eager.after(call)
            lifted.after(call)


@requirement("JIT-1a")
@costly
@given(program_copies=copies(programs(VALUES, results=("value",), max_steps=4)))
def test_values_are_the_eager_ones(transforms, nnx, program_copies):
    """Returned arrays, and the values of variables afterwards."""
    _run(transforms, nnx, program_copies)


@requirement("JIT-1b")
@costly
@given(program_copies=copies(programs((*METADATA, "bump"), results=())))
def test_metadata_is_the_eager_one(transforms, nnx, program_copies):
    """Metadata that the function sets or deletes."""
    _run(transforms, nnx, program_copies)


@requirement("JIT-1c")
@costly
@given(program_copies=copies(programs((*ATTRIBUTES, "call"), results=())))
def test_attributes_are_the_eager_ones(transforms, nnx, program_copies):
    """Attributes that the function adds, replaces or deletes, static data among them."""
    _run(transforms, nnx, program_copies)


@requirement("JIT-1d")
@costly
@given(program_copies=copies(programs((*PLACES, "bump"), results=())))
def test_sharing_is_the_eager_one(transforms, nnx, program_copies):
    """Objects that the function shares, swaps, ceases to share, or closes to a cycle."""
    _run(transforms, nnx, program_copies)


containers = small_graphs(kinds=("List", "Dict", "Param"), plain=("list", "dict"), size=3)


@requirement("JIT-1e")
@costly
@given(program_copies=copies(programs((*LISTS, *DICTS), results=(), graphs=containers)))
def test_containers_are_the_eager_ones(transforms, nnx, program_copies):
    """Lists and dicts of objects, tracked and plain, that the function changes in place."""
    _run(transforms, nnx, program_copies)


@requirement("JIT-1f")
@costly
@given(program_copies=copies(programs()))
def test_survivors_keep_their_identity(transforms, nnx, program_copies):
    """Where the eager call leaves an object that was there, the jitted call leaves that object."""
    _run(transforms, nnx, program_copies, kept=True, alone=True)


@requirement("JIT-1g")
@costly
@given(program_copies=copies(programs((), results=("node", "fresh", "value"))))
def test_results_hold_what_the_eager_ones_hold(transforms, nnx, program_copies):
    """An argument that is returned comes back as itself; a new object is new."""
    _run(transforms, nnx, program_copies, kept=True)


@requirement("JIT-1h")
@costly
@given(program_copies=copies(programs(between=STEPS, calls=2, max_steps=2)))
def test_several_calls_leave_the_eager_world(transforms, nnx, program_copies):
    """The same function again, after changes of any kind."""
    _run(transforms, nnx, program_copies, calls=2)


@requirement("JIT-1i", must_reach=("variable",))
@given(program=programs((), results=()))
def test_a_captured_variable_is_not_changed(transforms, program):
    """The error names the type of the variable, which is as it was."""
    captured = [n for n in program.nodes() if isinstance(n, program.nnx.Variable)]
    assume(captured)
    reached("variable")
    variable = captured[-1]
    before = variable.get_raw_value()

    @transforms.jit
    def assign(x):
        variable.set_value(x)
        return x

    refused(lambda: assign(inputs(0)[0]), naming=(type(variable).__name__,))
    assert variable.get_raw_value() is before
