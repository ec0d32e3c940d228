"""An environment of its own, with the packages that this one has, but for scutch."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ALONE = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST_", "PIP_"))}
"""The environment variables of a process that imports from its own environment only."""


def borrowing_environment(folder, *without):
    """Make an environment that borrows packages, without an index.

    Args:
      folder: Where it goes.
      *without: Beginnings of the names of packages that it does not have.

    Returns:
      The path of its Python.
    """
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    packages = next(p for p in map(Path, sys.path) if p.name == "site-packages")
    borrowed = folder / "borrowed"
    borrowed.mkdir()
    for entry in packages.iterdir():
        if not any(name in entry.name for name in ("scutch", *without)):
            (borrowed / entry.name).symlink_to(entry)
    here = next((folder / "venv").glob("lib/python*/site-packages"))
    for bundled in here.glob("setuptools*"):  # with Python 3.11, and too old to build scutch
        shutil.rmtree(bundled)
    (here / "borrowed.pth").write_text(f"{borrowed}\n")
    return folder / "venv" / "bin" / "python"
