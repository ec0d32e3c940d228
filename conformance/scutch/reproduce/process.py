"""A process in which one failure is written as a script.

It reads a request as JSON from its standard input, `{"requirement": ..., "call": ..., "where":
..., "program": ...}`, and writes `{"script": ..., "told": ...}`, or `{"problem": ...}`, to its
standard output. It is a process of its own because it forks before JAX has looked for devices.
"""

import contextlib
import importlib.abc
import itertools
import json
import platform
import sys
import time
import warnings
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType
from typing import Any

import jax
import numpy as np

from scutch import laws
from scutch.implementation import Implementation
from scutch.judging import suite
from scutch.judging.calls import parse_call
from scutch.judging.profiles import prepare_devices
from scutch.loading import load
from scutch.reproduce.checking import Drafts, Nursery
from scutch.reproduce.layout import prepared
from scutch.reproduce.names import Nameless, Names
from scutch.reproduce.programs import Failure
from scutch.reproduce.pruning import compared
from scutch.reproduce.reducing import Reducer
from scutch.reproduce.syntax import copied

SECONDS = 120.0
"""How long a program is made shorter at most."""
ENDS = 3
"""How many of the assertions that failed a program may end with."""


class _Asserting(importlib.abc.MetaPathFinder):
    """Compiles laws with their assertions, also under `python -O`, where others have none."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target)
        if name.startswith(f"{laws.__name__}.") and spec is not None and spec.origin is not None:
            spec.loader = _Loader(name, spec.origin)
            return spec
        return None


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        text = self.get_data(self.path)
        made: CodeType = compile(text, self.path, "exec", dont_inherit=True, optimize=0)
        return made


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    sys.meta_path.insert(0, _Asserting())
    with contextlib.redirect_stdout(sys.stderr):
        try:
            script, told = answer(**request)
            reply = {"script": script, "told": told, "versions": versions(request["where"])}
        except Nameless as problem:
            reply = {"problem": str(problem)}
    json.dump(reply, sys.stdout)


def answer(requirement: str, call: str, where: str, program: str | None = None) -> tuple[str, str]:
    """A script without its heading, and the output of its run on the implementation.

    Args:
      requirement: The identifier of a requirement that fails.
      call: The call of a law that breaks it.
      where: How the implementation is found, as `loading.load` takes it.
      program: A program that a person wrote. It is tried, and no script is made from the law.

    Returns:
      The script, and its output.

    Raises:
      Nameless: No script can be written; the message says why.
    """
    prepare_devices()
    implementation, reference = load(where), load("reference")
    nursery = Nursery(implementation, reference)
    with contextlib.closing(nursery), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if program is not None:
            return tried(program, implementation, nursery)
        name, inputs = parse_call(call)
        law = suite.named(name)
        if law is None or law.requirement != requirement:
            raise Nameless(f"no law {name} tries {requirement}")
        failure = Failure.of(law, inputs, implementation, reference)
        return shortest(failure, nursery, SECONDS)


def shortest(failure: Failure, nursery: Nursery, seconds: float) -> tuple[str, str]:
    """A short script about a failure, and its output.

    Args:
      failure: A call of a law that fails.
      nursery: Runs programs.
      seconds: How long it is made shorter at most.

    Returns:
      The script without its heading, and its output.

    Raises:
      Nameless: No program fails as the call does; the message says how each ended.
    """
    problems: dict[str, None] = {}
    aliases = Names(failure.implementation).aliases
    for check, stubs in itertools.product(failure.ends[:ENDS], (False, True)):
        drafts = Drafts(nursery, aliases, unasserted=suite.UNASSERTED in failure.law.fixtures)
        try:
            tree = failure.program(check, stubs=stubs)
        except Nameless as problem:
            problems[str(problem)] = None
            continue
        if drafts.shows(tree):
            tree = Reducer(tree, drafts, until=time.monotonic() + seconds).run()
            plainer = compared(copied(tree))
            return drafts.text(plainer if drafts.shows(plainer) else tree), drafts.told
        problems[drafts.problem] = None
    raise Nameless("; ".join(problems))


def tried(source: str, implementation: Implementation, nursery: Nursery) -> tuple[str, str]:
    """A program that a person wrote, and the output of its run on the implementation.

    Args:
      source: The program, without a heading.
      implementation: The one that it is about.
      nursery: The process that runs it.

    Returns:
      The script, and its output.

    Raises:
      Nameless: It does not exit with 1, or does not exit with 0 on the reference.
    """
    source = prepared(source)
    own = nursery.run(source)
    if own.code != 1:
        raise Nameless(f"the program of the entry ended with {own.code}: {own.printed:.300}")
    other = nursery.run(source, Names(implementation).aliases)
    if other.code != 0:
        raise Nameless(f"the program of the entry fails on the reference: {other.printed:.300}")
    return source, own.printed


def versions(where: str) -> str:
    """The releases of an implementation, of JAX, of NumPy and of Python, in one sentence."""
    found = load(where)
    python = platform.python_version()
    return (
        f"{found.name} {found.version}, jax {jax.__version__}, numpy {np.__version__}, "
        f"Python {python}."
    )


if __name__ == "__main__":
    main()
