"""The programs of `ci/programs`, run on each release: what is accepted, what it prints and warns.

Each program is what users write, in a few lines. `ci/matrix --interfaces` runs each one in the
environment of every recorded release and writes `releases/interfaces/programs.json` in the judge,
so that `scutch changes` can say that a release refuses a program which an older one accepts.
"""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

from scutch import releases
from scutch.report.text import count, publish

from scutch_ci.checkout import ROOT, NothingMeasured, last_line
from scutch_ci.interfaces import FOLDER
from scutch_ci.targets import Target, targets

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


def update(python: Callable[[Target], str]) -> int:
    """Run every program on every recorded release of Flax; returns an exit code.

    Args:
      python: The interpreter of a release's environment.
    """
    files = sorted(PROGRAMS.glob("*.py"))
    texts = {file.stem: file.read_text("utf-8") for file in files}
    recorded = {each.release for each in releases.records("flax")}
    outcomes: dict[str, Mapping[str, Any]] = {}
    for target in targets([]):
        if target.implementation == "flax" and not target.jax and target.release in recorded:
            outcomes[target.release] = run(python(target))
            refused = sum(bool(each["error"]) for each in outcomes[target.release].values())
            print(f"flax {target.release}: {count(refused, 'program')} refused of {len(files)}")
    lines = []
    for name, text in texts.items():
        rows = [json.dumps([release, found[name]]) for release, found in outcomes.items()]
        body = ",\n  ".join(rows)
        lines.append(
            f'{json.dumps(name)}: {{"text": {json.dumps(text)}, "outcomes": [\n  {body}]}}'
        )
    publish("{" + ",\n".join(lines) + "}\n", FOLDER / "programs.json")
    return 0


def run(python: str) -> dict[str, Any]:
    """Run every program with one interpreter, on eight fake devices.

    Returns:
      By name of the program, `error` (empty if it was accepted), `prints` and `warns`.

    Raises:
      NothingMeasured: The interpreter ended before the last program.
    """
    files = [str(file) for file in sorted(PROGRAMS.glob("*.py"))]
    done = subprocess.run(
        [python, "-c", RUNNER, *files], capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "XLA_FLAGS": DEVICES, "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    if done.returncode:
        raise NothingMeasured(f"{python}: the programs were not run: {last_line(done.stderr)}")
    found = json.loads(done.stdout.splitlines()[-1])
    return {os.path.basename(path).removesuffix(".py"): each for path, each in found.items()}
