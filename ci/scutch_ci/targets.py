"""The releases that `ci/matrix` judges, and the environment that each is judged in.

A file of `ci/pins/releases` has the packages of one release, all of them, and begins with the
Python that they are for:

    # Python 3.12
    flax==0.12.8
    jax==0.11.0
"""

import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.version import Version
from scutch.report.text import publish

from scutch_ci import tasks
from scutch_ci.checkout import ROOT, NothingMeasured, last_line

PINS = ROOT / "ci" / "pins" / "releases"
NAME = re.compile(r"(?P<name>[a-z-]*[a-z])-(?P<release>\d[\w.]*?)(-jax-(?P<jax>\d[\w.]*))?")
ADAPTERS = {
    "flax": "flax",
    "flax-no-graph": "scutch.adapters.flax:without_graph",
    "flax-no-graph-updates": "scutch.adapters.flax:without_graph_updates",
    "orbax": "orbax",
    "jax": "scutch.adapters.jax:implementation",
}
"""How the implementation of a record is loaded."""

JUDGING = (
    "attrs execnet hypothesis iniconfig packaging pluggy psutil pygments pytest "
    "pytest-xdist sortedcontainers"
).split()
"""The packages that the judge needs beside JAX.

Their versions come from the newest pins, unless the pins of the release have them.
"""


@dataclass(frozen=True)
class Target:
    """One release to judge.

    Args:
      implementation: A key of `ADAPTERS`.
      release: Its version.
      jax: The version of JAX, where it is not the one of the release's day; empty otherwise.
    """

    implementation: str
    release: str
    jax: str = ""

    @classmethod
    def named(cls, name: str) -> "Target":
        """The target that a name stands for, such as `flax-0.12.8` or `flax-0.10.5-jax-0.6.0`.

        Raises:
          NothingMeasured: `name` is no such name, the release has no pins, or no later release has
            pins with the JAX in `name`.
        """
        parts = NAME.fullmatch(name)
        if parts is None or parts["name"] not in ADAPTERS:
            expected = " or ".join(f"{each}-RELEASE" for each in ADAPTERS)
            raise NothingMeasured(f"{name!r} is no release: expected {expected}")
        target = cls(parts["name"], parts["release"], parts["jax"] or "")
        if not target.pins.exists():
            raise NothingMeasured(f"{name!r}: there are no pins at {target.pins}")
        if target.jax and not target.donors:
            raise NothingMeasured(
                f"{name!r}: no later release of {target.implementation} has pins with that JAX"
            )
        return target

    def __str__(self) -> str:
        """The name, which `named` takes."""
        return f"{self.implementation}-{self.release}" + (f"-jax-{self.jax}" if self.jax else "")

    @property
    def package(self) -> str:
        """The name of its package; the modes of Flax are in the package of Flax."""
        return self.implementation.partition("-")[0]

    @property
    def pins(self) -> Path:
        """The file with the packages of the release."""
        return PINS / f"{self.package}-{self.release}.txt"

    @property
    def donors(self) -> "list[Target]":
        """The later releases with its JAX, oldest first; of a target with the JAX of its day, none.

        With another JAX, a release is judged in the environment of the first of them.
        """
        if not self.jax:
            return []
        own = Version(self.release)
        return [
            each
            for each in pinned(self.package)
            if Version(each.release) > own and each.jax_of_its_day == self.jax
        ]

    @property
    def jax_of_its_day(self) -> str:
        """The version of JAX in the pins of the release."""
        found = re.search(r"^jax==(\S+)$", self.pins.read_text("utf-8"), re.MULTILINE)
        if found is None:
            raise NothingMeasured(f"{self.pins.name} has no line like 'jax==0.12.0'")
        return found[1]

    @property
    def packages(self) -> str:
        """All packages of its environment, a line each, after one like `# Python 3.12`."""
        if not self.jax:
            return self.pins.read_text("utf-8")
        donor = self.donors[0]
        return donor.packages.replace(
            f"{self.package}=={donor.release}\n", f"{self.package}=={self.release}\n"
        )

    @property
    def age(self) -> tuple[Version, bool]:
        """A sort key, from old to new."""
        return Version(self.release), not self.jax


