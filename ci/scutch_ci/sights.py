"""The trial of each law on an implementation without a fault, with the functions that it calls.

A law can notice a fault only if it calls the function that holds the fault. So `ci/mutants` tries
only the laws that call this function, first the quick ones that call few other functions.
"""

import ast
import functools
import hashlib
import json
import multiprocessing
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import jax
from rich.progress import Progress
from scutch import catalogue
from scutch.judging import profiles, suite
from scutch.judging.isolation import Lost, Runner
from scutch.report.text import publish

from scutch_ci.faults import Fault
from scutch_ci.subjects import Subject, imported, judging

MANY = profiles.PROFILES[profiles.DEFAULT].examples
"""Inputs for each law, as in a run: fewer would not show all functions that it calls."""


@dataclass(frozen=True)
class Sight:
    """The trial of one law on the implementation without a fault.

    Args:
      outcome: The outcome of the trial; `known` if the law broke, and only in known ways.
      seconds: The duration of the trial, on `MANY` inputs.
      functions: The functions of the package that the law called, as `file:scope`.
    """

    outcome: str
    seconds: float
    functions: tuple[str, ...]


def sights(subject: Subject, jobs: int, file: Path) -> dict[str, Sight]:
    """Try every law on the implementation without a fault; returns the trials by the law's name.

    Args:
      subject: The implementation.
      jobs: How many processes try laws.
      file: Keeps the trials; it may be missing. A law is tried again if one of these has changed:
        the code of the implementation, the code of the law's module, the ways in which the law is
        known to break, the number of inputs, or the version of JAX.
    """
    kept = json.loads(file.read_text("utf-8")) if file.exists() else {}
    sources = [code(text) for text in subject.sources.values()]
    wanted = {
        law.name: digest(str(MANY), text, *subject.ways(law), *sources)
        for law, text in codes_of_laws()
    }
    kept = {name: each for name, each in kept.items() if each["digest"] == wanted.get(name)}
    left = [name for name in wanted if name not in kept]
    parts = [(subject, left[first : first + 16]) for first in range(0, len(left), 16)]
    with multiprocessing.get_context("fork").Pool(jobs) as pool, Progress() as progress:
        task = progress.add_task(f"laws on {subject.where}", total=len(left))
        for part in pool.imap_unordered(sights_of, parts):
            for name, sight in part.items():
                kept[name] = {"digest": wanted[name], "sight": list(asdict(sight).values())}
            publish(json.dumps(kept), file)
            progress.advance(task, len(part))
    return {name: Sight(*each["sight"]) for name, each in kept.items()}


def digest(*texts: str) -> str:
    """A short hash of JAX's version and these texts, in their order."""
    return hashlib.sha256("\0".join([jax.__version__, *texts]).encode()).hexdigest()[:16]


def codes_of_laws() -> Iterator[tuple[suite.Law, str]]:
    """The laws that are tried in one process, and only in it, with the code of their modules."""
    for law in suite.laws():
        alone = not law.in_job and suite.UNASSERTED not in law.fixtures
        if alone and law.requirement in catalogue.by_id():
            module = sys.modules[law.function.__module__]
            yield law, _code_in(Path(str(module.__file__)))


@functools.cache
def _code_in(file: Path) -> str:
    return code(file.read_text("utf-8"))


def code(text: str) -> str:
    """The code in the text of a module, without comments and docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        match node:
            case ast.Expr(ast.Constant(str())):
                node.value = ast.Constant("")
    return ast.dump(tree)


def sights_of(part: tuple[Subject, Sequence[str]]) -> dict[str, Sight]:
    """Try some laws on the implementation without a fault; `part` is `(subject, names)`."""
    subject, names = part
    runner = Runner(judging(subject, None))
    claims, _ = imported(subject, runner)
    found = {}
    for law in suite.laws():
        if law.name not in names:
            continue
        if not set(catalogue.by_id()[law.requirement].capabilities) <= set(claims):
            found[law.name] = Sight("unclaimed", 0.0, ())
            continue
        if runner.pid is None:
            runner.ask(None, 300)
        answer = runner.ask([law.name, MANY], 300)
        found[law.name] = (
            Sight(answer.outcome, 300.0, ())
            if isinstance(answer, Lost)
            else Sight(answer[0], answer[1], tuple(answer[2]))
        )
    runner.close()
    return found


def called_by_import(subject: Subject) -> frozenset[str]:
    """The functions, as `file:scope`, that run while the implementation is imported.

    Laws that do not call these functions can still use their results, such as a registered class.
    """
    runner = Runner(judging(subject, None))
    _, functions = imported(subject, runner)
    runner.close()
    return frozenset(functions)


def convicting(subject: Subject, seen: Mapping[str, Sight]) -> dict[str, Sight]:
    """The laws that can convict a mutant, because without a fault they break in no new way."""
    return {
        name: sight
        for name, sight in seen.items()
        if sight.outcome in ("passed", "untested", "known")
    }


def seeing(fault: Fault, laws: Mapping[str, Sight], by_import: Collection[str] = ()) -> list[str]:
    """The names of the laws that call the function with the fault, the most promising first.

    If the fault is in no function, these are the laws that call any function of its class or file.
    Laws that are quick and call few other functions come first: they are about that function. If
    the import runs it, the laws that call any other function of its file follow.

    Args:
      fault: The fault.
      laws: The trial of each law on the implementation without a fault.
      by_import: The functions that run while the implementation is imported.
    """
    runs_early = any(shows_in(fault, place) for place in by_import)
    widest = replace(fault, scope="") if runs_early else fault

    def rank(name: str) -> tuple[bool, float]:
        sight = laws[name]
        calls_it = any(shows_in(fault, each) for each in sight.functions)
        return not calls_it, sight.seconds * len(sight.functions)

    found = [n for n, sight in laws.items() if any(shows_in(widest, f) for f in sight.functions)]
    return sorted(found, key=rank)


def uncalled(
    faults: Iterable[Fault], laws: Mapping[str, Sight], by_import: Collection[str]
) -> list[Fault]:
    """The faults that no law can see; the arguments are those of `seeing`."""
    called = {place for sight in laws.values() for place in sight.functions}
    unseen = [f for f in faults if not any(shows_in(f, place) for place in called)]
    return [fault for fault in unseen if not seeing(fault, laws, by_import)]


def shows_in(fault: Fault, function: str) -> bool:
    """Whether a law that calls `function`, given as `file:scope`, can notice a fault."""
    if not fault.scope:
        return function.startswith(f"{fault.file}:")
    return function.startswith(f"{fault.place}.") or function == fault.place
