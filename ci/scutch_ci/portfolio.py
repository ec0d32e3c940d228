"""The command `ci/portfolio`: choose the order in which requirements are judged, and the inputs.

It takes the results of `ci/mutants --all-laws` on both implementations: which laws convict each
planted fault, after how many inputs, and which functions each law calls. The cost of each
requirement is measured here, on the reference, for each number of inputs.

The choice is greedy: the requirement with the most points per CPU second comes next. The first
requirement that finds a fault gets 1 point for it, the second half a point, the third a quarter: a
law that finds many faults again may find others that were not planted. A function gives a tenth of
a point to the first requirement whose laws call it, and so on, since it may have a fault that was
not planted. Of equals, the graver harm comes first, then the cheaper requirement.
"""

import argparse
import contextlib
import heapq
import importlib
import json
import math
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from rich.progress import Progress
from scutch import catalogue
from scutch.judging import portfolio, profiles, suite
from scutch.judging.attempt import Setting
from scutch.judging.compiled import compiled_once
from scutch.judging.costs import Memory
from scutch.judging.isolation import Lost, Runner
from scutch.judging.portfolio import Choice
from scutch.judging.trying import try_law
from scutch.judging.unasserted import Unasserted
from scutch.loading import load
from scutch.report.document import load as load_report
from scutch.report.text import publish

from scutch_ci import conformance, mutants
from scutch_ci.checkout import ROOT
from scutch_ci.subjects import MAKING, PACKAGES, Subject, forget, modules_of

COUNTS = (6, 10)
"""The numbers of inputs among which one is chosen for each requirement: the fewest that every law
gets, and as many as `ci/mutants` tries at first."""
CALLED = 0.1
"""The weight of a function, where a fault has the weight 1."""
EXPORT = "export"
FILE = ROOT / "conformance" / "scutch" / "judging" / portfolio.FILE

Costs = Mapping[str, Mapping[int, float]]
Finds = Mapping[str, Mapping[str, int]]


def measured() -> dict[str, dict[int, float]]:
    """The CPU seconds of each requirement on the reference, by number of inputs for each law.

    A law is tried on the fewest inputs without anything that earlier laws have computed, since a
    short run may not try those; XLA's programs are kept, since most laws compile the same small
    ones. A second trial tells the cost of each further input. The seconds that TensorFlow takes to
    be imported are divided among the requirements of `export`, all of which may draw it.
    """
    subject, (fewest, most) = Subject.of("reference"), COUNTS
    found: dict[str, dict[int, float]] = defaultdict(lambda: dict.fromkeys(COUNTS, 0.0))
    with compiled_once(), Progress() as progress, contextlib.ExitStack() as stack:
        runner = Runner(_costing(subject))
        stack.callback(runner.close)
        started = float(_answer(runner, None))
        exported = {row.id for row in catalogue.select(EXPORT)}
        found |= {name: dict.fromkeys(COUNTS, started / len(exported)) for name in exported}
        for law in progress.track(suite.laws(), description="costs of laws"):
            if not law.in_job:
                first = _answer(runner, [law.name, fewest])
                again = _answer(runner, [law.name, most])
                found[law.requirement][fewest] += first
                found[law.requirement][most] += first + again * (most - fewest) / most
    for number in COUNTS:
        for name, seconds in _measured_in_jobs(number).items():
            found[name][number] = seconds
    return found


def _answer(runner: Runner, request: Any) -> float:
    answer = runner.ask(request, 300)
    if isinstance(answer, Lost):
        raise SystemExit(f"ci/portfolio: {request}: {answer.reason}")
    return float(answer)


def _costing(subject: Subject) -> Callable[[Any], Any]:
    """The answer of a fork to `[law, inputs]`: the CPU seconds of the law.

    To `null` it answers those that it takes to import TensorFlow; 0 where that is not installed.
    """
    by_name, memory = {law.name: law for law in suite.laws()}, Memory()

    def answer(request: Any) -> float:
        if request is None:
            started = time.process_time()
            with contextlib.suppress(ModuleNotFoundError):
                importlib.import_module("tensorflow")
            return time.process_time() - started
        name, examples = request
        memory.slim()
        implementation, law = load(subject.where), by_name[name]
        jax.jit(jnp.sum)(jnp.ones(3))  # starts JAX
        forget([law.function.__module__, *modules_of(subject.package, *MAKING)])
        with contextlib.closing(Unasserted(subject.where)) as unasserted:
            trial = try_law(
                law, implementation, examples=examples, setting=Setting(unasserted=unasserted)
            )
        return trial.cost.cpu

    return answer


