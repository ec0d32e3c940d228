"""Hypothesis, as far as the judge reaches past its public interface.

A law is a function under `@given`. The judge runs it with settings and a seed of its own, and puts
its own call in the place of the function: so one input can be noted, built for the implementation
and counted. All that this takes of Hypothesis stands in this module, and so do the exceptions by
which an implementation could tell pytest or Hypothesis not to judge it. The trials in
`conformance/trials/test_trying.py` fail when any of it moves.

    calls = []
    search(law.function, calls.append, fixtures={"meta": meta}, examples=100, seed=0)
"""

import contextlib
import functools
import linecache
import tempfile
import unittest
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, configuration, settings
from hypothesis.errors import Flaky, HypothesisException, Unsatisfiable
from hypothesis.internal.conjecture.engine import ConjectureRunner

from scutch.judging.leaving import LEAVING, steps
from scutch.judging.profiles import DEFAULT, PROFILES
from scutch.judging.readable import inert, shortened, visible
from scutch.lawkit.domain import OutOfDomain

BARE = ("", "assert False", "assert not True", "assert None")
"""Messages of an assertion that do not show the value it tested."""


LEAST = 6
"""Inputs that a law gets at least, where a run has so many."""


def law_settings(
    examples: int, *, share: float = 1.0, least: int = LEAST, shrink: bool = True
) -> settings:
    """Hypothesis settings for one law.

    Nothing is kept between runs: a failure is replayed from its own text, and past ones are
    explicit examples. Time limits are the runner's, which can end a hang.

    Args:
      examples: Inputs for a law of ordinary cost, at least 1.
      share: The part of them that this law gets, in (0, 1].
      least: How many it gets at least by the default profile, which may be more than its share and
        than `examples`; in a run of fewer inputs than that profile has, as much less.
      shrink: Whether a broken law is broken again by smaller inputs, for every way in which it was.

    Returns:
      The settings, for `_hypothesis_internal_use_settings`.
    """
    part = min(1, examples / PROFILES[DEFAULT].examples)
    fewest = max(min(examples, LEAST), round(least * part))
    return settings(
        max_examples=max(fewest, round(examples * share)),
        phases=(Phase.explicit, Phase.generate, *((Phase.shrink,) if shrink else ())),
        deadline=None,
        database=None,
        print_blob=False,
        report_multiple_bugs=shrink,
        suppress_health_check=list(HealthCheck),
    )


