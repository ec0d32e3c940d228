"""Liars: implementations that are right but for one law. See `trials.liars.tale`.

Every module of this folder tells lies; `liars` imports them all, so that a new one is found.
"""

import functools
import importlib
import pkgutil

from trials.liars.tale import LIARS
from trials.liars.tale import Liar as Liar


@functools.cache
def liars() -> tuple[Liar, ...]:
    """Every liar, in the order of the modules and of their text."""
    for module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{module}")
    return tuple(LIARS)
