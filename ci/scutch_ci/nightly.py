"""The command `ci/nightly`: judge and measure this commit in depth, publish, name the regressions.

It runs a list of tasks: one for each implementation and environment that is judged, one for each
group of benchmarks and environment that is measured. Then it publishes one site and names
the regressions since the last night. It may be interrupted at any moment: the same command goes on
with the tasks that are not done, as long as commit, options and environments are the same.
"""

import argparse
import fcntl
import json
import os
import platform
import re
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from scutch import catalogue
from scutch.judging import portfolio
from scutch.judging.profiles import PROFILES
from scutch.report import site, text
from scutch.report.document import load
from scutch.report.matrix import Column

from scutch_ci import (
    asv_site,
    conformance,
    front_page,
    lowest,
    measurements,
    mutants,
    regressions,
    tasks,
)
from scutch_ci.checkout import (
    ROOT,
    NothingMeasured,
    commit_range,
    environment_of,
    git,
    last_line,
    output_of,
)
from scutch_ci.configurations import configurations
from scutch_ci.earlier import backfilling
from scutch_ci.environments import Environment, chosen
from scutch_ci.front_page import Outcome
from scutch_ci.history import History, Night, write_json
from scutch_ci.screenshot import NoBrowser, take
from scutch_ci.subjects import PACKAGES
from scutch_ci.tasks import Task, TaskFailed

STATE = ROOT / "build" / "nightly"
ALL_LAWS = "20"
"""Seconds in which all laws are tried on a fault: `choosing_task` asks which convict it."""
LOOK_FOR_DEVICES = """
import sys, jax
try:
    jax.devices(sys.argv[1])
except RuntimeError as error:
    sys.exit(str(error))
"""
PREFIXES = ("time_", "timeraw_", "track_", "peakmem_", "mem_")
COMPARABLE = ("profile", "examples", "requirement", "select", "quick", "machine", "platform")
"""The options that must be equal for two nights to be compared."""


