"""The command `ci/test`: run every check that must pass, then say which did.

A *check* is a command with a name: a linter, the type checker, a part of the tests, a conformance
run, the gate. `ci/test lint types` runs only the checks named.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.progress import Progress, TextColumn, TimeElapsedColumn

from scutch_ci import conformance, screenshot
from scutch_ci.checkout import ROOT, processors

TIMEOUT = 1200.0
TRIALS = "conformance/trials"
ALONE = ("benchmarks", "gate", "nightly", "package", "processes", "readme")
"""Trials that run one after the other, each a check of its own: they use all processors."""


@dataclass(frozen=True)
class Check:
    """A command that must succeed.

    Args:
      name: For people, and to choose it on the command line.
      command: Run in the root of the checkout, with the environment's programs first on the path.
    """

    name: str
    command: tuple[str, ...]


def pytest(name: str, *arguments: str) -> Check:
    """A check that runs pytest with these arguments."""
    return Check(name, (sys.executable, "-m", "pytest", "-q", *arguments))


def checks() -> tuple[Check, ...]:
    """Everything that must pass, quick checks first."""
    parallel = ("-n", str(processors()))
    alone = {name: f"{TRIALS}/test_{name}.py" for name in ALONE}
    return (
        Check("lint", ("ruff", "check", ".")),
        Check("format", ("ruff", "format", "--check", ".")),
        Check("types", ("mypy",)),
        Check("imports", ("lint-imports",)),
        Check("docstyle", (sys.executable, "-P", "-m", "scutch_ci.docstyle")),
        pytest(
            "docstrings",
            *("--doctest-modules", "conformance/scutch", "reference/scutch_reference"),
            *("benchmarks/drawing.py", "--ignore=conformance/scutch/laws"),
            "--doctest-ignore-import-errors",
        ),
        pytest("reference", "reference/tests", *parallel),
        pytest("trials", TRIALS, *parallel, *(f"--ignore={file}" for file in alone.values())),
        *(conformance_check(name) for name in conformance.IMPLEMENTATIONS),
        Check("gate-base", (sys.executable, "-P", "-m", "scutch_ci.gate")),
        *(pytest(name, file) for name, file in alone.items()),
    )


def conformance_check(implementation: str) -> Check:
    """The check that an implementation conforms, but for its known failures."""
    options = conformance.judging_options(implementation, conformance.report_path(implementation))
    return Check(f"conformance-{implementation}", conformance.command(*options))


def run(check: Check) -> bool:
    """Run a check and print whether it passed; what it printed is shown only if it failed.

    Meanwhile a terminal shows its name and a running clock, and a log its name.
    """
    label = f"{check.name:24}"
    terminal = sys.stdout.isatty()
    started = time.monotonic()
    print("" if terminal else label, end="", flush=True)
    with Progress(
        TextColumn(label), TimeElapsedColumn(), transient=True, disable=not terminal
    ) as it:
        it.add_task(check.name, total=None)
        passed, output = outcome(check)
    word = f"{label if terminal else ''}{'passed' if passed else 'FAILED'}"
    print(f"{word} {time.monotonic() - started:8.1f} s", flush=True)
    if not passed:
        print("".join(f"    {line}\n" for line in output.splitlines()), flush=True)
    return passed


def outcome(check: Check) -> tuple[bool, str]:
    """Run a check to its end, or kill it after `TIMEOUT` seconds.

    Returns:
      Whether it succeeded, and what it printed.
    """
    try:
        done = subprocess.run(
            check.command, cwd=ROOT, stdin=subprocess.DEVNULL, timeout=TIMEOUT, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        printed = late.stdout or b""
        text = printed if isinstance(printed, str) else printed.decode(errors="replace")
        return False, f"{text}\nended after {TIMEOUT:.0f} s"
    return done.returncode == 0, done.stdout


def prepare_browser() -> None:
    """Have a browser for the trials of the pages: install chromium if we are root on a Debian."""
    if screenshot.browser_path():
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
    """Run the checks named, or all; returns an exit code."""
    everything = checks()
    expected = ", ".join(check.name for check in everything)
    if "--help" in names or "-h" in names:
        print(f"usage: ci/test [CHECK...]\n\nRuns all checks, or those named, of:\n  {expected}")
        print("exit codes: 0 all passed, 1 some failed, 2 no environment, or no such check")
        return 0
    unknown = sorted(set(names) - {check.name for check in everything})
    if unknown:
        print(f"ci/test: no check {unknown[0]!r}; expected some of {expected}", file=sys.stderr)
        return 2
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    prepare_browser()
    started = time.monotonic()
    results = {each.name: run(each) for each in everything if not names or each.name in names}
    failed = [name for name, passed in results.items() if not passed]
    print(f"\nin {time.monotonic() - started:.0f} s" + "".join(f"\nfailed: {n}" for n in failed))
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
