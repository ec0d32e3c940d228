"""The pytest plugin: `pytest -p scutch.plugin --pyargs scutch`.

It finds the implementation, collects each law as an item of its own class, tries it in a forked
process, and turns the trials into verdicts, a report and an exit code. It acts only on functions
that carry the mark `requirement`; every other test is pytest's.

Only public parts of pytest are used: items, hooks and reports.
"""

import contextlib
import functools
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from scutch import releases, terminal
from scutch.catalogue import Requirement, index
from scutch.implementation import Implementation, SetupError, load
from scutch.inputs.calls import parse_call
from scutch.judging import (
    changed,
    compiled,
    costs,
    hypothesis_parts,
    interruptions,
    isolation,
    job,
    leaving,
    portfolio,
    profiles,
    suite,
)
from scutch.judging.faults import of_one_fault
from scutch.judging.job import Job
from scutch.judging.readable import readable, shortened
from scutch.judging.run import Run, settle
from scutch.judging.suite import Law, laws_of
from scutch.judging.trying import try_law
from scutch.judging.unasserted import Unasserted
from scutch.judging.verdicts import (
    CONFORMING,
    Counterexample,
    Retry,
    Ruling,
    Trial,
    exit_code,
    left_out,
    of_all_laws,
    rule,
)
from scutch.progress import Progress, resume, seed_in
from scutch.report import Report, ReportError, write
from scutch.report.document import broken_by, check_path, is_complete
from scutch.report.document import load as load_report
from scutch.report.text import count, publish

RETRIED = 50
"""On how many inputs a broken law is tried again where others hold, at most."""

RETRYING = 60.0
"""Seconds after the last law in which broken laws are tried again, all together at most."""

LONGEST_SHOWN = 40_000
"""Characters of a failure that are shown, of its traceback and its message together."""

_SLACK = 30.0
"""Seconds that the runner of a job gets to end the job, after the time that a law may take."""

_LAWS = Path(suite.__file__).parents[1] / "laws"

PROPERTY = "scutch"
"""The user property of a report that holds the law's trial."""


class LawItem(pytest.Item):
    """A law, as pytest collects it; `trial` is its result, once tried in this process."""

    law: Law
    trial: Trial | None = None

    @classmethod
    def of(cls, collector: pytest.Collector, law: Law) -> "LawItem":
        """The item of a law.

        Args:
          collector: Of the module that has the law.
          law: The law.
        """
        item: LawItem = cls.from_parent(collector, name=law.name)
        item.law = law
        item.add_marker(pytest.mark.requirement(law.requirement, must_reach=law.must_reach))
        item.add_marker(pytest.mark.filterwarnings("ignore"))
        if collector.config.stash[JUDGE].isolate and _times_out(collector.config):
            item.add_marker(pytest.mark.timeout(0))
        return item

    def runtest(self) -> None:
        """Try the law in this process; raises the exception that broke it."""
        self.trial = self.config.stash[JUDGE].attempt(self.law)
        if self.trial.outcome in ("skipped", "untried"):
            pytest.skip(self.trial.reason or "")
        if self.trial.error is not None:
            raise self.trial.error

    def reportinfo(self) -> tuple[Path, int, str]:
        """File, line and name of the law."""
        line = hypothesis_parts.written(self.law.function).__code__.co_firstlineno
        return self.path, line - 1, self.name

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """The traceback of `shown`, for pytest.

        Args:
          excinfo: The exception that broke the law.
          style: Not used: `--tb` decides.
        """
        return self.shown(excinfo.value)

    def shown(self, raised: BaseException) -> Any:
        """The traceback from the law on, without the frames of the judge and of Hypothesis.

        Args:
          raised: The exception that broke the law.
        """
        chosen = self.config.option.tbstyle
        error = hypothesis_parts.from_law_on(raised, self.law.function)
        try:
            shown = pytest.ExceptionInfo.from_exception(error)
            return shown.getrepr(style="long" if chosen == "auto" else chosen, tbfilter=True)
        except BaseException as broken:  # the error may be the implementation's
            text = hypothesis_parts.describe(error)
            return f"{text}\n(no traceback: {hypothesis_parts.describe(broken)})"


