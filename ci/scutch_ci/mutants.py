"""The command `ci/mutants`: plant faults in an implementation, and say which of them the laws find.

A *mutant* is an implementation with one fault planted in it: a fork that imports it with the text
of one file replaced (`subjects`). Nothing that is installed is changed.

First the laws are tried on the implementation as it is. That tells which functions each of them
calls, so which laws can see a fault, and how long each takes. A law that fails there convicts no
mutant; one that is known to fail there convicts those that break it in another way. Then the laws
that can see a fault are tried on its mutant, quick and special ones first, until one *fails*: on
few inputs, and then, if none has failed, on as many as a run of the profile `ci` draws. A fault
comes to one of these:

    found      a law failed
    survived   every law that sees it passed
    unseen     no law calls the function that holds it; `--unseen` names these functions
    error-kind, out-of-contract    ci/mutants.toml excludes it, with the reason
    crashed, timeout    the process ended, or went on for ever, while it tried a law
    broken     the mutant cannot be imported

Those that ci/mutants.toml lists as equivalent, with the reason why nobody could tell, are not
planted. The score is the share that was found of the faults that were found, survived or are
unseen; a second score counts the excluded ones as missed. Each result is a line of a file, so that
the same command goes on where it was interrupted.

With `--conditional` a fault is active only where a condition on the values of its function holds,
such as an array of rank above 2 (`conditions`). One for which it never held while the laws that
see it passed is `inactive`, and left out of the score: the condition may be impossible there.
"""

import argparse
import heapq
import json
import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import jax
from rich.progress import Progress
from scutch import catalogue
from scutch.judging import portfolio, profiles, suite
from scutch.judging.compiled import FOLDER, KEEP_ALL
from scutch.judging.isolation import Lost, Runner
from scutch.report.text import publish

from scutch_ci import conformance
from scutch_ci.checkout import ROOT, processors
from scutch_ci.equivalents import EQUIVALENT, EXCLUDED, kind_of, listed
from scutch_ci.faults import Fault, conditional, faults_in
from scutch_ci.sights import MANY, Sight, called_by_import, convicting, seeing, sights, uncalled
from scutch_ci.subjects import PACKAGES, Subject, judging

OUTPUT = ROOT / "build" / "mutants"
FEW = 10
"""Inputs for each law at first; most faults are found by these."""
JUDGED = ("found", "survived", "unseen")
"""The outcomes that count in the score."""


@dataclass(frozen=True)
class Result:
    """The outcome of one fault.

    Args:
      fault: Its name.
      file: Where it was planted.
      outcome: `found`, `survived`, `unseen`, `inactive`, `crashed`, `timeout`, `broken`, or the
        kind of the entry of ci/mutants.toml that excludes it.
      law: The one that failed, or in which the process ended.
      reason: How it failed.
      laws: How many laws can see the fault.
      seconds: How long it took.
      diff: The change, as a unified diff.
      convicted: With `--all-laws`, each law that failed, and on how many inputs.
    """

    fault: str
    file: str
    outcome: str
    law: str
    reason: str
    laws: int
    seconds: float
    diff: str
    convicted: Mapping[str, int] = field(default_factory=dict)


Work = tuple[Subject, Fault, str, Sequence[str], Mapping[str, Sight], Mapping[str, int], float]


def tried(work: Work) -> Result:
    """Try the laws that can see a fault on its mutant, until one fails.

    Args:
      work: The implementation, the fault, the kind of its exclusion, the laws in their order,
        their sights of the implementation as it is, on how many inputs each is tried at most, for
        how many seconds all laws are tried first, the cheapest first, also after one has failed.
    """
    subject, fault, kind, names, laws, examples, seconds_for_all = work
    started = time.monotonic()
    diff = fault.diff(subject.sources[fault.file])

    def result(outcome: str, law: str = "", reason: str = "") -> Result:
        seconds = round(time.monotonic() - started, 1)
        return Result(
            fault.name, fault.file, outcome, law, reason[:500], len(names), seconds, diff, convicted
        )

    convicted: dict[str, int] = {}
    if kind or not names:
        return result(kind or "unseen")
    active = False
    runner = Runner(judging(subject, fault))
    try:
        imported = runner.ask(None, 60)
        if not isinstance(imported, list):
            return result("broken", "", getattr(imported, "reason", imported))
        by_cost = {name: laws[name] for name in sorted(names, key=lambda name: laws[name].seconds)}
        found = list(convictions(runner, by_cost, until=started + seconds_for_all))
        convicted.update({name: inputs for name, inputs, _ in found})
        if found:
            return result("found", found[0][0], found[0][2])
        most = max(examples.values(), default=0)
        for limit in dict.fromkeys((min(FEW, most), most)):
            for name in names:
                count = min(limit, examples[name])
                answer = runner.ask([name, count], 30 + 10 * laws[name].seconds * count / MANY)
                if isinstance(answer, Lost):
                    return result(answer.outcome, name, f"{answer.doing}: {answer.reason}")
                if answer[0] == "failed":
                    return result("found", name, answer[3])
                active = active or answer[5]
        return result("survived" if active else "inactive")
    finally:
        runner.close()


