"""A state machine between calls: JIT-1 and JIT-3 over histories of any order."""

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from scutch.inputs import graphs
from scutch.inputs.descriptions import Builder
from scutch.inputs.programs import STRUCTURE, Interpreter, fingerprint, inputs
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
    """Two program_copies of one program, in which calls and changes alternate at will."""

    class Histories(RuleBasedStateMachine):
        """One program is called eagerly, the other jitted; both are changed alike."""

        @initialize(program=programs(("bump", "call"), results=(), max_steps=1))
        def begin(self, program):
            """Build the program twice."""
            self.eager, self.lifted = (program.build(Builder(None, None, nnx)) for _ in range(2))
            self.traces, self.structures = 0, set()

            def function(*arguments):
                self.traces += 1
                return self.lifted.function(*arguments)

            self.jitted = transforms.jit(function)

        @rule(step=steps(STRUCTURE))
        def change(self, step):
            """Change both program_copies."""
            for program in (self.eager, self.lifted):
                Interpreter(nnx, program.arguments, inputs(0)).apply(step)

        @rule()
        def call(self):
            """Call both; they stay alike, and each structure is traced once."""
            self.structures.add(fingerprint(nnx, self.lifted.arguments))
            self.eager.function(*self.eager.arguments, inputs(1))
            self.jitted(*self.lifted.arguments, inputs(1))
            difference = graphs.differences(nnx, self.eager.arguments, self.lifted.arguments)
            assert not difference, f"eager and jitted: {difference}"
            assert self.traces == len(self.structures)

    return Histories


@requirement("JIT-3c")
def test_histories_of_calls_and_changes(transforms, nnx):
    """After any of them the jitted program is the eager one, and no structure was traced twice."""
    run_state_machine_as_test(_machine(transforms, nnx), settings=HISTORIES)