def _measured_in_jobs(number: int) -> dict[str, float]:
    """The same for the laws that are tried in a job of several processes."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            *(sys.executable, "-m", "scutch", "run", "--implementation", "reference", "-q"),
            *("--requirement", "processes", "--no-cache", "--examples", str(number)),
            *("--report", str(report)),
        ]
        subprocess.run(command, cwd=ROOT, env=conformance.trying_environment(), check=False)
        return {one.id: one.cost.cpu for one in load_report(report).requirements}


def finds(results: Sequence[mutants.Result], calls: Mapping[str, Sequence[str]]) -> Finds:
    """The faults that each requirement finds, and the functions that it calls, with the inputs.

    Args:
      results: Of faults that all laws were tried on.
      calls: The functions that each law calls.
    """
    requirement = {law.name: law.requirement for law in suite.laws()}
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for result in results:
        convicted = {result.law: max(COUNTS)} if result.outcome == "found" else {}
        for law, inputs in (convicted | dict(result.convicted)).items():
            if law in requirement:  # else it was renamed since
                mine = found[requirement[law]]
                mine[result.diff] = min(inputs, mine.get(result.diff, inputs))
    for law, functions in calls.items():
        if law in requirement:
            found[requirement[law]] |= dict.fromkeys(functions, 1)
    return found


def chosen(costs: Costs, found: Finds) -> list[Choice]:
    """Every requirement once, in the order in which it adds most per second.

    Args:
      costs: By requirement and number of inputs, CPU seconds.
      found: By requirement, its faults and functions, with the inputs; a name with a line break is
        a fault, any other a function.
    """
    times: dict[str, int] = defaultdict(int)

    def adds(name: str, number: int) -> float:
        return math.fsum(
            (1.0 if "\n" in each else CALLED) / 2 ** times[each]
            for each, inputs in found.get(name, {}).items()
            if inputs <= number
        )

    def best(name: str) -> tuple[float, int, float, int]:
        harm = catalogue.HARMS.index(catalogue.by_id()[name].harm)
        return min(
            (-adds(name, number) / max(cost, 0.01), harm, cost, number)
            for number, cost in costs[name].items()
        )

    queue = [(best(name), name) for name in costs]
    heapq.heapify(queue)
    order = []
    while queue:
        _, name = heapq.heappop(queue)
        now = best(name)
        if queue and now > queue[0][0]:  # its faults count less, since others find them too
            heapq.heappush(queue, (now, name))
            continue
        *_, cost, number = now
        order.append(Choice(name, number, round(cost, 3)))
        for each, inputs in found.get(name, {}).items():
            times[each] += inputs <= number
    return order


def main(arguments: Sequence[str]) -> int:
    """Choose, and write the file of the judge; returns an exit code."""
    parser = argparse.ArgumentParser("ci/portfolio", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "results",
        nargs="+",
        type=Path,
        metavar="RESULTS.jsonl",
        help="result files of `ci/mutants --all-laws`",
    )
    parser.add_argument(
        "--costs", type=Path, metavar="FILE.json", help="costs of an earlier call; made if missing"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=FILE,
        metavar="FILE.json",
        help="where to write (default: the judge's own file)",
    )
    options = parser.parse_args(arguments)
    if missing := [str(file) for file in options.results if not file.is_file()]:
        parser.error(f"there is no file {missing[0]}; expected results of ci/mutants --all-laws")
    profiles.prepare_devices()
    if options.costs and options.costs.exists():
        kept = json.loads(options.costs.read_text("utf-8"))
        costs = {name: {int(n): each for n, each in one.items()} for name, one in kept.items()}
    else:
        costs = measured()
        if options.costs:
            publish(json.dumps(costs), options.costs)
    costs = {name: each for name, each in costs.items() if name in catalogue.by_id()}
    results = [each for file in options.results for each in mutants.results_in(file)]
    sights = [mutants.OUTPUT / f"{where}-sights.json" for where in PACKAGES]
    calls: dict[str, list[str]] = defaultdict(list)
    for file in sights:
        kept = json.loads(file.read_text("utf-8")) if file.exists() else {}
        for law, each in kept.items():
            calls[law] += [f"{file.stem} {place}" for place in each["sight"][2]]
    order = chosen(costs, finds(results, calls))
    faults = sum(result.outcome == "found" for result in results)
    lines = ",\n".join(json.dumps([c.requirement, c.examples, c.seconds]) for c in order)
    publish(f'{{"faults": {faults}, "choices": [\n{lines}\n]}}\n', options.output)
    print(f"{len(order)} requirements, by {faults} faults, in {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
