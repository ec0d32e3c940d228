"""What `ci/gate` does in its environment: measure two trees in the same way, and compare.

Both trees are measured by this tree's benchmarks, in the same environment: only what they import
differs. Counts do not jitter: any that is worse fails. Times do, so a process for each tree takes
turns with the other, pair by pair, and what looks slow must look so again in fresh processes.
"""

import argparse
import io
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ACCEPTED = ROOT / "ci" / "accepted.toml"
COUNTED = r"^(?!compilation\.Scale|guide\.|dispatch.*, 2048\)).*\(reference"
TIMED = (
    r"^dispatch\.Dispatch\.time_call\(reference, (forward|update|sharded), (4|32|256)\)"
    r"|^metadata\.Trees\.time_function\(reference, \w+, 100\)"
)
PACKAGES = ("reference", "conformance")
THRESHOLD = 1.05
PAIRS = 20
ROUNDS = 5
SUSPICION = 0.2
CERTAINTY = 1e-3


class NothingMeasured(Exception):
    """There is nothing to compare, or no way to; the text says why."""


@dataclass(frozen=True)
class Finding:
    """A benchmark that is worse than it was.

    Args:
      benchmark: Its name, with its parameters.
      figure: What `ci/accepted.toml` would have to allow.
      text: Both figures, for people.
    """

    benchmark: str
    figure: float
    text: str


def environment(tree: Path) -> dict[str, str]:
    """That of a process which imports what is in `tree`."""
    roots = os.pathsep.join(str(tree / name) for name in PACKAGES)
    return {**os.environ, "PYTHONPATH": roots, "PYTHONHASHSEED": "0", "JAX_PLATFORMS": "cpu"}


def git(*arguments: str) -> bytes:
    """What git prints."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)
    if done.returncode:
        raise NothingMeasured(f"git {' '.join(arguments)}: {done.stderr.decode().strip()}")
    return done.stdout


def default_base() -> str:
    """Where HEAD left main; on main, HEAD if the tree is not as committed, else the one before."""
    head = git("rev-parse", "HEAD").strip()
    for main in ("origin/main", "main"):
        with suppress(NothingMeasured):
            left = git("merge-base", "HEAD", main).strip()
            if left != head:
                return left.decode()
    if git("status", "--porcelain", "--", *PACKAGES):
        return "HEAD"
    try:
        return git("rev-parse", "--verify", "--quiet", "HEAD~1").strip().decode()
    except NothingMeasured as shallow:
        message = "HEAD is on main, and the commit before it is not in this clone: name a BASE"
        raise NothingMeasured(message) from shallow


def check_out(base: str, folder: Path) -> None:
    """Put the packages of a commit in a folder."""
    packed = git("archive", "--format=tar", base, *PACKAGES)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")


def verify(tree: Path) -> None:
    """Refuse to measure a tree that is not the one imported."""
    script = "import scutch_reference; print(scutch_reference.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(tree), cwd=ROOT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if not Path(done.stdout.strip()).is_relative_to(tree):
        found = done.stdout.strip() or done.stderr.strip()
        raise NothingMeasured(f"scutch_reference of {tree} is not what is imported: {found}")


def counted(trees: Sequence[Path], select: str) -> list[dict[str, float]]:
    """The counts of each tree; all trees at once, for counts do not mind."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, str(i)) for i in range(len(trees))]
        running = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.counts", str(file), "--select", select],
                env=environment(tree), cwd=ROOT, text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )
            for tree, file in zip(trees, files, strict=True)
        ]  # fmt: skip
        printed = [process.communicate()[0] for process in running]
        for tree, process, text in zip(trees, running, printed, strict=True):
            if process.returncode not in (0, 2):
                raise NothingMeasured(f"counting in {tree} failed:\n{text}")
        return [json.loads(file.read_text()) if file.exists() else {} for file in files]


