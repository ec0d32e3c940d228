"""Nightly runs of a copy of this project, small enough for a trial."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAME = "dispatch.Dispatch.track_python_calls"
OPTIONS = (
    *("--python", sys.executable, "--machine", "trial", "--implementations", "reference"),
    *(
        "--profile",
        "quick",
        "--requirement",
        "metadata/box-axes/removing-undoes-adding",
        "--requirement",
        "metadata/box-values/only-boxes-are-metadata",
        "--quick",
    ),
    *("--mutants", "0"),
    *("--select", rf"{NAME}\('(reference|jax)', 'forward', 4\)|Traces.track_traces\('reference"),
)


class Project:
    """A copy of this project in a repository of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.state = folder / "build" / "nightly"
        listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)
        git(folder, "init", "--quiet", "--initial-branch", "main")
        self.commit()

    def commit(self):
        git(self.folder, "add", "--all")
        who = ("-c", "user.name=scutch", "-c", "user.email=scutch@localhost")
        git(self.folder, *who, "-c", "commit.gpgsign=false", "commit", "-qm", "a change")
        return git(self.folder, "rev-parse", "HEAD").strip()

    def plant(self, file, text):
        with (self.folder / "reference" / "scutch_reference" / file).open("a") as opened:
            opened.write(text)

    def start(self, *options):
        """The process of a nightly."""
        command = [sys.executable, "-P", "-m", "scutch_ci.nightly", *OPTIONS, *options]
        names = ("reference", "conformance", "ci", ".")
        roots = os.pathsep.join(str(self.folder / name) for name in names)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env={**environment, "PYTHONPATH": roots},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def night(self, *options):
        """The exit code of a nightly, and its output."""
        process = self.start(*options)
        printed = process.communicate(timeout=300)[0]
        return process.returncode, printed

    def tried(self):
        """The names of the laws that were tried by a judge that has not come to its end."""
        found = set()
        for path in self.state.glob("nights/*/conformance/*.trials"):
            lines = path.read_text("utf-8").rpartition("\n")[0].splitlines()
            found |= {json.loads(line)["test"] for line in lines[1:]}
        return found

    def results(self):
        """Every file that a task left, with the time of its writing."""
        paths = [p for p in self.state.glob("nights/*/*/*.json") if not p.name.startswith(".")]
        return {path: path.stat().st_mtime_ns for path in paths}


def git(folder, *arguments):
    return subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True
    ).stdout
