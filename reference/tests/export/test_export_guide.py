"""The export guide runs as a reader would run it, and its claims hold."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "examples" / "export_guide.py"
CLAIMS = 5


def run(*arguments):
    """The guide in a process of its own."""
    paths = [str(GUIDE.parents[1]), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, str(GUIDE), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        timeout=300,
    )


def test_every_claim_of_the_guide_holds_without_tensorflow():
    """It says that it makes no SavedModel."""
    pytest.importorskip("flatbuffers", reason="JAX writes programs with flatbuffers")
    done = run("--steps", "20", "--without-tensorflow")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "without TensorFlow: a SavedModel is not made" in done.stdout
    assert done.stdout.count("holds: ") == CLAIMS


def test_every_claim_of_the_guide_holds_with_tensorflow(tensorflow):
    """The same claims, once for each way to export."""
    done = run("--steps", "20", "--rows", "7")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "TF_SAVEDMODEL" in done.stdout
    assert done.stdout.count("holds: ") == 2 * CLAIMS


def test_a_claim_that_does_not_hold_is_an_error(monkeypatch, capsys):
    """The exit code says so, and the claim is shown."""
    pytest.importorskip("flatbuffers", reason="JAX writes programs with flatbuffers")
    import importlib.util

    spec = importlib.util.spec_from_file_location("export_guide", GUIDE)
    guide = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(guide)
    answer = {"predictions": [0.0] * 5, "gradients": [], "names": [], "packages": []}
    monkeypatch.setattr(guide, "served", lambda kind, folder, batch: answer)
    assert guide.main(["--steps", "2", "--without-tensorflow"]) == 1
    assert "3 claims fail" in capsys.readouterr().out
