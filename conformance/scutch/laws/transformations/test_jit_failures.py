"""A jitted function that raises leaves its arguments as they were: JIT-8.

The oracles are a second copy of the objects, which no call has touched, and the eager call. The
exception is raised at the end of the function, while it is traced, after it has changed its
arguments.
"""

import pytest
from hypothesis import given

from scutch.inputs import graphs
from scutch.inputs.programs import METADATA, STEPS, inputs
from scutch.lawkit.interruptions import Interruption
from scutch.lawkit.marks import costly, requirement
from scutch.strategies import copies, programs


def _interrupted(program, switch):
    """The program's function, which raises at its end as long as the list `switch` is not empty."""

    def function(*arguments):
        result = program.function(*arguments)
        if switch:
            raise Interruption("on purpose")
        return result

    return function


raising = programs((*STEPS, *METADATA), max_steps=4)


@requirement("transformations/leaves-unchanged/jit-of-objects")
@costly
@given(program_copies=copies(raising))
def test_a_function_that_raises_changes_nothing(transforms, nnx, program_copies):
    """When the function raises, every argument is as before the call: values, metadata, attributes,
    containers, sharing and identities, whatever the function had done to them.
    """
    untouched, lifted = program_copies
    pairs = list(zip(untouched.nodes(), lifted.nodes(), strict=True))
    held = [n.get_raw_value() for n in lifted.nodes() if isinstance(n, nnx.Variable)]
    jitted = transforms.jit(_interrupted(lifted, [1]))
    with pytest.raises(Exception):  # noqa: B017, PT011 - JIT-8b says which
        jitted(*lifted.arguments, inputs(0))
    difference = graphs.differences(nnx, untouched.arguments, lifted.arguments, pairs)
    assert not difference, f"before and after: {difference}"
    now = [n.get_raw_value() for n in lifted.nodes() if isinstance(n, nnx.Variable)]
    assert [*map(id, now)] == [*map(id, held)], f"{held} before and {now} after"


@requirement("transformations/leaves-unchanged/jit-of-objects[next-call]")
@costly
@given(program_copies=copies(programs(max_steps=2)))
def test_the_call_after_a_failed_one_is_as_good_as_any(transforms, nnx, program_copies):
    """An exception inside a jitted function reaches the caller and does not affect the next call.

    The next call, which does not raise, changes and returns the same values as the eager call.
    """
    eager, lifted = program_copies
    switch = [1]
    jitted = transforms.jit(_interrupted(lifted, switch))
    with pytest.raises(Interruption, match="on purpose"):
        jitted(*lifted.arguments, inputs(0))
    switch.clear()
    expected = eager.function(*eager.arguments, inputs(1))
    result = jitted(*lifted.arguments, inputs(1))
    difference = graphs.differences(nnx, (eager.arguments, expected), (lifted.arguments, result))
    assert not difference, f"eager and jitted: {difference}"
