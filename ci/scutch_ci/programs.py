"""The programs of `ci/programs`, run on each release to record its errors, output and warnings.

Each program is a few lines as users of Flax or of plain JAX write them. `ci/matrix --interfaces`
runs every program in the environment of every release that has pins. It writes
`releases/interfaces/flax-programs.json` and `jax-programs.json` in the judge, so that
`scutch changes` can say that a release refuses a program which an older one accepts.
"""

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scutch import releases
from scutch.judging.readable import without_folders
from scutch.report.text import count, publish

from scutch_ci.checkout import ROOT, NothingMeasured, last_line
from scutch_ci.interfaces import FOLDER
from scutch_ci.targets import pinned, set_back

PROGRAMS = ROOT / "ci" / "programs"
DEVICES = "--xla_force_host_platform_device_count=8"
RUNNER = """
import contextlib, io, json, runpy, sys, warnings

found = {}
for path in sys.argv[1:]:
    printed, error = io.StringIO(), ""
    with warnings.catch_warnings(record=True) as seen, contextlib.redirect_stdout(printed):
        warnings.simplefilter("always")
        try:
            runpy.run_path(path, run_name="__main__")
        except Exception as raised:
            lines = str(raised).strip().splitlines() or [""]
            error = f"{type(raised).__name__}: {lines[0]}"
    kinds = (DeprecationWarning, FutureWarning)
    chosen = [each for each in seen if issubclass(each.category, kinds)]
    said = {str(each.message).strip().splitlines()[0] for each in chosen}
    found[path] = {"error": error, "prints": printed.getvalue().strip(), "warns": sorted(said)}
print(json.dumps(found))
"""


def update(python: Callable[[str, str], str]) -> int:
    """Run every program on every release that has pins; returns an exit code.

    A release of Flax also runs them with the JAX of the next one, so that `scutch changes` can tell
    a change of JAX from a change of Flax.

    Args:
      python: Returns the interpreter of an environment, given its name and the text of its pins.
    """
    for package in releases.WITH_INTERFACE:
        files = sorted((PROGRAMS / package).glob("*.py"))
        texts = {file.stem: file.read_text("utf-8") for file in files}
        outcomes: dict[str, Mapping[str, Any]] = {}
        for key, pins in environments(package).items():
            outcomes[key] = run(python(f"{package}-{key}", pins), files)
            refused = sum(bool(each["error"]) for each in outcomes[key].values())
            print(
                f"{package} {key}: {count(refused, 'program')} refused of {len(files)}", flush=True
            )
        lines = []
        for name, text in texts.items():
            rows = [json.dumps([key, found[name]]) for key, found in outcomes.items()]
            body = ",\n  ".join(rows)
            lines.append(
                f'{json.dumps(name)}: {{"text": {json.dumps(text)}, "outcomes": [\n  {body}]}}'
            )
        publish("{" + ",\n".join(lines) + "}\n", FOLDER / f"{package}-programs.json")
    return 0


def environments(package: str) -> dict[str, str]:
    """The pins of every environment that runs the programs, by `RELEASE` or `RELEASE-jax-JAX`.

    Args:
      package: `flax` or `jax`.

    Returns:
      The pins of each release; for Flax, also the pins of each release with the JAX of the next.
    """
    beside = set_back() if package == "flax" else []
    return {
        str(target).removeprefix(f"{package}-"): target.packages
        for target in [*pinned(package), *beside]
    }


def run(python: str, files: Sequence[Path]) -> dict[str, Any]:
    """Run programs with one interpreter, on eight fake devices.

    Args:
      python: The interpreter.
      files: The programs.

    Returns:
      By name of the program, `error` (empty if it was accepted), `prints` and `warns`.

    Raises:
      NothingMeasured: The interpreter ended before the last program.
    """
    done = subprocess.run(
        [python, "-c", RUNNER, *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "XLA_FLAGS": DEVICES, "JAX_PLATFORMS": "cpu"},
    )
    if done.returncode:
        raise NothingMeasured(f"{python}: the programs were not run: {last_line(done.stderr)}")
    found = json.loads(done.stdout.splitlines()[-1])
    return {
        os.path.basename(path).removesuffix(".py"): each | {"error": without_folders(each["error"])}
        for path, each in found.items()
    }