@dataclass(eq=False)  # pytest keeps plugins in sets
class Judge:
    """The state of one run, in one process.

    Args:
      run: The run, with its implementation and its settings.
      config: Of pytest.
      isolate: Whether laws are tried in a runner.
      progress: The file of a run that can be resumed, or `None`.
      against: The record of a release, to compare the verdicts with, or `None`.
      items: The laws that are tried, by node id.
      trials: Their trials, in this run and in the one that it resumes.
      rulings: The verdicts, once the run has ended.
      complete: Whether every law was tried.
      unwritten: Why the report could not be written, if it could not.
      folder: For the temporary files of runners.
      compiled_in: The folder in which compiled programs are kept; empty where none are.
      tried_by_runner: How many laws the runner has tried that there is now.
      called_by_import: Functions of the user's repository that the import of the implementation
        calls, where the run notes them.
      memory: Of the process that tries laws.
    """

    run: Run
    config: pytest.Config
    isolate: bool
    progress: Progress | None = None
    against: releases.Record | None = None
    items: dict[str, LawItem] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)
    rulings: tuple[Ruling, ...] = ()
    complete: bool = False
    unwritten: str = ""
    folder: str = ""
    compiled_in: str = ""
    tried_by_runner: int = 0
    called_by_import: frozenset[str] = frozenset()
    memory: costs.Memory = field(default_factory=costs.Memory)

    def __post_init__(self) -> None:
        self.runner = isolation.Runner(
            self.answer, capture=self.config.option.capture != "no",
            bounded=self.run.platform == "cpu", folder=self.folder,
        )  # fmt: skip
        self.unasserted = Unasserted(self.run.where)
        self.job = Job(
            self.run.processes,
            {"where": self.run.where, "offers": self.run.offers},
            self.run.launched,
        )
        self.job_runner = isolation.Runner(self.ask_job, bounded=False, folder=self.folder)

    @functools.cached_property
    def files(self) -> frozenset[str]:
        """The files of `scutch.laws` that are collected."""
        if self.run.replay:
            return frozenset([index.file_of(parse_call(self.run.replay)[0]) or ""])
        return frozenset(index.files_of(self.run.wanted))

    @functools.cached_property
    def implementation(self) -> Implementation:
        """The implementation under judgment, imported in the process that tries laws."""
        return load(self.run.where)

    @functools.cached_property
    def changed(self) -> str:
        """As `Run.changed` has it, in the process that tries laws."""
        with self.noting() as called:
            found = self.run.changed(self.implementation)
        self.called_by_import = frozenset(called)
        return found

    def noting(self) -> contextlib.AbstractContextManager[set[str]]:
        """Notes the functions of the user's repository that are called, where the run asks."""
        if not self.run.since:
            return contextlib.nullcontext(set())
        return changed.calls_noted(self.place_of)

    @functools.cached_property
    def place_of(self) -> Callable[[CodeType], str]:
        """Names the functions of the user's repository, as `changed.places` does."""
        return changed.places(changed.repository(), changed.files())

    def attempt(self, law: Law) -> Trial:
        """Try a law, in this process."""
        if self.changed:
            return Trial(law.name, law.requirement, "untried", reason=self.changed)
        with self.noting() as called:
            trial = self.tried(law)
        return self.weighed(replace(trial, calls=tuple(sorted(called | self.called_by_import))))

    def tried(self, law: Law) -> Trial:
        """Try a law with the settings of the run, in this process."""
        witness, known = self.run.known_of(law)
        return try_law(
            law, self.implementation, examples=self.run.inputs_for(law.requirement),
            seed=self.run.seed, unasserted=self.unasserted, witness=witness, known=known,
            replay=[parse_call(self.run.replay)[1]] if self.run.replay else None,
            first=[parse_call(c)[1] for c in self.run.first.get(law.name, ()) if law.takes(c)],
            journal=self.runner.note, by_traces=self.run.by_traces,
        )  # fmt: skip

    def weighed(self, trial: Trial) -> Trial:
        """The trial; a short run does not ask that a law was tried on all that its mark lists."""
        return replace(trial, unmet=()) if self.run.is_short else trial

    def attempt_in_job(self, law: Law) -> Trial | isolation.Lost:
        """Try a law in every process of the job at the same time."""
        if self.run.processes == 1 and not self.run.launched:
            reason = "needs several processes, and this run has --processes 1"
            return Trial(law.name, law.requirement, "skipped", reason=reason)
        witness, known = self.run.known_of(law)
        request = {
            "law": law.name,
            "examples": self.run.inputs_for(law.requirement),
            "seed": self.run.seed,
            "witness": witness,
            "known": known,
            "replay": self.run.replay or None,
        }
        if self.run.launched or not self.isolate:
            answer = self.ask_job(request)
        else:  # whose keeper ends all that the processes of the job have started
            answer = self.job_runner.ask(request, self.run.timeout + job.START_SECONDS + _SLACK)
        if isinstance(answer, isolation.Lost):
            return answer
        if "lost" in answer:
            return isolation.Lost(**answer["lost"])
        trial = _checked(answer["trial"], law)
        return trial if isinstance(trial, isolation.Lost) else self.weighed(trial)

    def ask_job(self, request: Any) -> Any:
        """Try a law in the job; returns its trial as text, or how the job was lost, for JSON."""
        answer = self.job.ask(request, self.run.timeout)
        if isinstance(answer, isolation.Lost):
            return {"lost": asdict(answer)}
        return {"trial": answer}

    def attempt_again(self, test: str, others: Sequence[Sequence[str]]) -> Trial:
        """Try a law, in this process, on inputs that do not break some others.

        Args:
          test: The name of the law.
          others: The names of the others, each with a call that breaks it.
        """
        by_name = {name: self._law(name) for name in (test, *(name for name, _ in others))}
        return try_law(
            by_name[test], self.implementation, examples=min(self.run.examples, RETRIED),
            seed=self.run.seed, unasserted=self.unasserted, journal=self.runner.note,
            known=self.run.known_of(by_name[test])[1],
            unless=[(by_name[name], call) for name, call in others],
            by_traces=self.run.by_traces,
        )  # fmt: skip

    def retry(self, broken: Trial, needed: Sequence[Trial], *, until: float) -> Trial | None:
        """Try a broken law again where others hold.

        Args:
          broken: The trial of the law.
          needed: The trials of the others.
          until: The time, of `time.monotonic`, at which no law is tried again any more.

        Returns:
          The new trial; `None` for a law of several processes, after `until`, or if the runner has
          ended or sent no trial.
        """
        calls = [[t.test, t.counterexample.input] for t in needed if t.counterexample is not None]
        law, left = self._law(broken.test), until - time.monotonic()
        if law.in_job or left <= 0:
            return None
        if not self.isolate:
            return self.attempt_again(broken.test, calls)
        answer = self.runner.ask([broken.test, calls], min(self.run.timeout, left))
        if isinstance(answer, isolation.Lost):
            return None
        again = _checked(answer, law)
        return again if isinstance(again, Trial) else None

    def _ruled(
        self, rows: Sequence[Requirement], trials: Sequence[Trial], retry: Retry
    ) -> tuple[Ruling, ...]:
        """The rulings on requirements, as `verdicts.rule` gives them for this run."""
        return rule(
            rows, trials, claims=self.run.claims, expectations=self.run.expectations, retry=retry
        )

    def rule_with_retries(self, own: Sequence[Requirement]) -> tuple[Ruling, ...]:
        """The rulings on requirements, once broken laws were tried again where others hold.

        Args:
          own: The requirements that this run judges.

        Returns:
          As many rulings. A law that was not tried again within `RETRYING` keeps its failure.
        """
        others = self.needed_elsewhere()
        rows = [*own, *others]
        trials = [*self.trials, *(t for r in others for t in self.tried_for(r))]
        wanted: list[Trial] = []

        def count_only(broken: Trial, needed: Sequence[Trial]) -> None:
            if not self._law(broken.test).in_job:
                wanted.append(broken)

        rulings = self._ruled(rows, trials, count_only)
        if wanted:
            self.say(f"trying again {count(len(wanted), 'broken law')} where what they need holds")
            until = time.monotonic() + RETRYING
            rulings = self._ruled(rows, trials, functools.partial(self.retry, until=until))
            if time.monotonic() > until:
                self.say(f"no more are tried again after {RETRYING:g} s; the others stay failed")
        return rulings[: len(own)]

    def say(self, text: str) -> None:
        """Print a line in the middle of the run, where pytest prints anything."""
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(text)

    def needed_elsewhere(self) -> list[Requirement]:
        """The requirements of other shards that the broken ones of this shard build on.

        Whether a failure is a consequence depends on these, so the answer is the same in every
        division. None without shards.
        """
        if not self.run.shard:
            return []
        rows = {row.id: row for row in self.run.asked}
        broken = {t.requirement for t in self.trials if t.outcome == "failed" and not t.broke}
        found = dict.fromkeys(sorted(broken & rows.keys()))
        for name in list(found):
            reached = [name]
            for each in reached:  # which grows meanwhile
                reached += [n for n in rows[each].needs if n in rows and n not in reached]
            found |= dict.fromkeys(reached)
        own, claims = {row.id for row in self.run.requirements}, set(self.run.claims)
        return [
            rows[name] for name in found
            if name not in own and claims.issuperset(rows[name].capabilities)
        ]  # fmt: skip

    def tried_for(self, row: Requirement) -> list[Trial]:
        """Try the laws of a requirement that another shard judges; returns their trials."""
        trials = []
        for law in suite.tried_by([row.id]):
            if law.in_job:
                answer: Any = self.attempt_in_job(law)
            elif self.isolate:
                answer = self.runner.ask([law.name], self.run.timeout)
            else:
                answer = self.attempt(law)
            if isinstance(answer, str):
                answer = _checked(answer, law)
            if isinstance(answer, isolation.Lost):
                answer = _trial_of(law, answer)
            trials.append(answer)
        return trials

    def _law(self, name: str) -> Law:
        """The law of a trial of this run."""
        law = suite.named(name)
        if law is None:
            raise KeyError(name)
        return law

    def ask(self, item: "LawItem") -> "pytest.TestReport":
        """Try a law in the runner; gives its report."""
        answer = self.runner.ask(item.nodeid, self.run.timeout)
        if isinstance(answer, isolation.Lost):
            return _lost(item, answer)
        match answer:
            case {"trial": str(text), "shown": str(shown)}:
                trial = _checked(text, item.law)
            case _:  # the judged code may have written to the channel
                trial = isolation.Lost("crashed", "it sent what is no answer about the law")
        if isinstance(trial, isolation.Lost):
            self.runner.close()
            return _lost(item, trial)
        report = _report(item, trial, shown, readable(self.runner.output()))
        self.tried_by_runner += 1
        grown = trial.cost.peak > costs.MOST
        if report.failed or (grown and self.tried_by_runner >= costs.LEAST_TRIED):
            self.runner.close()  # else closed files, limits and patched modules would stay behind
            self.tried_by_runner = 0
        return report

    def ask_of_job(self, item: "LawItem") -> "pytest.TestReport":
        """Try a law in every process of the job; gives its report."""
        answer = self.attempt_in_job(item.law)
        if isinstance(answer, isolation.Lost):
            return _lost(item, answer)
        found = getattr(answer.counterexample, "input", "")
        return _report(item, answer, f"{answer.reason}\nwhile trying {found}")

    def answer(self, nodeid: Any) -> Any:
        """In a runner: try the law of a pytest node id; gives its trial, and its failure as shown.

        Instead of a node, it takes the name of a law in a list, alone or with the other arguments
        of `attempt_again`, and gives the trial alone. No hook is called here: other plugins of
        pytest expect theirs in the process that collected.
        """
        self.memory.slim()
        match nodeid:
            case [str(name)]:
                return self.attempt(self._law(name)).to_data()
            case [str(name), others]:
                return self.attempt_again(name, others).to_data()
        item = self.items[nodeid]
        os.environ["PYTEST_CURRENT_TEST"] = f"{nodeid} (call)"
        trial = self.attempt(item.law)
        shown = "" if trial.error is None else str(item.shown(trial.error))
        return {"trial": trial.to_data(), "shown": shortened(shown, LONGEST_SHOWN)}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Try a law in the runner or the job, and log its report.

        The judge is registered after other plugins, so they do not try the law first.
        """  # noqa: DOC501
        if isinstance(item, LawItem) and self.run.until and time.time() > self.run.until:
            return True  # `pytest_sessionfinish` says which requirements are left out
        if not isinstance(item, LawItem) or not (self.isolate or item.law.in_job):
            return None
        try:
            item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            report = self.ask_of_job(item) if item.law.in_job else self.ask(item)
            item.ihook.pytest_runtest_logreport(report=report)
            item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        except pytest.exit.Exception:
            raise
        except Exception as error:
            file, line = hypothesis_parts.innermost(error) or ("", 0)
            raise Refused(
                f"a fault of the judge or of a pytest plugin while {item.law.name} was tried: "
                f"{hypothesis_parts.describe(error)} ({file}:{line})", 2,
            ) from error  # fmt: skip
        return True

    def keep(self, trial: Trial) -> None:
        """Keep a trial for `--resume`; a full disk ends that, and not the run."""
        if self.progress is None:
            return
        try:
            self.progress.keep(trial)
        except OSError as error:
            self.say(f"--resume {self.progress.path}: {error.strerror}; what follows is not kept")
            self.progress = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the trials, also those of workers."""
        for trial in map(Trial.from_data, _trials_in(report)):
            self.trials.append(trial)
            self.keep(trial)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Rule on every requirement, write the report, and set the exit code."""
        self.job.close()
        self.job_runner.close()
        with contextlib.closing(self.unasserted), contextlib.closing(self.runner):
            asked = self.items or self.trials or self.run.patterns or self.run.replay
            if hasattr(self.config, "workerinput"):
                return
            compiled.prune()
            if not asked:
                return
            finished = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED,
                        pytest.ExitCode.NO_TESTS_COLLECTED)  # fmt: skip
            cut_short = session.shouldstop or session.shouldfail
            self.complete = exitstatus in finished and not cut_short
            tried = {trial.requirement for trial in self.trials}
            partly = self.run.replay or self.run.until
            own = [r for r in self.run.requirements if not partly or r.id in tried]
            try:
                if exitstatus == pytest.ExitCode.INTERRUPTED:
                    self.rulings = self._ruled(own, self.trials, lambda *_: None)
                else:
                    self.rulings = self.rule_with_retries(own)
            except KeyboardInterrupt:
                self.complete, session.exitstatus = False, pytest.ExitCode.INTERRUPTED
                self.say("interrupted: broken laws are not tried again")
                self.rulings = self._ruled(own, self.trials, lambda *_: None)
        judged = self.complete
        self.rulings = tuple(map(self.run.weighed, self.rulings))
        if self.run.since:
            self.keep_calls()
        if self.run.until:
            self.rulings = tuple(ruling for ruling in self.rulings if not left_out(ruling))
        if not (self.run.replay or self.run.launched):
            self.complete &= not any(map(left_out, self.rulings))
            self.rulings = tuple(map(of_all_laws, self.rulings))
        if not self.run.shard:
            self.rulings = of_one_fault(self.rulings)
        path = self.config.option.scutch_report
        if path and not self.complete and is_complete(path):
            self.unwritten = f"the report at {path} is complete, and stays: this run tried a part"
        elif path:
            prefix = terminal.command(self.config)
            document = terminal.document(self.run, self.rulings, prefix, complete=self.complete)
            try:
                write(document, Path(path))
            except ReportError as error:
                self.unwritten = str(error)
        if judged:
            session.exitstatus = exit_code(self.rulings, level=self.run.level)
        if self.unwritten:
            session.exitstatus = 2

    def keep_calls(self) -> None:
        """Keep which functions the laws of each requirement have called, for later runs."""
        calls: dict[str, list[str] | None] = {}
        for ruling in self.rulings:
            called = [name for trial in ruling.trials for name in trial.calls]
            seen = called or ruling.verdict == "unclaimed"  # the calls of a job are not noted
            held = seen and ruling.conforms and not left_out(ruling)
            calls[ruling.requirement.id] = called if held else None
        try:
            file, text = changed.noted(self.run.where, calls)
            publish(text, file)
        except OSError as error:
            self.say(f"--changed: {error.strerror}; the calls of laws are not kept")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> Generator[None, None, None]:
        """Print the verdicts; with many root causes, without pytest's own list of failures."""
        if terminal.is_brief(terminalreporter, self.rulings):
            self.config.option.tbstyle = "no"
            terminalreporter.reportchars = ""
        yield
        if self.rulings:
            prefix = terminal.command(self.config)
            rulings = [r for r in self.rulings if self.complete or r.trials]
            terminal.show(
                terminalreporter, self.run, rulings, prefix, complete=self.complete,
                compiled_in=self.compiled_in,
            )  # fmt: skip
            if self.against is not None:
                terminalreporter.section(f"against {self.against}")
                terminalreporter.write_line(terminal.changes(self.run, rulings, self.against))
        if self.unwritten:
            terminalreporter.write_line(self.unwritten, red=True)


