"""The time and memory of importing a library into a process that has imported only JAX."""

import importlib

from .libraries import LINEN, NNX, loaded

MODULES = {"jax": "jax.numpy", "reference": NNX["reference"], "flax": NNX["flax"]}
MODULES |= {f"{name} linen": module for name, module in LINEN.items()}


class Imports:
    """Importing a library after JAX."""

    params = (list(MODULES),)
    param_names = ("library",)

    def setup(self, library):
        """Skip a library that is not installed."""
        loaded(MODULES[library])

    def timeraw_import(self, library):
        """Seconds to import the module; JAX is imported before the clock starts."""
        return f"import {MODULES[library]}", "import jax"

    def peakmem_import(self, library):
        """The peak memory of a process that imports JAX and the module."""
        importlib.import_module(MODULES[library])
