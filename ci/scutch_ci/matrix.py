"""The command `ci/matrix`: judge releases, and keep the verdicts as data in the package.

Each file of `ci/pins/releases` is a release of Flax, of orbax-export or of JAX itself. A release of
Flax is judged with the JAX of its day and, by the requirements that the next release changes, with
the JAX of that one. For each, newest first, the command

- makes an environment with these packages and pytest, in a folder that is kept;
- judges the release; the calls that are known to break it or a release near it are tried first, so
  that a search is seldom needed;
- writes a record to `conformance/scutch/releases`; a release with a record is not judged again.

Then it judges, on more inputs, the requirements that a record lacks or leaves undecided, and
*cross-examines*: each call that breaks one release is tried on every other release whose law held,
since a search that misses a failure does not prove that it was mended. Without names of releases it
also runs `ci/programs` on every release and reads each one's public interface (with griffe). Every
part may be interrupted; the same command goes on. `--known` writes the version ranges of the known
failures from the records, and `--scripts` writes a program that shows each known failure.
"""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from packaging.version import Version
from scutch import catalogue, releases
from scutch.judging import known, suite
from scutch.judging.trials import Trial
from scutch.releases import Finding, Record, changes, digest
from scutch.report.document import Report, load
from scutch.report.text import count, publish

from scutch_ci import conformance, interfaces, known_ranges, programs, scripts, tasks
from scutch_ci.checkout import ROOT, NothingMeasured, environment_of, last_line, processors
from scutch_ci.targets import ADAPTERS, Target, environment, made, targets

RECORDS = ROOT / "conformance" / "scutch" / "releases"
ENVIRONMENTS = ROOT / "build" / "matrix"
TRIED = ("passed", "failed", "blocked")
"""Verdicts of requirements that were tried, to which one more call can add evidence."""
UNDECIDED = ("untested", "timeout")
"""Verdicts that leave a requirement undecided: too few inputs, or a machine that was busy."""
LONGER = 5
"""The factor by which an undecided requirement gets more inputs than the others."""


# ---------------------------------------------------------------- judging


