"""What XLA makes of the guide's steps, without running them: on more devices than there are.

Each kind and number of devices has a process of its own, `python -m benchmarks.compilation KIND
IMPLEMENTATION... on MESH...`, since a process has one number of fake devices, and since libtpu ends
the process when it is displeased.
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
from .guide import IMPLEMENTATIONS, LAYOUTS, PROGRAMS, Step
from .meshes import HOST, mesh_of

LARGE = {"cpu 8x8": 64, "cpu 16x32": 512}
TPU = {"tpu v5e 4x4": "v5e:4x4", "tpu v5e 8x8": "v5e:8x8", "tpu v5e 16x16": "v5e:16x16"}


def facts(compiled):
    """What a compiled program costs on each device, as numbers that do not jitter."""
    memory, cost = compiled.memory_analysis(), compiled.cost_analysis()
    cost = cost[0] if isinstance(cost, list) else cost
    return {
        "collectives": collectives(compiled.as_text()),
        "temporary": memory.temp_size_in_bytes,
        "peak": getattr(memory, "peak_memory_in_bytes", 0),
        "arguments": memory.argument_size_in_bytes,
        "flops": int(cost["flops"]),
    }


def devices_of(kind):
    """Fake devices, or a TPU topology's, which cannot run anything."""
    if kind == "cpu":
        return jax.devices()
    from jax.experimental import topologies

    return topologies.get_topology_desc(platform="tpu", topology_name=kind).devices


def compiled(kind, implementations, meshes):
    """The facts of each step on each mesh, where the implementation is there."""
    devices, found = devices_of(kind), {}
    for choice in itertools.product(implementations, PROGRAMS, LAYOUTS, meshes):
        *program, mesh = choice
        with contextlib.suppress(NotImplementedError):
            found[" ".join(choice)] = facts(Step(*program, mesh_of(mesh, devices)).compile())
    return found


def elsewhere(kind, count, implementations, meshes):
    """The same in a process with so many devices."""
    flags = f"--xla_force_host_platform_device_count={count}"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    # Nothing runs on a TPU: ask nobody for one, and do not mind others that compile.
    environment |= {"TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
    roots = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, roots))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.compilation", kind, *implementations, "on", *meshes],
        env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"compiling for {count} {kind} devices failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


class Compilation:
    """Counts on the compiled steps of the guide, for each device of a fake mesh of at most 8."""

    params = (IMPLEMENTATIONS, PROGRAMS, LAYOUTS, HOST)
    param_names = ("implementation", "program", "layout", "mesh")
    timeout = 900

    def setup_cache(self, *implementations):
        """Compile all, or those of some implementations, once."""
        return elsewhere("cpu", 8, implementations or IMPLEMENTATIONS, HOST)

    def setup(self, cache, *choice):
        """Look up; what is not there is skipped."""
        try:
            self.facts = cache[" ".join(choice)]
        except KeyError as error:
            raise NotImplementedError(f"{choice[0]} is not there") from error

    def _sum(self, measure):
        return sum(found[measure] for found in self.facts["collectives"].values())

    def track_all_gathers(self, cache, *choice):
        """All-gathers that one step runs."""
        return self._count("all-gather")

    def track_all_reduces(self, cache, *choice):
        """All-reduces that one step runs."""
        return self._count("all-reduce")

    def track_other_collectives(self, cache, *choice):
        """Collectives of the other kinds."""
        return sum(self._count(kind) for kind in KINDS if kind not in ("all-gather", "all-reduce"))

    def _count(self, kind):
        return self.facts["collectives"].get(kind, {"count": 0})["count"]

    def track_bytes_moved(self, cache, *choice):
        """Bytes that collectives leave on each device."""
        return self._sum("bytes")

    def track_temporary_bytes(self, cache, *choice):
        """Bytes of buffers that live during a step only; libtpu says 0, whatever they are."""
        return self.facts["temporary"]

    def track_peak_bytes(self, cache, *choice):
        """The most bytes in use at a time."""
        return self.facts["peak"]

    def track_argument_bytes(self, cache, *choice):
        """Bytes of the arguments."""
        return self.facts["arguments"]

    def track_flops(self, cache, *choice):
        """Floating-point operations, as XLA counts them: the body of a loop once."""
        return self.facts["flops"]

    for _track in (track_all_gathers, track_all_reduces, track_other_collectives):
        _track.unit = "collectives"
    for _track in (track_bytes_moved, track_temporary_bytes, track_peak_bytes):
        _track.unit = "bytes"
    track_argument_bytes.unit = "bytes"
    track_flops.unit = "FLOPs"
    del _track


class Scale(Compilation):
    """The same on 64 and 512 fake devices, and on 16 to 256 TPU v5e chips where libtpu is."""

    params = (IMPLEMENTATIONS, PROGRAMS, LAYOUTS, [*LARGE, *TPU])
    timeout = 1800

    def setup_cache(self, *implementations):
        """Compile all, or those of some implementations, once."""
        found, implementations = {}, implementations or IMPLEMENTATIONS
        for mesh, count in LARGE.items():
            found |= elsewhere("cpu", count, implementations, [mesh])
        for mesh, topology in TPU.items() if _has_libtpu() else ():
            found |= elsewhere(topology, 1, implementations, [mesh])
        return found


def _has_libtpu():
    return importlib.util.find_spec("libtpu") is not None


if __name__ == "__main__":
    kind, *chosen = sys.argv[1:]
    middle = chosen.index("on")
    print(json.dumps(compiled(kind, chosen[:middle], chosen[middle + 1 :]), sort_keys=True))
