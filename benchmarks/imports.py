"""What it costs to import a library, in a process that has nothing but JAX."""

import subprocess
import sys

from .guide import LINEN

PROGRAM = """
import resource, sys
try:
    import jax, {module}
except ImportError:
    sys.exit(3)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
MODULES = {"jax": "jax.numpy", "reference": "scutch_reference.nnx", "flax": "flax.nnx"}
MODULES |= {f"{name} linen": module for name, module in LINEN.items()}


def peak_memory(module):
    """Bytes that a process needs which imports a module."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(module=module)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise NotImplementedError(f"{module} cannot be imported")
    return int(done.stdout)


class Imports:
    """Importing a library, after JAX."""

    params = (list(MODULES),)
    param_names = ("library",)

    def setup(self, library):
        """Skip what is not there, and have its bytecode compiled."""
        self.memory = peak_memory(MODULES[library])

    def timeraw_import(self, library):
        """Seconds for the module; JAX is imported before."""
        return f"import {MODULES[library]}", "import jax"

    def track_peak_memory(self, library):
        """The most memory of a process that imports it."""
        return self.memory

    track_peak_memory.unit = "bytes"
    track_peak_memory.jitters = True
