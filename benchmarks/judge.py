"""The cost of a verdict, measured on runs of the profile `quick` from start to report.

Each run compiles everything anew, tries one law at a time, and judges the requirements that
`quick` selects.
"""

import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

PARTS = ("metadata", "objects", "linen", "transformations", "bridge", "export", "processes")
PACKAGES = {"reference": "scutch_reference", "flax": "flax"}
WHOLE = "all"


def judged(implementation):
    """The report of a run, with the CPU seconds of all its processes as `seconds`.

    Raises:
      RuntimeError: The run ended without a verdict, as when an older suite does not know the
        options.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "scutch",
                "run",
                "--implementation",
                implementation,
                "-q",
                "--profile",
                "quick",
                "--report",
                str(report),
            ],
            env={**os.environ, "XDG_CACHE_HOME": folder, "JAX_PLATFORMS": "cpu"},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 2 or not report.exists():
            raise RuntimeError(f"judging {implementation} failed: {done.stdout}{done.stderr}")
        found = json.loads(report.read_text("utf-8"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    return {**found, "seconds": used}


class Quick:
    """The profile `quick`, as a whole and by the parts of the catalogue."""

    params = (list(PACKAGES), [WHOLE, *PARTS])
    param_names = ("implementation", "part")
    timeout = 900

    def setup_cache(self, *implementations):
        """Judge these implementations, or all that are installed, once each."""
        wanted = implementations or PACKAGES
        return {name: judged(name) for name in wanted if importlib.util.find_spec(PACKAGES[name])}

    def setup(self, cache, implementation, part):
        """Look up the part's requirements; an implementation that is not installed is skipped."""
        if implementation not in cache:
            raise NotImplementedError(f"{implementation} is not there")
        rows = cache[implementation]["requirements"]
        self.rows = [one for one in rows if part == WHOLE or one["id"].startswith(f"{part}/")]

    def track_cpu_seconds(self, cache, implementation, part):
        """CPU seconds of the part's laws; for `all`, of all processes with their start."""
        if part == WHOLE:
            return cache[implementation]["seconds"]
        return sum(one["cost"]["cpu"] for one in self.rows)

    def track_peak_memory(self, cache, implementation, part):
        """The most memory of a process that tries the part's laws, and any laws before them."""
        return max((one["cost"]["peak"] for one in self.rows), default=0)

    def track_programs(self, cache, implementation, part):
        """The programs that XLA compiles for the part's laws."""
        return sum(one["cost"]["compiled"] for one in self.rows)

    def track_inputs(self, cache, implementation, part):
        """The inputs that the part's laws are tried on."""
        return sum(one["examples"] for one in self.rows)

    track_cpu_seconds.unit = "s"
    track_peak_memory.unit = "bytes"
    track_programs.unit = "programs"
    track_inputs.unit = "inputs"
    track_cpu_seconds.jitters = track_peak_memory.jitters = True