def convictions(
    runner: Runner, laws: Mapping[str, Sight], *, until: float
) -> Iterator[tuple[str, int, str]]:
    """Try laws on few inputs, also after one has failed.

    Args:
      runner: Judges the mutant.
      laws: In the order in which they are tried.
      until: The time, of `time.monotonic`, at which no further law is tried.

    Yields:
      Of each law that failed, or ended the process, its name, the number of inputs, and the reason.
    """
    for name, sight in laws.items():
        if time.monotonic() >= until:
            return
        if runner.pid is None:
            runner.ask(None, 60)
        answer = runner.ask([name, FEW], 30 + 10 * sight.seconds)
        if isinstance(answer, Lost):
            yield name, 1, answer.reason
        elif answer[0] == "failed":
            yield name, answer[4], answer[3]


def candidates(subject: Subject, *, conditions: bool = False) -> dict[Fault, str]:
    """All faults but those listed as equivalent, with the kind of the entry that excludes them.

    Args:
      subject: The implementation.
      conditions: Whether to return the conditional ones of those that no entry excludes.
    """
    entries, found = listed(), dict[Fault, str]()
    for file, text in subject.sources.items():
        kinds = {fault: kind_of(fault, subject, entries) for fault in faults_in(text, file)}
        plain = [fault for fault, kind in kinds.items() if not kind]
        found |= dict.fromkeys(conditional(text, plain), "") if conditions else kinds
    return {fault: kind for fault, kind in found.items() if kind != EQUIVALENT}


def drawn(faults: Sequence[Fault], subject: Subject, number: int, seed: int) -> list[Fault]:
    """A random sample of faults, in random order, so that an interrupted run has tried one too.

    Each fault has its own place in the lot, so that a fault which is listed, or gone with its line,
    leaves all others of the sample in it.

    Args:
      faults: All that may be drawn.
      subject: The implementation that they are of.
      number: How many are drawn; all if there are fewer.
      seed: Another one draws others.
    """

    def lot(fault: Fault) -> float:
        replaced = subject.sources[fault.file].encode()[slice(*fault.span)].decode()
        return random.Random(f"{seed} {fault.place} {replaced} {fault.new}").random()

    return heapq.nsmallest(number, faults, key=lot)


def score(results: Sequence[Result]) -> str:
    """The share of the faults that was found, and the share if those excluded count as missed."""
    outcomes = Counter(result.outcome for result in results)
    found, judged = outcomes["found"], sum(outcomes[each] for each in JUDGED)
    excluded = sum(outcomes[each] for each in EXCLUDED)
    first = share(found, judged)
    return f"{first}; {share(found, judged + excluded)} of all" if excluded else first


def share(part: int, of: int) -> str:
    """A number of faults, and its percentage where there are any."""
    return f"{part} of {of}" + (f", {100 * part / of:.0f} %" if of else "")


