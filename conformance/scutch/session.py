"""One run inside pytest, from the first law to the report.

    judge = Judge(run, isolate=True, config=config)
    config.pluginmanager.register(judge)

The judge answers to pytest's hooks from then on. Only public parts of pytest are used.
"""

import contextlib
import functools
import os
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from scutch import releases, rulings, terminal
from scutch.catalogue import index
from scutch.judging import compiled, costs, hypothesis_parts, isolation
from scutch.judging.calls import parse_call
from scutch.judging.executor import Executor, checked
from scutch.judging.readable import readable, shortened
from scutch.judging.trials import Trial
from scutch.judging.verdicts import Ruling, exit_code
from scutch.law_items import LawItem, lost_report, report_of, trials_in
from scutch.options import Refused
from scutch.progress import Progress
from scutch.report import ReportError, write
from scutch.report.document import is_complete

LONGEST_SHOWN = 40_000
"""Characters of a failure that are shown, of its traceback and its message together."""


@dataclass(eq=False)  # pytest keeps plugins in sets
class Judge(Executor):
    """The state of one run, in one process.

    Args:
      config: Of pytest.
      progress: The file of a run that can be resumed, or `None`.
      against: The record of a release, to compare the verdicts with, or `None`.
      items: The laws that are tried, by node id.
      trials: Their trials, in this run and in the one that it resumes.
      rulings: The verdicts, once the run has ended.
      complete: Whether every law was tried.
      unwritten: Why the report could not be written, if it could not.
      compiled_in: The folder in which compiled programs are kept; empty where none are.
      tried_by_runner: How many laws the runner has tried that there is now.
    """

    config: pytest.Config = field(kw_only=True)
    progress: Progress | None = None
    against: releases.Record | None = None
    items: dict[str, LawItem] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)
    rulings: tuple[Ruling, ...] = ()
    complete: bool = False
    unwritten: str = ""
    compiled_in: str = ""
    tried_by_runner: int = 0

    @functools.cached_property
    def files(self) -> frozenset[str]:
        """The files of `scutch.laws` that are collected."""
        if self.run.replay:
            return frozenset([index.file_of(parse_call(self.run.replay)[0]) or ""])
        return frozenset(index.files_of(self.run.wanted))

    def say(self, text: str) -> None:
        """Print a line in the middle of the run, where pytest prints anything."""
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(text)

    def ask(self, item: "LawItem") -> "pytest.TestReport":
        """Try a law in the runner; gives its report."""
        answer = self.runner.ask(item.nodeid, self.run.timeout)
        if isinstance(answer, isolation.Lost):
            return lost_report(item, answer)
        match answer:
            case {"trial": str(text), "shown": str(shown)}:
                trial = checked(text, item.law)
            case _:  # the judged code may have written to the channel
                trial = isolation.Lost("crashed", "it sent what is no answer about the law")
        if isinstance(trial, isolation.Lost):
            self.runner.close()
            return lost_report(item, trial)
        report = report_of(item, trial, shown, readable(self.runner.output()))
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
            return lost_report(item, answer)
        found = getattr(answer.counterexample, "input", "")
        return report_of(item, answer, f"{answer.reason}\nwhile trying {found}")

    def answer(self, asked: Any) -> Any:
        """In a runner: try the law of a pytest node id; gives its trial, and its failure as shown.

        Instead of a node, it takes a list, as `Executor.answer` does. No hook is called here: other
        plugins of pytest expect theirs in the process that collected.
        """
        if isinstance(asked, list):
            return super().answer(asked)
        self.memory.slim()
        item = self.items[asked]
        os.environ["PYTEST_CURRENT_TEST"] = f"{asked} (call)"
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
                f"{hypothesis_parts.describe(error)} ({file}:{line})",
                2,
            ) from error
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
        for trial in map(Trial.from_data, trials_in(report)):
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
            finished = (
                pytest.ExitCode.OK,
                pytest.ExitCode.TESTS_FAILED,
                pytest.ExitCode.NO_TESTS_COLLECTED,
            )
            cut_short = session.shouldstop or session.shouldfail
            self.complete = exitstatus in finished and not cut_short
            self._rule(session, interrupted=exitstatus == pytest.ExitCode.INTERRUPTED)
        judged = self.complete
        self.rulings = tuple(map(self.run.weighed, self.rulings))
        if self.run.since:
            try:
                rulings.keep_calls(self.run, self.rulings)
            except OSError as error:
                self.say(f"--changed: {error.strerror}; the calls of laws are not kept")
        self.rulings, self.complete = rulings.final(self.run, self.rulings, complete=self.complete)
        if path := self.config.option.scutch_report:
            self._write_report(path)
        if judged:
            session.exitstatus = exit_code(self.rulings, level=self.run.level)
        if self.unwritten:
            session.exitstatus = 2

    def _rule(self, session: pytest.Session, *, interrupted: bool) -> None:
        """Rule on the requirements of the run, after Ctrl-C without trying any law again."""
        tried = {trial.requirement for trial in self.trials}
        partly = self.run.replay or self.run.until
        own = [r for r in self.run.requirements if not partly or r.id in tried]
        try:
            if not interrupted:
                self.rulings = rulings.with_retries(self, own, self.trials, say=self.say)
        except KeyboardInterrupt:
            self.complete, session.exitstatus = False, pytest.ExitCode.INTERRUPTED
            self.say("interrupted: broken laws are not tried again")
            interrupted = True
        if interrupted:
            self.rulings = rulings.ruled(self.run, own, self.trials)

    def _write_report(self, path: str) -> None:
        """Write the report of a run to a path, or note why it could not be written."""
        if not self.complete and is_complete(path):
            self.unwritten = f"the report at {path} is complete, and stays: this run tried a part"
            return
        prefix = terminal.command(self.config)
        document = terminal.document(self.run, self.rulings, prefix, complete=self.complete)
        try:
            write(document, Path(path))
        except ReportError as error:
            self.unwritten = str(error)

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
            shown = [r for r in self.rulings if self.complete or r.trials]
            terminal.show(
                terminalreporter,
                self.run,
                shown,
                prefix,
                complete=self.complete,
                compiled_in=self.compiled_in,
            )
            if self.against is not None:
                terminalreporter.section(f"against {self.against}")
                terminalreporter.write_line(terminal.changes(self.run, shown, self.against))
        if self.unwritten:
            terminalreporter.write_line(self.unwritten, red=True)


JUDGE = pytest.StashKey[Judge]()
