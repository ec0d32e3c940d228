"""A process in which one law is rewritten, tried on one input, and written as a script.

It reads a request as JSON from its standard input, `{"requirement": ..., "call": ..., "where":
..., "program": ...}`, and writes `{"script": ..., "told": ...}`, or `{"problem": ...}`, to its
standard output. It is a process of its own because it imports the laws in rewritten form, and a
judge needs them as written.
"""

import contextlib
import functools
import json
import platform
import sys
import warnings
from typing import Any

import jax
import numpy as np

from scutch.implementation import Implementation
from scutch.loading import load
from scutch.reproduce import rewriting
from scutch.reproduce.checking import Nursery
from scutch.reproduce.names import Nameless, modules
from scutch.reproduce.search import search, tried
from scutch.reproduce.tape import Tape


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
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
    tape = Tape()
    rewriting.install(tape)
    from scutch.judging.profiles import prepare_devices

    prepare_devices()
    implementation = load(where)
    reference = load("reference")
    with contextlib.closing(Nursery(reference)) as nursery, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if program is not None:
            return tried(program, implementation, nursery)
        error = record(tape, implementation, requirement, call)
        if error is None:
            raise Nameless(f"{call} does not break {requirement} of {implementation.name}")
        return search(tape, error, implementation, nursery)


def versions(where: str) -> str:
    """The releases of an implementation, of JAX, of NumPy and of Python, in one sentence."""
    found = load(where)
    python = platform.python_version()
    return (
        f"{found.name} {found.version}, jax {jax.__version__}, numpy {np.__version__}, "
        f"Python {python}."
    )


def record(
    tape: Tape, implementation: Implementation, requirement: str, call: str
) -> BaseException | None:
    """Try a law on one input while a tape notes its operations.

    Args:
      tape: The tape that was passed to `rewriting.install`.
      implementation: The one under judgment.
      requirement: The identifier of the requirement that the law tests.
      call: The call of the law.

    Returns:
      The exception that the law or the builder of its input raised; `None` if neither raised.
    """
    from scutch.inputs import keys

    keys.small_key = jax.random.key  # a generator of the suite's own, which no script has
    from scutch.inputs.calls import parse_call
    from scutch.inputs.descriptions import build
    from scutch.inputs.subjects import remaining
    from scutch.judging.attempt import prepared

    name, inputs = parse_call(call)
    law = law_named(name, requirement)
    unasserted = functools.partial(remaining, implementation)
    attempt = prepared(law, implementation, unasserted)
    tape.package = next(iter(modules(implementation))).__name__.partition(".")[0]
    tape.recording = True
    try:
        built = {n: tape.named(n, build(v, attempt.builder)) for n, v in inputs.items()}
        attempt.function(**attempt.fixtures, **built)
    except BaseException as error:
        return error
    finally:
        tape.recording = False
    return None


def law_named(name: str, requirement: str) -> Any:
    """The law of a name, from the one module that has it.

    Args:
      name: As a call begins, such as `test_boxes_survive_pickling[logical]`.
      requirement: The identifier of the requirement that the law tests.

    Raises:
      Nameless: No law has this name and tests this requirement.
    """
    from scutch.judging import suite

    law = suite.named(name)
    if law is None or law.requirement != requirement:
        raise Nameless(f"no law {name} tries {requirement}")
    return law


if __name__ == "__main__":
    main()
