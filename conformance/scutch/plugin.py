"""The pytest plugin: `pytest -p scutch.plugin --pyargs scutch`.

It finds the implementation, hands it to the laws as fixtures, runs each law in a forked process,
and turns the outcomes into verdicts, a report and an exit code. It acts only on tests that carry
the mark `requirement`.
"""

import os
import pickle
import tempfile
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from scutch import terminal
from scutch.implementation import Implementation, SetupError, load
from scutch.inputs.calls import parse_call
from scutch.inputs.descriptions import Builder
from scutch.inputs.subjects import SUBJECTS, Subject
from scutch.judging import isolation, profiles
from scutch.judging.run import Run, settle
from scutch.judging.trying import Attempt, describe, prepare
from scutch.judging.unasserted import unasserted as without_assertions
from scutch.judging.verdicts import Counterexample, Ruling, Trial, exit_code, rule
from scutch.progress import Progress, resume, seed_in
from scutch.report import write

PROPERTY = "scutch"
_JOURNAL_BYTES = 1 << 16


@dataclass(eq=False)  # pytest keeps plugins in sets
class Judge:
    """The state of one run, in one process."""

    case: Run
    config: pytest.Config
    isolate: bool
    items: dict[str, pytest.Item] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)
    rulings: tuple[Ruling, ...] = ()
    complete: bool = False
    runner: isolation.Runner | None = None
    journal: Any = None
    progress: Progress | None = None

    def note(self, call: str) -> None:
        """Keep the call that is about to be made, where the collecting process can read it."""
        if self.journal is not None:
            text = call.encode()[: _JOURNAL_BYTES - 1] + b"\0"
            os.pwrite(self.journal.fileno(), text, 0)

    def last_call(self) -> str:
        """The call that a lost runner was making."""
        if self.journal is None:
            return ""
        return os.pread(self.journal.fileno(), _JOURNAL_BYTES, 0).split(b"\0")[0].decode()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the trials, also those of workers."""
        for trial in [Trial.from_data(str(v)) for n, v in report.user_properties if n == PROPERTY]:
            self.trials.append(trial)
            if self.progress is not None:
                self.progress.keep(trial)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Rule on every requirement, write the report, and set the exit code."""
        if self.runner is not None:
            self.runner.close()
        asked = self.items or self.trials or self.case.patterns or self.case.replay
        if hasattr(self.config, "workerinput") or not asked:
            return
        finished = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED,
                    pytest.ExitCode.NO_TESTS_COLLECTED)  # fmt: skip
        cut_short = session.shouldstop or session.shouldfail
        self.complete = exitstatus in finished and not cut_short
        expectations = [entry.expectation for entry in self.case.known]
        tried = {trial.requirement for trial in self.trials}
        self.rulings = rule(
            [r for r in self.case.requirements if not self.case.replay or r.id in tried],
            self.trials, claims=self.case.claims, expectations=expectations,
        )  # fmt: skip
        path = self.config.option.scutch_report
        if path:
            prefix = terminal.command(self.config)
            document = terminal.document(self.case, self.rulings, prefix, complete=self.complete)
            write(document, Path(path))
        if self.complete:
            session.exitstatus = exit_code(self.rulings, level=self.case.level)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the verdicts."""
        if self.rulings:
            prefix = terminal.command(self.config)
            rulings = [r for r in self.rulings if self.complete or r.trials]
            terminal.show(terminalreporter, self.case, rulings, prefix, complete=self.complete)


JUDGE = pytest.StashKey[Judge]()
ATTEMPT = pytest.StashKey[Attempt]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a conformance run."""
    add = parser.getgroup("scutch", "conformance of sharding metadata (scutch)").addoption
    tries = "; ".join(
        f"{n}: {p.summary}, {p.examples} inputs" for n, p in profiles.PROFILES.items()
    )
    add("--implementation", default="reference", metavar="NAME|MODULE:ATTR|FILE",
        help="what to judge: an installed name (reference, flax), module:attribute, or a .py file "
        "that defines `implementation` (default: reference)")  # fmt: skip
    add("--profile", default=profiles.DEFAULT, metavar="NAME", help=f"how hard to try: {tries}")
    add("--examples", type=int, metavar="N", help="inputs for each law (default: the profile's)")
    add("--requirement", action="append", default=[], metavar="PATTERN",
        help="judge only these: BOX-5, BOX-2 (its row), LOG (its area), 'LOG-9.*'; repeatable"
    )  # fmt: skip
    add("--level", default="must", metavar="must|should",
        help="what must hold for exit code 0; with must (the default) a departure from a should "
        "is reported and does not fail the run")  # fmt: skip
    add("--known", action="append", default=[], metavar="FILE|shipped|none",
        help="expected failures; repeatable (default: shipped, those that come with scutch)"
    )  # fmt: skip
    add("--report", dest="scutch_report", metavar="PATH.json", help="write the JSON report here")
    add("--seed", type=int, metavar="N", help="seed of the search (default: the profile's)")
    add("--resume", metavar="FILE",
        help="keep in this file what each law did, and do not try again what an earlier part of "
        "this run has tried, which was cut off")  # fmt: skip
    add("--replay", default="", metavar="CALL",
        help="try one law on one input, as the replay command of a failure has it")  # fmt: skip
    add("--law-timeout", type=float, metavar="SECONDS",
        help="time that one law may take (default: the profile's)")  # fmt: skip
    add("--in-process", action="store_true",
        help="run laws in this process, for debuggers; a crash then ends the run")  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Settle what is judged; a bad set-up ends the run here, with exit code 2."""
    config.addinivalue_line(
        "markers", "requirement(id, must_reach=()): the row of scutch's catalogue that a law tries"
    )
    profiles.prepare_devices()
    option = config.option
    isolate = not (option.in_process or option.usepdb) and isolation.available()
    worker = getattr(config, "workerinput", None)
    try:
        if option.scutch_report and not option.scutch_report.endswith(".json"):
            raise SetupError(
                f"--report {option.scutch_report!r}: expected a path that ends in .json"
            )
        case = pickle.loads(worker["scutch"]) if worker else _settle(option, isolate)
        resumed = None
        if option.resume and not worker:
            case, resumed = resume(Path(option.resume), case)
    except SetupError as error:
        pytest.exit(f"scutch: {error}", returncode=2)
    judge = config.stash[JUDGE] = Judge(case, config, isolate, progress=resumed)
    judge.trials += resumed.trials if resumed else ()
    config.pluginmanager.register(judge, "scutch-judge")


def _settle(option: Any, isolate: bool) -> Run:
    seed = option.seed
    if option.resume and seed is None:
        seed = seed_in(Path(option.resume))
    return settle(
        option.implementation, profile=option.profile, examples=option.examples, seed=seed,
        level=option.level, patterns=option.requirement, known_files=option.known,
        replay=option.replay, timeout=option.law_timeout, isolate=isolate,
    )  # fmt: skip


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist what is judged."""
    node.workerinput["scutch"] = pickle.dumps(node.config.stash[JUDGE].case)


