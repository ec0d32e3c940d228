"""The guide's train step in a job of several processes that `jax.distributed` connects.

`python -m benchmarks.processes --processes 2` trains on a 2x4 mesh whose eight devices are divided
among the processes. It prints the squared norm of the state after each step, and the median seconds
of a step. When one process of the job ends early, the others are killed and the job fails.
"""

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DEVICES = 8
LIMIT = 300.0
PROGRAM = ("train", "unrolled")


class JobFailed(Exception):
    """A process of the job ended early; the text names the process and quotes its output."""


def train(rank, processes, port, implementation, steps, width):
    """Train in one process of the job; the process of rank 0 prints the figures as JSON."""
    import jax
    import jax.numpy as jnp

    from .guide import Step
    from .meshes import mesh_of

    if processes > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"127.0.0.1:{port}", processes, rank)
    mesh = mesh_of("2x4")
    step = Step(implementation, *PROGRAM, mesh, width)
    state, x = step.arguments()
    run = step.compile()
    replicated = jax.NamedSharding(mesh, jax.P())

    def squares(state):
        return sum(jnp.square(leaf).sum() for leaf in jax.tree.leaves(state))

    norm = jax.jit(squares, out_shardings=replicated)
    norms, times = [], []
    for _ in range(steps):
        started = time.perf_counter()
        state, _ = jax.block_until_ready(run(state, x))
        times.append(time.perf_counter() - started)
        norms.append(float(norm(state)))
    if rank == 0:
        print(json.dumps({"norms": norms, "seconds": statistics.median(times)}), flush=True)


def job(implementation, *, processes=2, steps=3, width=256, on_start=None):
    """Run a job to its end.

    Args:
      implementation: One of `guide.IMPLEMENTATIONS`.
      processes: How many processes; divides 8, the number of devices.
      steps: How many train steps.
      width: The size of the model's layers.
      on_start: Called with the list of `subprocess.Popen` once all have started.

    Returns:
      A dictionary: `norms`, the squared norm of the state after each step, and `seconds`, the
      median time of a step.

    Raises:
      JobFailed: A process ended with an error or was killed, and the others were killed with it; or
        the job took longer than `LIMIT` seconds.
    """
    flags = f"--xla_force_host_platform_device_count={DEVICES // processes}"
    roots = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": flags,
        "PYTHONPATH": os.pathsep.join(filter(None, roots)),
    }
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port, members = free_port(), []
        for rank in range(processes):
            worker = (implementation, str(steps), str(width), str(rank), str(processes), str(port))
            output = stack.enter_context((folder / f"{rank}").open("w"))
            member = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.processes", "--worker", *worker],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
            stack.callback(member.wait)
            stack.callback(member.kill)  # not terminate: JAX traps it, and waits for the others
            members.append(member)
        if on_start is not None:
            on_start(members)
        watch(members, folder)
        return json.loads((folder / "0").read_text().strip().splitlines()[-1])


def watch(members, folder):
    """Wait until all processes have ended with code 0.

    Raises:
      JobFailed: One did not, or the job took longer than `LIMIT` seconds.
    """
    started = time.monotonic()
    while any(member.poll() is None for member in members) or any(m.returncode for m in members):
        # Killing one process makes the others fail: the one that a signal ended came first.
        ended = {rank: m.returncode for rank, m in enumerate(members) if m.poll()}
        if ended:
            rank = min(ended, key=lambda each: (ended[each] > 0, each))
            last = (folder / f"{rank}").read_text()[-1500:].strip()
            raise JobFailed(
                f"process {rank} of {len(members)} ended with code {ended[rank]}, and the job with "
                f"it; its last words: {last or 'none'}"
            )
        if time.monotonic() - started > LIMIT:
            raise JobFailed(f"the job of {len(members)} processes took more than {LIMIT:.0f} s")
        time.sleep(0.1)


def free_port():
    """A free TCP port of the loopback interface."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


class Processes:
    """The guide's train step on a 2x4 mesh, in one process and divided among two."""

    params = (["jax", "reference", "flax"], [1, 2])
    param_names = ("implementation", "processes")
    timeout = 2 * LIMIT

    def track_step_seconds(self, implementation, processes):
        """The median seconds of ten steps; it jitters."""
        from .guide import Step
        from .meshes import ask_for_devices, mesh_of

        ask_for_devices(DEVICES)
        Step(implementation, *PROGRAM, mesh_of("2x4"))  # skips an implementation that is absent
        return job(implementation, processes=processes, steps=10)["seconds"]

    track_step_seconds.unit = "seconds"
    track_step_seconds.jitters = True


def main(arguments):
    """Run a job, or with `--worker` one process of a job; returns an exit code."""
    if arguments[:1] == ["--worker"]:
        implementation, *numbers = arguments[1:]
        steps, width, rank, processes, port = map(int, numbers)
        train(rank, processes, port, implementation, steps, width)
        return 0
    parser = argparse.ArgumentParser("python -m benchmarks.processes", description=__doc__)
    parser.add_argument("--implementation", default="reference")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    given = parser.parse_args(arguments)
    try:
        print(json.dumps(job(given.implementation, processes=given.processes, steps=given.steps)))
    except JobFailed as failure:
        print(f"the job failed: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
