"""What asv measures: run class by class, read as figures, and put together for its page.

asv writes its results when all is measured, and in place. So each class of benchmarks is measured
by a run of its own into an empty folder, and what it left becomes one file of the night. What asv
publishes is put together from these, as if it had been measured in one run.
"""

import itertools
import json
import math
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import judgment
from nights import Environment, History, put

ROOT = judgment.ROOT
INVENTORY = """
import json
from benchmarks.cases import cases
for case in cases("time_", "timeraw_", "track_", "peakmem_"):
    print(json.dumps([case.name.partition("(")[0], list(map(repr, case.choice)), case.jitters]))
"""


class NotMeasured(Exception):
    """A step left nothing behind; the text says why."""


@dataclass(frozen=True)
class Benchmark:
    """One number that can be measured.

    Args:
      name: As asv has it, such as `dispatch.Dispatch.time_call`.
      choice: The `repr` of each parameter.
      jitters: Whether it is not the same when nothing changed, although it is a `track_*`.
    """

    name: str
    choice: tuple[str, ...]
    jitters: bool

    @property
    def group(self) -> str:
        """Its module and class: what is measured together."""
        return self.name.rpartition(".")[0]

    @property
    def asked(self) -> str:
        """What asv matches a selection with."""
        return f"{self.name}({', '.join(self.choice)})"


@dataclass(frozen=True)
class Figure:
    """What was measured for one choice of parameters.

    Args:
      value: The number, `inf` where measuring it failed.
      low, high: The ends of a 99 % interval; the value itself where there is none.
      unit: As asv has it.
    """

    value: float
    low: float
    high: float
    unit: str


def surroundings() -> dict[str, str]:
    """Environment variables of whatever measures or judges: this tree, and no accelerator."""
    roots = os.pathsep.join(str(ROOT / name) for name in ("reference", "conformance"))
    given = {"PYTHONPATH": roots, "ASV_PYTHONPATH": roots, "PYTHONHASHSEED": "0"}
    return {**os.environ, **given, "JAX_PLATFORMS": "cpu"}


def inventory(environment: Environment, select: str) -> list[Benchmark]:
    """Every benchmark that the selection matches."""
    done = subprocess.run(
        [environment.python, "-c", INVENTORY], cwd=ROOT, env=surroundings(), check=False,
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise NotMeasured(f"no benchmarks in {environment.name}: {last_line(done.stderr)}")
    entries = [json.loads(line) for line in done.stdout.splitlines()]
    found = [Benchmark(name, tuple(choice), jitters) for name, choice, jitters in entries]
    return [one for one in found if re.search(select, one.asked)]


def last_line(text: str) -> str:
    """The last that a program said."""
    return next(iter(reversed(text.strip().splitlines())), "it said nothing")


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
    """What measures a class of benchmarks into a folder: asv is told of the machine, and runs."""
    put(configuration(folder / "results", folder / "html"), folder / "asv.conf.json")
    asv = (environment.python, "-m", "asv")
    given = ("--machine", machine, "--config", str(folder / "asv.conf.json"))
    chosen = rf"^(?={re.escape(group)}\.)(?=.*?(?:{select}))"
    return [
        (*asv, "machine", "--yes", *given),
        (
            *(*asv, "run", *given, "--environment", f"existing:{environment.python}"),
            *("--set-commit-hash", commit, "--bench", chosen, "--show-stderr"),
            *(("--quick",) if quick else ()),
        ),
    ]  # fmt: skip


def collected(environment: Environment, group: str, folder: Path, machine: str) -> dict[str, Any]:
    """What asv left in a folder, as one document; its names of the environment become ours."""
    results = folder / "results"
    files = [path for path in results.glob("*/*.json") if path.name != "machine.json"]
    if not files:
        raise NotMeasured("asv measured nothing")
    result = json.loads(files[0].read_text("utf-8"))
    if not result["results"]:
        raise NotMeasured("asv measured nothing")
    if all(row[0] is None for row in result["results"].values()):
        raise NotMeasured("everything failed")
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
        unit = document["benchmarks"][name].get("unit", "")
        values = fields["result"] or [None] * len(choices)
        lows = fields.get("stats_ci_99_a") or values
        highs = fields.get("stats_ci_99_b") or values
        for choice, value, low, high in zip(choices, values, lows, highs, strict=True):
            if value is None:
                found[name, choice] = Figure(math.inf, math.inf, math.inf, unit)
            elif not math.isnan(value):
                # asv has no interval for very few samples: null, or infinite ends.
                known = low is not None and math.isfinite(high - low)
                ends = (low, high) if known else (value, value)
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
