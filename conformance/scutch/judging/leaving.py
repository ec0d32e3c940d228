"""Whether the judge itself has left a law, or an implementation pretends that it did.

A law is left by an exception: its input is out of its domain, the machine lacks a feature that it
needs, or it touches a name that is not claimed. An implementation that could raise such an
exception, or have the judge's own functions raise it, would escape judgment. So this module looks
at the calls in the exception's traceback, from the law to the `raise`:

    law  ── calls `_ruled(...)` ──>  _ruled  ── calls `assume(...)` ──>  assume  ── raise

Three things must hold. Each call runs code that the judge's module had when it was imported. Each
call names the next one in its source, at that place. And the last call ends in a `raise` statement.
So an exception that came through an implementation leaves no law. Nor does an exception from a
function of the judge that an implementation offers as a method, such as
`remove_axis = partial(assume, False)`: the law calls it `remove_axis`.

An implementation may say which names it claims. So an unclaimed name of its namespaces leaves a law
also where the implementation calls a function of the law, and that function touches the name. The
same holds for an option that a function of its namespaces lacks.
"""

import ast
import dis
import functools
import sys
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from types import CodeType, FunctionType, TracebackType
from typing import Any

import scutch
from scutch.implementation import Implementation
from scutch.lawkit.domain import NotAvailable, OutOfDomain
from scutch.namespaces import Lacking, Namespace, Unclaimed

LEAVING = (OutOfDomain, NotAvailable, Unclaimed)
"""The exceptions that leave a law."""

_RAISE = dis.opmap["RAISE_VARARGS"]
_ASKING = (Namespace.__getattr__.__code__, Implementation.need.__code__)
"""The functions that raise `Unclaimed` for a name."""
_PASSING = (Lacking.__call__.__code__, Lacking.__getattr__.__code__)
"""The functions that have a namespace raise `UnclaimedOption`."""

_SEEN: dict[int, tuple[dict[str, Any], dict[int, CodeType]]] = {}
"""By the identity of its namespace, each module of the judge, and its code by identity."""


def remember(law: Any = None) -> None:
    """Note the code of the judge's modules that are imported; that of each module once.

    A run calls it when the laws are collected, which is before the implementation is imported.

    Args:
      law: A law that is about to be tried, in a module of any package.
    """
    spaces = [
        vars(module)
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == scutch.__name__
    ]
    for space in [*spaces, *([law.__globals__] if law is not None else [])]:
        if id(space) not in _SEEN:
            codes = _codes(space.values(), space["__name__"])
            _SEEN[id(space)] = space, {id(c): c for code in codes for c in _nested(code)}


def is_left(error: BaseException, since: CodeType, law: Any, claimed: Iterable[Any]) -> bool:
    """Whether the judge or a law said that the law is to be left.

    Args:
      error: The exception that left the law.
      since: The code of the function that builds the law's inputs and calls it.
      law: The law, as it was written.
      claimed: The implementation, and its namespaces.

    Returns:
      `False` for every other exception, also one of `LEAVING` that came another way.
    """
    if not issubclass(type(error), LEAVING):
        return False
    through = list(steps(error))
    while through and through[0].tb_frame.f_code is not since:
        del through[0]
    if not through or not _raises(through[-1]):
        return False
    if issubclass(type(error), Unclaimed):
        return _asks_for_unclaimed(through, claimed)
    return all(map(_is_of_judge, through)) and all(
        _calls(caller, called, law.__code__)
        or any(_is_in(called, outer) for outer in through[:number])
        for number, (caller, called) in enumerate(pairwise(through), 1)
    )


def steps(error: BaseException) -> Iterator[TracebackType]:
    """Each call that an error went through, the outermost first.

    The class of the error is the implementation's, and may hide its traceback.
    """
    step = BaseException.__dict__["__traceback__"].__get__(error)
    while step is not None:
        yield step
        step = step.tb_next


