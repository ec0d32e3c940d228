"""Limits on how often JAX traces and compiles, for tests of your own.

    import scutch

    def test_the_step_compiles_once():
        with scutch.at_most(traces=1, compilations=1, of="train_step"):
            for batch in batches:
                state = train_step(state, batch)

With `pytest_plugins = ["scutch.counting"]` in a `conftest.py`, `at_most` is a fixture, too.
"""

import contextlib
import functools
import re
from collections import Counter
from collections.abc import Iterator

import jax
import pytest

_TRACED = "/jax/core/compile/jaxpr_trace_duration"
_COMPILED = "/jax/core/compile/backend_compile_duration"
_open: list["Counts"] = []
"""The counts of the `with` blocks that are open; owned by `at_most`."""


class Counts:
    """How often each function was traced and compiled inside a `with` block.

    Args:
      of: The name of the only function that counts; empty for all.
    """

    def __init__(self, of: str = "") -> None:
        """Begin with nothing counted."""
        self.of = of
        self.traces: Counter[str] = Counter()
        self.compilations: Counter[str] = Counter()

    def note(self, event: str, name: str) -> None:
        """Count an event of JAX.

        Args:
          event: Its name; others than tracing and compiling are not counted.
          name: The function, as JAX tells it: `f` when it is traced, `jit(f)` when it is compiled.
        """
        function = re.sub(r"^jit\((.*)\)$", r"\1", name)
        if self.of and function != self.of:
            return
        if event == _TRACED:
            self.traces[function] += 1
        elif event == _COMPILED:
            self.compilations[function] += 1


@contextlib.contextmanager
def at_most(
    *, traces: int | None = None, compilations: int | None = None, of: str = ""
) -> Iterator[Counts]:
    """Fail if JAX traces or compiles more often inside the `with` block.

    A jitted function that is called from another jitted function is traced within it, and counts
    as a trace of the outer one alone. Operations on arrays outside `jit` are functions of JAX's
    own, such as `add`; `of` leaves them out.

    Args:
      traces: The most functions that may be traced, at least 0; any number where left out.
      compilations: The most programs that XLA may compile, at least 0; any number where left out.
      of: The `__name__` of the jitted function that counts; empty for all functions.

    Yields:
      The counts, which grow inside the block.

    Raises:
      AssertionError: There were more; the message names the functions, and how often each was
        traced or compiled.
      ValueError: Neither limit is given, or one is below 0.
    """
    limits = {"traces": traces, "compilations": compilations}
    if all(limit is None for limit in limits.values()):
        raise ValueError("at_most() got no limit; expected traces=, compilations= or both")
    for name, limit in limits.items():
        if limit is not None and limit < 0:
            raise ValueError(f"at_most() got {name}={limit}; expected at least 0")
    _listen()
    counts = Counts(of)
    _open.append(counts)
    try:
        yield counts
    finally:
        _open.remove(counts)
    for name, limit in limits.items():
        found: Counter[str] = getattr(counts, name)
        if limit is not None and found.total() > limit:
            each = ", ".join(f"{function} {number}" for function, number in found.most_common())
            raise AssertionError(f"{found.total()} {name}, expected at most {limit}: {each}")


@pytest.fixture(name="at_most")
def _at_most() -> object:
    """The function `at_most`."""
    return at_most


@functools.cache  # once in a process
def _listen() -> None:
    """Have JAX report to the open blocks."""
    jax.monitoring.register_event_duration_secs_listener(_note)


def _note(event: str, duration_secs: float, **told: str | int) -> None:
    for counts in _open:
        counts.note(event, str(told.get("fun_name", "a function")))