def main(arguments: Sequence[str]) -> int:
    """Run one nightly: judge every pinned environment, run the benchmarks, publish the site.

    Args:
      arguments: The command's options.

    Returns:
      An exit code: 0 nothing regressed, 1 something did or a task failed, 2 nothing was measured,
      130 interrupted.
    """
    options = parsed(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background jobs ignore the first
        signal.signal(number, signal.default_int_handler)
    try:
        with locked(options.state):
            return run(options)
    except NothingMeasured as reason:
        print(f"ci/nightly: nothing was measured: {reason}", file=sys.stderr)
        return 2
    except NoBrowser as reason:
        print(f"ci/nightly: all is done, but for the picture: {reason}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nci/nightly: interrupted; the same command goes on from here", file=sys.stderr)
        return 130


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(
        "ci/nightly",
        description=__doc__,
        epilog="exit codes: 0 nothing regressed, 1 something did or a task failed, 2 nothing was "
        "measured, 130 interrupted",
    )
    add = parser.add_argument
    add("--profile", choices=PROFILES, default="deep", help="how hard to judge (%(default)s)")
    add("--examples", type=int, metavar="N", help="inputs for each law, not the profile's")
    add(
        "--requirement",
        action="append",
        default=[],
        metavar="PATTERN",
        help="judge only these, as in ci/conformance; repeatable",
    )
    add(
        "--implementations",
        default=",".join(conformance.IMPLEMENTATIONS),
        metavar="A,B",
        help="what to judge: names, module:attribute or files (%(default)s)",
    )
    add(
        "--mutants",
        type=int,
        default=40,
        metavar="N",
        help="plant N faults in the reference and in Flax, others each night (%(default)s)",
    )
    add("--no-conformance", action="store_true", help="do not judge")
    add(
        "--select",
        default="",
        metavar="REGEX",
        help="measure only benchmarks that match, such as \"time_call\\('reference'\"",
    )
    add("--quick", action="store_true", help="run each benchmark once: to try, not to believe")
    add(
        "--backfill",
        type=int,
        default=0,
        metavar="N",
        help="also take the counts of the last N earlier commits that changed the reference",
    )
    add("--no-benchmarks", action="store_true", help="do not measure")
    add(
        "--python",
        action="append",
        default=[],
        metavar="PYTHON",
        help="use this environment as it is, in the place of those of the pins; repeatable",
    )
    add(
        "--machine",
        default=platform.node() or "machine",
        metavar="NAME",
        help="what figures are compared and drawn under (%(default)s)",
    )
    add(
        "--platform",
        default="cpu",
        metavar="NAME",
        help="JAX's platform to judge and measure on: cpu, cuda or tpu (%(default)s)",
    )
    add("--state", type=Path, default=STATE, metavar="DIR", help="where all nights are kept")
    add("--site", type=Path, metavar="DIR", help="where to publish (DIR/site of --state)")
    add("--picture", type=Path, metavar="FILE.png", help="also take a picture of the first page")
    add("--fresh", action="store_true", help="begin a new night, whatever is there")
    options = parser.parse_args(arguments)
    if options.examples is not None and options.examples < 1:
        parser.error(f"--examples {options.examples}: expected at least 1")
    options.state = options.state.resolve()
    options.site = (options.site or options.state / "site").resolve()
    return options


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a second nightly out of the folder while this one runs.

    Raises:
      NothingMeasured: Another one is running there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise NothingMeasured(f"another night is using {folder}") from error
        yield


def run(options: argparse.Namespace) -> int:
    """Do the tasks that are not done, publish, and print the regressions; returns an exit code."""
    commit = clean_head()
    environments = chosen(options.python)
    for environment in environments:
        check_platform(environment, options.platform)
    history = History(options.state)
    night = history.open(
        commit,
        {name: getattr(options, name) for name in COMPARABLE},
        {one.name: one.versions for one in environments},
        fresh=options.fresh,
    )
    print(f"commit {commit[:12]}, {options.profile}, in {night.folder}")
    for environment in environments:
        print(f"  {environment}")
    failed = do_tasks(planned_tasks(options, night, environments), history, night)
    earlier = backfilling(
        history, environments[0], options.backfill, machine=options.machine, select=options.select
    )
    for task in earlier:  # a commit may lack a feature that is measured today: that is no failure
        task.do(history.scratch)
    found = regressions.between(history, night)
    verdict = {"regressions": [asdict(one) for one in found], "failed": failed}
    write_json(verdict, night.folder / "verdict.json")
    outcome = publish(history, night, found, failed, options.site)
    if options.picture:
        take(options.site / "index.html", options.picture)
    print_outcome(history, night, outcome)
    print(f"site: {options.site / 'index.html'}")
    return int(bool(found or failed))


def clean_head() -> str:
    """The hash of HEAD, if all changes are committed: a history of commits has room for no other.

    Raises:
      NothingMeasured: Files that git knows are changed.
    """
    if changed := git("status", "--porcelain", "--untracked-files=no"):
        raise NothingMeasured(f"these changes are in no commit; commit or stash them:\n{changed}")
    return git("rev-parse", "HEAD")


def check_platform(environment: Environment, platform: str) -> None:
    """Look for the devices of a platform in an environment.

    Raises:
      NothingMeasured: JAX finds none there; the text ends with its reason.
    """
    command = [environment.python, "-c", LOOK_FOR_DEVICES, platform]
    failure = f"{environment.name} has no device of --platform {platform}"
    output_of(command, failure, environment_of(ROOT, platform))


def do_tasks(planned: Sequence[Task], history: History, night: Night) -> list[str]:
    """Do the tasks in their order; returns the names of those that left no file.

    Raises:
      NothingMeasured: No task left a file, or none was planned.
    """
    failed = [task.name for task in planned if not task.do(history.scratch)]
    if night.is_empty:
        raise NothingMeasured("no task left a file" if planned else "no task is asked for")
    return failed


# ---------------------------------------------------------------- the tasks


def planned_tasks(
    options: argparse.Namespace, night: Night, environments: Sequence[Environment]
) -> list[Task]:
    """All tasks of a night, judging first."""
    planned = [
        judging_task(options, night, environment, implementation)
        for environment in environments
        if not options.no_conformance
        for implementation in options.implementations.split(",")
    ]
    if not options.no_conformance and not options.python:
        planned.append(lowest_task(options, night))
        if not (options.requirement or options.quick):
            planned.append(trials_task(night))
    for implementation in PACKAGES if options.mutants > 0 else ():
        if implementation in options.implementations.split(","):
            planned.append(planting_task(options, night, environments[0], implementation))
    if options.mutants > 0 and set(PACKAGES) <= set(options.implementations.split(",")):
        planned.append(choosing_task(night, environments[0]))
    for environment in environments if not options.no_benchmarks else ():
        planned += measuring_tasks(options, night, environment)
    return planned


def lowest_task(options: argparse.Namespace, night: Night) -> Task:
    """The task that judges the reference with the lowest releases that it is said to work with."""
    result = night.folder / "lowest.json"

    def make(scratch: Path, log: Path) -> None:
        report = scratch / "report.json"
        wanted = [f"--requirement={pattern}" for pattern in options.requirement]
        try:
            command = lowest.command(f"--report={report}", "--profile=ci", *wanted)
        except NothingMeasured as reason:
            raise TaskFailed(str(reason)) from None
        code = tasks.run(command, log, ROOT, environment_of(ROOT))
        if code or not load(report).complete:
            raise TaskFailed(f"judging ended with {code}: {last_line(log.read_text())}")
        os.replace(report, result)

    def summary(path: Path) -> str:
        return Column("lowest", load(path)).headline

    return Task("judge reference, lowest releases", result, make, summary)


def own_environment() -> dict[str, str]:
    """The variables of `environment_of` this checkout, with the packages of `ci` importable too."""
    variables = environment_of(ROOT)
    variables["PYTHONPATH"] += f"{os.pathsep}{ROOT / 'ci'}{os.pathsep}{ROOT}"
    return variables


def trials_task(night: Night) -> Task:
    """The task that runs the checks which `ci/test` leaves to the nightly."""
    result = night.folder / "trials.txt"

    def make(scratch: Path, log: Path) -> None:
        command = (sys.executable, "-P", "-m", "scutch_ci.test", "--nightly")
        code = tasks.run(command, log, ROOT, own_environment())
        if code:
            raise TaskFailed(f"the trials ended with {code}: {last_line(log.read_text())}")
        text.publish(last_line(log.read_text()), result)

    return Task("run the checks of the nightly", result, make, Path.read_text)


def planting_task(
    options: argparse.Namespace, night: Night, environment: Environment, implementation: str
) -> Task:
    """The task that plants a sample of faults in an implementation; the commit draws which."""
    result = night.folder / "mutants" / f"{implementation}.jsonl"
    tried = result.with_suffix(".tried")

    def make(scratch: Path, log: Path) -> None:
        command = (
            *(environment.python, "-P", "-m", "scutch_ci.mutants", "--results", str(tried)),
            *("--implementation", implementation, "--sample", str(options.mutants)),
            *("--seed", str(int(night.commit[:8], 16)), "--all-laws", ALL_LAWS),
        )
        code = tasks.run(command, log, ROOT, own_environment())
        if code not in (0, 1):
            raise TaskFailed(f"planting faults ended with {code}: {last_line(log.read_text())}")
        os.replace(tried, result)

    def summary(path: Path) -> str:
        return f"{mutants.score(mutants.results_in(path))} found"

    return Task(f"plant faults in {implementation}", result, make, summary)


def choosing_task(night: Night, environment: Environment) -> Task:
    """The task that chooses the portfolio anew, by the faults of this night and all before it."""
    result = night.folder / portfolio.FILE

    def make(scratch: Path, log: Path) -> None:
        results = sorted(night.folder.parent.glob("*/mutants/*.jsonl"))
        if not results:
            raise TaskFailed("no faults were planted")
        command = (
            *(environment.python, "-P", "-m", "scutch_ci.portfolio", *map(str, results)),
            *("--output", str(scratch / portfolio.FILE)),
        )
        code = tasks.run(command, log, ROOT, own_environment())
        if code:
            raise TaskFailed(f"choosing ended with {code}: {last_line(log.read_text())}")
        os.replace(scratch / portfolio.FILE, result)

    def summary(path: Path) -> str:
        found = json.loads(path.read_text("utf-8"))
        return f"by {found['faults']} faults; it may replace judging/{portfolio.FILE}"

    return Task("choose the portfolio", result, make, summary)


def judging_task(
    options: argparse.Namespace, night: Night, environment: Environment, implementation: str
) -> Task:
    """The task that judges an implementation in an environment, and leaves a conformance report."""
    label = f"{re.sub(r'[^A-Za-z0-9._]+', '-', implementation).strip('-')}-{environment.name}"
    result = night.folder / "conformance" / f"{label}.json"
    tried = result.with_suffix(".trials")

    def make(scratch: Path, log: Path) -> None:
        report = scratch / "report.json"
        command = conformance.command(
            *conformance.judging_options(implementation, report),
            *(f"--requirement={pattern}" for pattern in options.requirement),
            *([f"--examples={options.examples}"] if options.examples else []),
            *(f"--profile={options.profile}", f"--resume={tried}"),
            f"--platform={options.platform}",
            python=environment.python,
        )
        variables = {**environment_of(ROOT), "SCUTCH_COMMAND": "ci/conformance"}
        code = tasks.run(command, log, ROOT, variables)
        if code not in (0, 1) or not report.exists() or not load(report).complete:
            raise TaskFailed(f"judging ended with {code}: {last_line(log.read_text())}")
        os.replace(report, result)
        tried.unlink(missing_ok=True)

    def summary(path: Path) -> str:
        return Column(label, load(path)).headline

    return Task(f"judge {implementation}, {environment.name}", result, make, summary)


def measuring_tasks(
    options: argparse.Namespace, night: Night, environment: Environment
) -> list[Task]:
    """The tasks that measure the benchmarks in an environment, one for each group."""
    everything = configurations(environment.python, *PREFIXES)
    found = [one for one in everything if re.search(options.select, one.asv_name)]
    jittering = sorted({one.benchmark for one in found if one.jitters})
    groups = dict.fromkeys(one.group for one in found)
    if "libtpu" not in environment.versions and "compilation.Scale" in groups:
        print(f'{environment.name}: no TPU compilation; it takes pip install "scutch[tpu]"')
    return [measuring_task(options, night, environment, group, jittering) for group in groups]


def measuring_task(
    options: argparse.Namespace,
    night: Night,
    environment: Environment,
    group: str,
    jittering: Sequence[str],
) -> Task:
    """The task that measures a group of benchmarks, and leaves a document of figures.

    Args:
      options: The command's.
      night: The night that it belongs to.
      environment: Where to measure.
      group: The name of a benchmark, or of a class.
      jittering: Names of the `track_*` whose figures differ from run to run.

    Returns:
      The task.
    """
    result = night.folder / "benchmarks" / f"{environment.name}-{group}.json"

    def make(scratch: Path, log: Path) -> None:
        variables = environment_of(ROOT, options.platform)
        variables["HOME"] = str(scratch)  # asv keeps machines there
        commands = measurements.asv_commands(
            environment,
            night.commit,
            group,
            scratch,
            machine=options.machine,
            select=options.select,
            quick=options.quick,
        )
        for command in commands:
            tasks.run(command, log, scratch, variables)
        document = measurements.collected(environment, scratch, options.machine)
        write_json(document | {"jitters": jittering}, result)

    return Task(f"measure {group}, {environment.name}", result, make, measurements.summary)


# ---------------------------------------------------------------- the site and the outcome


def publish(
    history: History,
    night: Night,
    found: Sequence[regressions.Regression],
    failed: Sequence[str],
    folder: Path,
) -> Outcome:
    """Make the site and put it in its folder, in the place of an earlier one.

    Args:
      history: All nights.
      night: The night that it is about.
      found: The regressions.
      failed: Names of the tasks that left no file.
      folder: Where the site goes.

    Returns:
      The outcome of the night.

    Raises:
      NothingMeasured: The folder holds something else than a site.
    """
    missing = ""
    with history.scratch() as scratch:
        made = scratch / "site"
        made.mkdir()
        reports = [load(path) for path in night.reports.values()]
        if reports:
            site.write(reports, catalogue.load(), made / "conformance", above="../index.html")
        if night.figures:
            try:
                asv_site.publish(history, made / "benchmarks", history.folder / "libraries")
            except asv_site.NeedsNetwork as error:
                missing = str(error)
        outcome = Outcome(found, failed, missing)
        front_page.write(history, night, outcome, made)
        replace_site(made, folder, scratch)
    return outcome


def replace_site(made: Path, folder: Path, scratch: Path) -> None:
    """Move a new site to its folder; an earlier site there goes to the scratch folder.

    Raises:
      NothingMeasured: The folder holds something else than a site.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / "index.html").exists():
        raise NothingMeasured(f"{folder} holds no site; --site takes an empty folder or a site")
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = folder.with_name(
        f".{folder.name}.new"
    )  # on the same disk, so that the following move is one step
    shutil.rmtree(draft, ignore_errors=True)
    shutil.move(made, draft)
    if folder.exists():
        shutil.move(folder, scratch / "replaced")
    os.replace(draft, folder)


def print_outcome(history: History, night: Night, outcome: Outcome) -> None:
    """Print the regressions, with the commits between which they came, and the failed tasks."""
    for since, until in dict.fromkeys((one.since, one.until) for one in outcome.regressions):
        print(f"\nregressed between {commit_range(since, until)}:")
        for one in outcome.regressions:
            if (one.since, one.until) == (since, until):
                print(f"  {one}")
    if outcome.failed:
        print(f"\nnot judged or measured: {'; '.join(outcome.failed)}")
    if outcome.missing:
        print(f"\nthe graphs of the site need a network to be seen: {outcome.missing}")
    last = history.before(night, lambda one: not one.is_empty)
    if last is None:
        print("\nthis is the first night: there is none to compare with")
    elif not outcome.regressions:
        print(f"\nnothing regressed, {commit_range(last.commit, night.commit)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
