"""The command `ci/gate`: measure this working tree and a commit in the same way, and compare.

Both trees are measured by this tree's benchmarks in the same environment; only the packages that
they import differ.

- *Counts* hardly jitter, so any count that is worse fails, once new processes have confirmed it.
- *Times* do jitter. A process for each tree times a benchmark alternately, which gives *pairs*, and
  each pair a *ratio*: time of this tree over time of the commit. A benchmark is slower only if the
  ratios of several *rounds*, each with new processes, say so with near certainty.
"""

import argparse
import json
import math
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
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from scipy.stats import binom

from scutch_ci.checkout import (
    PACKAGE_ROOTS,
    ROOT,
    NothingMeasured,
    environment_of,
    git,
    output_of,
)
from scutch_ci.configurations import configurations
from scutch_ci.waiting import waiting

ACCEPTED = ROOT / "ci" / "accepted.toml"
COUNTED = r"^(?!compilation\.Scale|guide\.|dispatch.*, 2048\)).*\(reference"
TIMED = (
    r"^dispatch\.Dispatch\.time_call\(reference, (forward|update|sharded), (4|32|256)\)"
    r"|^metadata\.Trees\.time_function\(reference, \w+, 100\)"
)
THRESHOLD = 1.05
"""A ratio above it counts as slower."""

RECOUNTS = 3
"""How often new processes count again what is worse.

The hash tables of JAX's C++ code are seeded by addresses of memory. In one process of 60 two keys
collided in such a table, and a lookup compared them by a Python method: four calls more.
"""

PAIRS = 20
ROUNDS = 5
SUSPICION = 0.2
"""A benchmark is timed for another round while chance alone gives its ratios less often."""

CERTAINTY = 1e-3
"""A benchmark is slower only when chance alone gives its ratios less often."""


@dataclass(frozen=True)
class Finding:
    """A benchmark that is worse than it was.

    Args:
      benchmark: Its name, with its parameters.
      figure: The figure that `ci/accepted.toml` would have to allow: a count, or a ratio of times.
      text: Both figures, for people.
    """

    benchmark: str
    figure: float
    text: str


@dataclass(frozen=True)
class Comparison:
    """The result of comparing two trees.

    Args:
      findings: The benchmarks that are worse.
      counted: The number of counts that both trees have.
      timed: The number of benchmarks timed in both trees.
      new: The counts that only this tree has.
    """

    findings: list[Finding]
    counted: int
    timed: int
    new: dict[str, float]


# ---------------------------------------------------------------- the two trees


def default_base() -> str:
    """The commit to compare with when none is named.

    On a branch it is where the branch left main. On main it is HEAD if the packages have changes
    that are not committed, and else the commit before HEAD.

    Raises:
      NothingMeasured: HEAD is on main, and the commit before it is not in this clone.
    """
    head = git("rev-parse", "HEAD")
    for main in ("origin/main", "main"):
        with suppress(NothingMeasured):
            left = git("merge-base", "HEAD", main)
            if left != head:
                return left
    if git("status", "--porcelain", "--", *PACKAGE_ROOTS):
        return "HEAD"
    try:
        return git("rev-parse", "--verify", "--quiet", "HEAD~1")
    except NothingMeasured as shallow:
        message = "HEAD is on main, and the commit before it is not in this clone: name a BASE"
        raise NothingMeasured(message) from shallow


def check_out(commit: str, folder: Path) -> None:
    """Put the packages of a commit in a folder."""
    packed = folder / "packages.tar"
    git("archive", "--format=tar", f"--output={packed}", commit, *PACKAGE_ROOTS)
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    packed.unlink()


def verify(tree: Path) -> None:
    """Refuse to measure a tree if its process would import the packages of another one.

    Raises:
      NothingMeasured: The process imports another tree's packages, or it cannot import them.
    """
    script = "import scutch_reference; print(scutch_reference.__file__)"
    failure = f"scutch_reference of {tree} is not what is imported"
    imported = output_of([sys.executable, "-c", script], failure, environment_of(tree))
    if not Path(imported).is_relative_to(tree):
        raise NothingMeasured(f"{failure}: {imported}")


# ---------------------------------------------------------------- counts


