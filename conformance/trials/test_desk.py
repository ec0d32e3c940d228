"""The benchmarks for the desk are saved and compared by pytest-benchmark's own options."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def pytest(*arguments):
    """The output and exit code of a run of pytest, which must not take itself for a worker."""
    roots = os.pathsep.join(str(ROOT / name) for name in ("reference", "conformance"))
    ours = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env={**ours, "PYTHONPATH": roots, "COLUMNS": "120"},
        check=False,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.stdout, done.returncode


def test_a_run_is_saved_and_the_next_compared_with_it(tmp_path):
    """Implementations stand side by side, or in a group each."""
    common = ("benchmarks/desk", "-k", "Trees and unbox", "--benchmark-max-time=0.05")
    saved = ("--benchmark-autosave", f"--benchmark-storage={tmp_path}")
    first, code = pytest(*common, *saved)
    assert code == 0, first
    assert "benchmark 'Trees unbox, 100': 3 tests" in first
    assert len(list(tmp_path.rglob("0001_*.json"))) == 1
    second, code = pytest(
        *common,
        f"--benchmark-storage={tmp_path}",
        "--benchmark-compare",
        "--benchmark-group-by=param:implementation",
    )
    assert code == 0, second
    assert "benchmark 'implementation=reference'" in second
    assert "[Trees unbox, 100-reference] (NOW)" in second
    assert "[Trees unbox, 100-reference] (0001_" in second


def test_other_runs_do_not_collect_them():
    shown, code = pytest("--collect-only", "-q", "benchmarks")
    assert (code, "no tests collected" in shown) == (5, True)
