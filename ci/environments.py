"""Where a night judges and measures: Pythons, each with packages."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gatekeeper import NothingMeasured
from judgment import ROOT

PINNED = {"py311": ("python3.11",), "py312": ("python3.12", "python3.13")}
FACTS = """
import json, platform
from importlib.metadata import distributions
found = {each.metadata["Name"].lower(): each.version for each in distributions()}
print(json.dumps({"python": platform.python_version(), "packages": found}))
"""
SHOWN = ("jax", "flax", "libtpu")


@dataclass(frozen=True)
class Environment:
    """A Python with packages.

    Args:
      name: Short, and the same every night, such as `py3.11`.
      python: Its interpreter.
      versions: Of Python, and of the packages that matter here, where they are.
    """

    name: str
    python: str
    versions: Mapping[str, str]

    def __str__(self) -> str:
        """All in one line."""
        return f"{self.name} ({', '.join(' '.join(each) for each in self.versions.items())})"


def chosen(pythons: Sequence[str]) -> list[Environment]:
    """Those of these interpreters, or of the pins; the same name is never there twice."""
    return told_apart([described(python) for python in pythons] or pinned())


def surroundings() -> dict[str, str]:
    """Environment variables of whatever measures or judges: this tree, and no accelerator."""
    roots = os.pathsep.join(str(ROOT / name) for name in ("reference", "conformance"))
    given = {"PYTHONPATH": roots, "ASV_PYTHONPATH": roots, "PYTHONHASHSEED": "0"}
    return {**os.environ, **given, "JAX_PLATFORMS": "cpu"}


def described(python: str) -> Environment:
    """An environment as it is; its interpreter by a path that holds in every folder."""
    found = shutil.which(python)
    if found is None:
        raise NothingMeasured(f"{python!r} is no Python: expected a path, or a name on PATH")
    python = os.path.abspath(found)
    done = subprocess.run(
        [python, "-c", FACTS], env=surroundings(), check=False,
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise NothingMeasured(f"{python} does not run: {last_line(done.stderr)}")
    facts = json.loads(done.stdout)
    packages = facts["packages"]
    packages.pop("scutch", None)  # is the commit's
    digest = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()
    versions = {"python": facts["python"]}
    versions |= {name: packages[name] for name in SHOWN if name in packages}
    name = f"py{'.'.join(facts['python'].split('.')[:2])}"
    return Environment(name, python, versions | {"packages": digest[:12]})


def told_apart(environments: Sequence[Environment]) -> list[Environment]:
    """The same, with the version of Flax in the names that would be alike."""
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
    """The environment that runs this, and those of the other pins whose Python is there."""
    found = [described(sys.executable)]
    for pins, names in PINNED.items():
        if any(f"py{name.removeprefix('python')}" == found[0].name for name in names):
            continue
        name = next(filter(shutil.which, names), None)
        if name is None:
            print(f"{pins}: left out, for none of {', '.join(names)} is there")
            continue
        done = subprocess.run(
            [str(ROOT / "ci" / "environment")], env={**os.environ, "PYTHON": name}, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        if done.returncode:
            print(f"{pins}: left out, for its environment could not be made, see above")
        else:
            found.append(described(done.stdout.strip()))
    return found


def last_line(text: str) -> str:
    """The last that a program said."""
    return next(iter(reversed(text.strip().splitlines())), "it said nothing")