def written(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function below `@given`, as its author wrote it; `function` itself without one."""
    if not hypothesis.is_hypothesis_test(function):
        return function
    return function.hypothesis.inner_test  # type: ignore[attr-defined, no-any-return]


def search(
    function: Callable[..., Any],
    call: Callable[[Mapping[str, Any]], None],
    *,
    fixtures: Mapping[str, Any],
    examples: int,
    seed: int,
    shrink: bool = True,
    enough: Callable[[], bool] = lambda: False,
) -> None:
    """Draw inputs for a law as its `@given` says, and hand each set of them to `call`.

    A law without `@given` has one set of inputs, the empty one. A law that has no input in its
    domain ends without an error; whoever counts calls knows.

    Args:
      function: The law.
      call: Takes inputs by name. `OutOfDomain` rejects an input, all else that it raises breaks
        the law. Of the calls that broke it in one way, the last is the one on the smallest input.
      fixtures: The arguments of the law that are not drawn.
      examples: As in `law_settings`.
      seed: Of the search.
      shrink: As in `law_settings`.
      enough: Asked before each input is handed on; once it says so, no further one is.

    Raises:
      BaseException: The exception of the last call of `call`.
    """
    if not hypothesis.is_hypothesis_test(function):
        try:
            return call({})
        except OutOfDomain:
            return None
    law: Any = function
    inner = law.hypothesis.inner_test
    share = getattr(law, "scutch_share", 1.0)
    least = getattr(law, "scutch_least", LEAST)
    law._hypothesis_internal_use_settings = law_settings(
        examples, share=share, least=least, shrink=shrink
    )
    hypothesis.seed(seed)(law)

    @functools.wraps(inner)
    def drawn(**arguments: Any) -> None:
        __tracebackhide__ = True
        if enough():
            return
        try:
            call({name: value for name, value in arguments.items() if name not in fixtures})
        except OutOfDomain:
            hypothesis.reject()

    law.hypothesis.inner_test = drawn
    try:
        with each_drawn_anew():
            law(**fixtures)
    except Unsatisfiable:
        return None
    finally:
        law.hypothesis.inner_test = inner


@contextlib.contextmanager
def each_drawn_anew() -> Iterator[None]:
    """Have Hypothesis draw every input from the strategies, and none by changing another one.

    After its first ten inputs it follows each that it has drawn by up to five copies of it, in
    which one part has the value of another part. So 60 inputs would be 18 and their variants: of
    five transformations, some would come up twice, and one thirty times. Strategies from which
    equal parts must come draw from few values.
    """
    changing = ConjectureRunner.generate_mutations_from
    ConjectureRunner.generate_mutations_from = lambda self, data: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        ConjectureRunner.generate_mutations_from = changing  # type: ignore[method-assign]


@contextlib.contextmanager
def leaving_no_folder() -> Iterator[None]:
    """Hypothesis keeps its notes in a temporary folder, unless its own is in the current one."""
    if Path(".hypothesis").exists():
        yield
        return
    with tempfile.TemporaryDirectory(prefix="scutch-", ignore_cleanup_errors=True) as folder:
        configuration.set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            configuration.set_hypothesis_home_dir(None)


class Diverted(AssertionError):
    """The implementation raised an exception that pytest, Hypothesis or Python obey as an order.

    Wrong, in an implementation: the law would count as skipped, or the input as out of its domain.

        def remove_axis(self, index, params):
            pytest.skip("not supported")

    Right:

        def remove_axis(self, index, params):
            raise NotImplementedError("removing an axis")

    Attributes:
      raised: The exception.
    """

    def __init__(self, raised: BaseException) -> None:
        """Keep the exception, and put it into the message."""
        self.raised = raised
        super().__init__(
            f"the implementation raised {describe(raised)}, by which it would not have been "
            "judged; expected a result, or an error"
        )


def is_order(error: BaseException) -> bool:
    """Whether pytest, unittest, Hypothesis or Python would not take an exception for a failure."""
    kind = type(error)  # an error may lie about its `__class__`
    if issubclass(kind, pytest.fail.Exception):
        return issubclass(kind, pytest.xfail.Exception)
    orders = (HypothesisException, unittest.SkipTest, pytest.exit.Exception, *LEAVING)
    return issubclass(kind, orders) or not issubclass(kind, Exception)


def from_law_on(error: BaseException, function: Callable[..., Any]) -> BaseException:
    """An error with the part of its traceback that begins in the law, if there is one.

    Args:
      error: The exception that broke the law, or kept it from being tried.
      function: The law.
    """
    code = written(function).__code__
    rest = next((step for step in steps(error) if step.tb_frame.f_code is code), None)
    return error if rest is None else BaseException.with_traceback(error, rest)


def _places(error: BaseException) -> list[tuple[str, int]]:
    """The file and line of each call that an error went through, the outermost first."""
    return [(step.tb_frame.f_code.co_filename, step.tb_lineno) for step in steps(error)]


def is_flaky(error: BaseException | None) -> bool:
    """Whether Hypothesis says that a law broke on an input, and then did not break on it again."""
    return isinstance(error, Flaky)


def innermost(error: BaseException) -> tuple[str, int] | None:
    """The file and line that raised an error."""
    return next(reversed(_places(error)), None)


def broken_at(error: BaseException, function: Callable[..., Any]) -> int | None:
    """The line of a law that was running when it broke.

    Args:
      error: The exception that broke the law.
      function: The law, as it was written.
    """
    code = function.__code__
    lines = [step.tb_lineno for step in steps(error) if step.tb_frame.f_code is code]
    return lines[-1] if lines else None


def told(error: BaseException, function: Callable[..., Any]) -> str:
    """The text of `describe`; with the statement of the law, if that statement itself raised.

    So a failure never reads `assert False` or `IndexError` and no more.

    Args:
      error: The exception that broke the law.
      function: The law, as it was written.
    """
    text, place = describe(error), innermost(error)
    statement = linecache.getline(*place).strip() if place else ""
    if place is None or place[0] != function.__code__.co_filename or statement.startswith("raise"):
        return text
    first, newline, rest = text.partition("\n")
    if type(error) is not AssertionError:
        return f"{first}, at `{statement}`{newline}{rest}"
    bare = first.removeprefix("AssertionError").removeprefix(": ")
    return f"AssertionError: {statement}{newline}{rest}" if bare in BARE else text


def describe(error: BaseException) -> str:
    """An error as its type and message: made visible, and shortened.

    Args:
      error: Of any class; its methods may be the implementation's, and are not trusted.
    """
    name = _plain(type.__dict__["__name__"].__get__(type(error)))
    try:
        message = _plain(str(error)).strip()
    except BaseException as broken:
        message = f"(no message: str() raised {_plain(type(broken).__name__)})"
    text = f"{name}: {message}" if message else name
    return inert(shortened(text))


def _plain(text: str) -> str:
    """A text with its invisible characters escaped; its class may be a subclass of `str`."""
    return visible(str.__str__(text))
