"""One attempt to break a law: inputs are built, counted and remembered.

A law is written over built values; Hypothesis draws descriptions. `instrument` puts the step
between: it notes the call about to be made, builds its inputs, makes it, and remembers the
last call that broke the law. Hypothesis ends with the smallest, so that is the counterexample.
"""

import contextlib
import functools
import time
import warnings
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import hypothesis
from hypothesis.errors import (
    HypothesisDeprecationWarning,
    Unsatisfiable,
    UnsatisfiedAssumption,
)

from scutch.inputs.descriptions import Builder, build
from scutch.judging.profiles import Profile, law_settings
from scutch.judging.verdicts import Counterexample
from scutch.lawkit import marks as laws

Law = Callable[..., Any]


@dataclass
class Attempt:
    """What has happened so far in the attempt to break one law.

    Args:
      test: The name of the law, as in `calls.parse_call`.
      world: What inputs are built in.
      fixtures: Arguments of the law that are not drawn.
      journal: Told of each call before it is made, so that a crash leaves a trace.
    """

    test: str
    world: Builder
    fixtures: Mapping[str, Any]
    journal: Callable[[str], None] = lambda call: None
    examples: int = 0
    reached: set[str] = field(default_factory=set)
    counterexample: Counterexample | None = None
    broke: bool = False
    seconds: float = 0.0

    def search(self, law: Law) -> None:
        """Try the law on all that Hypothesis draws; raises what breaks it."""
        instrument(law)
        with self._current():
            if is_property(law):
                with contextlib.suppress(Unsatisfiable):  # `examples` tells that none was in domain
                    law(**self.fixtures)
            else:
                self.call(law, {})

    def replay(self, law: Law, inputs: Mapping[str, Any], *, expected: bool = False) -> None:
        """Try the law on one input; raises what breaks it.

        Args:
          law: The law.
          inputs: Descriptions of its inputs.
          expected: Whether it is known to break the law; then `broke` tells that it did.
        """
        with self._current(), warnings.catch_warnings():
            # Laws say `assume`, which Hypothesis thinks is for its own calls alone.
            warnings.simplefilter("ignore", HypothesisDeprecationWarning)
            try:
                self.call(original(law), inputs)
            except Exception:
                self.broke = expected
                raise
            if expected:
                self.examples = 0

    def call(self, function: Law, inputs: Mapping[str, Any]) -> None:
        """Build the inputs, call the law, and keep account."""
        __tracebackhide__ = True
        arguments = ", ".join(f"{name}={value!r}" for name, value in inputs.items())
        text = f"{self.test}({arguments})"
        self.journal(text)
        try:
            function(**self.fixtures, **{n: build(v, self.world) for n, v in inputs.items()})
        except UnsatisfiedAssumption:
            raise
        except Exception as error:
            self.counterexample = Counterexample(self.test, text, describe(error))
            raise
        if self.counterexample is None:
            self.examples += 1

    def _current(self) -> "_Current":
        return _Current(self)


class _Current:
    """Makes an attempt the current one, and takes its time."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt

    def __enter__(self) -> None:
        self.started = time.perf_counter()
        self.tokens = _attempt.set(self.attempt), laws._reached.set(self.attempt.reached)

    def __exit__(self, *exception: object) -> None:
        _attempt.reset(self.tokens[0])
        laws._reached.reset(self.tokens[1])
        self.attempt.seconds += time.perf_counter() - self.started


_attempt: ContextVar[Attempt | None] = ContextVar("_attempt", default=None)


def describe(error: BaseException) -> str:
    """An error as its type and message."""
    message = str(error).strip()
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def is_property(law: Law) -> bool:
    """Whether Hypothesis draws inputs for the law."""
    return hasattr(law, "hypothesis")


def original(law: Law) -> Law:
    """The function as it was written."""
    inner = law.hypothesis.inner_test if is_property(law) else law  # type: ignore[attr-defined]
    return getattr(inner, "scutch_original", inner)


def instrument(law: Law) -> None:
    """Let every call that Hypothesis makes of the law go through the current attempt."""
    function = original(law)
    if not is_property(law) or hasattr(law.hypothesis.inner_test, "scutch_original"):  # type: ignore[attr-defined]
        return

    @functools.wraps(function)
    def tried(**arguments: Any) -> None:
        __tracebackhide__ = True
        attempt = _attempt.get()
        if attempt is None:
            raise RuntimeError(f"{function.__name__} was called outside an attempt")
        attempt.call(function, {n: v for n, v in arguments.items() if n not in attempt.fixtures})

    tried.scutch_original = function  # type: ignore[attr-defined]
    law.hypothesis.inner_test = tried  # type: ignore[attr-defined]


def prepare(law: Law, profile: Profile, seed: int) -> None:
    """Give a property the profile's settings and the run's seed."""
    if is_property(law):
        share = getattr(law, "scutch_share", 1.0)
        law._hypothesis_internal_use_settings = law_settings(profile, share=share)  # type: ignore[attr-defined]
        hypothesis.seed(seed)(law)
