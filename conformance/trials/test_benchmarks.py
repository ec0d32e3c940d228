"""Benchmarks still run: each on each implementation, at its smallest size, once."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from benchmarks import meshes
from benchmarks.configurations import configurations

ROOT = Path(__file__).parents[2]
MEASURED = ("time_", "timeraw_", "track_", "peakmem_")


def is_smallest(configuration):
    """Whether each parameter that is a size, a number or a mesh such as 2x4, is the first."""
    return all(
        value == values[0] or not str(value).replace("x", "").isdigit()
        for value, values in zip(
            configuration.parameters, getattr(configuration.owner, "params", ()), strict=True
        )
    )


@pytest.fixture(scope="module", autouse=True)
def _devices():
    meshes.ask_for_devices(8)


OTHERS = {"equinox", "flax", "flax cached", "flax linen", "jax"}
"""Implementations that no commit here changes: only the nightly runs their benchmarks."""
SMALLEST = [
    pytest.param(
        each, id=each.name, marks=[pytest.mark.nightly] * (not OTHERS.isdisjoint(each.parameters))
    )
    for each in configurations(*MEASURED)
    if is_smallest(each)
]


@pytest.mark.parametrize("configuration", SMALLEST)
def test_a_benchmark_runs(configuration):
    try:
        with configuration.ready() as measure:
            measured = measure()
    except NotImplementedError as absent:  # asv skips it
        pytest.skip(str(absent))
    if configuration.method.startswith("track_"):
        assert measured >= 0
    if configuration.method.startswith("timeraw_"):
        code, before = measured
        subprocess.run([sys.executable, "-c", f"{before}\n{code}"], check=True)


@pytest.mark.parametrize("lacking", [("linen", "nnx", "bridge"), ("bridge",)])
def test_on_a_commit_that_lacks_a_feature_the_rest_is_measured(tmp_path, lacking):
    """Benchmarks of an absent feature are left out, and none fails."""
    package = shutil.copytree(
        ROOT / "reference" / "scutch_reference", tmp_path / "scutch_reference"
    )
    for feature in lacking:
        shutil.rmtree(package / feature)
    file = tmp_path / "counts"
    select = r"^(metadata|dispatch\.Traces|bridge\.Conv|compilation\.Compilation).*\(reference"
    subprocess.run(
        [sys.executable, "-m", "benchmarks.counts", str(file), "--select", select],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=True,
    )
    measured = {name.split(".")[0] for name in json.loads(file.read_text())}
    there = {"metadata"} if "nnx" in lacking else {"metadata", "dispatch", "compilation"}
    assert measured == there


def test_accelerators_are_a_row_or_a_column_of_all_there_are(monkeypatch):
    """Fake devices of the host stand for them; with none the benchmarks are skipped."""
    with pytest.raises(NotImplementedError, match="no mesh 'accelerators 1xN' of the 0 devices"):
        meshes.mesh_of("accelerators 1xN", [])
    monkeypatch.setattr(meshes, "accelerators", lambda: jax.devices("cpu")[:4])
    assert dict(meshes.mesh_of("accelerators 1xN").shape) == {"data": 1, "model": 4}
    assert dict(meshes.mesh_of("accelerators Nx1").shape) == {"data": 4, "model": 1}
