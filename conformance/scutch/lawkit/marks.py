"""Marks that tell which requirement a law tries, and with how many inputs.

A law is a Hypothesis property that carries the mark `requirement`. Where it means something only
on some of the inputs that it draws, the mark lists names for them: `must_reach=("cycle", "deep")`.
A name is reached when the law was tried on

- an input that is this word, or a sequence with this word in it;
- an input of this name that is true (`not deep`: one that is false);
- an input on which the law itself called `reached("cycle")`.

A run in which a listed name was never reached leaves the requirement untested, not passed.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Test = TypeVar("Test", bound=Callable[..., object])

_reached: ContextVar[set[str] | None] = ContextVar("_reached", default=None)


def _noting(**notes: object) -> Callable[[Test], Test]:
    """A decorator that leaves notes on a law, as attributes of these names."""

    def mark(test: Test) -> Test:
        for name, value in notes.items():
            setattr(test, name, value)
        return test

    return mark


def requirement(identifier: str, *, must_reach: tuple[str, ...] = ()) -> Callable[[Test], Test]:
    """Mark a law with the requirement that it tries.

    Args:
      identifier: The requirement's id in the catalogue, such as `"BOX-5"`.
      must_reach: Names of inputs; the requirement counts as tried when each of them was reached at
        least once.

    Returns:
      A decorator. It leaves an attribute: a mark of pytest's would be refused in a project with
      `--strict-markers` that tries laws by `judge_box`, without the plugin that registers it.
    """
    return _noting(scutch_requirement=(identifier, must_reach))


def costly(test: Test) -> Test:
    """Mark a law whose every input is compiled: it gets a third of a profile's inputs."""
    return _noting(scutch_share=1 / 3)(test)


def dear(test: Test) -> Test:
    """Mark a law whose every input is compiled several times: it gets a sixth of the inputs."""
    return _noting(scutch_share=1 / 6)(test)


def at_least(inputs: int) -> Callable[[Test], Test]:
    """Mark a law that gets so many inputs at least by the default profile.

    A law needs the mark if it does not convict its liars on the inputs that it would get otherwise,
    or if it chooses among many modes, options and functions at once.

    Args:
      inputs: Above 6, which every law gets.
    """
    return _noting(scutch_least=inputs)


def few(reason: str) -> Callable[[Test], Test]:
    """Mark a law for which there are fewer than 20 different inputs.

    Args:
      reason: Why there are no more inputs, or which law draws more of them.
    """
    return _noting(scutch_few=reason)


def options(*names: str) -> Callable[[Test], Test]:
    """Mark a law that needs options which older releases of an implementation do not have.

    Args:
      names: Names in `implementation.OPTIONS`, such as `nnx.Variable.out_sharding`. Where one of
        them is not claimed, the law is not tried.
    """
    return _noting(scutch_options=names)


def across_processes(test: Test) -> Test:
    """Mark a law that is tried in a job of several processes.

    Each input is compiled in every process, so the law gets a twelfth of a profile's inputs.
    """
    return _noting(scutch_in_job=True, scutch_share=1 / 12)(test)


def reached(*names: str) -> None:
    """Note that the law is being tried on inputs that its mark lists in `must_reach`."""
    seen = _reached.get()
    if seen is not None:
        seen.update(names)


def reached_by(inputs: Mapping[str, object]) -> None:
    """Note what drawn inputs reach by themselves: words, sequences of words, and flags.

    Args:
      inputs: By the names of the parameters of the law.
    """
    flags = [n if v else f"not {n}" for n, v in inputs.items() if isinstance(v, bool)]
    several = [v if isinstance(v, tuple | list | frozenset) else (v,) for v in inputs.values()]
    reached(*flags, *[word for words in several for word in words if isinstance(word, str)])


@contextmanager
def noting_reached() -> Iterator[set[str]]:
    """The names that laws call `reached` with, inside the `with` block."""
    names: set[str] = set()
    token = _reached.set(names)
    try:
        yield names
    finally:
        _reached.reset(token)


def raised(call: Callable[[], object]) -> Exception | None:
    """The exception that a call raises, or `None` when the call returns."""
    try:
        call()
    except Exception as error:
        return error
    return None


def refused(call: Callable[[], object], *, naming: tuple[object, ...] = ()) -> Exception:
    """Make a call that must raise an error, and return the error.

    Args:
      call: The call.
      naming: Words, numbers or other values; the message must contain the `str` of each.

    Returns:
      The error.

    Raises:
      AssertionError: The call returned, or the message lacks something in `naming`.
    """
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
