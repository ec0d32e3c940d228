"""The two ways to export, for tests of both; the one by TensorFlow only where it is installed."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest
from scutch_reference.export import ExportModelType

SAVES_PROGRAMS = importlib.util.find_spec("flatbuffers") is not None


def _without_tensorflow():
    return importlib.util.find_spec("tensorflow") is None


@pytest.fixture(params=list(ExportModelType), ids=lambda kind: kind.name)
def backend(request):
    """Each backend; TensorFlow's is skipped where TensorFlow is not installed."""
    if request.param is ExportModelType.TF_SAVEDMODEL and _without_tensorflow():
        pytest.skip("TensorFlow is not installed: pip install 'scutch[export]'")
    return request.param


@pytest.fixture
def saving(backend):
    """A backend whose modules can be saved here."""
    if backend is ExportModelType.ORBAX_MODEL and not SAVES_PROGRAMS:
        pytest.skip("JAX writes programs with flatbuffers, which is not installed")
    return backend


@pytest.fixture
def tensorflow():
    """TensorFlow, imported."""
    if _without_tensorflow():
        pytest.skip("TensorFlow is not installed: pip install 'scutch[export]'")
    import tensorflow

    return tensorflow


@pytest.fixture(scope="module")
def in_new_process(tmp_path_factory):
    """Runs a program in a new process, on eight devices; returns the JSON that it printed.

    With `ours=False` the process finds neither the reference nor the judge.
    """

    def run(program, *arguments, ours):
        file = tmp_path_factory.mktemp("process") / "program.py"
        file.write_text(program, encoding="utf-8")
        environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
        environment["PYTHONPATH"] = os.pathsep.join(sys.path) if ours else ""
        command = [sys.executable, *([] if ours else ["-P"]), str(file), *map(str, arguments)]
        done = subprocess.run(
            command, env=environment, cwd=file.parent, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run
