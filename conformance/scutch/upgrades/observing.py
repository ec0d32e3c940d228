"""Which of the places that an upgrade changes a user's own tests run.

    observed(findings, "pytest -q").found[0].reached

The command runs with a `sitecustomize` of ours at the head of `PYTHONPATH`, so that every Python
which it starts notes the lines that it runs.
"""

import json
import os
import shlex
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from scutch.upgrades import observer
from scutch.upgrades.findings import Findings

SITECUSTOMIZE = """
import importlib.util

spec = importlib.util.spec_from_file_location("scutch_observer", {observer!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.start({job!r})
"""


class NothingObserved(Exception):
    """The command started no Python that could be observed; the message says how it ended.

    Wrong: `--run "python -S train.py"`, which leaves out `sitecustomize`.
    Right:

        scutch upgrade --run "python train.py" src
    """


@dataclass(frozen=True)
class Observation:
    """The findings that a command reached.

    Args:
      findings: All findings, each with `reached` set.
      code: The exit code of the command.
      processes: How many Pythons were observed.
    """

    findings: Findings
    code: int
    processes: int


def observed(findings: Findings, command: str) -> Observation:
    """Run a command, and note which of the findings it reaches.

    Args:
      findings: Of code that the command runs.
      command: As for a shell, without one: `pytest -q`.

    Raises:
      NothingObserved: The command could not be started, or no Python of it was seen.
    """
    wanted: dict[str, list[int]] = {}
    for each in findings.found:
        wanted.setdefault(os.path.realpath(each.use.file), []).append(each.use.line)
    with tempfile.TemporaryDirectory() as home:
        seen = Path(home, "seen")
        seen.mkdir()
        job = Path(home, "job.json")
        job.write_text(json.dumps({"wanted": wanted, "folder": str(seen)}), "utf-8")
        text = SITECUSTOMIZE.format(observer=observer.__file__, job=str(job))
        Path(home, "sitecustomize.py").write_text(text, "utf-8")
        paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        try:
            code = subprocess.run(shlex.split(command), env=environment, check=False).returncode
        except (OSError, ValueError, IndexError) as error:
            raise NothingObserved(f"--run {command!r} could not be started: {error}") from error
        files = list(seen.iterdir())
        lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
    if not files:
        raise NothingObserved(
            f"--run {command!r} ended with {code} and started no Python that loads sitecustomize; "
            "expected one without -S and -I"
        )
    reached = {tuple(json.loads(line)) for line in lines}
    found = tuple(
        replace(each, reached=(os.path.realpath(each.use.file), each.use.line) in reached)
        for each in findings.found
    )
    return Observation(replace(findings, found=found), code, len(files))
