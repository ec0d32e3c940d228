"""Benchmarks still run: each on each implementation, at its smallest size, once."""

import functools
import importlib
import inspect
import itertools
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


def benchmarks():
    """Every method that asv would measure, with each choice of parameters that are not sizes."""
    sys.path.insert(0, str(FOLDER.parent))
    try:
        for file in sorted(FOLDER.glob("[!_]*.py")):
            module = importlib.import_module(f"benchmarks.{file.stem}")
            for name, kind in inspect.getmembers(module, inspect.isclass):
                if kind.__module__ == module.__name__ and not name.startswith("_"):
                    yield from _methods(kind)
    finally:
        sys.path.remove(str(FOLDER.parent))


def _methods(kind):
    choices = [
        values[:1] if _are_sizes(values) else values for values in getattr(kind, "params", ())
    ]
    for name, chosen in itertools.product(dir(kind), itertools.product(*choices)):
        if name.startswith(("time_", "timeraw_", "track_", "peakmem_", "mem_")):
            label = "-".join([kind.__name__, name, *map(str, chosen)])
            yield pytest.param(kind, name, chosen, id=label)


def _are_sizes(values):
    """Numbers, or meshes such as 2x4."""
    return all(str(value).replace("x", "").isdigit() for value in values)


@functools.cache
def cache_of(kind):
    """What asv makes once and hands to each method."""
    return kind().setup_cache()


@pytest.fixture(scope="module", autouse=True)
def _devices():
    sys.modules["benchmarks.guide"].ask_for_devices(8)


@pytest.mark.parametrize(("kind", "name", "chosen"), list(benchmarks()))
def test_a_benchmark_runs(kind, name, chosen):
    benchmark = kind()
    if hasattr(kind, "setup_cache"):
        chosen = (cache_of(kind), *chosen)
    try:
        getattr(benchmark, "setup", lambda *_: None)(*chosen)
    except NotImplementedError as absent:  # what asv skips
        pytest.skip(str(absent))
    try:
        measured = getattr(benchmark, name)(*chosen)
    finally:
        getattr(benchmark, "teardown", lambda *_: None)(*chosen)
    if name.startswith("track_"):
        assert measured >= 0
    if name.startswith("timeraw_"):
        code, before = measured
        subprocess.run([sys.executable, "-c", f"{before}\n{code}"], check=True)
