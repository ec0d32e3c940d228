"""What it costs to import a library, in a process that has nothing but JAX."""

import importlib

from .libraries import LINEN, NNX, loaded

MODULES = {"jax": "jax.numpy", "reference": NNX["reference"], "flax": NNX["flax"]}
MODULES |= {f"{name} linen": module for name, module in LINEN.items()}


class Imports:
    """Importing a library, after JAX."""

    params = (list(MODULES),)
    param_names = ("library",)

    def setup(self, library):
        """Skip what is not there."""
        loaded(MODULES[library])

    def timeraw_import(self, library):
        """Seconds for the module; JAX is imported before."""
        return f"import {MODULES[library]}", "import jax"

    def peakmem_import(self, library):
        """The most memory of a process that imports the module, and JAX."""
        importlib.import_module(MODULES[library])