def pytest_report_header(config: pytest.Config) -> str:
    """Say what is judged, and how to do it again."""
    return terminal.header(config.stash[JUDGE].case)


# ---------------------------------------------------------------- what laws receive


@pytest.fixture(scope="session")
def implementation(pytestconfig: pytest.Config) -> Implementation:
    """The implementation under judgment."""
    return load(pytestconfig.stash[JUDGE].case.where)


@pytest.fixture(scope="session")
def meta(implementation: Implementation) -> Any:
    """Its namespace of boxed metadata."""
    return implementation.meta


@pytest.fixture(scope="session")
def logical(implementation: Implementation) -> Any:
    """Its namespace of logical axes."""
    return implementation.logical


@pytest.fixture(scope="session")
def linen(implementation: Implementation) -> Any:
    """Its namespace of Linen modules."""
    return implementation.linen


@pytest.fixture(scope="session")
def reference() -> Implementation:
    """The reference, whose answers those of the implementation are compared with."""
    return load("reference")


@pytest.fixture(scope="session")
def nnx(implementation: Implementation) -> Any:
    """Its namespace of objects and variables."""
    return implementation.nnx


@pytest.fixture(scope="session")
def transforms(implementation: Implementation) -> Any:
    """Its namespace of lifted transformations."""
    return implementation.transforms