@dataclass(frozen=True)
class Matrix:
    """Where releases are judged, how hard, and where their records are.

    Args:
      environments: The folder of the environments; its folder `runs` holds the files of the runs.
      records: The folder of the records.
      examples: Inputs for each law.
      seed: The seed of the search.
      patterns: Which requirements are judged; empty for all.
    """

    environments: Path
    records: Path
    examples: int
    seed: int
    patterns: Sequence[str] = ()

    def recorded(self) -> tuple[Record, ...]:
        """All records of the folder."""
        texts = [path.read_text("utf-8") for path in self.records.glob("*.json")]
        return releases.ordered(map(Record.from_text, texts))

    def file(self, target: Target) -> Path:
        """Where the record of a release is, or will be."""
        return self.records / f"{target}.json"

    def judge(self, target: Target) -> Record:
        """Judge a release, write its record, and return it.

        Raises:
          NothingMeasured: The release could not be judged to the end.
        """
        folder = self.environments / "runs" / str(target)
        folder.mkdir(parents=True, exist_ok=True)
        log, expected = folder / "log", folder / "known.toml"
        python = environment(target, self.environments, log)
        if not expected.exists():
            publish(known.toml(target.implementation, self.witnesses(target)), expected)
        report, trials = self.run(target, python, folder, self.examples, self.asked(target))
        record = recorded(target, report, trials, self.examples, spent(folder))
        publish(record.to_text(), self.file(target))
        return record

    def witnesses(self, target: Target) -> Iterator[known.Known]:
        """For each law that some release breaks, one call to try first on this release.

        It is the witness of a known failure, or else a call that broke the nearest release. The
        witness goes first because the range of a known failure is about that very call: a release
        that another call breaks, too, is then no hole in the range. Calls that the laws of today do
        not take are left out.
        """
        others = [r for r in self.recorded() if related(r.implementation, target.implementation)]
        others.sort(key=lambda r: distance(r, target, others))
        calls = {
            (requirement, each.test): each.input
            for record in reversed(others)
            for requirement, finding in record.requirements.items()
            for each in finding.broken
            if each.input
        }
        shipped = {
            (each.requirement, each.test): each.witness
            for each in known.shipped()
            if related(each.implementation, target.implementation)
        }
        for (requirement, law), call in (calls | shipped).items():
            if is_current(law, call):
                yield known.Known(
                    target.implementation, requirement, "", "recorded", call, None, ""
                )

    def run(
        self,
        target: Target,
        python: str,
        folder: Path,
        examples: int,
        patterns: Iterable[str],
    ) -> tuple[Report, list[Trial]]:
        """Judge a release, or go on where an earlier run was interrupted.

        Args:
          target: The release.
          python: The interpreter of its environment.
          folder: Holds the run's log, trials and report; the calls in its `known.toml` are tried
            first.
          examples: Inputs for each law.
          patterns: Which requirements are judged; empty for all.

        Returns:
          The report, and the last trial of each law.

        Raises:
          NothingMeasured: The run wrote no complete report.
        """
        log, tried, written = folder / "log", folder / "report.trials", folder / "report.json"
        command = (
            *(python, "-m", "scutch", "run", "--implementation", ADAPTERS[target.implementation]),
            *("--profile", "quick", "--examples", str(examples), "--seed", str(self.seed)),
            *("--known", str(folder / "known.toml"), "--resume", str(tried)),
            *(f"--requirement={pattern}" for pattern in patterns),
            *("--report", str(written), "-n", str(processors()), "-q", "--tb=no"),
            *("-p", "no:cacheprovider"),
        )
        started = time.monotonic()
        try:
            code = tasks.run(command, log, folder, conformance.environment() | own())
        finally:
            with (folder / "seconds").open("a", encoding="utf-8") as file:
                file.write(f"{time.monotonic() - started:.0f}\n")
        report = load(written) if written.exists() else None
        # The exit code says less: it is 2, too, where the release claims none of the requirements.
        if report is None or not report.complete:
            raise NothingMeasured(f"judging ended with {code}: {last_line(log.read_text())}")
        lines = tried.read_text("utf-8").splitlines()[1:]
        return report, list({one.test: one for one in map(Trial.from_data, lines)}.values())

    # ------------------------------------------------------------ a closer look

    def complete(self, target: Target, *, again: bool) -> None:
        """Judge the requirements that a record lacks or leaves undecided, and add the verdicts.

        A record lacks the requirements that are younger than it. It leaves a requirement undecided
        if its law had too few inputs, or took too long. This run gives each law `LONGER` times as
        many inputs. The run's folder is kept until the record holds the verdicts, so that an
        interrupted run goes on, and a run that is asked for again starts anew.

        Args:
          target: A release that is recorded.
          again: Whether to judge all requirements that `patterns` choose, the decided ones, too.

        Raises:
          NothingMeasured: The run wrote no complete report, or the release has no record.
        """
        record = self.record(target)
        found = {name: record.requirements.get(name) for name in self.asked(target)}
        lacks = [name for name, each in found.items() if not each or each.verdict in UNDECIDED]
        ids = list(found) if again else lacks
        folder = self.part(target, " ".join(ids))
        if not ids:
            return
        folder.mkdir(parents=True, exist_ok=True)
        python = environment(target, self.environments, folder / "log")
        if not (folder / "known.toml").exists():
            calls = [each for each in self.witnesses(target) if each.requirement in ids]
            publish(known.toml(target.implementation, calls), folder / "known.toml")
        report, trials = self.run(target, python, folder, self.examples * LONGER, ids)
        new = recorded(target, report, trials, self.examples, spent(folder))
        requirements = {**record.requirements, **new.requirements}
        completed = replace(
            record,
            requirements={name: requirements[name] for name in catalogue.in_order(requirements)},
            held=tuple(sorted({*record.held, *new.held})),
            seconds=record.seconds + new.seconds,
            date=new.date,
        )
        publish(completed.to_text(), self.file(target))
        shutil.rmtree(folder)

    def asked(self, target: Target) -> list[str]:
        """The requirements that a release is judged by.

        A release with the JAX of the next release is judged only by the requirements whose verdict
        the next release changes. Its verdicts tell whether Flax or JAX changed them.

        Raises:
          NothingMeasured: The release with its own JAX, or the next release, has no record.
        """
        chosen = catalogue.select(self.patterns) if self.patterns else catalogue.load()
        ids = [row.id for row in chosen]
        if not target.jax:
            return ids
        own, next_one = replace(target, jax=""), target.donors[0]
        upgrade = changes.compare(self.record(own), self.record(next_one))
        changed = {change.requirement for change in upgrade.changes}
        return [name for name in ids if name in changed]

    def part(self, target: Target, of: str) -> Path:
        """The folder of a run on a part of the laws; `of` names its requirements or calls."""
        return self.environments / "runs" / str(target) / digest(of)

    def record(self, target: Target) -> Record:
        """The record of a release that was judged.

        Raises:
          NothingMeasured: The release has no record.
        """
        file = self.file(target)
        if not file.exists():
            raise NothingMeasured(f"{target} is not recorded: there is no {file}")
        return Record.from_text(file.read_text("utf-8"))

    def cross_examine(self, target: Target) -> int:
        """Try the calls that break other releases on one, and add the results to its record.

        Returns:
          How many calls were tried.

        Raises:
          NothingMeasured: The release has no record, or a run wrote no complete report.
        """
        tried: set[str] = set()
        while chosen := self.open_calls(target, tried):
            record = self.record(target)
            folder = self.part(target, "".join(each.witness for each in chosen))
            folder.mkdir(parents=True, exist_ok=True)
            python = environment(target, self.environments, folder / "log")
            publish(known.toml(target.implementation, chosen), folder / "known.toml")
            ids = sorted({each.requirement for each in chosen})
            _, trials = self.run(target, python, folder, 1, ids)
            publish(crossed(record, chosen, trials).to_text(), self.file(target))
            tried.update(each.witness for each in chosen)
        return len(tried)

    def open_calls(self, target: Target, tried: Container[str] = ()) -> list[known.Known]:
        """The calls that a release has still to be tried on, at most one for each law.

        The witness of a known failure comes first, because the range of that failure is about this
        very call. A law that the release does not break gets a call that breaks another release.

        Args:
          target: A release that is recorded.
          tried: Calls to leave out.
        """
        record = self.record(target)
        own = {name: each for name, each in record.requirements.items() if each.verdict in TRIED}
        elsewhere = [
            known.Known(other.implementation, name, "", other.file, each.input, None, "")
            for other in self.recorded()
            for name, finding in other.requirements.items()
            for each in finding.broken
            if name in own
            and each.input
            and each.test not in own[name].witnesses
            and is_current(each.test, each.input)
        ]
        entered = [
            each
            for each in known.shipped()
            if each.requirement in own
            and is_current(each.test, each.witness)
            and all(each.witness != other.input for other in own[each.requirement].broken)
        ]
        return list(
            {
                (each.requirement, each.test): replace(
                    each, implementation=record.implementation, versions="", errors=(), script=None
                )
                for each in (*elsewhere, *entered)
                if related(each.implementation, record.implementation)
                and each.witness not in tried
                and not record.holds(each.witness)
            }.values()
        )


