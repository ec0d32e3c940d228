"""The command `scutch`, which first makes sure that `scutch` is not somebody else's module.

A folder on PYTHONPATH may hold a module of that name. Python would import it in the judge's place,
and end with exit code 1, which says that something does not conform.
"""

import importlib.util
import sys
from pathlib import Path

_OWN = Path(__file__).resolve().with_name("scutch") / "__init__.py"


def main() -> int:
    """Carry out the command line; returns an exit code."""
    found = importlib.util.find_spec("scutch")
    origin = None if found is None else found.origin
    if origin is None or Path(origin).resolve() != _OWN:
        print(
            f"scutch: Python finds {origin or 'another folder'} under the name scutch, and not "
            f"{_OWN}; rename it, or take its folder off PYTHONPATH",
            file=sys.stderr,
        )
        return 2
    from scutch.cli import main

    return main()
