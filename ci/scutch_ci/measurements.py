"""The figures that asv measures group by group, and their assembly for asv's own site.

asv writes its results in one file, when everything is measured. A nightly that can be interrupted
needs more files. So each *group* of benchmarks is measured by an `asv run` of its own into an empty
folder, and the files of that run are joined into one file of the night, a *document*. A group is
one benchmark, or all benchmarks of a class that share a `setup_cache`. For asv's site the documents
are put together as if one run had made them.
"""

import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scutch.report.text import count

from scutch_ci.checkout import ROOT
from scutch_ci.configurations import Key
from scutch_ci.environments import Environment
from scutch_ci.history import History, read_json, write_json
from scutch_ci.tasks import TaskFailed

UNKNOWN = (-math.inf, math.inf)


@dataclass(frozen=True)
class Figure:
    """The number that was measured for one configuration, with its interval.

    Args:
      value: The number; infinity where measuring it failed.
      low: The lower end of a 99 % interval; minus infinity where there are too few samples for
        one. For memory it is the value, since repeated runs agree.
      high: The upper end, plus infinity in the same case.
      unit: asv's name of the unit, such as `seconds`.
    """

    value: float
    low: float
    high: float
    unit: str


def asv_settings(results: Path, html: Path) -> dict[str, Any]:
    """The settings in `asv.conf.json`, with these folders; HEAD is the only branch."""
    settings: dict[str, Any] = read_json(ROOT / "asv.conf.json")
    return settings | {
        "repo": str(ROOT),
        "branches": ["HEAD"],
        "benchmark_dir": str(ROOT / "benchmarks"),
        "results_dir": str(results),
        "html_dir": str(html),
    }


def asv_commands(
    environment: Environment,
    commit: str,
    group: str,
    folder: Path,
    *,
    machine: str,
    select: str,
    quick: bool,
) -> list[tuple[str, ...]]:
    """The two commands that measure a group of benchmarks.

    The first describes the machine to asv, the second runs the benchmarks.

    asv forks a process for each configuration from one that has already imported JAX, because a
    new import would take longer than most measurements. For peak memory it starts a new process.

    Args:
      environment: Where to measure.
      commit: The full hash that the results are filed under.
      group: The name of a benchmark, or of a class.
      folder: An empty folder, where asv's settings are written and its results will be.
      machine: The name of the machine that the results are filed under.
      select: A regular expression for configurations.
      quick: Whether to run each benchmark only once.

    Returns:
      The commands in their order.
    """
    settings = folder / "asv.conf.json"
    write_json(asv_settings(folder / "results", folder / "html"), settings)
    asv = (environment.python, "-m", "asv")
    options = ("--machine", machine, "--config", str(settings))
    chosen = rf"^(?={re.escape(group)}\b)(?=.*?(?:{select}))"
    return [
        (*asv, "machine", "--yes", *options),
        (
            *(*asv, "run", *options, "--environment", f"existing:{environment.python}"),
            *("--set-commit-hash", commit, "--bench", chosen, "--show-stderr"),
            *("--launch-method", "spawn" if ".peakmem_" in group else "forkserver"),
            *(("--quick",) if quick else ()),
        ),
    ]


def collected(environment: Environment, folder: Path, machine: str) -> dict[str, Any]:
    """Join the files that asv wrote to a folder into one document.

    Args:
      environment: Where it was measured; its name replaces asv's own.
      folder: The folder that `asv_commands` was given.
      machine: The name of the machine.

    Returns:
      The machine, the benchmarks, asv's version of these, and the result, as asv has them.

    Raises:
      TaskFailed: asv measured nothing, or every benchmark failed.
    """
    results = folder / "results"
    files = [path for path in results.glob("*/*.json") if path.name != "machine.json"]
    result = read_json(files[0]) if files else {"results": {}}
    if not result["results"]:
        raise TaskFailed("asv measured nothing")
    if all(row[0] is None for row in result["results"].values()):
        raise TaskFailed("everything failed")
    result["env_name"] = environment.name
    version = environment.name.removeprefix("py")
    result["python"] = version
    result["params"]["python"] = version
    known = read_json(results / "benchmarks.json")
    return {
        "machine": read_json(results / machine / "machine.json"),
        "benchmarks": {name: known[name] for name in result["results"]},
        "version": known["version"],
        "result": result,
    }


def figures(document: Mapping[str, Any]) -> dict[Key, Figure]:
    """The figures of a document, without the configurations that asv skipped."""
    found = {}
    for name, row in document["result"]["results"].items():
        columns = dict(zip(document["result"]["result_columns"], row, strict=False))
        unit = document["benchmarks"][name].get("unit", "")
        for parameters, value, ends in _values(columns):
            if value is None:
                found[name, parameters] = Figure(math.inf, math.inf, math.inf, unit)
            elif not math.isnan(value):
                unmeasured = (value, value) if is_memory(name) else UNKNOWN
                low, high = ends or unmeasured
                found[name, parameters] = Figure(value, low, high, unit)
    return found


def summary(path: Path) -> str:
    """The number of figures in a document and of failed ones, in one line."""
    found = figures(read_json(path)).values()
    broken = sum(figure.value == math.inf for figure in found)
    return count(len(found), "figure") + (f", {broken} failed" if broken else "")


def _values(
    columns: Mapping[str, Any],
) -> list[tuple[tuple[str, ...], float | None, tuple[float, float] | None]]:
    """The parameters, value and interval of each configuration in one row of asv's results."""
    combinations = list(itertools.product(*columns["params"]))
    absent = [None] * len(combinations)
    values = columns["result"] or absent
    lows = columns.get("stats_ci_99_a") or absent
    highs = columns.get("stats_ci_99_b") or absent
    ends = [None if low is None else (low, high) for low, high in zip(lows, highs, strict=True)]
    return list(zip(combinations, values, ends, strict=True))


def method(name: str) -> str:
    """The method of a benchmark's name."""
    return name.rpartition(".")[2]


def is_memory(name: str) -> bool:
    """Whether a benchmark measures memory."""
    return "mem_" in method(name)


def assemble(history: History, folder: Path) -> None:
    """Write the results of all nights and of earlier commits as asv keeps them.

    Two documents may measure a benchmark of the same commit in the same environment. Then the later
    night replaces the earlier one, and a night replaces the results of `--backfill`.
    """
    described: dict[str, Any] = {}
    merged: dict[str, Any] = {}
    nights = (path for night in history for path in night.figures.values())
    for document in map(read_json, (*history.earlier, *nights)):
        result = document["result"]
        described |= document["benchmarks"] | {"version": document["version"]}
        machine = document["machine"]["machine"]
        merged[f"{machine}/machine.json"] = document["machine"]
        name = f"{machine}/{result['commit_hash'][:8]}-{result['env_name']}.json"
        merged.setdefault(name, result)["results"].update(result["results"])
    merged["benchmarks.json"] = described
    for name, content in merged.items():
        write_json(content, folder / name)
