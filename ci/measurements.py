"""What asv measures: run piece by piece, read as figures, and put together for its page.

asv writes its results when all is measured, and in place. So each benchmark is measured by a run of
its own into an empty folder, or those of a class whose set-up they share, and what it left becomes
one file of the night. What asv publishes is put together from these, as if it had been one run.
"""

import itertools
import json
import math
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import judgment
from environments import Environment, last_line, surroundings
from gatekeeper import NothingMeasured
from nights import History, put
from steps import Failed

ROOT = judgment.ROOT
INVENTORY = """
import json
from benchmarks.cases import cases
for case in cases("time_", "timeraw_", "track_", "peakmem_", "mem_"):
    name = case.name.partition("(")[0]
    group = name.rpartition(".")[0] if hasattr(case.kind, "setup_cache") else name
    print(json.dumps([name, list(map(repr, case.choice)), group, case.jitters]))
"""


@dataclass(frozen=True)
class Benchmark:
    """One number that can be measured.

    Args:
      name: As asv has it, such as `dispatch.Dispatch.time_call`.
      choice: The `repr` of each parameter.
      group: What it is measured with: itself, or all of its class.
      jitters: Whether it is not the same when nothing changed, although it is a `track_*`.
    """

    name: str
    choice: tuple[str, ...]
    group: str
    jitters: bool

    @property
    def asked(self) -> str:
        """What asv matches a selection with."""
        return f"{self.name}({', '.join(self.choice)})"


@dataclass(frozen=True)
class Figure:
    """What was measured for one choice of parameters.

    Args:
      value: The number, `inf` where measuring it failed.
      low, high: The ends of a 99 % interval; infinite where too little was measured for one. Memory
        is taken for sure.
      unit: As asv has it.
    """

    value: float
    low: float
    high: float
    unit: str


def inventory(environment: Environment, select: str) -> list[Benchmark]:
    """Every benchmark that the selection matches."""
    done = subprocess.run(
        [environment.python, "-c", INVENTORY], cwd=ROOT, env=surroundings(), check=False,
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise NothingMeasured(f"no benchmarks in {environment.name}: {last_line(done.stderr)}")
    entries = [json.loads(line) for line in done.stdout.splitlines()]
    found = [Benchmark(name, tuple(choice), *rest) for name, choice, *rest in entries]
    return [one for one in found if re.search(select, one.asked)]


def configuration(results: Path, html: Path) -> dict[str, Any]:
    """asv's, with folders that are ours; every ancestor of HEAD is of its branch."""
    given = json.loads((ROOT / "asv.conf.json").read_text("utf-8"))
    return given | {
        "repo": str(ROOT),
        "branches": ["HEAD"],
        "benchmark_dir": str(ROOT / "benchmarks"),
        "results_dir": str(results),
        "html_dir": str(html),
    }


def commands(
    environment: Environment,
    commit: str,
    group: str,
    folder: Path,
    *,
    machine: str,
    select: str,
    quick: bool,
) -> list[tuple[str, ...]]:
    """What measures a group of benchmarks into a folder: asv is told of the machine, and runs.

    For each choice of parameters asv forks a process that has imported JAX, and begun nothing: to
    import it each time takes longer than most measurements. Where memory is measured it does not.
    """
    put(configuration(folder / "results", folder / "html"), folder / "asv.conf.json")
    asv = (environment.python, "-m", "asv")
    given = ("--machine", machine, "--config", str(folder / "asv.conf.json"))
    chosen = rf"^(?={re.escape(group)}\b)(?=.*?(?:{select}))"
    return [
        (*asv, "machine", "--yes", *given),
        (
            *(*asv, "run", *given, "--environment", f"existing:{environment.python}"),
            *("--set-commit-hash", commit, "--bench", chosen, "--show-stderr"),
            *("--launch-method", "spawn" if ".peakmem_" in group else "forkserver"),
            *(("--quick",) if quick else ()),
        ),
    ]  # fmt: skip


def collected(environment: Environment, group: str, folder: Path, machine: str) -> dict[str, Any]:
    """What asv left in a folder, as one document; its names of the environment become ours."""
    results = folder / "results"
    files = [path for path in results.glob("*/*.json") if path.name != "machine.json"]
    if not files:
        raise Failed("asv measured nothing")
    result = json.loads(files[0].read_text("utf-8"))
    if not result["results"]:
        raise Failed("asv measured nothing")
    if all(row[0] is None for row in result["results"].values()):
        raise Failed("everything failed")
    result["env_name"] = environment.name
    result["params"]["python"] = result["python"] = environment.name.removeprefix("py")
    known = json.loads((results / "benchmarks.json").read_text("utf-8"))
    return {
        "machine": json.loads((results / machine / "machine.json").read_text("utf-8")),
        "benchmarks": {name: known[name] for name in result["results"]},
        "version": known["version"],
        "result": result,
    }


def figures(document: Mapping[str, Any]) -> dict[tuple[str, tuple[str, ...]], Figure]:
    """By name and choice of parameters; what was skipped is not there."""
    found = {}
    for name, row in document["result"]["results"].items():
        fields = dict(zip(document["result"]["result_columns"], row, strict=False))
        choices = list(itertools.product(*fields["params"]))
        is_memory = "mem_" in name.rpartition(".")[2]
        unit = document["benchmarks"][name].get("unit", "")
        values = fields["result"] or [None] * len(choices)
        lows = fields.get("stats_ci_99_a") or [None] * len(choices)
        highs = fields.get("stats_ci_99_b") or [None] * len(choices)
        for choice, value, low, high in zip(choices, values, lows, highs, strict=True):
            if value is None:
                found[name, choice] = Figure(math.inf, math.inf, math.inf, unit)
            elif not math.isnan(value):
                unknown = (value, value) if is_memory else (-math.inf, math.inf)
                ends = unknown if low is None else (low, high)
                found[name, choice] = Figure(value, *ends, unit)
    return found


def assemble(history: History, folder: Path) -> None:
    """Write all results of all nights as asv keeps them; of two for the same, the later stays."""
    described: dict[str, Any] = {}
    merged: dict[str, Any] = {}
    for night in history:
        for path in night.figures.values():
            document = json.loads(path.read_text("utf-8"))
            result = document["result"]
            described |= document["benchmarks"] | {"version": document["version"]}
            machine = document["machine"]["machine"]
            merged[f"{machine}/machine.json"] = document["machine"]
            name = f"{machine}/{result['commit_hash'][:8]}-{result['env_name']}.json"
            merged.setdefault(name, result)["results"].update(result["results"])
    merged["benchmarks.json"] = described
    for name, content in merged.items():
        put(content, folder / name)


def short(name: str, choice: Sequence[str]) -> str:
    """A benchmark as the gate names it."""
    return f"{name}({', '.join(each.strip(chr(39)) for each in choice)})"