def counted(trees: Sequence[Path], select: str) -> list[dict[str, float]]:
    """The counts of each tree, by the names of the benchmarks.

    All trees are counted at the same time, since counts do not depend on how busy the machine is.

    Args:
      trees: Checkouts, or folders with the package roots of one.
      select: A regular expression for the names.

    Returns:
      One dictionary for each tree.

    Raises:
      NothingMeasured: Counting failed in one of them.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, str(i)) for i in range(len(trees))]
        running = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.counts", str(file), "--select", select],
                env=environment_of(tree),
                cwd=ROOT,
                text=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            for tree, file in zip(trees, files, strict=True)
        ]
        printed = [process.communicate()[0] for process in running]
        for tree, process, text in zip(trees, running, printed, strict=True):
            if process.returncode not in (0, 2):
                raise NothingMeasured(f"counting in {tree} failed:\n{text}")
        return [json.loads(file.read_text()) if file.exists() else {} for file in files]


def confirmed_counts(
    base: Path, head: Path, select: str
) -> tuple[dict[str, float], dict[str, float]]:
    """The counts of two trees; what seems worse is the least that several processes have counted.

    Args:
      base: The tree of the commit.
      head: This tree.
      select: A regular expression for the names.
    """
    before, after = counted((base, head), select)
    for _ in range(RECOUNTS):
        worse = [one.benchmark for one in worse_counts(before, after) if one.benchmark in after]
        if not worse:
            break
        again = counted((base, head), f"^({'|'.join(map(re.escape, worse))})$")
        for figures, new in zip((before, after), again, strict=True):
            figures.update({name: min(figures[name], new[name]) for name in worse if name in new})
    return before, after


def worse_counts(base: Mapping[str, float], head: Mapping[str, float]) -> Iterator[Finding]:
    """The counts of `base` that are higher in `head`, or that `head` does not have any more."""
    for name, before in base.items():
        after = head.get(name)
        if after is None:
            yield Finding(name, math.inf, f"{before:g} before, and not counted any more")
        elif after > before:
            yield Finding(name, after, f"{before:g} before, {after:g} now")


# ---------------------------------------------------------------- times


class Timer:
    """A running `python -m benchmarks.timing` that imports the packages of one tree."""

    def __init__(self, tree: Path):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.timing"],
            env=environment_of(tree),
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=1,
        )
        self._tree = tree

    def ask(self, number: int, name: str) -> float | None:
        """Time a benchmark.

        Args:
          number: How many calls make a block; 0 asks for a suitable number.
          name: The benchmark, with its parameters.

        Returns:
          The seconds of one call; for 0, the number of calls in a block; None where the tree lacks
          the code that the benchmark measures.

        Raises:
          NothingMeasured: The process ended.
        """
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
    """A timer for each tree, started in this order and ended afterwards."""
    with ExitStack() as stack:
        yield [stack.enter_context(closing(Timer(tree))) for tree in trees]


def time_pairs(base: Timer, head: Timer, name: str) -> list[float]:
    """Time a benchmark alternately in both trees.

    Args:
      base: The timer of the commit.
      head: The timer of this tree.
      name: The benchmark, with its parameters.

    Returns:
      The ratio of each pair; empty where one of the trees lacks the code that is measured.
    """
    number = head.ask(0, name)
    if number is None or base.ask(0, name) is None:
        return []
    ratios = []
    for i in range(PAIRS):
        order = (base, head) if i % 2 else (head, base)
        first, second = (timer.ask(int(number), name) for timer in order)
        if first is None or second is None:
            return []
        ratios.append(second / first if i % 2 else first / second)
    return ratios


def chance(ratios: Sequence[float]) -> float:
    """The probability that chance alone puts so many ratios above the threshold.

    This is a one-sided sign test. The null hypothesis is that each ratio is above the threshold
    with probability one half.
    """
    above = sum(ratio > THRESHOLD for ratio in ratios)
    return float(binom.sf(above - 1, len(ratios), 0.5))


def all_ratios(rounds: Sequence[Sequence[float]]) -> list[float]:
    """The ratios of all rounds in one list."""
    return [ratio for ratios in rounds for ratio in ratios]


def is_slower(rounds: Sequence[Sequence[float]]) -> bool:
    """Whether chance cannot explain all ratios, and the medians of all rounds but one agree."""
    agreeing = sum(statistics.median(ratios) > THRESHOLD for ratios in rounds)
    return agreeing >= max(1, len(rounds) - 1) and chance(all_ratios(rounds)) < CERTAINTY


def time_round(
    base: Path, head: Path, names: Sequence[str], *, base_first: bool
) -> dict[str, list[float]]:
    """Time benchmarks in two new processes.

    Args:
      base: The tree of the commit.
      head: This tree.
      names: The benchmarks, with their parameters.
      base_first: Which process is started first.

    Returns:
      The ratios of each benchmark.
    """
    trees = (base, head) if base_first else (head, base)
    with timers(*trees) as (first, second):
        of_base, of_head = (first, second) if base_first else (second, first)
        return {name: time_pairs(of_base, of_head, name) for name in names}


def slower(base: Path, head: Path, names: Sequence[str]) -> tuple[int, list[Finding]]:
    """The benchmarks that are slower in `head` than in `base`.

    A benchmark whose ratios so far are not suspicious is not timed in further rounds.

    Args:
      base: The tree of the commit.
      head: This tree.
      names: The benchmarks, with their parameters.

    Returns:
      How many benchmarks were timed in both trees, and the findings.
    """
    rounds: dict[str, list[list[float]]] = {name: [] for name in names}
    timed = 0
    for attempt in range(ROUNDS):
        new = time_round(base, head, list(rounds), base_first=bool(attempt % 2))
        rounds = {name: [*rounds[name], ratios] for name, ratios in new.items() if ratios}
        timed = timed or len(rounds)
        rounds = {n: each for n, each in rounds.items() if chance(all_ratios(each)) < SUSPICION}
        if not rounds:
            break
    slow = {n: statistics.median(all_ratios(e)) for n, e in rounds.items() if is_slower(e)}
    return timed, [
        Finding(n, ratio, f"{ratio:.3f} times the time before") for n, ratio in slow.items()
    ]


def timed_names(select: str) -> list[str]:
    """The names of the configurations to time that match a regular expression."""
    found = configurations(sys.executable, "time_")
    return [one.name for one in found if re.search(select, one.name)]


# ---------------------------------------------------------------- the verdict


def accepted() -> dict[str, float]:
    """The figures that `ci/accepted.toml` allows, by the names of the benchmarks."""
    entries = tomllib.loads(ACCEPTED.read_text()).get("accepted", []) if ACCEPTED.exists() else []
    return {entry["benchmark"]: float(entry["figure"]) for entry in entries}


def report(findings: Sequence[Finding], allowed: Mapping[str, float]) -> int:
    """Print the worse benchmarks and the entries that would accept them; returns an exit code."""
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


def compared(base: Path, options: argparse.Namespace) -> Comparison:
    """Measure this tree and another, as the command's options say.

    Raises:
      NothingMeasured: No benchmark is in both trees.
    """
    for tree in (base, ROOT):
        verify(tree)
    with waiting("counts of both trees"):
        before, after = confirmed_counts(base, ROOT, options.select or COUNTED)
    findings = list(worse_counts(before, after))
    timed = 0
    if not options.counts_only:
        with waiting("times of both trees, in turns"):
            timed, slow = slower(base, ROOT, timed_names(options.select or TIMED))
        findings += slow
    both = set(before) & set(after)
    if not timed and not both:
        raise NothingMeasured("nothing is there that is in both trees")
    new = {name: after[name] for name in sorted(set(after) - both)}
    return Comparison(findings, len(both), timed, new)


def compare(options: argparse.Namespace) -> int:
    """Compare this tree with a commit; returns an exit code."""
    base = options.base or default_base()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder).resolve()
        check_out(base, tree)
        comparison = compared(tree, options)
    for name, figure in comparison.new.items():
        print(f"new       {name}: {figure:g}")
    code = report(comparison.findings, accepted())
    commit = git("log", "-1", "--format=%h, %s", base)
    print(
        f"\n{comparison.counted} counts and {comparison.timed} times compared with {commit}; "
        f"{len(comparison.new)} new"
    )
    return code


def compare_with_itself(options: argparse.Namespace) -> int:
    """Compare this tree with a copy of it, again and again; returns 1 at the first alarm."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder).resolve()
        for name in PACKAGE_ROOTS:
            shutil.copytree(ROOT / name, copy / name)
        for run in range(1, options.against_itself + 1):
            started = time.monotonic()
            comparison = compared(copy, options)
            print(
                f"run {run:3}: {len(comparison.findings)} alarms, {comparison.counted} counts and "
                f"{comparison.timed} times, {time.monotonic() - started:.1f} s",
                flush=True,
            )
            if comparison.findings:
                return report(comparison.findings, {})
    print(f"no false alarm in {options.against_itself} runs")
    return 0


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(
        "ci/gate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="exit codes: 0 nothing is worse, 1 something is, 2 nothing was measured",
    )
    parser.add_argument(
        "base",
        nargs="?",
        help="a commit; without it, where HEAD left main, or on main itself: HEAD, if the tree is "
        "not as committed, and else the commit before HEAD",
    )
    parser.add_argument("--counts-only", action="store_true", help="do not measure times")
    parser.add_argument("--select", default="", help="a regular expression for benchmarks")
    parser.add_argument(
        "--against-itself",
        type=int,
        default=0,
        metavar="TIMES",
        help="compare this tree with a copy of it, so often; any alarm is a false one",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the gate; returns an exit code."""
    options = parsed(arguments)
    try:
        return compare_with_itself(options) if options.against_itself else compare(options)
    except NothingMeasured as reason:
        print(f"ci/gate: nothing was measured: {reason}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