def table(results: Sequence[Result]) -> Iterator[str]:
    """The score of each file and of all, with the number of each outcome but found and survived."""
    files = sorted({result.file for result in results})
    for name in [*files, "all"]:
        those = [result for result in results if name in (result.file, "all")]
        rest = Counter(r.outcome for r in those if r.outcome not in ("found", "survived"))
        more = "".join(f", {number} {outcome}" for outcome, number in rest.items())
        yield f"{name:32} {score(those)}{more}"


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(
        "ci/mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="exit codes: 0 none survived or was unseen, 1 some did, 2 nothing was tried",
    )
    add = parser.add_argument
    add("--implementation", choices=PACKAGES, default="reference", help="%(default)s by default")
    add("--sample", type=int, metavar="N", help="plant N faults, drawn at random (default: all)")
    add("--seed", type=int, default=0, metavar="S", help="of the sample (%(default)s)")
    add("--file", default="", metavar="TEXT", help="only in files whose path holds this text")
    add("--jobs", type=int, default=processors(), metavar="J", help="how many at a time")
    add(
        "--examples",
        type=int,
        default=profiles.PROFILES["ci"].examples,
        metavar="N",
        help="inputs for each law, before a fault has survived (%(default)s)",
    )
    add(
        "--all-laws",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="go on after the first law that fails, the cheapest first, for so many seconds a "
        "fault, and keep which of them fail: `ci/portfolio` chooses laws by that",
    )
    add(
        "--chosen",
        choices=[name for name, one in profiles.PROFILES.items() if one.seconds],
        help="try only the laws and inputs that a profile has chosen",
    )
    add("--conditional", action="store_true", help="plant faults that are active on a condition")
    add(
        "--unseen",
        action="store_true",
        help="only name the functions that no law calls, with their numbers of faults",
    )
    add("--results", type=Path, metavar="FILE", help="where results are kept, and taken from")
    add("--again", action="store_true", help="try again what survived, crashed or timed out")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Plant the faults that the options ask for; returns an exit code."""
    options = parsed(arguments)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    prepare()
    subject = Subject.of(options.implementation)
    seen = sights(subject, options.jobs, OUTPUT / f"{subject.where}-sights.json")
    laws = convicting(subject, seen)
    kinds = candidates(subject, conditions=options.conditional)
    faults = [fault for fault in kinds if options.file in fault.file]
    examples = dict.fromkeys(laws, options.examples)
    if options.chosen:
        examples = chosen_laws(options.chosen, laws)
        laws = {name: laws[name] for name in examples}
    by_import = called_by_import(subject)
    if options.unseen:
        counted = [fault for fault in faults if not kinds[fault]]
        missed = Counter(fault.place for fault in uncalled(counted, laws, by_import))
        print(*(f"{place}  {number}" for place, number in missed.items()), sep="\n")
        print(f"{share(missed.total(), len(counted))}, are in functions that no law calls")
        return int(bool(missed))
    sample = options.sample
    chosen = faults if sample is None else drawn(faults, subject, sample, options.seed)
    if not chosen:
        told = Counter(sight.outcome for sight in seen.values())
        laws_did = ", ".join(f"{number} {outcome}" for outcome, number in told.items())
        print(f"ci/mutants: no fault to plant; laws: {laws_did}", file=sys.stderr)
        return 2
    file = options.results or OUTPUT / f"{subject.where}.jsonl"
    if file.exists():  # without a line that was cut off, to which the next would be added
        publish("".join(f"{json.dumps(asdict(each))}\n" for each in results_in(file)), file)
    kept = read(file, {fault.diff(subject.sources[fault.file]) for fault in chosen}, options.again)
    left = [fault for fault in chosen if fault.diff(subject.sources[fault.file]) not in kept]
    print(f"{len(chosen)} faults, {len(kept)} of them tried before, in {file}", flush=True)
    work = [
        (
            subject,
            fault,
            kinds[fault],
            names,
            {n: laws[n] for n in names},
            {n: examples[n] for n in names},
            options.all_laws,
        )
        for fault in left
        for names in [seeing(fault, laws, by_import)]
    ]
    for result in tried_all(work, options.jobs):
        kept[result.diff] = result
        with file.open("a", encoding="utf-8") as lines:
            lines.write(f"{json.dumps(asdict(result))}\n")
    results = list(kept.values())
    for result in results:
        if result.outcome not in ("found", "broken", *EXCLUDED):
            print(f"\n{result.outcome}, seen by {result.laws} laws {result.law}\n{result.diff}")
    print("", *table(results), sep="\n")
    return int(any(result.outcome in ("survived", "unseen") for result in results))


def chosen_laws(profile: str, laws: Iterable[str]) -> dict[str, int]:
    """The laws that a profile has chosen, with the inputs for each.

    Args:
      profile: One that judges a choice, such as `quick`.
      laws: The names of those that can be tried.
    """
    inputs = {
        choice.requirement: choice.examples
        for choice in portfolio.within(profiles.PROFILES[profile].seconds or 0.0, catalogue.by_id())
    }
    requirement = {law.name: law.requirement for law in suite.laws()}
    return {n: inputs[requirement[n]] for n in laws if requirement[n] in inputs}


def prepare() -> None:
    """Import all laws, and keep compiled programs: mutants compile the same ones."""
    profiles.prepare_devices()
    compiled = {FOLDER: str(conformance.COMPILED / "mutants")}
    for name, value in {**compiled, **KEEP_ALL}.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]
    suite.laws()


def read(file: Path, wanted: set[str], again: bool) -> dict[str, Result]:
    """The results that a file has of some faults, given and kept by their diffs.

    Args:
      file: It may be missing.
      wanted: The diffs.
      again: Whether only the outcomes `found` and `broken` count.
    """
    return {
        result.diff: result
        for result in (results_in(file) if file.exists() else ())
        if result.diff in wanted and (not again or result.outcome in ("found", "broken"))
    }


def results_in(file: Path) -> list[Result]:
    """The results in a file; of a line that was cut off, nothing."""
    whole = file.read_text("utf-8").rpartition("\n")[0]
    return [Result(**json.loads(line)) for line in whole.splitlines()]


def tried_all(work: Sequence[Work], jobs: int) -> Iterator[Result]:
    """Try the laws on each mutant, several at a time; yields results as they come."""
    with multiprocessing.get_context("fork").Pool(jobs) as pool, Progress() as progress:
        task = progress.add_task("mutants", total=len(work))
        for result in pool.imap_unordered(tried, work):
            progress.console.print(
                f"{result.outcome:9} {result.seconds:6.1f} s  {result.fault[:70]}  {result.law}",
                markup=False,
                highlight=False,
            )
            progress.advance(task)
            yield result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
