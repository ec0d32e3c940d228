"""What `ci/test` does in its environment: run every step, then say which passed."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import judgment

ROOT = judgment.ROOT
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT = 600.0


@dataclass(frozen=True)
class Step:
    """A command that must succeed.

    Args:
      name: For people, and to choose it on the command line.
      command: Run in the root of the checkout, with the environment's programs first on the path.
    """

    name: str
    command: tuple[str, ...]


def pytest(name: str, *arguments: str) -> Step:
    """A step that runs tests in one process for each processor."""
    return Step(name, (sys.executable, "-m", "pytest", "-q", *arguments))


def steps() -> tuple[Step, ...]:
    """Everything that must pass, quick things first."""
    trials = "conformance/trials"
    parallel = ("-n", str(judgment.processors()))
    alone = [
        f"{trials}/test_{name}.py"
        for name in ("benchmarks", "gate", "nightly", "package", "processes", "readme")
    ]
    return (
        Step("lint", ("ruff", "check", ".")),
        Step("format", ("ruff", "format", "--check", ".")),
        Step("types", ("mypy",)),
        Step("imports", ("lint-imports",)),
        pytest(
            "docstrings",
            *("--doctest-modules", "conformance/scutch", "reference/scutch_reference"),
            *("--ignore=conformance/scutch/laws", "--doctest-ignore-import-errors"),
        ),
        pytest("reference", "reference/tests", *parallel),
        pytest("trials", trials, *parallel, *(f"--ignore={file}" for file in alone)),
        *(
            Step(f"conformance-{name}", judgment.command(*judgment.arguments(name)))
            for name in judgment.IMPLEMENTATIONS
        ),
        Step("gate-base", (sys.executable, str(ROOT / "ci" / "gatekeeper.py"))),
        *(pytest(Path(file).stem.removeprefix("test_"), file) for file in alone),
    )


def run(step: Step) -> bool:
    """Run a step and say how it went; what it printed is shown if it failed."""
    print(f"{step.name:24}", end="", flush=True)
    started = time.monotonic()
    try:
        done = subprocess.run(
            step.command, cwd=ROOT, stdin=subprocess.DEVNULL, timeout=TIMEOUT, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        passed, output = done.returncode == 0, done.stdout
    except subprocess.TimeoutExpired as late:
        shown = late.stdout or b""
        output = shown if isinstance(shown, str) else shown.decode(errors="replace")
        passed, output = False, f"{output}\nended after {TIMEOUT:.0f} s"
    print(f"{'passed' if passed else 'FAILED'} {time.monotonic() - started:8.1f} s", flush=True)
    if not passed:
        print("".join(f"    {line}\n" for line in output.splitlines()), flush=True)
    return passed


def prepare_browser() -> None:
    """Let the trials of the site find a browser, and install one where that is ours to do."""
    if os.environ.get("SCUTCH_BROWSER") or any(map(shutil.which, BROWSERS)):
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print("no browser: its trials are skipped, unless CI is set; SCUTCH_BROWSER names one")
        return
    print("no browser: installing chromium with apt-get", flush=True)
    for command in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
        done = subprocess.run(
            ["apt-get", "-qq", *command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, check=False,
        )  # fmt: skip
        if done.returncode:
            print(f"apt-get {command[0]} failed: {done.stderr.strip()}")


def main(names: Sequence[str]) -> int:
    """Run the steps named, or all; returns an exit code."""
    everything = steps()
    unknown = sorted(set(names) - {step.name for step in everything})
    if unknown:
        expected = ", ".join(step.name for step in everything)
        print(f"ci/test: no step {unknown[0]!r}; expected some of {expected}", file=sys.stderr)
        return 2
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    prepare_browser()
    started = time.monotonic()
    results = {step.name: run(step) for step in everything if not names or step.name in names}
    failed = [name for name, passed in results.items() if not passed]
    print(f"\nin {time.monotonic() - started:.0f} s" + "".join(f"\nfailed: {n}" for n in failed))
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
