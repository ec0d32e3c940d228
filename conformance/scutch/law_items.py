"""Laws as items of pytest, and the reports of their trials.

    item = LawItem.of(collector, law)
    report_of(item, trial, shown)

Only public parts of pytest are used.
"""

from pathlib import Path
from typing import Any

import pytest

from scutch.judging import hypothesis_parts, isolation
from scutch.judging.executor import Executor, trial_of
from scutch.judging.suite import Law
from scutch.judging.trials import Trial

PROPERTY = "scutch"
"""The user property of a report that holds the law's trial."""


EXECUTOR = pytest.StashKey[Executor]()
"""Where the configuration of pytest has what tries the laws."""


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
        times_out = map(collector.config.pluginmanager.hasplugin, ("timeout", "pytest_timeout"))
        if collector.config.stash[EXECUTOR].isolate and any(times_out):
            item.add_marker(pytest.mark.timeout(0))  # `--law-timeout` limits laws
        return item

    def runtest(self) -> None:
        """Try the law in this process; raises the exception that broke it."""
        self.trial = self.config.stash[EXECUTOR].attempt(self.law)
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


def trials_in(report: pytest.TestReport) -> list[str]:
    """The data of the trials that a report carries.

    Args:
      report: Of a law, or of any other test.
    """
    return [str(value) for name, value in report.user_properties if name == PROPERTY]


def lost_report(item: LawItem, lost: isolation.Lost) -> pytest.TestReport:
    """The report of a law whose runner ended.

    Args:
      item: The law.
      lost: How the runner ended.
    """
    trial = trial_of(item.law, lost)
    doing = f"\nwhile trying {lost.doing}" if lost.doing else ""
    return report_of(item, trial, f"{lost.outcome}: {lost.reason}{doing}", lost.output)


def report_of(item: LawItem, trial: Trial, shown: str, output: str = "") -> pytest.TestReport:
    """The report of a law that was tried in another process.

    Args:
      item: The law.
      trial: Its trial.
      shown: Its failure for people; not used where it did not fail.
      output: The text that was printed meanwhile.

    Returns:
      The report, which carries the trial.
    """
    outcome: Any = "passed" if trial.outcome == "passed" else "failed"
    longrepr: Any = None if outcome == "passed" else shown
    if trial.broke or trial.outcome in ("skipped", "untried"):
        outcome, longrepr = "skipped", (str(item.path), item.reportinfo()[1], trial.reason or "")
    report = pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords={},
        outcome=outcome,
        longrepr=longrepr,
        when="call",
        sections=[("Captured output call", output)] if output else [],
        duration=trial.seconds,
        user_properties=[(PROPERTY, trial.to_data())],
    )
    if trial.broke:
        report.wasxfail = "known failure"
    return report