@pytest.fixture(scope="session")
def bridge(implementation: Implementation) -> Any:
    """Its namespace of the bridge."""
    return implementation.bridge


@pytest.fixture(scope="session")
def export(implementation: Implementation) -> Any:
    """Its namespace of export."""
    return implementation.export


@pytest.fixture(scope="session")
def unasserted(pytestconfig: pytest.Config) -> Iterator[Callable[..., Any]]:
    """Removes axes in a process without assertions: `(subject, names, index, name) -> names`."""
    with without_assertions(pytestconfig.stash[JUDGE].case.where) as ask:
        yield ask


@pytest.fixture(scope="session", params=list(SUBJECTS))
def subject(request: pytest.FixtureRequest, implementation: Implementation) -> Subject:
    """Each box class that the laws of boxes are tried on."""
    return SUBJECTS[request.param](implementation)


# ---------------------------------------------------------------- which laws are tried


def law_name(item: pytest.Item) -> str:
    """The name of a law, unique in the suite: `test_x`, or `test_x[logical]`."""
    name = getattr(item, "originalname", item.name)
    kind = _subject_name(item)
    return name if kind in (None, "partitioned") else f"{name}[{kind}]"


def requirement_of(item: pytest.Item) -> str | None:
    """The identifier that a test is marked with, for the subject that it is tried on."""
    mark = item.get_closest_marker("requirement")
    if mark is None:
        return None
    return ("LOG-9." if _subject_name(item) == "logical" else "") + str(mark.args[0])


def _subject_name(item: pytest.Item) -> str | None:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("subject")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the laws that are asked for and claimed, and make them ready."""
    judge = config.stash[JUDGE]
    case = judge.case
    wanted = {r.id for r in case.requirements if set(r.capabilities) <= set(case.claims)}
    replayed = parse_call(case.replay)[0] if case.replay else None
    profile = replace(profiles.PROFILES[case.profile], examples=case.examples)
    kept, dropped = [], []
    for item in items:
        identifier = requirement_of(item)
        if identifier is None:
            kept.append(item)
        elif law_name(item) in case.tried:
            dropped.append(item)
        elif identifier in wanted and replayed in (None, law_name(item)):
            kept.append(item)
            judge.items[item.nodeid] = item
            prepare(item.function, profile, case.seed)  # type: ignore[attr-defined]
            item.add_marker(pytest.mark.filterwarnings("ignore"))
        else:
            dropped.append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept
    if replayed is not None and not judge.items:
        pytest.exit(f"scutch: --replay: there is no law {replayed!r}, or it is unclaimed", 2)


# ---------------------------------------------------------------- how a law is tried


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a law in the runner, and log what it reports."""
    judge = item.config.stash[JUDGE]
    if item.nodeid not in judge.items or not judge.isolate:
        return None
    if judge.runner is None:
        judge.runner = isolation.Runner(_answer(judge, item.config))
        judge.journal = tempfile.TemporaryFile()  # noqa: SIM115 (open for the whole run)
    judge.note("")
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    following = nextitem.nodeid if nextitem is not None else None
    answer = judge.runner.ask((item.nodeid, following), judge.case.timeout)
    if isinstance(answer, isolation.Lost):
        reports = [_lost(judge, item, answer)]
    else:
        from_data = item.config.hook.pytest_report_from_serializable
        reports = [from_data(config=item.config, data=data) for data in answer]
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _answer(judge: Judge, config: pytest.Config) -> Callable[[Any], Any]:
    def run(request: tuple[str, str | None]) -> list[Any]:
        _fall_silent(config)
        nodeid, following = request
        nextitem = None if following is None else judge.items.get(following)
        reports = runtestprotocol(judge.items[nodeid], nextitem=nextitem, log=False)
        to_data = config.hook.pytest_report_to_serializable
        return [to_data(config=config, report=report) for report in reports]

    return run


