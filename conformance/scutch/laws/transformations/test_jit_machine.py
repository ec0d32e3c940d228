"""Calls of a jitted function and changes of its objects, alternating in any order: JIT-3c.

The oracle is a second copy of the objects, on which the same function is called eagerly and the
same changes are made; and the number of different fingerprints, for the number of traces. Other
laws fix the number of calls; here a state machine of Hypothesis draws a whole history.
"""

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from scutch.inputs import graphs
from scutch.inputs.descriptions import Builder
from scutch.inputs.programs import STRUCTURE, Interpreter, fingerprint, inputs
from scutch.lawkit.equality import holds
from scutch.lawkit.marks import requirement
from scutch.strategies import programs, steps

HISTORIES = settings(
    max_examples=12,
    stateful_step_count=8,
    deadline=None,
    database=None,
    derandomize=True,
    print_blob=False,
    report_multiple_bugs=False,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
"""Few and long: a history compiles as often as it calls."""


def _machine(transforms, nnx):
    """The state machine over two copies of a program, as a class.

    Args:
      transforms: The namespace with the `jit` under judgment.
      nnx: The namespace of objects.
    """

    class Histories(RuleBasedStateMachine):
        """One copy of a program is called eagerly, the other jitted; changes are made to both."""

        @initialize(program=programs(("bump", "call"), results=(), max_steps=1))
        def begin(self, program):
            """Build the program twice."""
            self.eager, self.lifted = (program.build(Builder(None, None, nnx)) for _ in range(2))
            self.traces, self.structures = 0, []

            def function(*arguments):
                """Count a trace, and call the program's function."""
                self.traces += 1
                return self.lifted.function(*arguments)

            self.jitted = transforms.jit(function)

        @rule(step=steps(STRUCTURE))
        def change(self, step):
            """Take one step on both copies."""
            for program in (self.eager, self.lifted):
                Interpreter(nnx, program.arguments, inputs(0)).apply(step)

        @rule()
        def call(self):
            """Call both: their objects stay isomorphic, and each structure has been traced once."""
            structure = fingerprint(nnx, self.lifted.arguments)
            self.structures += [] if holds(self.structures, structure) else [structure]
            self.eager.function(*self.eager.arguments, inputs(1))
            self.jitted(*self.lifted.arguments, inputs(1))
            difference = graphs.differences(nnx, self.eager.arguments, self.lifted.arguments)
            assert not difference, f"eager and jitted: {difference}"
            assert int(self.traces) == len([*self.structures])

    return Histories


@requirement("transformations/traced-once/jit-of-objects[each-structure]")
def test_histories_of_calls_and_changes(transforms, nnx):
    """After any history of calls and changes, jitted and eager objects are isomorphic.

    No structure is traced twice.
    """
    run_state_machine_as_test(_machine(transforms, nnx), settings=HISTORIES)
