"""The checkout that the commands work on: its folders, its commits, how a program imports it."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE_ROOTS = ("reference", "conformance")
"""The folders that hold the two packages."""


class NothingMeasured(Exception):
    """There is nothing to measure or to compare, or no way to do it; the text says why."""


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2


def environment_of(tree: Path, platform: str = "cpu") -> dict[str, str]:
    """The environment variables of a process that measures or judges a tree.

    Args:
      tree: A checkout, or a folder with the two package roots of one.
      platform: JAX's name of the platform, such as `cpu`, `cuda` or `tpu`. Besides an accelerator,
        the process can use the devices of the host.

    Returns:
      This process's variables, changed so that the process imports the packages of `tree` (under
      asv too), hashes strings in the same way every time, and computes on `platform`.
    """
    roots = os.pathsep.join(str(tree / name) for name in PACKAGE_ROOTS)
    changed = {"PYTHONPATH": roots, "ASV_PYTHONPATH": roots, "PYTHONHASHSEED": "0"}
    platforms = ",".join(dict.fromkeys((platform, "cpu")))
    return {**os.environ, **changed, "JAX_PLATFORMS": platforms}


def output_of(
    command: Sequence[str | Path], failure: str, environment: Mapping[str, str] | None = None
) -> str:
    """Run a program in the root of the checkout.

    Args:
      command: The program and its arguments.
      failure: The beginning of the error's text, such as `no benchmarks`.
      environment: All its environment variables; None gives it the variables of this process.

    Returns:
      The text that the program prints, without white space around it.

    Raises:
      NothingMeasured: The program failed; the error's text ends with the program's stderr.
    """
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise NothingMeasured(f"{failure}: {done.stderr.strip() or 'it printed nothing'}")
    return done.stdout.strip()


def git(*arguments: str) -> str:
    """Run a git command in the checkout; returns its output, without white space around it.

    Raises:
      NothingMeasured: The command failed.
    """
    return output_of(["git", *arguments], f"git {' '.join(arguments)}")


def commit_range(since: str, until: str) -> str:
    """A range of commits for people, with their number where git still knows both ends."""
    if since == until:
        return f"{until[:12]}, the same commit"
    shown = f"{since[:12]}..{until[:12]}"
    try:
        number = git("rev-list", "--count", f"{since}..{until}")
    except NothingMeasured:
        return shown
    return f"{shown} ({number} commit{'' if number == '1' else 's'})"


def last_line(text: str) -> str:
    """The last line that a program printed."""
    return next(iter(reversed(text.strip().splitlines())), "it printed nothing")
