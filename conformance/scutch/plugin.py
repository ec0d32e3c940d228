"""The pytest plugin: `pytest -p scutch.plugin --pyargs scutch`.

It finds the implementation, collects each law as an item of its own class, tries it in a forked
process, and turns the trials into verdicts, a report and an exit code. It acts only on functions
that carry the mark `requirement`; every other test is pytest's.

Only public parts of pytest are used: items, hooks and reports.
"""

import contextlib
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from scutch import options, releases, terminal
from scutch.implementation import SetupError
from scutch.judging import (
    compiled,
    hypothesis_parts,
    interruptions,
    jax_parts,
    leaving,
    portfolio,
    profiles,
    suite,
)
from scutch.judging.calls import parse_call
from scutch.judging.job import Job
from scutch.judging.run import Run
from scutch.judging.suite import laws_of
from scutch.judging.trials import Trial
from scutch.law_items import EXECUTOR, PROPERTY, LawItem
from scutch.options import Refused
from scutch.progress import resume
from scutch.report import ReportError
from scutch.report.document import check_path
from scutch.session import JUDGE, Judge

_LAWS = Path(suite.__file__).parents[1] / "laws"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a conformance run.

    Raises:
      UsageError: Another plugin has an option of the same name.
    """
    group = parser.getgroup("scutch", "conformance of sharding metadata (scutch)")
    try:
        options.add_options(group.addoption)
    except ValueError as error:
        raise pytest.UsageError(
            f"scutch: another plugin of pytest has an option of the same name ({error}); expected "
            "`scutch run`, which loads no others, or -p no:NAME for that plugin"
        ) from error


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Settle the run; a bad set-up ends it here, with exit code 2."""
    config.addinivalue_line(
        "markers",
        "requirement(id, must_reach=()): the entry of scutch's catalogue that a law tries",
    )
    option = config.option
    profiles.prepare_devices(option.platform)
    jax_parts.lower_quickly()
    isolate = not (option.in_process or option.usepdb)
    heeded = interruptions.SIGNALS if isolate else interruptions.FROM_OTHERS
    kept = contextlib.ExitStack()
    config.add_cleanup(kept.close)
    kept.enter_context(interruptions.heeded(heeded))
    kept.enter_context(hypothesis_parts.leaving_no_folder())
    folder = tempfile.TemporaryDirectory(prefix="scutch-", ignore_cleanup_errors=True)
    kept.enter_context(folder)
    worker = getattr(config, "workerinput", None)
    try:
        if option.scutch_report and not worker:
            check_path(option.scutch_report)
        against = releases.named(option.against) if option.against else None
        run = (
            Run.from_data(worker["scutch"]) if worker else options.settled(option, isolate=isolate)
        )
        if run.chosen == {}:
            raise Refused(f"nothing is to be judged: {run.why}", 0)
        resumed = None
        if option.resume and not worker:
            run, resumed = resume(Path(option.resume), run)
    except (ReportError, SetupError, releases.NotRecorded) as error:
        raise Refused(str(error), 2) from None
    judge = Judge(
        run,
        isolate,
        option.capture != "no",
        folder.name,
        config=config,
        progress=resumed,
        against=against,
        compiled_in=kept.enter_context(compiled.kept(run.compiled, joins=bool(worker))),
    )
    config.stash[JUDGE] = config.stash[EXECUTOR] = judge
    judge.trials += resumed.trials if resumed else ()
    config.pluginmanager.register(judge, "scutch-judge")
    if run.launched and not worker:
        _join_launched(judge.job)


def _join_launched(job: Job) -> None:
    """Join the job that a launcher has started; in every process but 0, follow it and end."""
    try:
        rank = job.join_launched()
    except SetupError as error:
        raise Refused(str(error), 2) from None
    if rank > 0:
        job.follow_to_the_end()
        raise Refused(f"process {rank} has followed process 0, which reports", 0)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send the run to a worker of pytest-xdist."""
    node.workerinput["scutch"] = node.config.stash[JUDGE].run.to_data()


def pytest_report_header(config: pytest.Config) -> list[str]:
    """The header of the run, and with `--changed` the changes that select requirements."""
    run = config.stash[JUDGE].run
    return [terminal.header(run), *([run.why] if run.why else [])]


# ---------------------------------------------------------------- which laws are tried


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files whose laws were not asked for: importing them all takes seconds."""
    judge = config.stash.get(JUDGE, None)
    if judge is None or collection_path.parents[1] != _LAWS or collection_path.suffix != ".py":
        return None
    return True if collection_path.relative_to(_LAWS).as_posix() not in judge.files else None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Collector, name: str, obj: object
) -> list[LawItem] | None:
    """Collect a law as items of the judge's own, one for each box class that it is tried on."""
    if not isinstance(collector, pytest.Module):
        return None
    try:
        found = [LawItem.of(collector, law) for law in laws_of(collector.obj, name, obj)]
    except SetupError as error:
        raise collector.CollectError(str(error)) from None
    return found or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the laws that are asked for and claimed."""
    leaving.remember()
    judge = config.stash[JUDGE]
    run = judge.run
    replayed = parse_call(run.replay)[0] if run.replay else None
    laws = [item for item in items if isinstance(item, LawItem)]
    judge.items = {
        item.nodeid: item
        for item in laws
        if item.law.requirement in run.wanted
        and item.law.name not in run.tried
        and replayed in (None, item.law.name)
        and (item.law.in_job or not run.launched)
    }
    dropped = [item for item in laws if item.nodeid not in judge.items]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in dropped]
    items.sort(  # the laws that find the most faults for their time come first
        key=lambda item: (
            portfolio.rank(item.law.requirement) if isinstance(item, LawItem) else (False, -1.0)
        )
    )
    if replayed is not None and not judge.items:
        raise Refused(f"--replay: there is no law {replayed!r}, or it is unclaimed", 2)
    if replayed is not None:
        law = next(iter(judge.items.values())).law
        if not law.takes(run.replay):
            raise Refused(f"--replay: {law.name} takes the inputs {', '.join(law.inputs)}", 2)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Leave out the names of files, which would change with every law."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and session.config.get_verbosity() == 0:
        reporter.showfspath = False


# ---------------------------------------------------------------- how a law is tried


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the trial to the report that decides the law."""
    report = yield
    decides = report.when == "call" or (report.when == "setup" and not report.passed)
    if not isinstance(item, LawItem) or not decides:
        return report
    trial = item.trial
    if trial is None:
        error = None if call.excinfo is None else hypothesis_parts.describe(call.excinfo.value)
        trial = Trial(item.law.name, item.law.requirement, report.outcome, reason=error)
    if trial.broke:
        report.outcome = "skipped"
        report.wasxfail = "known failure"
    report.user_properties.append((PROPERTY, trial.to_data()))
    return report
