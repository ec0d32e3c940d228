"""What `ci/nightly` does in its environment: judge, measure, publish, and say what regressed.

It may be interrupted at any moment, and goes on from there when it is run again: what is done for
this commit, in these environments and with these options, is kept.
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
from pathlib import Path

import camera
import dashboard
import frontpage
import judgment
import measurements
import regressions
import steps
from environments import Environment, chosen, last_line, surroundings
from gatekeeper import NothingMeasured, git
from nights import History, Night, put
from scutch import catalogue
from scutch.judging.profiles import PROFILES
from scutch.report import site
from scutch.report.document import load
from scutch.report.matrix import Column
from scutch.report.text import count
from steps import Failed, Step

ROOT = judgment.ROOT
STATE = ROOT / "build" / "nightly"


def main(arguments: Sequence[str]) -> int:
    """Have a night; returns an exit code."""
    given = parsed(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):  # jobs in the background ignore the first
        signal.signal(number, signal.default_int_handler)
    try:
        with only(given.state):
            return watch(given)
    except NothingMeasured as reason:
        print(f"ci/nightly: nothing was measured: {reason}", file=sys.stderr)
        return 2
    except camera.NoCamera as reason:
        print(f"ci/nightly: all is done, but for the picture: {reason}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nci/nightly: interrupted; the same command goes on from here", file=sys.stderr)
        return 130


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        "ci/nightly",
        description=__doc__,
        epilog="exit codes: 0 nothing regressed, 1 something did or a step failed, 2 nothing was "
        "measured, 130 interrupted",
    )
    add = parser.add_argument
    add("--profile", choices=PROFILES, default="deep", help="how hard to judge (%(default)s)")
    add("--examples", type=int, metavar="N", help="inputs for each law, not the profile's")
    add("--requirement", action="append", default=[], metavar="PATTERN",
        help="judge only these, as in ci/conformance; repeatable")  # fmt: skip
    add("--implementations", default=",".join(judgment.IMPLEMENTATIONS), metavar="A,B",
        help="what to judge: names, module:attribute or files (%(default)s)")  # fmt: skip
    add("--no-conformance", action="store_true", help="do not judge")
    add("--select", default="", metavar="REGEX",
        help="measure only benchmarks that match, such as \"time_call\\('reference'\"")  # fmt: skip
    add("--quick", action="store_true", help="run each benchmark once: to try, not to believe")
    add("--no-benchmarks", action="store_true", help="do not measure")
    add("--python", action="append", default=[], metavar="PYTHON",
        help="use this environment as it is, in the place of those of the pins; repeatable"
    )  # fmt: skip
    add("--machine", default=platform.node() or "machine", metavar="NAME",
        help="what figures are compared and drawn under (%(default)s)")  # fmt: skip
    add("--state", type=Path, default=STATE, metavar="DIR", help="where all nights are kept")
    add("--site", type=Path, metavar="DIR", help="where to publish (DIR/site of --state)")
    add("--picture", type=Path, metavar="FILE.png", help="also take a picture of the first page")
    add("--fresh", action="store_true", help="begin a new night, whatever is there")
    given = parser.parse_args(arguments)
    if given.examples is not None and given.examples < 1:
        parser.error(f"--examples {given.examples}: expected at least 1")
    given.state = given.state.resolve()
    given.site = (given.site or given.state / "site").resolve()
    return given


@contextmanager
def only(folder: Path) -> Iterator[None]:
    """Keep a second night out of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise NothingMeasured(f"another night is using {folder}") from error
        yield


def watch(given: argparse.Namespace) -> int:
    """Do what is not done, publish, and tell; returns an exit code."""
    commit = clean_head()
    environments = chosen(given.python)
    history = History(given.state)
    night = history.open(
        commit, options(given), {one.name: one.versions for one in environments}, fresh=given.fresh
    )
    print(f"commit {commit[:12]}, {given.profile}, in {night.folder}")
    for environment in environments:
        print(f"  {environment}")
    planned = plan(given, night, environments)
    failed = [step.name for step in planned if not step.do(history.scratch)]
    if not night.reports and not night.figures:
        raise NothingMeasured("no step left anything behind" if planned else "no step is asked for")
    found = regressions.between(history, night)
    put(regressions.verdict(found, failed), night.folder / "verdict.json")
    missing = published(history, night, found, failed, given.site)
    if given.picture:
        camera.take(given.site / "index.html", given.picture)
    return told(history, night, found, failed, missing, given.site)


def options(given: argparse.Namespace) -> dict[str, object]:
    """What has to be the same for two nights to be compared."""
    names = ("profile", "examples", "requirement", "select", "quick", "machine")
    return {name: getattr(given, name) for name in names}


def clean_head() -> str:
    """The commit at hand; what is in no commit has no place in a history of commits."""
    if changed := git("status", "--porcelain", "--untracked-files=no").decode().strip():
        raise NothingMeasured(f"these changes are in no commit; commit or stash them:\n{changed}")
    return git("rev-parse", "HEAD").decode().strip()


# ---------------------------------------------------------------- what


