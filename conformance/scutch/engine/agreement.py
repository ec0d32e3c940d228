"""Compare the outcomes of two calls, for laws whose oracle is plain JAX.

A law calls JAX's own transformation and the lifted one with equal arguments, and keeps an
`Outcome` of both: the error or the results, the buffers that were given up, and how often the
Python function ran. `difference` says in words where two outcomes disagree:

    theirs = attempted(lambda: [jax.jit(f)(x)], watched=[x])
    ours = attempted(lambda: [transforms.jit(f)(x)], watched=[x])
    assert not difference(ours, theirs)

Where both routes are functions that a law would compile, it compares their traces first. Two traces
of the same program agree, and are neither compiled nor run, but for a sample:

    compare_routes(lifted, plain, (x,), assert_close)
"""

import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from scutch.engine.traces import Trace, form, traced
from scutch.lawkit.domain import JudgeAtFault
from scutch.lawkit.equality import alike

RUN_OF_EQUAL = 1 / 8
"""The share of inputs with equal traces on which both are run all the same, to try the judge."""


@dataclass
class Comparisons:
    """How the traces of two routes are compared in one trial, and how often they were equal.

    Args:
      by_traces: Whether routes with equal traces agree without being run.
      draws: Draws the sample of equal traces that is run all the same.
      equal: How often two traces were equal.
      sampled: How often two equal traces were run.
      different: How often two traces were not equal, or not compared, and so were run.
    """

    by_traces: bool = True
    draws: random.Random = field(default_factory=lambda: random.Random(0))
    equal: int = 0
    sampled: int = 0
    different: int = 0


_comparisons: ContextVar[Comparisons | None] = ContextVar("_comparisons", default=None)


@contextmanager
def comparing(*, by_traces: bool, seed: int) -> Iterator[Comparisons]:
    """Say how `compare_traces` compares inside the `with` block.

    Args:
      by_traces: Whether routes with equal traces agree without being run.
      seed: Seeds the choice of the equal traces that are run all the same.

    Yields:
      The counts of the comparisons that are made inside.
    """
    made = Comparisons(by_traces, random.Random(seed))
    token = _comparisons.set(made)
    try:
        yield made
    finally:
        _comparisons.reset(token)


def compare_routes(
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    arguments: tuple[Any, ...],
    check: Callable[[Any, Any], None],
) -> None:
    """Trace two routes, and fail unless they agree; see `compare_traces`.

    Args:
      ours: The route through the implementation, a function that the law would compile.
      theirs: The other route, a function of the same arguments.
      arguments: Trees of arrays.
      check: Takes the results of both; raises an `AssertionError` where they do not agree.

    Raises:
      AssertionError: The routes do not agree.
      JudgeAtFault: Their traces are equal, and `check` raised an `AssertionError`.
      Exception: A route raised this exception while it was traced.
    """
    compare_traces(traced(ours, *arguments), traced(theirs, *arguments), arguments, check)


def compare_traces(
    ours: Trace, theirs: Trace, arguments: tuple[Any, ...], check: Callable[[Any, Any], None]
) -> None:
    """Fail unless two traced routes agree.

    Routes with equal traces agree, and only a sample of them is run. Routes with other traces are
    compiled and run, and `check` compares their results.

    Args:
      ours: The route through the implementation.
      theirs: The other route.
      arguments: The arguments with which both routes were traced.
      check: Takes the results of both; raises an `AssertionError` where they do not agree.

    Raises:
      AssertionError: The traces are unlike, and `check` raised it.
      JudgeAtFault: The traces are equal, and `check` raised an `AssertionError`.
    """
    made = _comparisons.get() or Comparisons()
    equal = (
        made.by_traces and alike(ours.structure, theirs.structure) and form(ours) == form(theirs)
    )
    made.equal += equal
    made.different += not equal
    if equal and made.draws.random() >= RUN_OF_EQUAL:
        return
    made.sampled += equal
    results = jax.jit(lambda *given: (ours.run(*given), theirs.run(*given)))(*arguments)
    try:
        check(*results)
    except AssertionError as error:
        if equal:
            raise JudgeAtFault(f"two traces with equal forms: {error}") from error
        raise


@dataclass(frozen=True)
class Outcome:
    """The results or the error of a call, and its effects on buffers and traces.

    Args:
      results: The value that the call returned; `None` if it raised.
      error: The exception that the call raised; `None` if it returned.
      deleted: Whether each watched array is deleted afterwards.
      traces: How often the Python function ran.
    """

    results: Any
    error: Exception | None
    deleted: tuple[bool, ...] = ()
    traces: int = 0


