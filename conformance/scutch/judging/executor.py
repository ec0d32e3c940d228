"""How the laws of a run are tried: here, in a runner, or in a job of several processes.

    executor = Executor(run, isolate=True)
    executor.attempt(law)

What another process sends is checked: an implementation may have written it.
"""

import contextlib
import functools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from types import CodeType
from typing import Any

from scutch.catalogue import Requirement
from scutch.implementation import Implementation
from scutch.judging import changed, costs, isolation, job, suite
from scutch.judging.attempt import Setting
from scutch.judging.calls import parse_call
from scutch.judging.job import Job
from scutch.judging.known import Expected
from scutch.judging.readable import readable
from scutch.judging.run import Run
from scutch.judging.suite import Law
from scutch.judging.trials import Counterexample, Trial
from scutch.judging.trying import try_law
from scutch.judging.unasserted import Unasserted
from scutch.loading import load

RETRIED = 50
"""On how many inputs a broken law is tried again where others hold, at most."""

_SLACK = 30.0
"""Seconds that the runner of a job gets to end the job, after the time that a law may take."""


@dataclass(eq=False)
class Executor:
    """Tries the laws of one run.

    Args:
      run: The run, with its implementation and its settings.
      isolate: Whether laws are tried in a runner.
      capture: Whether the runner keeps what is printed.
      folder: For the temporary files of runners.
      called_by_import: Functions of the user's repository that the import of the implementation
        calls, where the run notes them.
      memory: Of the process that tries laws.
    """

    run: Run
    isolate: bool
    capture: bool = True
    folder: str = ""
    called_by_import: frozenset[str] = frozenset()
    memory: costs.Memory = field(default_factory=costs.Memory)

    def __post_init__(self) -> None:
        self.runner = isolation.Runner(
            self.answer,
            capture=self.capture,
            bounded=self.run.platform == "cpu",
            folder=self.folder,
        )
        self.unasserted = Unasserted(self.run.where)
        self.job = Job(
            self.run.processes,
            {"where": self.run.where, "offers": self.run.offers},
            self.run.launched,
        )
        self.job_runner = isolation.Runner(self.ask_job, bounded=False, folder=self.folder)

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

    @property
    def setting(self) -> Setting:
        """What the laws of this run are tried with."""
        return Setting(
            unasserted=self.unasserted, journal=self.runner.note, by_traces=self.run.by_traces
        )

    def tried(self, law: Law) -> Trial:
        """Try a law with the settings of the run, in this process."""
        return try_law(
            law,
            self.implementation,
            examples=self.run.inputs_for(law.requirement),
            seed=self.run.seed,
            known=self.run.known_of(law),
            replay=[parse_call(self.run.replay)[1]] if self.run.replay else None,
            first=[parse_call(c)[1] for c in self.run.first.get(law.name, ()) if law.takes(c)],
            setting=self.setting,
        )

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
        trial = checked(answer["trial"], law)
        return trial if isinstance(trial, isolation.Lost) else self.weighed(trial)

    def ask_job(self, request: Any) -> Any:
        """Try a law in the job; returns its trial as text, or how the job was lost, for JSON."""
        answer = self.job.ask(request, self.run.timeout)
        is_lost = isinstance(answer, isolation.Lost)
        return {"lost": asdict(answer)} if is_lost else {"trial": answer}

    def attempt_again(self, test: str, others: Sequence[Sequence[str]]) -> Trial:
        """Try a law, in this process, on inputs that do not break some others.

        Args:
          test: The name of the law.
          others: The names of the others, each with a call that breaks it.
        """
        by_name = {name: self.law_named(name) for name in (test, *(name for name, _ in others))}
        return try_law(
            by_name[test],
            self.implementation,
            examples=min(self.run.examples, RETRIED),
            seed=self.run.seed,
            known=Expected(ways=self.run.known_of(by_name[test]).ways),
            unless=[(by_name[name], call) for name, call in others],
            setting=self.setting,
        )

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
        law, left = self.law_named(broken.test), until - time.monotonic()
        if law.in_job or left <= 0:
            return None
        if not self.isolate:
            return self.attempt_again(broken.test, calls)
        answer = self.runner.ask([broken.test, calls], min(self.run.timeout, left))
        if isinstance(answer, isolation.Lost):
            return None
        again = checked(answer, law)
        return again if isinstance(again, Trial) else None

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
                answer = checked(answer, law)
            if isinstance(answer, isolation.Lost):
                answer = trial_of(law, answer)
            trials.append(answer)
        return trials

    def law_named(self, name: str) -> Law:
        """The law of a trial of this run.

        Raises:
          KeyError: There is none.
        """
        law = suite.named(name)
        if law is None:
            raise KeyError(name)
        return law

    def answer(self, asked: Any) -> Any:
        """In a runner: try a law, and give its trial.

        Args:
          asked: A list with the name of the law, alone or with the other arguments of
            `attempt_again`.
        """
        self.memory.slim()
        name, *others = asked
        again = self.attempt_again(name, *others) if others else self.attempt(self.law_named(name))
        return again.to_data()


def checked(data: str, law: Law) -> Trial | isolation.Lost:
    """The trial that another process has sent; `Lost`, as crashed, if it is none of this law.

    Args:
      data: The text that was sent.
      law: The law that was asked for.
    """
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


def trial_of(law: Law, lost: isolation.Lost) -> Trial:
    """The trial of a law whose runner ended: failed, if the law broke before its time was over.

    Args:
      law: The law.
      lost: How the runner ended.
    """
    if lost.outcome == "timeout" and (broke := _found(law, lost.found)) is not None:
        return Trial(law.name, law.requirement, "failed", counterexample=broke, reason=broke.error)
    judged = lost.doing and lost.outcome != "untried"
    found = Counterexample(law.name, lost.doing, lost.reason) if judged else None
    return Trial(law.name, law.requirement, lost.outcome, counterexample=found, reason=lost.reason)