def own() -> dict[str, str]:
    """The variables by which a release's environment imports this checkout's packages."""
    return {"PYTHONPATH": environment_of(ROOT)["PYTHONPATH"]}


def related(one: str, other: str) -> bool:
    """Whether two implementations are one library, such as Flax and Flax in another mode."""
    return one.partition("-")[0] == other.partition("-")[0]


def is_current(law: str, call: str) -> bool:
    """Whether a recorded call is one of a law of this suite; laws are edited, and merged."""
    found = suite.named(law)
    return found is not None and found.takes(call)


def distance(record: Record, target: Target, among: Sequence[Record]) -> int:
    """How many records of `among` lie between a record and a release, the newer end included."""
    between = sorted([Version(record.release), Version(target.release)])
    return sum(between[0] < Version(each.release) <= between[1] for each in among)


def spent(folder: Path) -> int:
    """The seconds that all parts of a run took."""
    return sum(map(int, (folder / "seconds").read_text("utf-8").split()))


def recorded(
    target: Target, report: Report, trials: Sequence[Trial], examples: int, seconds: int
) -> Record:
    """The record of a run.

    Args:
      target: The release that was asked for.
      report: The report of the run.
      trials: The trials of its laws.
      examples: Inputs for each law.
      seconds: The duration of the run.

    Raises:
      NothingMeasured: Another release was judged.
    """
    name, release = target.implementation, report.implementation.version
    if Version(release) != Version(target.release):
        raise NothingMeasured(f"{release} was judged; expected {target.release}")
    of: dict[str, list[Trial]] = {}
    for trial in trials:
        of.setdefault(trial.requirement, []).append(trial)
    found = {o.id: Finding.of(o.verdict, of.get(o.id, ()), o.reason) for o in report.requirements}
    if target.jax:
        alike = Finding("untested", reason="the next release does not change it")
        found = dict.fromkeys((row.id for row in catalogue.load()), alike) | found
    held = {
        digest(t.expected)
        for t in trials
        if t.expected and t.outcome in TRIED and t.expected not in {c.input for c in t.shown}
    }
    where = report.environment
    return Record(
        name,
        release,
        where.jax,
        where.python,
        report.suite.version,
        report.profile,
        examples,
        report.seed,
        datetime.now(UTC).date().isoformat(),
        seconds,
        found,
        tuple(sorted(held)),
        beside=bool(target.jax),
    )