def _asks_for_unclaimed(through: list[TracebackType], claimed: Iterable[Any]) -> bool:
    """Whether the judge's own code asks the implementation for a name that it does not claim."""
    if len(through) < 2:
        return False
    asking, asked = through[-2:]
    given = asked.tb_frame.f_locals
    if asked.tb_frame.f_code is Namespace.pass_over.__code__:
        return (
            any(given["self"] is each for each in claimed)
            and asking.tb_frame.f_code in _PASSING
            and all(map(_is_of_judge, through[-3:]))
        )
    names = {"need", "getattr", "hasattr", given.get("name")}
    return (
        asked.tb_frame.f_code in _ASKING
        and any(given["self"] is each for each in claimed)
        and _is_of_judge(asked)
        and _is_of_judge(asking)
        and not names.isdisjoint(_named_at(asking))
    )


def _is_of_judge(step: TracebackType) -> bool:
    """Whether a call is of code that the judge was imported with, in its own module."""
    frame = step.tb_frame
    _, codes = _SEEN.get(id(frame.f_globals), (None, {}))
    return id(frame.f_code) in codes


def _raises(step: TracebackType) -> bool:
    return step.tb_frame.f_code.co_code[step.tb_lasti] == _RAISE


def _calls(caller: TracebackType, called: TracebackType, law: CodeType) -> bool:
    """Whether one call makes the other by its name, or is the same one."""
    code = called.tb_frame.f_code
    if called.tb_frame is caller.tb_frame or code is law:
        return True
    return code.co_name in _named_at(caller)


def _is_in(called: TracebackType, outer: TracebackType) -> bool:
    """Whether the called function is defined inside the function of `outer`, as a lambda may be."""
    return called.tb_frame.f_code in islice(_nested(outer.tb_frame.f_code), 1, None)


def _named_at(step: TracebackType) -> set[str]:
    """The name of the function that a step calls, or of the attribute that it looks up."""
    code = step.tb_frame.f_code
    names = _names_in(code.co_filename)
    _, line, _, column = next(islice(code.co_positions(), step.tb_lasti // 2, None))
    if line is not None and column is not None:
        return {names.get((line, column), (0, ""))[1]}
    at = step.tb_lineno  # Python was told to keep lines only
    return {name for (last, _), (first, name) in names.items() if first <= at <= last}


@functools.cache
def _names_in(file: str) -> dict[tuple[int, int], tuple[int, str]]:
    """By where it ends, each call and each attribute in a file: its line, and the name."""
    nodes = ast.walk(ast.parse(Path(file).read_bytes()))
    found = {}
    for node in [each for each in nodes if isinstance(each, ast.Call | ast.Attribute)]:
        named: ast.expr = node
        while isinstance(named, ast.Call):  # a call `f(x)(y)` goes by the name of `f`
            named = named.func
        if name := getattr(named, "attr", getattr(named, "id", "")):
            found[node.end_lineno or 0, node.end_col_offset or 0] = node.lineno, name
    return found


def _codes(values: Iterable[Any], module: str) -> Iterator[CodeType]:
    """The code of functions, and of the methods of classes, that a module defines."""
    for value in values:
        for part in (value, *_wrapped(value)):
            if isinstance(part, FunctionType):
                yield part.__code__
            elif isinstance(part, type) and part.__module__ == module:
                yield from _codes(vars(part).values(), module)


def _wrapped(value: Any) -> Iterator[Any]:
    """The functions that a descriptor, a table, a record, a cache or Hypothesis holds."""
    table = getattr(value, "__dict__", {}) if hasattr(value, "__dataclass_fields__") else value
    if type(table) is dict:
        yield from table.values()
    if isinstance(value, property):
        yield from (value.fget, value.fset)
    if isinstance(value, classmethod | staticmethod):
        yield value.__func__
    for name in ("func", "__wrapped__"):
        yield from ([vars(value)[name]] if name in getattr(value, "__dict__", {}) else [])
    if isinstance(value, FunctionType) and hasattr(value, "hypothesis"):
        yield value.hypothesis.inner_test


def _nested(code: CodeType) -> Iterator[CodeType]:
    """Code, and that of all functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
