"""Judge the reference with the lowest releases that scutch says it works with.

`ci/pins/lowest.txt` lists these releases and their own dependencies. A trial compares the list with
the bounds in `pyproject.toml`.
"""

import subprocess
import sys
from collections.abc import Sequence

from scutch_ci.checkout import ROOT, NothingMeasured, environment_of
from scutch_ci.targets import made

PINS = ROOT / "ci" / "pins" / "lowest.txt"
ENVIRONMENTS = ROOT / "build" / "environments"


def python() -> str:
    """The Python of the environment with the lowest releases, which is made if it is missing.

    Raises:
      NothingMeasured: The environment could not be made.
    """
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    return made(
        "lowest",
        f"# Python 3.11\n{PINS.read_text('utf-8')}",  # the lowest Python, too
        ENVIRONMENTS,
        ENVIRONMENTS / "lowest.log",
    )


def command(*options: str) -> list[str]:
    """The command that judges the reference in this environment.

    Args:
      *options: Options of `scutch run`.

    Raises:
      NothingMeasured: The environment could not be made.
    """
    judge = (python(), "-P", "-m", "scutch", "run", "-p", "no:cacheprovider")
    return [*judge, "--implementation", "reference", *options]


def main(arguments: Sequence[str]) -> int:
    """Judge; returns an exit code.

    Args:
      arguments: Options of `scutch run`.
    """
    try:
        chosen = command(*arguments)
    except NothingMeasured as reason:
        print(f"ci/lowest: {reason}", file=sys.stderr)
        return 2
    return subprocess.run(chosen, cwd=ROOT, env=environment_of(ROOT), check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
