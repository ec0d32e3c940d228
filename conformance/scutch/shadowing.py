"""Modules that stand on Python's path in the place of a package that the judge is built on.

A folder on PYTHONPATH, or the current one, may hold a `jax.py` or a `pytest.py`. Python would
import it, and a run would end in an error about an attribute, or with nothing judged. This module
imports nothing but the standard library, so that it can be asked first.
"""

import importlib.util
from pathlib import Path

_FILES = {
    "jax": "version.py",
    "numpy": "version.py",
    "hypothesis": "version.py",
    "psutil": "_common.py",
    "pytest": "__main__.py",
}
"""A file that each package has."""


def stranger() -> str | None:
    """The message to a user whose environment has another module under the name of a package.

    Returns:
      A sentence with the file and the remedy; `None` where each package is itself, or missing.
    """
    for name, file in _FILES.items():
        spec = importlib.util.find_spec(name)
        if spec is None or any(
            Path(folder, file).is_file() for folder in spec.submodule_search_locations or ()
        ):
            continue
        where = spec.origin or next(iter(spec.submodule_search_locations or ()), "a module")
        return (
            f"Python finds {where} under the name {name}, and not the package of that name; "
            "rename it, or take its folder off PYTHONPATH"
        )
    return None
