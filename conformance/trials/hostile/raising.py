"""What an implementation may raise so as not to be judged: each of these breaks the law."""

import asyncio
import unittest
from collections.abc import Callable
from typing import Any, NoReturn

import hypothesis
import pytest
from hypothesis import errors
from scutch.implementation import Unclaimed
from scutch.judging.exchange import JobBroken
from scutch.lawkit import domain


class Odd(BaseException):
    pass


class Disguised(Exception):
    """Says that it is what a law is left by."""

    __class__ = domain.NotAvailable  # type: ignore[assignment]
    reason = "not here"


class Disordered(BaseException):
    """Says that it is an ordinary error, and is none."""

    __class__ = ValueError  # type: ignore[assignment]


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit(0)


class Boundless(Exception):
    def __str__(self) -> str:
        return "x" * 10_000_000


class Lying(str):
    def strip(self, *_: Any) -> Any:
        return 3

    def __str__(self) -> str:
        raise SystemExit(0)


class Wordy(Exception):
    def __str__(self) -> str:
        return Lying("lies")


class Unhashable(type):
    def __hash__(cls) -> int:
        raise SystemExit(0)

    def __eq__(cls, other: object) -> bool:
        return True

    @property
    def __name__(cls) -> Any:  # type: ignore[override]
        return None


class Nameless(Exception, metaclass=Unhashable):
    pass


class Equal(Exception):
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


class Traceless(Exception):
    @property
    def __traceback__(self) -> Any:  # type: ignore[override]
        raise SystemExit(0)

    @property
    def __context__(self) -> Any:  # type: ignore[override]
        raise SystemExit(0)


def _raise(error: BaseException) -> NoReturn:
    raise error


def _deep() -> Any:
    return _deep()


def _raised_elsewhere() -> None:
    """Raise again what the judge's own function raised."""
    try:
        domain.assume(False)
    except BaseException as error:
        raise type(error)() from None


ACTS: dict[str, Callable[[], Any]] = {
    "skip": lambda: pytest.skip("not here"),
    "importorskip": lambda: pytest.importorskip("no_such_module"),
    "xfail": lambda: pytest.xfail("as ever"),
    "fail": lambda: pytest.fail("so be it"),
    "exit": lambda: pytest.exit("enough", returncode=0),
    "SkipTest": lambda: _raise(unittest.SkipTest("not here")),
    "reject": hypothesis.reject,
    "assume": lambda: hypothesis.assume(False),
    "Unsatisfiable": lambda: _raise(errors.Unsatisfiable("none")),
    "UnsatisfiedAssumption": lambda: _raise(errors.UnsatisfiedAssumption()),
    "Flaky": lambda: _raise(errors.FlakyFailure("flaky", [ValueError("one")])),
    "InvalidArgument": lambda: _raise(errors.InvalidArgument("bad strategy")),
    "Frozen": lambda: _raise(errors.Frozen()),
    "DeadlineExceeded": lambda: _raise(errors.FailedHealthCheck("slow")),
    "SystemExit": lambda: _raise(SystemExit(0)),
    "SystemExit with words": lambda: _raise(SystemExit("done")),
    "GeneratorExit": lambda: _raise(GeneratorExit()),
    "CancelledError": lambda: _raise(asyncio.CancelledError()),
    "KeyboardInterrupt": lambda: _raise(KeyboardInterrupt()),
    "StopIteration": lambda: _raise(StopIteration()),
    "StopAsyncIteration": lambda: _raise(StopAsyncIteration()),
    "MemoryError": lambda: _raise(MemoryError()),
    "RecursionError": _deep,
    "BaseException": lambda: _raise(Odd("odd")),
    "BaseExceptionGroup": lambda: _raise(BaseExceptionGroup("some", [SystemExit(0)])),
    "group of skips": lambda: _raise(ExceptionGroup("some", [unittest.SkipTest("not here")])),
    "warning": lambda: _raise(DeprecationWarning("old")),
    "judge's not_available": lambda: domain.not_available("not here"),
    "judge's assume": lambda: domain.assume(False),
    "judge's need_devices": lambda: domain.need_devices(1000),
    "judge's import_or_leave": lambda: domain.import_or_leave("no_such_module", "not here"),
    "judge's OutOfDomain": lambda: _raise(domain.OutOfDomain()),
    "judge's Untried": lambda: _raise(domain.Untried("not started")),
    "judge's Unclaimed": lambda: _raise(Unclaimed("meta.remove_axis")),
    "judge's JobBroken": lambda: _raise(JobBroken(1, 1.0, None)),
    "judge's, raised again": _raised_elsewhere,
    "disguised as NotAvailable": lambda: _raise(Disguised("not here")),
    "disguised as an error": lambda: _raise(Disordered("odd")),
    "mute": lambda: _raise(Mute()),
    "ten million characters": lambda: _raise(Boundless()),
    "words that lie": lambda: _raise(Wordy()),
    "class without name or hash": lambda: _raise(Nameless("odd")),
    "equal to all": lambda: _raise(Equal("odd")),
    "without a traceback": lambda: _raise(Traceless("odd")),
    "escapes and half characters": lambda: _raise(ValueError("\x1b[2J\ud800\r\x00")),
}