def crossed(record: Record, chosen: Sequence[known.Known], trials: Sequence[Trial]) -> Record:
    """A record with the results of calls that break other releases.

    A call that breaks this release, too, joins the record's broken calls. A call on which its law
    holds joins the record's `held`.
    """
    found, held = dict(record.requirements), set(record.held)
    by_law = {(trial.requirement, trial.test): trial for trial in trials}
    for call in chosen:
        trial = by_law.get((call.requirement, call.test))
        if trial is None:
            continue
        if trial.shown:
            before = found[call.requirement]
            calls = (*before.broken, *Finding.of("failed", [trial]).broken)
            broken = tuple({(each.test, each.input): each for each in calls}.values())
            verdict = "failed" if before.verdict == "passed" else before.verdict
            found[call.requirement] = replace(before, verdict=verdict, broken=broken)
        if trial.outcome in TRIED and all(each.input != call.witness for each in trial.shown):
            held.add(digest(call.witness))
    return replace(record, requirements=found, held=tuple(sorted(held)))


# ---------------------------------------------------------------- the command


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the releases without a record, or do as the options say; returns an exit code."""
    options = parsed(arguments)
    matrix = Matrix(
        options.environments.resolve(),
        options.records.resolve(),
        options.examples,
        options.seed,
        options.requirement,
    )
    try:
        if options.known:
            return known_ranges.update(matrix.recorded())
        if options.scripts:
            return write_scripts(matrix, options.releases, again=options.again)
        code = 0
        if not options.interfaces:
            code = judge_all(matrix, targets(options.releases), again=options.again)
        if options.interfaces or not options.releases:
            code = max(code, renew_interfaces(matrix))
        return code
    except NothingMeasured as reason:
        print(f"ci/matrix: {reason}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nci/matrix: interrupted; the same command goes on from here", file=sys.stderr)
        return 130


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(
        "ci/matrix",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="exit codes: 0 all is recorded, 1 some release could not be judged, 2 nothing was "
        "judged, 130 interrupted",
    )
    add = parser.add_argument
    add(
        "releases",
        nargs="*",
        metavar="RELEASE",
        help="only these, such as flax-0.12.8, flax-0.10.5-jax-0.6.0 or flax-no-graph-0.12.12 "
        "(default: all that have pins, and the newest Flax in its other modes)",
    )
    add("--again", action="store_true", help="judge them anew, although they are recorded")
    add("--examples", type=int, default=4, metavar="N", help="inputs for each law (%(default)s)")
    add("--seed", type=int, default=0, metavar="N", help="of the search (%(default)s)")
    add(
        "--requirement",
        action="append",
        default=[],
        metavar="PATTERN",
        help="judge only these, also if they are recorded; repeatable",
    )
    add(
        "--environments",
        type=Path,
        default=ENVIRONMENTS,
        metavar="DIR",
        help="where the environments are kept (build/matrix)",
    )
    add("--records", type=Path, default=RECORDS, metavar="DIR", help="where the records are kept")
    add(
        "--known",
        action="store_true",
        help="judge nothing: write the version ranges of known failures from the records",
    )
    add(
        "--scripts",
        action="store_true",
        help="judge nothing: write a script for each known failure of Flax that has none, and run "
        "each on the release that has the failure, on RELEASE and on the one that mended it",
    )
    add(
        "--interfaces",
        action="store_true",
        help="judge nothing: only run ci/programs on every release of Flax and JAX, and read its "
        "public interface from its wheel (needs griffe)",
    )
    options = parser.parse_args(arguments)
    if options.examples < 1:
        parser.error(f"--examples {options.examples}: expected at least 1")
    return options


def judge_all(matrix: Matrix, wanted: Sequence[Target], *, again: bool) -> int:
    """Judge releases one after the other, then cross-examine them; returns an exit code."""
    matrix.records.mkdir(parents=True, exist_ok=True)
    started, failed, alike = time.monotonic(), [], []
    kept = {str(target) for target in wanted if matrix.file(target).exists() and not again}
    for number, target in enumerate(wanted, 1):
        print(f"{f'{number}/{len(wanted)}':7}{target!s:32}", end="", flush=True)
        if again:
            shutil.rmtree(matrix.environments / "runs" / str(target), ignore_errors=True)
            matrix.file(target).unlink(missing_ok=True)
        word = "kept" if str(target) in kept else "judged"
        try:
            if not matrix.asked(target):
                alike.append(str(target))
                print("alike   the next release changes no requirement")
                continue
            record = matrix.record(target) if word == "kept" else matrix.judge(target)
            print(f"{word:8}{record.seconds:6} s  {summary(record)}")
        except NothingMeasured as reason:
            failed.append(str(target))
            print(f"FAILED  {reason}")
    for target in [each for each in wanted if str(each) not in (*failed, *alike)]:
        print(f"{'cross':7}{target!s:32}", end="", flush=True)
        try:
            matrix.complete(target, again=bool(matrix.patterns) and str(target) in kept)
            tried = matrix.cross_examine(target)
            print(f"{count(tried, 'call')} tried; {summary(matrix.record(target))}")
        except NothingMeasured as reason:
            failed.append(str(target))
            print(f"FAILED  {reason}")
    judged = [r for r in matrix.recorded() if r.file.removesuffix(".json") in map(str, wanted)]
    print(
        f"\n{count(len(judged), 'release')} recorded, judged in "
        f"{sum(r.seconds for r in judged) / 60:.0f} minutes; this command took "
        f"{(time.monotonic() - started) / 60:.0f} minutes"
    )
    return int(bool(failed))


def write_scripts(matrix: Matrix, releases: Sequence[str], *, again: bool) -> int:
    """Write and run a script for each known failure; returns an exit code.

    Args:
      matrix: Says where environments are, and which requirements are asked for.
      releases: Releases that the scripts are run on, besides those that each script needs.
      again: Whether to write anew the scripts that exist.
    """
    log = matrix.environments / "scripts.log"
    matrix.environments.mkdir(parents=True, exist_ok=True)
    asked = targets(releases) if releases else []
    os.environ |= own()  # a script is written by this suite, in the environment of a release
    survey = scripts.Survey(
        lambda target: environment(target, matrix.environments, log), asked, matrix.patterns, again
    )
    return int(survey.update() > 0)


def renew_interfaces(matrix: Matrix) -> int:
    """Run the programs on every release, and read every interface; returns an exit code."""
    log = matrix.environments / "programs.log"
    matrix.environments.mkdir(parents=True, exist_ok=True)
    code = programs.update(lambda name, pins: made(name, pins, matrix.environments, log))
    return code or interfaces.update()


def summary(record: Record) -> str:
    """The number of requirements by verdict."""
    return ", ".join(f"{number} {verdict}" for verdict, number in record.tally)


if __name__ == "__main__":
    sys.exit(main())