JUDGE = pytest.StashKey[Judge]()


Refused: Any = type("scutch", (pytest.exit.Exception,), {"__module__": "builtins"})
"""Ends pytest with a sentence and an exit code; pytest prints its name before the sentence."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a conformance run.

    Raises:
      UsageError: Another plugin has an option of the same name.
    """
    group = parser.getgroup("scutch", "conformance of sharding metadata (scutch)")
    try:
        add_options(group.addoption)
    except ValueError as error:
        raise pytest.UsageError(
            f"scutch: another plugin of pytest has an option of the same name ({error}); expected "
            "`scutch run`, which loads no others, or -p no:NAME for that plugin"
        ) from error


def add_options(add: Callable[..., Any]) -> None:
    """Add the options of a conformance run, with the method of a parser that adds one."""
    tries = "; ".join(
        f"{n}: {p.summary}, {p.examples} inputs" for n, p in profiles.PROFILES.items()
    )
    add("--implementation", default="reference", metavar="NAME|MODULE:ATTR|FILE",
        help="what to judge: an installed name (reference, flax), module:attribute, or a .py file "
        "that defines `implementation` (default: reference)")  # fmt: skip
    add("--profile", default=profiles.DEFAULT, metavar="NAME", help=f"how hard to try: {tries}")
    add("--within", metavar="TIME",
        help="judge the requirements that find the most faults in this time, such as 30s or 5m, "
        "and list the parts that are left out; the start takes some 5 s of it")  # fmt: skip
    add("--changed", default="", metavar="COMMIT",
        help="judge only requirements whose laws call a function that has changed since a commit "
        "of the repository here; the first such run judges all, and notes the calls")  # fmt: skip
    add("--examples", metavar="N", help="inputs for each law (default: the profile's)")
    add("--requirement", action="append", default=[], metavar="PATTERN",
        help="judge only these: a part, a group (objects/graphs), an id or a pattern; repeatable"
    )  # fmt: skip
    add("--from", dest="again", default="", metavar="REPORT.json",
        help="judge again the requirements that failed in this report, on the inputs that broke "
        "laws there first")  # fmt: skip
    add("--skip", action="append", default=[], metavar="'PATTERN: REASON'",
        help="do not judge these requirements, which are unclaimed for the reason; repeatable"
    )  # fmt: skip
    add("--edition", default="", metavar="EDITION",
        help="the edition of the catalogue that must hold, such as 0.1: newer requirements count "
        "as shoulds (default: the newest)")  # fmt: skip
    add("--level", default="must", metavar="must|should",
        help="what must hold for exit code 0; with must (the default) a departure from a should "
        "is reported and does not fail the run")  # fmt: skip
    add("--known", action="append", default=[], metavar="FILE|shipped|none|NAME",
        help="expected failures: a file, or the name of what a fork descends from (flax); "
        "repeatable (default: shipped, those that come with scutch)"
    )  # fmt: skip
    add("--against", default="", metavar="NAME==RELEASE",
        help="also say what is not as it was in a release that was recorded, such as flax==0.12.6"
    )  # fmt: skip
    add("--report", dest="scutch_report", metavar="PATH.json", help="write the JSON report here")
    add("--seed", metavar="N", help="seed of the search (default: the profile's)")
    add("--resume", metavar="FILE",
        help="keep in this file what each law did, and do not try again what an earlier part of "
        "this run has tried, which was cut off")  # fmt: skip
    add("--replay", default="", metavar="CALL",
        help="try one law on one input, as the replay command of a failure has it")  # fmt: skip
    add("--law-timeout", metavar="SECONDS",
        help="time that one law may take (default: the profile's, and in proportion more for more "
        "--examples)")  # fmt: skip
    add("--platform", metavar="NAME",
        help="the platform of JAX that laws run on: cpu (the default, with eight fake devices), "
        "cuda, tpu; what needs more devices than there are is unclaimed")  # fmt: skip
    add("--processes", metavar="N",
        help="processes of the job in which laws of several processes are tried: 2, 4 or 8, or 1 "
        "for none (default: 2)")  # fmt: skip
    add("--launched", action="store_true",
        help="a launcher (SLURM, Kubernetes, Cloud TPU) has started this command in each process "
        "of a job: try the laws of several processes in it; process 0 reports")  # fmt: skip
    add("--no-traces", action="store_true",
        help="compile and run both routes of a law on every input; without this option, two routes "
        "with equal traces agree, and only a sample of them is run")  # fmt: skip
    add("--shard", default="", metavar="N/M",
        help="judge the Nth of M parts of the requirements, divided alike on every machine; "
        "`scutch merge` makes one report of all")  # fmt: skip
    add("--no-cache", action="store_true",
        help="compile everything anew, and keep nothing; without this option, compiled programs "
        "are kept in ~/.cache/scutch (or $XDG_CACHE_HOME/scutch) for the next run on the same "
        "implementation, JAX and platform")  # fmt: skip
    add("--in-process", action="store_true",
        help="run laws in this process, for debuggers; a crash then ends the run")  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Settle the run; a bad set-up ends it here, with exit code 2."""
    config.addinivalue_line(
        "markers",
        "requirement(id, must_reach=()): the entry of scutch's catalogue that a law tries",
    )
    option = config.option
    profiles.prepare_devices(option.platform)
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
        run = Run.from_data(worker["scutch"]) if worker else _settle(option, isolate)
        if run.chosen == {}:
            raise Refused(f"nothing is to be judged: {run.why}", 0)
        resumed = None
        if option.resume and not worker:
            run, resumed = resume(Path(option.resume), run)
    except (ReportError, SetupError, releases.NotRecorded) as error:
        raise Refused(str(error), 2) from None
    judge = Judge(
        run, config, isolate, progress=resumed, against=against, folder=folder.name,
        compiled_in=kept.enter_context(compiled.kept(run.compiled, joins=bool(worker))),
    )  # fmt: skip
    config.stash[JUDGE] = judge
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


def _settle(option: Any, isolate: bool) -> Run:
    seed = _number("--seed", option.seed)
    if option.resume and seed is None:
        seed = seed_in(Path(option.resume))
    patterns, first = option.requirement, {}
    if option.again:
        first = broken_by(option.again)
        rows = _read(option.again).requirements
        patterns = [one.id for one in rows if one.verdict not in CONFORMING]
        if not patterns:
            raise Refused(f"nothing is to be judged: nothing failed in {option.again}", 0)
    return settle(
        option.implementation, profile=option.profile,
        examples=_number("--examples", option.examples), seed=seed,
        level=option.level, patterns=patterns, known_files=option.known,
        replay=option.replay, timeout=_number("--law-timeout", option.law_timeout, float),
        isolate=isolate, processes=_number("--processes", option.processes),
        launched=option.launched, by_traces=not option.no_traces,
        keep_compiled=not option.no_cache, shard=option.shard,
        within=_seconds(option.within), since=option.changed,
        skip=option.skip, edition=option.edition, first=first,
        workers=getattr(option, "numprocesses", None) or 1,  # pytest-xdist's
    )  # fmt: skip


def _read(path: str) -> Report:
    """The report at a path.

    Raises:
      ReportError: There is no file, or it is no report.
      SetupError: A package that checks reports is not installed.
    """
    try:
        return load_report(path)
    except ModuleNotFoundError as error:
        needed = f'it needs {error.name}: pip install "scutch[report]"'
        raise SetupError(f"--from {path}", needed) from None


def _seconds(text: str | None) -> float | None:
    """The seconds of a time such as `30s`, `5m` or `2h`; without a letter, seconds."""
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smh]?)", text)
    if found is None:
        raise SetupError(f"--within {text!r}", "expected a time such as 30s, 5m or 2h")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def _number(option: str, text: str | None, kind: type = int) -> Any:
    """The number that an option has, or `None`."""
    try:
        return None if text is None else kind(text)
    except ValueError:
        raise SetupError(f"{option} {text!r}", "expected a number") from None


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
    items.sort(key=_order)
    if replayed is not None and not judge.items:
        raise Refused(f"--replay: there is no law {replayed!r}, or it is unclaimed", 2)
    if replayed is not None:
        law = next(iter(judge.items.values())).law
        if not law.takes(run.replay):
            raise Refused(f"--replay: {law.name} takes the inputs {', '.join(law.inputs)}", 2)


def _order(item: pytest.Item) -> tuple[bool, float]:
    """Sorts laws, the ones that find the most faults for their time first."""
    return portfolio.rank(item.law.requirement) if isinstance(item, LawItem) else (False, -1.0)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Leave out the names of files, which would change with every law."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and session.config.get_verbosity() == 0:
        reporter.showfspath = False


# ---------------------------------------------------------------- how a law is tried


def _times_out(config: pytest.Config) -> bool:
    """Whether pytest-timeout is there, which would end the judge: `--law-timeout` limits laws."""
    return any(map(config.pluginmanager.hasplugin, ("timeout", "pytest_timeout")))


def _trials_in(report: pytest.TestReport) -> list[str]:
    """The data of the trials that a report carries."""
    return [str(value) for name, value in report.user_properties if name == PROPERTY]


def _checked(data: str, law: Law) -> Trial | isolation.Lost:
    """The trial that another process has sent; `Lost`, as crashed, if it is none of this law."""
    try:
        trial = Trial.from_data(data)
    except (ValueError, TypeError, KeyError, AttributeError):
        return isolation.Lost("crashed", "it sent what is no trial")
    if (trial.test, trial.requirement) != (law.name, law.requirement):
        return isolation.Lost("crashed", f"it sent a trial of {trial.test!r}")
    return trial


def _found(law: Law, data: str) -> Counterexample | None:
    """The counterexample that a runner noted before it was ended; `None` where it is none."""
    try:
        found = Counterexample(**readable(json.loads(data)))
    except (ValueError, TypeError):
        return None
    plain = all(isinstance(each, str) for each in astuple(found))
    return found if plain and found.test == law.name else None


def _trial_of(law: Law, lost: isolation.Lost) -> Trial:
    """The trial of a law whose runner ended: failed, if the law broke before its time was over."""
    if lost.outcome == "timeout" and (broke := _found(law, lost.found)) is not None:
        return Trial(law.name, law.requirement, "failed", counterexample=broke, reason=broke.error)
    judged = lost.doing and lost.outcome != "untried"
    found = Counterexample(law.name, lost.doing, lost.reason) if judged else None
    return Trial(law.name, law.requirement, lost.outcome, counterexample=found, reason=lost.reason)


def _lost(item: LawItem, lost: isolation.Lost) -> pytest.TestReport:
    trial = _trial_of(item.law, lost)
    doing = f"\nwhile trying {lost.doing}" if lost.doing else ""
    return _report(item, trial, f"{lost.outcome}: {lost.reason}{doing}", lost.output)


def _report(item: LawItem, trial: Trial, shown: str, output: str = "") -> pytest.TestReport:
    """The report of a law that was tried in another process.

    Args:
      item: The law.
      trial: Its trial.
      shown: Its failure for people; not used where it did not fail.
      output: The text that was printed meanwhile.
    """
    outcome: Any = "passed" if trial.outcome == "passed" else "failed"
    longrepr: Any = None if outcome == "passed" else shown
    if trial.broke or trial.outcome in ("skipped", "untried"):
        outcome, longrepr = "skipped", (str(item.path), item.reportinfo()[1], trial.reason or "")
    report = pytest.TestReport(
        nodeid=item.nodeid, location=item.location, keywords={}, outcome=outcome, longrepr=longrepr,
        when="call", sections=[("Captured output call", output)] if output else [],
        duration=trial.seconds, user_properties=[(PROPERTY, trial.to_data())],
    )  # fmt: skip
    if trial.broke:
        report.wasxfail = "known failure"
    return report


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