def plan(
    given: argparse.Namespace, night: Night, environments: Sequence[Environment]
) -> list[Step]:
    """The steps, judging first."""
    planned = [
        judging(given, night, environment, implementation)
        for environment in environments if not given.no_conformance
        for implementation in given.implementations.split(",")
    ]  # fmt: skip
    for environment in environments if not given.no_benchmarks else ():
        found = measurements.inventory(environment, given.select)
        jittering = sorted({one.name for one in found if one.jitters})
        groups = dict.fromkeys(one.group for one in found)
        planned += [measuring(given, night, environment, group, jittering) for group in groups]
        if "libtpu" not in environment.versions and "compilation.Scale" in groups:
            print(f'{environment.name}: no TPU compilation; it takes pip install "scutch[tpu]"')
    return planned


def judging(
    given: argparse.Namespace, night: Night, environment: Environment, implementation: str
) -> Step:
    """Judge an implementation in an environment."""
    label = f"{re.sub(r'[^A-Za-z0-9._]+', '-', implementation).strip('-')}-{environment.name}"
    result = night.folder / "conformance" / f"{label}.json"
    trials = result.with_suffix(".trials")

    def make(scratch: Path, log: Path) -> None:
        report = scratch / "report.json"
        asked = [f"--requirement={pattern}" for pattern in given.requirement]
        asked += [f"--examples={given.examples}"] if given.examples else []
        command = judgment.command(
            f"--implementation={implementation}", f"--report={report}", *asked,
            f"--profile={given.profile}", f"--resume={trials}",
            "-n", str(judgment.processors()), "-q", "--tb=no", "--no-header",
            python=environment.python,
        )  # fmt: skip
        told_how = {**surroundings(), "SCUTCH_COMMAND": "ci/conformance"}
        code = steps.run(command, log, ROOT, told_how)
        if code not in (0, 1) or not report.exists() or not load(report).complete:
            raise Failed(f"judging ended with {code}: {last_line(log.read_text())}")
        os.replace(report, result)
        trials.unlink(missing_ok=True)

    def told(path: Path) -> str:
        return Column(label, load(path)).headline

    return Step(f"judge {implementation}, {environment.name}", result, make, told)


def measuring(
    given: argparse.Namespace,
    night: Night,
    environment: Environment,
    group: str,
    jittering: Sequence[str],
) -> Step:
    """Measure a group of benchmarks in an environment; `jittering` names `track_*` that do."""

    def make(scratch: Path, log: Path) -> None:
        home = {**surroundings(), "HOME": str(scratch)}  # asv keeps machines there
        commands = measurements.commands(
            environment, night.commit, group, scratch,
            machine=given.machine, select=given.select, quick=given.quick,
        )  # fmt: skip
        for command in commands:
            steps.run(command, log, scratch, home)
        found = measurements.collected(environment, group, scratch, given.machine)
        put(found | {"jitters": jittering}, result)

    def told(path: Path) -> str:
        figures = measurements.figures(json.loads(path.read_text("utf-8"))).values()
        broken = sum(figure.value == float("inf") for figure in figures)
        return count(len(figures), "figure") + (f", {broken} failed" if broken else "")

    result = night.folder / "benchmarks" / f"{environment.name}-{group}.json"
    return Step(f"measure {group}, {environment.name}", result, make, told)


# ---------------------------------------------------------------- and then


def published(
    history: History,
    night: Night,
    found: Sequence[regressions.Regression],
    failed: Sequence[str],
    folder: Path,
) -> str:
    """Put the site in its place; returns why its graphs need a network, if they do."""
    missing = ""
    with history.scratch() as scratch:
        made = scratch / "site"
        made.mkdir()
        reports = [load(path) for path in night.reports.values()]
        if reports:
            site.write(reports, catalogue.load(), made / "conformance", above="../index.html")
        if night.figures:
            try:
                dashboard.publish(history, made / "benchmarks", history.folder / "libraries")
            except dashboard.Incomplete as error:
                missing = str(error)
        frontpage.write(history, night, found, failed, missing, made)
        put_in_place(made, folder, scratch)
    return missing


def put_in_place(made: Path, folder: Path, scratch: Path) -> None:
    """Put a site where another may be; a folder that holds something else is left alone."""
    if folder.exists() and any(folder.iterdir()) and not (folder / "index.html").exists():
        raise NothingMeasured(f"{folder} holds no site; --site takes an empty folder or a site")
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.exists():
        shutil.move(folder, scratch / "replaced")
    shutil.move(made, folder)


def told(
    history: History,
    night: Night,
    found: Sequence[regressions.Regression],
    failed: Sequence[str],
    missing: str,
    folder: Path,
) -> int:
    """Say what regressed; returns an exit code."""
    ranges = dict.fromkeys((one.since, one.until) for one in found)
    for since, until in ranges:
        print(f"\nregressed between {regressions.commits(since, until)}:")
        for one in found:
            if (one.since, one.until) == (since, until):
                print(f"  {one}")
    if failed:
        print(f"\nnot judged or measured: {'; '.join(failed)}")
    if missing:
        print(f"\nthe graphs of the site need a network to be seen: {missing}")
    last = history.before(night, lambda one: bool(one.reports or one.figures))
    if last is None:
        print("\nthis is the first night: there is none to compare with")
    elif not found:
        print(f"\nnothing regressed, {regressions.commits(last.commit, night.commit)}")
    print(f"site: {folder / 'index.html'}")
    return int(bool(found or failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
