"""What each law does on an implementation without a fault: which functions of it the law calls.

A law can see a fault only if it calls the function that the fault is in, so `ci/mutants` tries on
a mutant those laws alone, the quick and special ones first.
"""

import ast
import functools
import hashlib
import json
import multiprocessing
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import jax
from rich.progress import Progress
from scutch import catalogue
from scutch.judging import suite
from scutch.judging.isolation import Lost, Runner
from scutch.report.text import publish

from scutch_ci.faults import Fault
from scutch_ci.subjects import Subject, imported, judging

FEW = 10
"""Inputs for each law at first; most faults are found by these."""


@dataclass(frozen=True)
class Sight:
    """What a law did on the implementation as it is.

    Args:
      outcome: Of its trial; `known` if it broke in no other way than is known.
      seconds: How long it took, on few inputs.
      functions: Those of the package that it called, as `file:scope`.
    """

    outcome: str
    seconds: float
    functions: tuple[str, ...]


def sights(subject: Subject, jobs: int, file: Path) -> dict[str, Sight]:
    """What every law does on the implementation as it is.

    Args:
      subject: The implementation.
      jobs: How many processes try laws.
      file: Where answers are kept, until the code of the implementation changes, and for each law
        until the code of its module does, or the ways in which it is known to break. It may be
        missing.
    """
    kept = json.loads(file.read_text("utf-8")) if file.exists() else {}
    sources = [code(text) for text in subject.sources.values()]
    wanted = {
        law.name: digest(text, *subject.ways(law), *sources) for law, text in codes_of_laws()
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
    """Other texts have another one."""
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
    """What some laws do on the implementation as it is; given as `(subject, names)`."""
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
        answer = runner.ask([law.name, FEW], 300)
        found[law.name] = (
            Sight(answer.outcome, 300.0, ()) if isinstance(answer, Lost)
            else Sight(answer[0], answer[1], tuple(answer[2]))
        )  # fmt: skip
    runner.close()
    return found


def called_by_import(subject: Subject) -> frozenset[str]:
    """The functions, as `file:scope`, that run while the implementation is imported.

    What they make, such as a registered class, is used by laws that do not call them.
    """
    runner = Runner(judging(subject, None))
    _, functions = imported(subject, runner)
    runner.close()
    return frozenset(functions)


def convicting(subject: Subject, seen: Mapping[str, Sight]) -> dict[str, Sight]:
    """The laws that can convict: on the implementation as it is they pass, or break as is known."""
    return {
        name: sight for name, sight in seen.items()
        if sight.outcome in ("passed", "untested", "known")
    }  # fmt: skip


def seeing(fault: Fault, laws: Mapping[str, Sight], by_import: Collection[str] = ()) -> list[str]:
    """The laws that call the function of a fault, or any of its class or its file if it is in none.

    Those come first that are quick and call little else: they are about that function. If the
    import calls it, the laws that call others of its file follow.

    Args:
      fault: The fault.
      laws: What each law did on the implementation as it is.
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


def shows_in(fault: Fault, function: str) -> bool:
    """Whether who calls a function, given as `file:scope`, can see a fault."""
    if not fault.scope:
        return function.startswith(f"{fault.file}:")
    return function.startswith(f"{fault.place}.") or function == fault.place