def worse_counts(base: Mapping[str, float], head: Mapping[str, float]) -> Iterator[Finding]:
    """What costs more in `head`, and what it does not count any more."""
    for name, before in base.items():
        after = head.get(name)
        if after is None:
            yield Finding(name, math.inf, f"{before:g} before, and not counted any more")
        elif after > before:
            yield Finding(name, after, f"{before:g} before, {after:g} now")


class Timer:
    """A process of one tree that times what it is told to."""

    def __init__(self, tree: Path):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.turns"], env=environment(tree), cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1,
        )  # fmt: skip
        self._tree = tree

    def ask(self, number: int, name: str) -> float | None:
        """Seconds of one call, or for 0 the calls in a block; nothing where it is absent."""
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise NothingMeasured("the timing process has no pipes")
        print(number, name, file=process.stdin, flush=True)
        answer = process.stdout.readline().strip()
        if not answer:
            raise NothingMeasured(f"timing {name} in {self._tree} ended the process")
        return None if answer == "absent" else float(answer)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def timers(*trees: Path) -> Iterator[list[Timer]]:
    """A timer for each tree."""
    with ExitStack() as stack:
        made = [Timer(tree) for tree in trees]
        for timer in made:
            stack.callback(timer.close)
        yield made


def ratios(base: Timer, head: Timer, name: str) -> list[float]:
    """Time of `head` over time of `base`, pair by pair; empty where one of them is absent."""
    number = head.ask(0, name)
    if number is None or base.ask(0, name) is None:
        return []
    found = []
    for i in range(PAIRS):
        order = (base, head) if i % 2 else (head, base)
        first, second = (timer.ask(int(number), name) for timer in order)
        if first is None or second is None:
            return []
        found.append(second / first if i % 2 else first / second)
    return found


def chance(found: Sequence[float]) -> float:
    """How likely so many ratios above the threshold are, if half of all are: a sign test."""
    above, count = sum(ratio > THRESHOLD for ratio in found), len(found)
    return sum(math.comb(count, k) for k in range(above, count + 1)) / 2.0**count


def pairs(rounds: Sequence[Sequence[float]]) -> list[float]:
    """The ratios of all rounds."""
    return [ratio for found in rounds for ratio in found]


def is_slower(rounds: Sequence[Sequence[float]]) -> bool:
    """Whether the pairs of all rounds are sure of it, and all rounds but one at most agree."""
    agree = sum(statistics.median(found) > THRESHOLD for found in rounds)
    return agree >= max(1, len(rounds) - 1) and chance(pairs(rounds)) < CERTAINTY


def slower(base: Path, head: Path, names: Sequence[str]) -> tuple[int, list[Finding]]:
    """How many were timed, and those that are slower over rounds of fresh processes.

    What the pairs so far do not suggest is not timed again.
    """
    rounds: dict[str, list[list[float]]] = {name: [] for name in names}
    timed = 0
    for attempt in range(ROUNDS):
        trees = (base, head) if attempt % 2 else (head, base)
        with timers(*trees) as (first, second):
            sides = (first, second) if attempt % 2 else (second, first)
            for name, found in rounds.items():
                found.append(ratios(*sides, name))
        rounds = {name: found for name, found in rounds.items() if found[-1]}
        timed = timed or len(rounds)
        rounds = {n: found for n, found in rounds.items() if chance(pairs(found)) < SUSPICION}
        if not rounds:
            break
    medians = {n: statistics.median(pairs(f)) for n, f in rounds.items() if is_slower(f)}
    return timed, [Finding(n, r, f"{r:.3f} times the time before") for n, r in medians.items()]


def accepted() -> dict[str, float]:
    """The figures that were accepted on purpose."""
    entries = tomllib.loads(ACCEPTED.read_text()).get("accepted", []) if ACCEPTED.exists() else []
    return {entry["benchmark"]: float(entry["figure"]) for entry in entries}