def _fall_silent(config: pytest.Config) -> None:
    """Keep a runner from speaking to pytest-xdist for the worker that it was forked from."""
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            config.pluginmanager.unregister(plugin)


def _lost(judge: Judge, item: pytest.Item, lost: isolation.Lost) -> pytest.TestReport:
    call = judge.last_call()
    name = law_name(item)
    trial = Trial(
        name, str(requirement_of(item)), lost.outcome, reason=lost.reason,
        counterexample=Counterexample(name, call, lost.reason) if call else None,
    )  # fmt: skip
    text = f"{lost.outcome}: {lost.reason}" + (f"\nwhile trying {call}" if call else "")
    return pytest.TestReport(
        nodeid=item.nodeid, location=item.location, keywords={}, outcome="failed", longrepr=text,
        when="call", user_properties=[(PROPERTY, trial.to_data())],
    )  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Try a law: first on what is known to break it, then on all that is drawn."""
    judge = pyfuncitem.config.stash[JUDGE]
    if pyfuncitem.nodeid not in judge.items:
        return None
    names = pyfuncitem._fixtureinfo.argnames
    fixtures = {name: pyfuncitem.funcargs[name] for name in names}
    attempt = Attempt(law_name(pyfuncitem), _world(pyfuncitem), fixtures, judge.note)
    pyfuncitem.stash[ATTEMPT] = attempt
    law = pyfuncitem.obj
    if judge.case.replay:
        attempt.replay(law, parse_call(judge.case.replay)[1])
        return True
    witness = judge.case.witness(str(requirement_of(pyfuncitem)), attempt.test)
    if witness is not None:
        attempt.replay(law, parse_call(witness)[1], expected=True)
    attempt.search(law)
    return True


def _world(item: pytest.Function) -> Builder:
    implementation = item._request.getfixturevalue("implementation")
    chosen: Any = item.funcargs.get("subject")
    if chosen is None and _subject_name(item) is not None:
        chosen = item._request.getfixturevalue("subject")
    if chosen is None:
        chosen = SUBJECTS["partitioned"](implementation)
    return Builder(implementation.meta, chosen.make, implementation.nnx, implementation.linen)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the trial to the report that decides the law."""
    report = yield
    judge = item.config.stash[JUDGE]
    decides = report.when == "call" or (report.when == "setup" and not report.passed)
    if item.nodeid not in judge.items or not decides:
        return report
    trial = _trial(item, report, call)
    if trial.broke:
        report.outcome = "skipped"
        report.wasxfail = "known failure"
    report.user_properties.append((PROPERTY, trial.to_data()))
    return report


def _trial(item: pytest.Item, report: Any, call: pytest.CallInfo[None]) -> Trial:
    judge = item.config.stash[JUDGE]
    identifier, name = str(requirement_of(item)), law_name(item)
    attempt = item.stash.get(ATTEMPT, None)
    error = call.excinfo.value if call.excinfo is not None else None
    reason = None if error is None else describe(error)
    trial = Trial(name, identifier, report.outcome, reason=reason)
    if attempt is None:
        return trial
    mark = item.get_closest_marker("requirement")
    must_reach = () if mark is None else mark.kwargs.get("must_reach", ())
    found = attempt.counterexample
    if report.failed and found is None and error is not None:
        found = Counterexample(name, "", describe(error))
    return replace(
        trial, examples=attempt.examples, seconds=attempt.seconds, counterexample=found,
        unmet=() if judge.case.replay else tuple(n for n in must_reach if n not in attempt.reached),
        expected=judge.case.witness(identifier, name), broke=attempt.broke,
    )  # fmt: skip
