"""A script for each change that an upgrade makes, written into a folder.

    lines = write(compare(record("flax", "0.12.2"), record("flax", "0.12.4")), Path("scripts"))

A script is written only where it can be run: by a Python whose environment has the release that the
call breaks. So the two releases of an upgrade take two environments, and two calls.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

from scutch.catalogue import file_name
from scutch.implementation import SetupError
from scutch.releases.changes import KINDS, Upgrade
from scutch.reproduce import NotReproducible, script

_VERSION = "import sys; from scutch.loading import load; print(load(sys.argv[1]).version)"


def write(upgrade: Upgrade, folder: Path, python: str = sys.executable) -> list[str]:
    """Write the scripts of an upgrade, each into a file named by its requirement and its law.

    Args:
      upgrade: The changes from one release to another.
      folder: The folder for the scripts; it is made if it does not exist.
      python: The interpreter of an environment with one of both releases; this suite must be
        importable there.

    Returns:
      Lines for people: which scripts were written, which could not be, and which take another
      environment.

    Raises:
      SetupError: The environment has neither release.
    """
    name = upgrade.new.implementation
    asked = subprocess.run([python, "-c", _VERSION, name], capture_output=True, text=True)
    there = asked.stdout.strip()
    if there not in (upgrade.old.release, upgrade.new.release):
        found = f"it has {there}" if there else asked.stderr.strip().rpartition("\n")[2]
        wanted = f"expected {name} {upgrade.old.release} or {upgrade.new.release}"
        raise SetupError(f"scripts by {python}", f"{found}; {wanted}")
    folder.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    elsewhere: Counter[str] = Counter()
    for change in (each for kind in KINDS for each in upgrade.of(kind)):
        for call in change.shown_by:
            release = (upgrade.new if call in change.new.broken else upgrade.old).release
            if release != there:
                elsewhere[release] += 1
                continue
            try:
                text = script(change.requirement, call.input, name, python=python)
            except NotReproducible as error:
                lines.append(str(error))
                continue
            file = folder / f"{file_name(change.requirement)}-{call.test.partition('[')[0]}.py"
            file.write_text(text, "utf-8")
            lines.append(f"{file}: exits with 1 on {name} {release}")
    lines += [
        f"{count} of {name} {release}: run this again with --python, of an environment that has it"
        for release, count in elsewhere.items()
    ]
    return lines