def report(findings: Sequence[Finding], allowed: Mapping[str, float]) -> int:
    """Show what is worse, and how to accept it; returns an exit code."""
    refused = [one for one in findings if one.figure > allowed.get(one.benchmark, -math.inf)]
    for one in findings:
        print(f"{'WORSE   ' if one in refused else 'accepted'}  {one.benchmark}: {one.text}")
    if refused:
        print("\nTo accept what is worse on purpose, write in ci/accepted.toml:")
        for one in refused:
            figure = math.ceil(one.figure * 100) / 100 if one.figure != math.inf else "inf"
            print(f'\n[[accepted]]\nbenchmark = "{one.benchmark}"\nfigure = {figure}')
            print('reason = "why it is worth it"')
    return int(bool(refused))


@dataclass(frozen=True)
class Comparison:
    """What was found between two trees.

    Args:
      findings: What is worse.
      counted, timed: How many benchmarks were there on both sides.
      new: Counts that the base does not have.
    """

    findings: list[Finding]
    counted: int
    timed: int
    new: dict[str, float]


def compared(base: Path, given: argparse.Namespace) -> Comparison:
    """Measure this tree and another."""
    for tree in (base, ROOT):
        verify(tree)
    before, after = counted((base, ROOT), given.select or COUNTED)
    findings, timed = list(worse_counts(before, after)), 0
    if not given.counts_only:
        timed, slow = slower(base, ROOT, timed_names(given.select or TIMED))
        findings += slow
    both = set(before) & set(after)
    if not timed and not both:
        raise NothingMeasured("nothing is there that is in both trees")
    new = {name: after[name] for name in sorted(set(after) - both)}
    return Comparison(findings, len(both), timed, new)


def compare(given: argparse.Namespace) -> int:
    """Compare with a commit; returns an exit code."""
    base = given.base or default_base()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder).resolve()
        check_out(base, tree)
        found = compared(tree, given)
    for name, figure in found.new.items():
        print(f"new       {name}: {figure:g}")
    code = report(found.findings, accepted())
    commit = git("log", "-1", "--format=%h, %s", base).decode().strip()
    print(
        f"\n{found.counted} counts and {found.timed} times compared with {commit}; "
        f"{len(found.new)} new"
    )
    return code


def compare_with_itself(given: argparse.Namespace) -> int:
    """Compare a copy of this tree with it, again and again; returns 1 at the first alarm."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder).resolve()
        for name in PACKAGES:
            shutil.copytree(ROOT / name, copy / name)
        for run in range(1, given.against_itself + 1):
            started = time.monotonic()
            found = compared(copy, given)
            print(
                f"run {run:3}: {len(found.findings)} alarms, {found.counted} counts and "
                f"{found.timed} times, {time.monotonic() - started:.1f} s",
                flush=True,
            )
            if found.findings:
                return report(found.findings, {})
    print(f"no false alarm in {given.against_itself} runs")
    return 0


def timed_names(select: str) -> list[str]:
    """The names of what is timed."""
    sys.path.insert(0, str(ROOT))
    from benchmarks.cases import cases

    return [case.name for case in cases("time_") if re.search(select, case.name)]


def main(arguments: Sequence[str]) -> int:
    """Run the gate; returns an exit code."""
    parser = argparse.ArgumentParser("ci/gate", description=__doc__)
    parser.add_argument(
        "base",
        nargs="?",
        help="a commit; without it, where HEAD left main, or on main itself: HEAD, if the tree is "
        "not as committed, and else the commit before HEAD",
    )
    parser.add_argument("--counts-only", action="store_true", help="do not measure times")
    parser.add_argument("--select", default="", help="a regular expression for benchmarks")
    parser.add_argument(
        "--against-itself", type=int, default=0, metavar="TIMES",
        help="compare this tree with a copy of it, so often; any alarm is a false one",
    )  # fmt: skip
    given = parser.parse_args(arguments)
    try:
        return compare_with_itself(given) if given.against_itself else compare(given)
    except NothingMeasured as reason:
        print(f"ci/gate: nothing was measured: {reason}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
