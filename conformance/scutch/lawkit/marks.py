"""How a law says what it is about.

A law is a Hypothesis property that carries the mark `requirement`. Where only some inputs make
it meaningful, it names those *cases*, and says `case(...)` when one comes up: a run in which one
never did leaves the requirement untested, not passed.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., object])

_cases: ContextVar[set[str] | None] = ContextVar("_cases", default=None)


def requirement(identifier: str, *, cases: tuple[str, ...] = ()) -> Callable[[Test], Test]:
    """Mark a law with the requirement that it tries.

    Args:
      identifier: Of the catalogue, such as `"BOX-5"`.
      cases: What must come up at least once for the law to have been tried.
    """
    return pytest.mark.requirement(identifier, cases=cases)


def costly(test: Test) -> Test:
    """Mark a law whose every input is compiled: it gets a third of a profile's inputs."""
    test.scutch_share = 1 / 3  # type: ignore[attr-defined]
    return test


def dear(test: Test) -> Test:
    """Mark a law whose every input is compiled several times: it gets a sixth of the inputs."""
    test.scutch_share = 1 / 6  # type: ignore[attr-defined]
    return test


def case(name: str) -> None:
    """Say that an input came up without which the law would mean less."""
    seen = _cases.get()
    if seen is not None:
        seen.add(name)


def raised(call: Callable[[], object]) -> Exception | None:
    """What a call raises; `None` when it returns."""
    try:
        call()
    except Exception as error:
        return error
    return None


def refused(call: Callable[[], object], *, naming: tuple[object, ...] = ()) -> Exception:
    """The error that a call raises, which must mention everything in `naming`."""
    error = raised(call)
    if error is None:
        raise AssertionError("it was accepted; expected an error")
    missing = [str(word) for word in naming if str(word) not in str(error)]
    if missing:
        raise AssertionError(f"the error does not mention {missing}: {error!r}") from error
    return error


def is_partitioning_error(error: Exception) -> bool:
    """Whether an error is the standard's `PartitioningUnspecifiedError`, whoever defines it."""
    return any(c.__name__ == "PartitioningUnspecifiedError" for c in type(error).__mro__)
