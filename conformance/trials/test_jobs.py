"""Laws of several processes are tried in a job, and a process that is lost costs one law.

The jobs are real: processes that `jax.distributed` joins on this machine.
"""

import json
import os
import subprocess
import sys
import textwrap
import time

import pytest
from scutch.judging import job
from scutch.loading import load

LOSES_A_PROCESS = """
    import os, signal, time
    import jax
    from scutch.adapters.reference import implementation as honest
    from scutch.implementation import Implementation
    from scutch.namespaces import Namespace
    from types import SimpleNamespace
    from scutch_reference import logical

    def with_logical_constraint(*arguments, **options):
        if jax.process_index() == 1:
            {loss}
        return logical.with_logical_constraint(*arguments, **options)

    lying = SimpleNamespace(with_logical_constraint=with_logical_constraint)
    implementation = Implementation(
        "lossy", "1", meta=honest.meta, logical=Namespace("lying logical", lying, honest.logical),
        nnx=honest.nnx, transforms=honest.transforms,
    )
"""


def judged(*arguments, folder, **environment):
    """The report of a run, and its exit code."""
    report = folder / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", "scutch", "run", "--report", str(report), *arguments],
        env={**os.environ, **environment},
        cwd=folder,
        check=False,
        timeout=170,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert report.exists(), done.stdout + done.stderr
    rows = json.loads(report.read_text())["requirements"]
    return done.returncode, {row["id"]: row for row in rows}


@pytest.mark.parametrize("processes", ["2", pytest.param("4", marks=pytest.mark.nightly)])
def test_arrays_that_no_process_sees_whole_are_judged(tmp_path, processes):
    few = (
        "processes/shardings/tensor-parallel-equals-whole",
        "processes/shardings/unboxing-places-across-processes",
        "processes/shardings/tree-functions-keep-split-arrays",
    )
    chosen = [word for each in few for word in ("--requirement", each)]
    code, rows = judged(*chosen, "--processes", processes, "--examples", "3", folder=tmp_path)
    assert {each: rows[each]["verdict"] for each in few} == dict.fromkeys(few, "passed")
    assert code == 0


@pytest.mark.parametrize(
    ("loss", "verdict", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "crashed", "process 1 of 2 was ended by SIGKILL"),
        ("time.sleep(1000)", "failed", "process 1 gave no answer within 20 s"),
        ("raise ValueError('not here')", "failed", "not here"),
    ],
)
def test_a_lost_process_costs_its_law_only(tmp_path, loss, verdict, said):
    adapter = tmp_path / "lossy.py"
    adapter.write_text(textwrap.dedent(LOSES_A_PROCESS.format(loss=loss)))
    chosen = [
        "--requirement",
        "processes/shardings/replicas-are-bitwise-equal",
        "--requirement",
        "processes/shardings/logical-constraint-places-across-processes",
        "--requirement",
        "processes/shardings/tree-functions-keep-split-arrays",
    ]
    started = time.monotonic()
    code, rows = judged(
        *chosen,
        "--implementation",
        str(adapter),
        "--examples",
        "2",
        "--law-timeout",
        "60",
        folder=tmp_path,
    )
    assert time.monotonic() - started < 120
    assert (
        rows["processes/shardings/logical-constraint-places-across-processes"]["verdict"] == verdict
    )
    assert said in rows["processes/shardings/logical-constraint-places-across-processes"]["reason"]
    assert [
        rows[each]["verdict"]
        for each in (
            "processes/shardings/replicas-are-bitwise-equal",
            "processes/shardings/tree-functions-keep-split-arrays",
        )
    ] == ["passed", "passed"]
    assert code == 1


def test_a_process_that_cannot_answer_says_why_at_once():
    """It does not end: JAX would have it wait for the others, which wait for its next input."""
    started = time.monotonic()
    asked = job.Job(2, {"where": "reference", "offers": load("reference").offers})
    lost = asked.ask({"law": "test_no_law", "replay": None}, timeout=100)
    asked.close()
    assert time.monotonic() - started < 60
    assert lost.outcome == "untried"
    assert "process 0 of 2 could not answer:" in lost.reason
    assert "expected the name of a law" in lost.reason


def test_what_is_claimed_otherwise_in_a_process_of_the_job_is_not_tried():
    asked = job.Job(2, {"where": "reference", "offers": ["meta"]})
    lost = asked.ask({"law": "test_no_law", "replay": None}, timeout=100)
    asked.close()
    assert lost.outcome == "untried"
    assert "in this process; expected meta" in lost.reason


def test_without_a_job_its_laws_are_unclaimed_with_the_reason(tmp_path):
    chosen = [
        "--requirement",
        "processes/shardings/tree-functions-keep-split-arrays",
        "--requirement",
        "metadata/box-values/unbox-returns-same-object",
    ]
    code, rows = judged(*chosen, "--processes", "1", "--examples", "2", folder=tmp_path)
    assert rows["processes/shardings/tree-functions-keep-split-arrays"]["verdict"] == "unclaimed"
    assert "--processes 1" in rows["processes/shardings/tree-functions-keep-split-arrays"]["reason"]
    assert code == 0


def test_what_needs_more_devices_than_there_are_is_unclaimed(tmp_path):
    flags = "--xla_force_host_platform_device_count=1"
    code, rows = judged(
        "--requirement",
        "linen/training/sharded-equals-one-device",
        "--examples",
        "2",
        folder=tmp_path,
        XLA_FLAGS=flags,
    )
    assert rows["linen/training/sharded-equals-one-device"]["verdict"] == "unclaimed"
    assert (
        "needs 8 devices, and there are 1"
        in rows["linen/training/sharded-equals-one-device"]["reason"]
    )
    assert code == 2, "nothing was tested"


def test_under_a_launcher_every_process_runs_the_command_and_the_first_reports(tmp_path):
    """SLURM's environment variables, as `srun` sets them for two tasks on this machine."""
    chosen = [
        "--requirement",
        "processes/shardings/tree-functions-keep-split-arrays",
        "--requirement",
        "processes/shardings/replicas-are-bitwise-equal",
        "--examples",
        "2",
    ]
    slurm = {
        "SLURM_JOB_ID": str(10_000 + os.getpid() % 4_000),
        "SLURM_NTASKS": "2",
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_LAUNCHER_PORT": "0",
        "SLURM_JOB_NUM_NODES": "1",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
    }
    started = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "scutch",
                "run",
                "--launched",
                *chosen,
                "--report",
                str(tmp_path / f"{rank}.json"),
            ],
            env={**os.environ, **slurm, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=150)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    rows = json.loads((tmp_path / "0.json").read_text())["requirements"]
    assert {row["verdict"] for row in rows} == {"passed"}
    assert "process 1 has followed process 0" in said[1]
    assert not (tmp_path / "1.json").exists()


def test_a_judge_that_nothing_launched_says_what_to_do(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "scutch", "run", "--launched"],
        cwd=tmp_path,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 2
    assert "found no job; expected this command to be started in each process" in (
        done.stdout + done.stderr
    )
