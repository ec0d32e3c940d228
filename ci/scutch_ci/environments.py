"""The environments that a nightly judges and measures in, each a Python with its packages."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scutch_ci.checkout import ROOT, NothingMeasured, environment_of, output_of

PINNED = {"py311": ("python3.11",), "py312": ("python3.12", "python3.13")}
"""The interpreters that each file of pins fits."""

SHOWN = ("jax", "flax", "libtpu")
DESCRIBE = """
import json, platform
from importlib.metadata import distributions
found = {each.metadata["Name"].lower(): each.version for each in distributions()}
print(json.dumps({"python": platform.python_version(), "packages": found}))
"""


@dataclass(frozen=True)
class Environment:
    """A Python with packages.

    Args:
      name: A short name, the same every night, such as `py3.11`.
      python: The absolute path of its interpreter.
      versions: The versions of Python and of the packages in `SHOWN`; under `packages`, a digest of
        the versions of all packages.
    """

    name: str
    python: str
    versions: Mapping[str, str]

    def __str__(self) -> str:
        """Name and versions in one line."""
        return f"{self.name} ({', '.join(' '.join(each) for each in self.versions.items())})"


def chosen(pythons: Sequence[str]) -> list[Environment]:
    """The environments of these interpreters; without any, the environments of the pins.

    Raises:
      NothingMeasured: An interpreter does not run, or two environments are the same.
    """
    return told_apart([described(python) for python in pythons] or pinned())


def described(python: str) -> Environment:
    """The environment of an interpreter.

    Args:
      python: A path, or a name on `PATH`.

    Returns:
      The environment, with the interpreter's absolute path: asv runs in a folder of its own.

    Raises:
      NothingMeasured: There is no such interpreter, or it does not run.
    """
    found = shutil.which(python)
    if found is None:
        raise NothingMeasured(f"{python!r} is no Python: expected a path, or a name on PATH")
    python = os.path.abspath(found)
    described = output_of([python, "-c", DESCRIBE], f"{python} does not run", environment_of(ROOT))
    facts = json.loads(described)
    packages = facts["packages"]
    packages.pop("scutch", None)  # it is the commit's, not the environment's
    digest = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()
    versions = {"python": facts["python"]}
    versions |= {name: packages[name] for name in SHOWN if name in packages}
    name = f"py{'.'.join(facts['python'].split('.')[:2])}"
    return Environment(name, python, versions | {"packages": digest[:12]})


def told_apart(environments: Sequence[Environment]) -> list[Environment]:
    """The environments, with the version of Flax added to names that would be equal.

    Raises:
      NothingMeasured: Two of them have the same Python and the same Flax.
    """
    names = [one.name for one in environments]
    apart = [
        replace(one, name=f"{one.name}-flax-{one.versions.get('flax', 'none')}")
        if names.count(one.name) > 1
        else one
        for one in environments
    ]
    if len({one.name for one in apart}) < len(apart):
        raise NothingMeasured(f"two environments are alike: {', '.join(map(str, apart))}")
    return apart


def pinned() -> list[Environment]:
    """This process's environment, and one for each other file of pins whose Python is installed."""
    found = [described(sys.executable)]
    for pins, names in PINNED.items():
        if any(f"py{name.removeprefix('python')}" == found[0].name for name in names):
            continue
        name = next(filter(shutil.which, names), None)
        if name is None:
            print(f"{pins}: left out, because none of {', '.join(names)} is installed")
            continue
        done = subprocess.run(
            [str(ROOT / "ci" / "environment")],
            env={**os.environ, "PYTHON": name},
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            print(f"{pins}: left out, because its environment could not be made, see above")
        else:
            found.append(described(done.stdout.strip()))
    return found
