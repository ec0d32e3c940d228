"""The command `ci/conformance`: judge the reference, the installed Flax and orbax-export.

Without options it judges each of them on all processors, prints one table of all, and writes a JSON
report of each and HTML pages to `build/conformance`. Meanwhile it prints which implementation is
being judged, how many of its laws were tried, and how much time is left. With options it runs
`pytest conformance` with them.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from scutch_ci.checkout import ROOT, processors
from scutch_ci.waiting import waiting

OUTPUT = ROOT / "build" / "conformance"
COMPILED = ROOT / "build" / "compiled"
"""The folder for Python's bytecode, and for the programs that XLA compiles in trials.

The judge keeps XLA's programs in folders of its own, one for each implementation.
"""
EVERY = 20.0
"""Seconds between two lines of progress, where there is no terminal."""
_AGAIN = 0.1
_TO_END = 30.0
"""Seconds that an interrupted run has to write its report."""
IMPLEMENTATIONS = ("reference", "flax", "orbax")
USAGE = """\
usage: ci/conformance            judge the reference, the installed Flax and orbax-export
       ci/conformance OPTIONS    run `pytest conformance OPTIONS`; some that are often used:
         --implementation NAME     what to judge: an installed name, module:attribute, or a file
         --requirement PATTERN     only these requirements, such as objects/graphs; repeatable
         --profile PROFILE         how many inputs each law gets: quick, ci, nightly, deep
         --report FILE             write a JSON report
       `pytest conformance --help` lists every option.
exit codes: 0 all conform, 1 something does not, 2 the set-up is wrong"""


def command(*options: str, python: str = sys.executable) -> tuple[str, ...]:
    """The command that runs `pytest conformance`, from any working directory.

    Args:
      *options: Options of pytest and of scutch's plugin.
      python: The interpreter that judges.

    Returns:
      The words of the command.
    """
    return (python, "-m", "pytest", str(ROOT / "conformance"), *options)


def judging_options(implementation: str, report: Path) -> tuple[str, ...]:
    """The options that judge one implementation on all processors and write a JSON report."""
    return (
        f"--implementation={implementation}",
        f"--report={report}",
        *("-n", str(processors()), "-q", "--tb=no", "--no-header"),
    )


def report_path(implementation: str) -> Path:
    """The file that the report on an implementation is written to."""
    return OUTPUT / f"{implementation}.json"


def environment() -> dict[str, str]:
    """This process's environment variables, with a folder where Python keeps its bytecode.

    `PYTHONDONTWRITEBYTECODE` is left out. A `PYTHONPYCACHEPREFIX` of the user's stays.
    """
    given = {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {"PYTHONPYCACHEPREFIX": str(COMPILED / "python"), **given}


def trying_environment() -> dict[str, str]:
    """The variables of `environment`, with settings that make JAX keep its compiled programs.

    All trials share one folder. Never measure with these variables: a program in that folder takes
    no time to compile.
    """
    return {
        "JAX_COMPILATION_CACHE_DIR": str(COMPILED / "trials"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        **environment(),
    }


def judge(*options: str) -> int:
    """Run `pytest conformance` and return its exit code."""
    return subprocess.run(command(*options), env=environment(), check=False).returncode


def judge_all() -> int:
    """Judge all implementations, print one table, write the pages; returns the worst exit code."""
    paths = {name: report_path(name) for name in IMPLEMENTATIONS}
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for path in paths.values():
        path.unlink(missing_ok=True)
    codes = []
    for number, name in enumerate(IMPLEMENTATIONS, 1):
        rest = ", ".join(IMPLEMENTATIONS[number:]) or "the pages"
        print(f"part {number} of {len(IMPLEMENTATIONS)}: {name}; then {rest}", flush=True)
        codes.append(judge_part(name))
    from scutch import cli  # which imports JAX: the first part does not wait for that

    written = [str(path) for path in paths.values() if path.exists()]
    if written:
        codes.append(cli.main(["report", *written, "--html", str(OUTPUT / "site")]))
    return max(code if code in (0, 1) else 2 for code in codes)


@dataclass
class Tried:
    """The laws that a run has tried so far, read from the file that `--resume` keeps.

    Args:
      file: The file; the run creates it.
      laws: How many laws were tried.
      broken: How many of them failed, crashed or timed out in a way that is not known.
      first: The requirement and the outcome of the first trial; empty before it ends.
    """

    file: Path
    laws: int = 0
    broken: int = 0
    first: str = ""
    _read: int = 0

    def look(self) -> None:
        """Count the trials that the run has added to the file since the last call."""
        if not self.file.exists():
            return
        with self.file.open("rb") as file:
            file.seek(self._read)
            whole = file.read().rpartition(b"\n")[0]
        lines = whole.splitlines()
        trials = [json.loads(line) for line in (lines if self._read else lines[1:])]
        self._read += len(whole) + bool(whole)
        for trial in trials:
            bad = trial["outcome"] in ("failed", "crashed", "timeout") and not trial["broke"]
            self.first = self.first or f"{trial['requirement']} {trial['outcome']}"
            self.laws, self.broken = self.laws + 1, self.broken + bad

    def __str__(self) -> str:
        """The number of laws that were tried, and the number that broke."""
        return f"{self.laws} laws tried, {self.broken} broken"


def judge_part(name: str) -> int:
    """Judge one implementation, and show how far that has come; returns an exit code."""
    tried, log = Tried(OUTPUT / f"{name}.trials"), OUTPUT / f"{name}.log"
    tried.file.unlink(missing_ok=True)  # an interrupted command may have left it
    options = (*judging_options(name, report_path(name)), f"--resume={tried.file}")
    started = time.monotonic()
    with log.open("w", encoding="utf-8") as output:
        judging = subprocess.Popen(
            command(*options), env=environment(), stdout=output, stderr=subprocess.STDOUT
        )
        try:
            with waiting(f"judge {name}", every=EVERY, told=lambda: str(tried)):
                while judging.poll() is None:
                    time.sleep(_AGAIN)
                    shown = tried.laws > 0
                    tried.look()
                    if tried.laws and not shown:
                        seconds = time.monotonic() - started
                        print(f"    first verdict after {seconds:.1f} s: {tried.first}", flush=True)
        finally:
            judging.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                judging.wait(_TO_END)
            judging.kill()
            judging.wait()
    printed = log.read_text("utf-8", errors="replace")
    _, line, sections = printed.partition("\n===")  # without the dots
    print(f"==={sections}" if line else printed, flush=True)
    return judging.returncode


def main(options: list[str]) -> int:
    """Judge as the options say, or all implementations without any; returns an exit code."""
    os.environ.setdefault("SCUTCH_COMMAND", "ci/conformance")
    if options in (["--help"], ["-h"]):
        print(USAGE)
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return judge(*options) if options else judge_all()
    except KeyboardInterrupt:
        print("ci/conformance: interrupted; the reports are not complete", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
