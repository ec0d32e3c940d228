"""What `ci/conformance` does in its environment: judge, and show what was found."""

import os
import subprocess
import sys
from pathlib import Path

from scutch import cli

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build" / "conformance"
IMPLEMENTATIONS = ("reference", "flax")


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2


def command(*arguments: str, python: str = sys.executable) -> tuple[str, ...]:
    """The command `pytest conformance`, for any working directory."""
    return (python, "-m", "pytest", str(ROOT / "conformance"), *arguments)


def arguments(implementation: str) -> tuple[str, ...]:
    """What judges one implementation on all processors, and keeps the report."""
    return (
        *(f"--implementation={implementation}", f"--report={report(implementation)}"),
        *("-n", str(processors()), "-q", "--tb=no", "--no-header"),
    )


def report(implementation: str) -> Path:
    """Where the report on an implementation is kept."""
    return OUTPUT / f"{implementation}.json"


def judge(*given: str) -> int:
    """Run `pytest conformance` and return its exit code."""
    return subprocess.run(command(*given), check=False).returncode


def judge_all() -> int:
    """Judge all, show them as tables and as a site; returns the worst exit code."""
    paths = [report(implementation) for implementation in IMPLEMENTATIONS]
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for path in paths:
        path.unlink(missing_ok=True)
    codes = [judge(*arguments(implementation)) for implementation in IMPLEMENTATIONS]
    written = [str(path) for path in paths if path.exists()]
    if written:
        codes.append(cli.main(["report", *written, "--html", str(OUTPUT / "site")]))
    return max(code if code in (0, 1) else 2 for code in codes)


def main(given: list[str]) -> int:
    """Judge as the arguments say; without any, judge and show all."""
    os.environ.setdefault("SCUTCH_COMMAND", "ci/conformance")
    return judge(*given) if given else judge_all()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