def pinned(package: str) -> list[Target]:
    """The releases of a package that have pins, oldest first."""
    found = [Target.named(path.stem) for path in PINS.glob(f"{package}-*.txt")]
    return sorted(found, key=lambda target: target.age)


def set_back() -> list[Target]:
    """Each release of Flax with the JAX of the next one, where that is another, oldest first.

    Their records tell changes of JAX from changes of Flax.
    """
    return [
        replace(old, jax=new.jax_of_its_day)
        for old, new in itertools.pairwise(pinned("flax"))
        if old.jax_of_its_day != new.jax_of_its_day
    ]


def targets(names: Sequence[str]) -> list[Target]:
    """The releases of these names, or all that have pins, newest first; Flax before others.

    Without names, the newest Flax is judged in its other modes, too, and each release of Flax with
    the JAX of the next one.
    """
    if names:
        return [Target.named(name) for name in names]
    flax = pinned("flax")[::-1]
    modes = [
        replace(flax[0], implementation=f"flax-{mode}") for mode in ("no-graph", "no-graph-updates")
    ]
    return [*flax, *pinned("orbax")[::-1], *pinned("jax")[::-1], *set_back()[::-1], *modes]


# ---------------------------------------------------------------- environments


def interpreter(version: str) -> str:
    """The path of an interpreter that runs, from `PATH` or else from pyenv's folder.

    Args:
      version: The version of Python, such as `3.12`.

    Raises:
      NothingMeasured: No interpreter of this version runs.
    """
    name = f"python{version}"
    held = (Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions").glob(
        f"{version}.*/bin/{name}"
    )
    for found in (shutil.which(name), *sorted(map(str, held), reverse=True)):
        runs = found and subprocess.run([found, "-c", ""], capture_output=True, check=False)
        if runs and found and runs.returncode == 0:
            return found
    raise NothingMeasured(f"there is no {name} on the path that runs, and pyenv holds none")


def environment(target: Target, folder: Path, log: Path) -> str:
    """Make the environment of a release where it is missing; returns the path of its Python.

    Args:
      target: The release.
      folder: Where the environments are kept.
      log: The file that the installer's output is added to.

    Raises:
      NothingMeasured: It could not be made.
    """
    name = str(replace(target, implementation=target.package))
    return made(name, target.packages, folder, log)


def made(name: str, pins: str, folder: Path, log: Path) -> str:
    """Make an environment where it is missing; returns the path of its Python.

    Args:
      name: The name of its folder.
      pins: All its packages, after a first line such as `# Python 3.12`.
      folder: Where the environments are kept.
      log: The file that the installer's output is added to.

    Raises:
      NothingMeasured: It could not be made.
    """
    home = folder / name
    python, stamp = home / "bin" / "python", home / "stamp-pins"
    wanted = pins + "".join(judges_own(pins))
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return str(python)
    version = re.match(r"# Python (\S+)\n", pins)
    if version is None:
        raise NothingMeasured(f"the pins of {name} do not begin with a line like '# Python 3.12'")
    asked = folder / f"{name}.requirements"
    publish(wanted, asked)
    uv = shutil.which("uv")
    make = [uv, "venv", "--quiet", "--clear", "--python"] if uv else []
    install = [uv, "pip", "install", "--python", str(python)] if uv else []
    for command in (
        [*make, interpreter(version[1]), str(home)]
        if uv
        else [interpreter(version[1]), "-m", "venv", "--clear", str(home)],
        [
            *(install or [str(python), "-m", "pip", "install"]),
            "--quiet",
            "--no-deps",
            "-r",
            str(asked),
        ],
    ):
        if tasks.run([str(word) for word in command], log, ROOT, os.environ):
            raise NothingMeasured(
                f"its environment could not be made: {last_line(log.read_text())}"
            )
    publish(wanted, stamp)
    return str(python)


def judges_own(pins: str) -> list[str]:
    """The lines of the newest pins for those packages of `JUDGING` that a release's pins lack."""
    there = {line.partition("==")[0].lower() for line in pins.splitlines()}
    newest = max((ROOT / "ci" / "pins").glob("py*.txt"))
    return [
        line
        for line in newest.read_text("utf-8").splitlines(keepends=True)
        for name in [line.partition("==")[0].lower()]
        if name in JUDGING and name not in there
    ]
