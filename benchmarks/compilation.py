"""Counts of the guide's steps, as XLA compiles them for more devices than this machine has.

No step is run: the counts are read from the compiled program. Each platform and number of devices
is compiled for in a process of its own, `python -m benchmarks.compilation PLATFORM
IMPLEMENTATION... on MESH...`, because the number of fake devices is fixed when a process starts,
and because libtpu aborts the process on an error.
"""

import contextlib
import importlib.util
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import jax

from .collectives import KINDS, collectives
from .guide import IMPLEMENTATIONS, LOOPS, PROGRAMS, Step
from .meshes import HOST, mesh_of

LARGE = {"cpu 8x8": 64, "cpu 16x32": 512}
TPU = {"tpu v5e 4x4": "v5e:4x4", "tpu v5e 8x8": "v5e:8x8", "tpu v5e 16x16": "v5e:16x16"}


def facts(compiled):
    """The cost of a compiled program on each device, in collectives, bytes of memory and FLOPs.

    The figures are the same whenever the same program is compiled.
    """
    memory, cost = compiled.memory_analysis(), compiled.cost_analysis()
    cost = cost[0] if isinstance(cost, list) else cost
    return {
        "collectives": collectives(compiled.as_text()),
        "temporary": memory.temp_size_in_bytes,
        "peak": getattr(memory, "peak_memory_in_bytes", 0),
        "arguments": memory.argument_size_in_bytes,
        "flops": int(cost["flops"]),
    }


def devices_of(platform):
    """The fake devices of the host for `cpu`, else the devices of a TPU topology to compile for."""
    if platform == "cpu":
        return jax.devices()
    from jax.experimental import topologies

    return topologies.get_topology_desc(platform="tpu", topology_name=platform).devices


def compiled(platform, implementations, meshes):
    """The facts of each step on each mesh, by its parameters with spaces between them.

    An implementation that is not installed is left out.
    """
    devices = devices_of(platform)
    found = {}
    for parameters in itertools.product(implementations, PROGRAMS, LOOPS, meshes):
        *program, mesh = parameters
        with contextlib.suppress(NotImplementedError):
            found[" ".join(parameters)] = facts(Step(*program, mesh_of(mesh, devices)).compile())
    return found


def compiled_in_a_process(platform, count, implementations, meshes):
    """Run `compiled` in a new process with `count` fake devices of the host; return its facts.

    Raises:
      RuntimeError: The process failed.
    """
    flags = f"--xla_force_host_platform_device_count={count}"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    # libtpu only compiles: it must not look for a TPU, nor refuse while another process compiles.
    environment |= {"TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
    roots = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, roots))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.compilation", platform, *implementations, "on", *meshes],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(
            f"compiling for {count} {platform} devices failed: {done.stderr[-2000:]}"
        )
    return json.loads(done.stdout.splitlines()[-1])


class Compilation:
    """Counts of the guide's compiled steps, for each device, on meshes of up to 8 fake devices."""

    params = (IMPLEMENTATIONS, PROGRAMS, LOOPS, HOST)
    param_names = ("implementation", "program", "loop", "mesh")
    timeout = 900

    def setup_cache(self, *implementations):
        """Compile every step once, of these implementations or of all."""
        return compiled_in_a_process("cpu", 8, implementations or IMPLEMENTATIONS, HOST)

    def setup(self, cache, *parameters):
        """Look the facts up; a step that was not compiled is skipped."""
        try:
            self.facts = cache[" ".join(parameters)]
        except KeyError as error:
            raise NotImplementedError(f"{parameters[0]} is not there") from error

    def _sum(self, measure):
        return sum(found[measure] for found in self.facts["collectives"].values())

    def track_all_gathers(self, cache, *parameters):
        """All-gathers in one step."""
        return self._count("all-gather")

    def track_all_reduces(self, cache, *parameters):
        """All-reduces in one step."""
        return self._count("all-reduce")

    def track_other_collectives(self, cache, *parameters):
        """Collectives in one step that are neither all-gather nor all-reduce."""
        return sum(self._count(kind) for kind in KINDS if kind not in ("all-gather", "all-reduce"))

    def _count(self, kind):
        return self.facts["collectives"].get(kind, {"count": 0})["count"]

    def track_bytes_moved(self, cache, *parameters):
        """Bytes of the results of all collectives of one step, on each device."""
        return self._sum("bytes")

    def track_temporary_bytes(self, cache, *parameters):
        """Bytes of buffers that live only during a step; libtpu always reports 0."""
        return self.facts["temporary"]

    def track_peak_bytes(self, cache, *parameters):
        """The most bytes in use at any time of one step, on each device."""
        return self.facts["peak"]

    def track_argument_bytes(self, cache, *parameters):
        """Bytes of the step's arguments, on each device."""
        return self.facts["arguments"]

    def track_flops(self, cache, *parameters):
        """Floating-point operations as XLA counts them, with the body of a loop counted once."""
        return self.facts["flops"]

    track_all_gathers.unit = "collectives"
    track_all_reduces.unit = "collectives"
    track_other_collectives.unit = "collectives"
    track_bytes_moved.unit = "bytes"
    track_temporary_bytes.unit = "bytes"
    track_peak_bytes.unit = "bytes"
    track_argument_bytes.unit = "bytes"
    track_flops.unit = "FLOPs"


class Scale(Compilation):
    """The same counts for 64 and 512 fake devices, and for 16 to 256 TPU v5e chips with libtpu."""

    params = (IMPLEMENTATIONS, PROGRAMS, LOOPS, [*LARGE, *TPU])
    timeout = 1800

    def setup_cache(self, *implementations):
        """Compile every step once, of these implementations or of all."""
        implementations = implementations or IMPLEMENTATIONS
        found = {}
        for mesh, count in LARGE.items():
            found |= compiled_in_a_process("cpu", count, implementations, [mesh])
        for mesh, topology in TPU.items() if _has_libtpu() else ():
            found |= compiled_in_a_process(topology, 1, implementations, [mesh])
        return found


def _has_libtpu():
    return importlib.util.find_spec("libtpu") is not None


if __name__ == "__main__":
    platform, *rest = sys.argv[1:]
    middle = rest.index("on")
    print(json.dumps(compiled(platform, rest[:middle], rest[middle + 1 :]), sort_keys=True))
