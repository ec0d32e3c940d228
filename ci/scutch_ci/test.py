"""The command `ci/test`: run every check that must pass, then say which did.

A *check* is a command with a name: a linter, the type checker, a part of the tests, a conformance
run, the gate. `ci/test lint types` runs only the checks named.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from scutch_ci import conformance, screenshot
from scutch_ci.checkout import ROOT, processors
from scutch_ci.waiting import waiting

TIMEOUT = 1200.0
"""Seconds after which a check is ended."""
TRIALS_TIMEOUT = 3600.0
"""The same for the trials: a busy machine may run them at half its speed."""
TRIALS = "conformance/trials"
SLOW = ("nightly", "benchmarks", "package", "action", "release", "processes", "readme")
"""Trials that start other programs, one at a time: checks of their own, side by side."""
COMPILING = ("nightly", "benchmarks")
"""Those among them that measure: JAX must compile everything anew."""
IN_A_COMMIT = ("-m", "not nightly")
"""Leaves out the trials with the mark `nightly`, which `thorough` runs."""


@dataclass(frozen=True)
class Check:
    """A command that must succeed.

    Args:
      name: For people, and to choose it on the command line.
      command: Run in the root of the checkout, with the environment's programs first on the path.
      measures: Whether it measures time or memory, so that JAX must compile everything anew.
      single: Whether it uses one processor, and no time decides it: others may run beside it.
      timeout: Seconds after which it is ended.
      nightly: Whether it runs only where it is named, as `ci/nightly` does.
    """

    name: str
    command: tuple[str, ...]
    measures: bool = False
    single: bool = False
    timeout: float = TIMEOUT
    nightly: bool = False


def pytest(name: str, *arguments: str, **options: Any) -> Check:
    """A check that runs pytest with these arguments; the options are those of `Check`."""
    return Check(name, (sys.executable, "-m", "pytest", "-q", *arguments), **options)


def checks() -> tuple[Check, ...]:
    """Everything that must pass, quick checks first."""
    parallel = ("-n", str(processors()))
    module = (sys.executable, "-P", "-m")
    judging = conformance.judging_options("reference", conformance.report_path("reference"))
    alone = {name: f"{TRIALS}/test_{name}.py" for name in (*SLOW, "docs", "gate")}
    ignored = [f"--ignore={file}" for file in alone.values()]
    return (
        Check("lint", ("ruff", "check", "."), single=True),
        Check("format", ("ruff", "format", "--check", "."), single=True),
        Check("types", ("mypy",), single=True),
        Check("imports", ("lint-imports",), single=True),
        Check("docstyle", (*module, "scutch_ci.docstyle"), single=True),
        pytest(
            "docstrings",
            *("--doctest-modules", "conformance/scutch", "reference/scutch_reference"),
            *("benchmarks/drawing.py", "benchmarks/headlines.py"),
            *("--ignore=conformance/scutch/laws", "--doctest-ignore-import-errors"),
            single=True,
        ),
        Check("docs-warnings", (*module, "scutch_ci.docs", "--check"), single=True),
        *(
            pytest(name, alone[name], *IN_A_COMMIT, single=True, measures=name in COMPILING)
            for name in SLOW
        ),
        pytest("reference", "reference/tests", *parallel),
        # One worker more than processors: many trials wait for a process to end, or to be ended.
        pytest(
            "trials",
            TRIALS,
            *IN_A_COMMIT,
            "-n",
            str(processors() + 1),
            *ignored,
            timeout=TRIALS_TIMEOUT,
        ),
        Check("conformance-reference", conformance.command(*judging)),
        Check("quick-flax", conformance.command("--implementation=flax", "--profile=quick")),
        Check("lowest", ("ci/lowest", "--requirement=metadata", "--profile=quick")),
        Check("gate-base", (*module, "scutch_ci.gate"), measures=True),
        pytest("gate", alone["gate"], *IN_A_COMMIT, measures=True),
        pytest(
            "thorough",
            TRIALS,
            "-m",
            "nightly",
            *parallel,
            measures=True,
            timeout=3 * TRIALS_TIMEOUT,
            nightly=True,
        ),
        pytest("docs", alone["docs"], nightly=True),
    )


class Outcome(NamedTuple):
    """The outcome of one check.

    Args:
      passed: Whether it succeeded.
      seconds: How long it took.
      printed: Its output, stdout and stderr together.
    """

    passed: bool
    seconds: float
    printed: str


def run(chosen: Sequence[Check]) -> list[str]:
    """Run checks, and print whether each passed; the output of a check is shown only if it failed.

    Those that use one processor run side by side. Meanwhile `waiting` shows the time.

    Returns:
      The names of those that failed.
    """
    failed = []
    for single, group in groupby(chosen, key=lambda check: check.single):
        checks = list(group)
        with ThreadPoolExecutor(processors() + 1 if single else 1) as pool:
            outcomes = [pool.submit(outcome, check) for check in checks]
            for check, found in zip(checks, outcomes, strict=True):
                with waiting(check.name):
                    passed, seconds, printed = found.result()
                print(
                    f"{check.name:24}{'passed' if passed else 'FAILED'} {seconds:8.1f} s",
                    flush=True,
                )
                if not passed:
                    failed.append(check.name)
                    print("".join(f"    {line}\n" for line in printed.splitlines()), flush=True)
    return failed


def outcome(check: Check) -> Outcome:
    """Run a check to its end, or kill it after its `timeout`."""
    started = time.monotonic()
    try:
        done = subprocess.run(
            check.command,
            cwd=ROOT,
            env=None if check.measures else conformance.trying_environment(),
            stdin=subprocess.DEVNULL,
            timeout=check.timeout,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        passed, printed = done.returncode == 0, done.stdout
    except subprocess.TimeoutExpired as late:
        said = late.stdout or b""
        text = said if isinstance(said, str) else said.decode(errors="replace")
        passed, printed = False, f"{text}\nended after {check.timeout:.0f} s"
    return Outcome(passed, time.monotonic() - started, printed)


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
            ["apt-get", "-qq", *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            check=False,
        )
        if done.returncode:
            print(f"apt-get {command[0]} failed: {done.stderr.strip()}")


def main(arguments: Sequence[str]) -> int:
    """Run the checks named, or all of a commit or of a nightly; returns an exit code."""
    everything = {check.name: check for check in checks()}
    left_out = [check.name for check in everything.values() if check.nightly]
    parser = argparse.ArgumentParser(
        "ci/test",
        description=f"Runs the checks named, or all but the nightly ones: {', '.join(left_out)}.",
        epilog="exit codes: 0 all passed, 1 some failed, 2 interrupted, no environment or check",
    )
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"of {', '.join(everything)}")
    parser.add_argument("--nightly", action="store_true", help="run only the nightly ones")
    options = parser.parse_args(arguments)
    if unknown := sorted({*options.checks} - {*everything}):
        parser.error(f"no check {unknown[0]!r}; expected some of {', '.join(everything)}")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    prepare_browser()
    started = time.monotonic()
    chosen = [
        check
        for name, check in everything.items()
        if (name in options.checks if options.checks else check.nightly is options.nightly)
    ]
    try:
        failed = run(chosen)
    except KeyboardInterrupt:
        print("ci/test: interrupted; checks without a line did not end", file=sys.stderr)
        return 2
    print(f"\nin {time.monotonic() - started:.0f} s" + "".join(f"\nfailed: {n}" for n in failed))
    print(f"{len(chosen) - len(failed)} passed, {len(failed)} failed")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
