"""Forks of Flax with one planted fault each. See `trials.forks.planting`.

`faults` gives all of them, in the order of the modules and of their text.
"""

import functools
import importlib
import pkgutil

from trials.forks.planting import FAULTS
from trials.forks.planting import Fault as Fault


@functools.cache
def faults() -> tuple[Fault, ...]:
    """Every fault that is planted in some module of this folder."""
    for module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{module}")
    return tuple(FAULTS)