def attempted(
    call: Callable[[], Any], *, watched: Any = (), traces: list[Any] | None = None
) -> Outcome:
    """Make a call and return its outcome.

    Args:
      call: Makes the call; its return value is kept as the results.
      watched: A tree; of each `jax.Array` in it the outcome says whether it is deleted.
      traces: A list to which the Python function appends once each time that it runs.

    Returns:
      The outcome, after JAX has computed the results. `traces` is 0 where no list was given.
    """
    error, results = None, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of donated buffers that it cannot use
        try:
            results = call()
            jax.block_until_ready(results)  # type: ignore[no-untyped-call]
        except Exception as raised:
            error = raised
    arrays = [leaf for leaf in jax.tree.leaves(watched) if isinstance(leaf, jax.Array)]
    deleted = tuple(array.is_deleted() for array in arrays)
    return Outcome(results, error, deleted, 0 if traces is None else len(traces))


def difference(
    ours: Outcome, theirs: Outcome, *, shardings: bool = True, traces: bool = False
) -> str:
    """A sentence about the first difference between the outcomes of two calls; empty if they agree.

    Two refusals agree, whatever they say and however often the function ran before.

    Args:
      ours: The outcome of the lifted call.
      theirs: The outcome of JAX's own call.
      shardings: Whether results must lie where JAX's lie.
      traces: Whether the Python function must run as often as with JAX.

    Returns:
      One sentence about the first difference, with both sides; `''` if there is none.
    """
    if ours.error is not None and theirs.error is not None:
        return ""
    if theirs.error is not None:
        return f"it returned {ours.results!r}; JAX refuses: {short(theirs.error)}"
    if ours.error is not None:
        return f"it raised {short(ours.error)}; JAX returns {theirs.results!r}"
    if not alike(ours.deleted, theirs.deleted):
        return f"deleted buffers: {ours.deleted}; with JAX {theirs.deleted}"
    if traces and ours.traces != theirs.traces:
        return f"the function was traced {ours.traces} times; with JAX {theirs.traces} times"
    return trees_differ(ours.results, theirs.results, shardings=shardings)


def trees_differ(ours: Any, theirs: Any, *, shardings: bool = True) -> str:
    """Where two trees of arrays differ, in words; empty if nowhere.

    Their structures are compared, then leaf by leaf shapes, dtypes, contents and weak types, and
    where both leaves are JAX's, whether they lie alike.

    Args:
      ours: The tree that the lifted call returned.
      theirs: The tree that JAX's own call returned.
      shardings: Whether shardings, and whether arrays are committed to them, are compared.

    Returns:
      A sentence with both structures, or with the path of the first leaf that differs and both of
      its values, shardings or commitments; `''` if the trees agree.
    """
    one: Any = jax.tree.structure(ours)
    other: Any = jax.tree.structure(theirs)
    if not alike(one, other):
        return f"the structure is {one}; with JAX {other}"
    pairs = zip(jax.tree_util.tree_leaves_with_path(ours), jax.tree.leaves(theirs), strict=True)
    for (path, mine), its in pairs:
        where = f"result{jax.tree_util.keystr(path)}"
        if not _alike_arrays(mine, its):
            return f"{where} is {mine!r}; with JAX {its!r}"
        if shardings and all(isinstance(each, jax.Array) for each in (mine, its)):
            if not mine.sharding.is_equivalent_to(its.sharding, mine.ndim):
                return f"{where} lies as {mine.sharding}; with JAX as {its.sharding}"
            if not alike(mine.committed, its.committed):
                return f"{where} is committed: {mine.committed}; with JAX {its.committed}"
    return ""


def _alike_arrays(mine: Any, its: Any) -> bool:
    """Whether two leaves are the same: shape, dtype, weak type, contents.

    JAX wraps literals (`TypedNdArray`, `TypedFloat`), and no caller can rely on the wrapper. A leaf
    that is no `jax.Array` is therefore compared by shape, dtype and contents.
    """
    if isinstance(mine, jax.ShapeDtypeStruct) or isinstance(its, jax.ShapeDtypeStruct):
        return alike(mine, its)
    if isinstance(mine, jax.Array) and isinstance(its, jax.Array):
        return alike((mine.weak_type, mine), (its.weak_type, its))
    return alike(np.asarray(mine), np.asarray(its))


def short(error: Exception) -> str:
    """An error as its type and the beginning of its message.

    Args:
      error: Any exception.
    """
    return f"{type(error).__name__}: {str(error)[:300]}"
