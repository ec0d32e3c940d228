"""What is measured of one call: its time, and what can be counted, which does not jitter."""

import abc
import gc
import sys

import jax

TRACED = "/jax/core/compile/jaxpr_trace_duration"
COMPILED = "/jax/core/compile/backend_compile_duration"
TIMES = 3


def python_calls(function):
    """Calls of Python functions in one call of `function`, after a first one."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call"

    function()
    gc.disable()
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def events(name, function):
    """How often JAX reports an event while `function` runs."""
    heard = []

    def listen(event, seconds, **_):
        heard.append(event == name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        function()
        return sum(heard)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


class Calls(abc.ABC):
    """Benchmarks of the call without arguments that `setup` keeps as `call`, compiled."""

    @abc.abstractmethod
    def setup(self, *choice):
        """Make the call, once in a process: asv calls this before every sample."""

    def time_call(self, *choice):
        """One call, until its output is there."""
        jax.block_until_ready(self.call())

    def track_python_calls(self, *choice):
        """Calls of Python functions in one call."""
        return python_calls(self.call)

    def track_traces(self, *choice):
        """What is traced in three further calls."""
        return events(TRACED, self._further)

    def track_compilations(self, *choice):
        """What XLA compiles in three further calls."""
        return events(COMPILED, self._further)

    def _further(self):
        for _ in range(TIMES):
            jax.block_until_ready(self.call())

    track_python_calls.unit = "Python calls"
    track_traces.unit = "traces"
    track_compilations.unit = "compilations"
