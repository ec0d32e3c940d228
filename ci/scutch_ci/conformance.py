"""The command `ci/conformance`: judge the reference, the installed Flax and orbax-export.

Without options it judges each of them on all processors, prints one table of all, and writes a JSON
report of each and HTML pages to `build/conformance`. With options it runs
`pytest conformance` with them.
"""

import os
import subprocess
import sys
from pathlib import Path

from scutch import cli
from scutch.judging.profiles import FOLDER_OF_COMPILED, KEEP_ALL

from scutch_ci.checkout import ROOT, processors

OUTPUT = ROOT / "build" / "conformance"
COMPILED = ROOT / "build" / "compiled"
"""What XLA and Python compiled is kept here: for the next implementation, and the next run."""
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
    """The environment variables of a process that judges: JAX and Python keep what they compile.

    For judging, never for measuring: a program that was compiled before takes no time to compile.
    """
    kept = {name.upper(): str(value) for name, value in KEEP_ALL.items()}
    given = {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {
        FOLDER_OF_COMPILED.upper(): str(COMPILED / "xla"),
        "PYTHONPYCACHEPREFIX": str(COMPILED / "python"),
        **kept,
        **given,
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
    codes = [judge(*judging_options(name, path)) for name, path in paths.items()]
    written = [str(path) for path in paths.values() if path.exists()]
    if written:
        codes.append(cli.main(["report", *written, "--html", str(OUTPUT / "site")]))
    return max(code if code in (0, 1) else 2 for code in codes)


def main(options: list[str]) -> int:
    """Judge as the options say, or all implementations without any; returns an exit code."""
    os.environ.setdefault("SCUTCH_COMMAND", "ci/conformance")
    if options in (["--help"], ["-h"]):
        print(USAGE)
        return 0
    return judge(*options) if options else judge_all()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
