"""Measures of one call, which are its time and three counts that do not jitter.

`Calls` is the base of the benchmarks that measure a single compiled call: seconds, Python function
calls, traces and XLA compilations.
"""

import abc
import gc
import sys

import jax

TRACED = "/jax/core/compile/jaxpr_trace_duration"
COMPILED = "/jax/core/compile/backend_compile_duration"
FURTHER_CALLS = 3


def python_calls(function):
    """How many Python functions are called in one call of `function`.

    `function` is called once before, so that the work of a first call is not counted. The
    garbage collector is off during both calls: its callbacks would be counted too, and a collection
    between them may empty a cache that the first call has filled.
    """
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call"

    gc.disable()
    try:
        function()
        sys.setprofile(profile)
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def events(name, function):
    """How often `jax.monitoring` reports the event `name` while `function` runs."""
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
    """Benchmarks of the compiled call without arguments that `setup` keeps as `self.call`."""

    @abc.abstractmethod
    def setup(self, *parameters):
        """Make the call, once in a process, because asv calls this before every sample."""

    def time_call(self, *parameters):
        """Seconds of one call, until its output is ready."""
        jax.block_until_ready(self.call())

    def track_python_calls(self, *parameters):
        """Python functions called in one call."""
        return python_calls(self.call)

    def track_traces(self, *parameters):
        """Functions that JAX traces in three further calls; zero where its caches hit."""
        return events(TRACED, self._call_again)

    def track_compilations(self, *parameters):
        """Programs that XLA compiles in three further calls; zero where the caches hit."""
        return events(COMPILED, self._call_again)

    def _call_again(self):
        for _ in range(FURTHER_CALLS):
            jax.block_until_ready(self.call())

    track_python_calls.unit = "Python calls"
    track_traces.unit = "traces"
    track_compilations.unit = "compilations"
