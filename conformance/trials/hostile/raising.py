"""Exceptions that an implementation may raise so as not to be judged: each breaks the law."""

import asyncio
import builtins
import threading
import unittest
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import FunctionType
from typing import Any, NoReturn

import hypothesis
import pytest
from hypothesis import errors
from scutch.inputs import backends
from scutch.judging import leaving
from scutch.judging.exchange import JobBroken
from scutch.lawkit import domain
from scutch.namespaces import Namespace, Unclaimed
from scutch_reference import meta


class Odd(BaseException):
    pass


class Disguised(Exception):
    """Says that it is `NotAvailable`, which lets the judge skip a law."""

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
    """Raise a new exception of the type that the judge's `assume` raises."""
    try:
        domain.assume(False)
    except BaseException as error:
        raise type(error)() from None


def _planted(source: str, module: Any) -> Callable[[], Any]:
    """A function that is compiled as if it stood in a module of the judge."""
    found: dict[str, Any] = {}
    exec(compile(f"def act():\n    {source}", module.__file__, "exec"), vars(module), found)
    return found["act"]  # type: ignore[no-any-return]


def _borrowed(function: Any, **names: Any) -> Callable[..., Any]:
    """The code of a function of the judge, which sees other globals."""
    return FunctionType(function.__code__, names | {"__builtins__": builtins})


def _by_future() -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(domain.assume, False).result()


def _by_generator() -> None:
    suspended = leaving.steps(ValueError())
    suspended.throw(domain.OutOfDomain())  # type: ignore[attr-defined]


def _by_traceback() -> None:
    """Raise with the traceback of an exception that the judge raised."""
    try:
        domain.assume(False)
    except BaseException as error:
        found = error.__traceback__
        assert found is not None
        raise domain.OutOfDomain().with_traceback(found.tb_next) from None


def _in_thread() -> None:
    kept: list[BaseException] = []

    def act() -> None:
        try:
            domain.assume(False)
        except BaseException as error:
            kept.append(error)

    thread = threading.Thread(target=act)
    thread.start()
    thread.join()
    raise kept[0]


def _standing(**attributes: Any) -> type:
    """A box class of which these stand in the place of methods, so that a law calls them itself."""
    return type("Partitioned", (meta.Partitioned,), {"__bool__": lambda _: False} | attributes)


def _ended() -> Generator[None]:
    yield from ()


CLASSES = {
    "assume": _standing(remove_axis=property(domain.assume)),
    "not_available": _standing(remove_axis=property(domain.not_available)),
    "import_or_leave": _standing(remove_axis=property(partial(domain.import_or_leave, "no_such"))),
    "need_devices": _standing(remove_axis=property(domain.need_devices), __gt__=lambda *_: True),
    "a helper of laws": _standing(remove_axis=property(partial(backends.on_any, name="none"))),
    "an ended generator": _standing(
        remove_axis=property(partial(_ended().throw, domain.OutOfDomain()))
    ),
    "a name of its own namespace": _standing(
        remove_axis=property(partial(Namespace.__getattr__, name="Partitioned")),
        _title="mine",
        _modules=(),
        claimed=lambda *_: frozenset(),
    ),
}
"""Box classes, each of which has a function of the judge where a law expects a method."""


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
    "in the judge's module": _planted("assume(False)", backends),
    "in the judge's code": partial(
        _borrowed(backends.on_any, assume=domain.assume, claimed=lambda _: ()), None, "none"
    ),
    "judge's, by a future": _by_future,
    "judge's, by a generator": _by_generator,
    "judge's traceback": _by_traceback,
    "judge's, of a thread": _in_thread,
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
