"""The output of a run, on the screen and as the document that reports are made from.

`header` and `headline` are its first and last lines; `document` is the `Report` of the same facts.
"""

import os
import platform
import shlex
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import jax
import pytest

import scutch
from scutch import catalogue, releases
from scutch.judging import compiled
from scutch.judging.causes import counted
from scutch.judging.profiles import PROFILES, asked_platform
from scutch.judging.readable import quoted, shortened
from scutch.judging.run import Run
from scutch.judging.scripts import script_of
from scutch.judging.shards import Shard
from scutch.judging.trials import NO_COST, Counterexample
from scutch.judging.verdicts import FIXED_UPSTREAM, Ruling, summarize
from scutch.releases import Finding, summary
from scutch.releases import changes as upgrades
from scutch.report import Environment, Outcome, Part, Product, Report, suite
from scutch.report.text import count

COMMAND = "SCUTCH_COMMAND"
"""Environment variable: how this run was started, for replay commands."""

_COLOURS = {"passed": "green", "known": "yellow", "unclaimed": "light", "blocked": "light"}
_INDENT = " " * 10
_FEW = 5
"""Root causes that are shown with input, error and replay."""

_LONGEST = 1_000
"""Characters of an error or a reason that are printed; the report has more."""

_WAYS = 3
"""Further ways in which one requirement was broken that are shown; the report has all."""


def header(run: Run) -> str:
    """One line with the implementation, the platform and the settings of a run."""
    known = count(len(run.known), "known failure")
    inputs = f"{count(run.examples, 'input')} for each law"
    if run.is_short and run.chosen:
        fewest, most = min(run.chosen.values()), max(run.chosen.values())
        numbers = count(most, "input") if fewest == most else f"{fewest} to {most} inputs"
        inputs = f"{count(len(run.chosen), 'requirement')}, {numbers} for each law"
    if run.replay:
        inputs = "one input"
    return (
        f"scutch {scutch.__version__}: judging {run.name} {run.version} on jax "
        f"{jax.__version__}, {run.devices} {run.platform} devices; profile {run.profile} "
        f"({inputs}), seed {run.seed}, {known}"
    )


def command(config: pytest.Config) -> str:
    """How this run was started, without options: the beginning of its replay commands."""
    if told := os.environ.get(COMMAND):
        return told
    program = Path(sys.argv[0]).name
    start = "python -m pytest" if program == "__main__.py" else program
    paths = config.args if config.args_source == config.ArgsSource.ARGS else []
    pyargs = ["-p", "scutch.plugin", "--pyargs"] if config.option.pyargs else []
    return shlex.join([*start.split(), *pyargs, *(_relative(p) for p in paths)])


def _relative(path: str) -> str:
    return os.path.relpath(path) if os.path.isabs(path) else path


def replay(run: Run, ruling: Ruling, prefix: str) -> str | None:
    """A command that tries a broken law again on its counterexample.

    Args:
      run: The run, with its settings.
      ruling: On the requirement.
      prefix: How this run was started, as `command` has it.

    Returns:
      A line for a shell; `None` if the law holds, or has no counterexample.
    """
    found = ruling.counterexample
    if found is None or ruling.verdict in ("passed", "unclaimed"):
        return None
    chosen = [prefix, "--implementation", shlex.quote(run.where)]
    if ruling.requirement.level == "should":
        chosen += ["--level", "should"]
    if run.platform != "cpu":
        chosen += ["--platform", asked_platform()]
    if run.processes != 2 and ruling.requirement.part == "processes":
        chosen += ["--processes", str(run.processes)]
    if found.input:
        return " ".join([*chosen, "--replay", quoted(found.input)])
    search = ["--requirement", ruling.requirement.id, "--profile", run.profile]
    if run.examples != PROFILES[run.profile].examples:
        search += ["--examples", str(run.examples)]
    return " ".join([*chosen, *search, "--seed", str(run.seed), "--known", "none"])


def document(run: Run, rulings: Sequence[Ruling], prefix: str, *, complete: bool) -> Report:
    """The run as a report.

    Args:
      run: The run, with its settings.
      rulings: On the requirements.
      prefix: How this run was started, as `command` has it.
      complete: Whether every law was tried.

    Returns:
      The report that `report.write` writes.
    """
    return Report(
        suite=suite(),
        implementation=Product(run.name, run.version),
        environment=Environment(
            jax.__version__, platform.python_version(), run.platform, run.devices
        ),
        profile=run.profile,
        seed=run.seed,
        level=run.level,
        requirements=tuple(_outcome(run, ruling, prefix) for ruling in rulings),
        complete=complete,
        shard=_part(run),
    )


def _part(run: Run) -> Part | None:
    if not run.shard:
        return None
    shard = Shard.parse(run.shard)
    return Part(shard.number, shard.of, len(run.asked))


def _outcome(run: Run, ruling: Ruling, prefix: str) -> Outcome:
    row, trials = ruling.requirement, ruling.trials
    return Outcome(
        id=row.id,
        level=row.level,
        title=row.title,
        verdict=ruling.verdict,
        needs=row.needs,
        blocked_by=ruling.blocked_by,
        tests=tuple(sorted(trial.test for trial in trials)),  # in whatever order they were tried
        examples=sum(trial.examples for trial in trials),
        seconds=round(sum(trial.seconds for trial in trials), 3),
        reason=ruling.reason,
        upstream=ruling.upstream,
        counterexample=ruling.counterexample,
        also=() if ruling.counterexample is None else ruling.also,
        replay=replay(run, ruling, prefix),
        script=script_of(run.name, row.id, ruling.counterexample.input)
        if ruling.counterexample
        else None,
        cost=sum((trial.cost for trial in trials), NO_COST),
    )


def show(
    terminal: pytest.TerminalReporter,
    run: Run,
    rulings: Sequence[Ruling],
    prefix: str,
    *,
    complete: bool,
    compiled_in: str,
) -> None:
    """Print the requirements that neither passed nor are unclaimed, the counts and the headline.

    Args:
      terminal: pytest's.
      run: The run, with its settings.
      rulings: On the requirements.
      prefix: How this run was started, as `command` has it.
      complete: Whether every law was tried.
      compiled_in: The folder in which compiled programs are kept; empty where none are.
    """
    brief = is_brief(terminal, rulings)
    terminal.ensure_newline()  # `section` leaves the line of dots open
    terminal.section(f"conformance of {run.name} {run.version}")
    verbose = terminal.config.get_verbosity() > 0
    total = summarize(rulings)
    for ruling in (*total.roots, *total.untested) if brief else rulings:
        if verbose or ruling.verdict not in ("passed", "unclaimed"):
            _show_one(terminal, run, ruling, prefix, brief=brief)
    if brief:
        terminal.write_line(
            f"inputs, errors and replays: in the report (--report NAME.json, and `scutch report "
            f"NAME.json`), or with --requirement {total.roots[0].requirement.id}, or with -v"
        )
    for level, counts in total.counts.items():
        listed = ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items()))
        terminal.write_line(f"{level}: {listed}")
    if inherited := {entry.implementation for entry in run.known} - {run.name}:
        new = [r.requirement.id for r in total.roots]
        fixed = [r.requirement.id for r in rulings if r.reason == FIXED_UPSTREAM]
        counted = f"{_counted(new, 'new')}, {_counted(fixed, 'fixed')}"
        terminal.write_line(f"against {', '.join(sorted(inherited))}: {counted}")
    cost = sum((trial.cost for ruling in rulings for trial in ruling.trials), NO_COST)
    kept = "not kept for the next run"
    if compiled_in:
        megabytes = compiled.size(Path(compiled_in)) / 1e6
        kept = f"kept for the next run in {compiled_in} ({megabytes:.0f} MB)"
    terminal.write_line(f"took {cost}, {kept}")
    for reason in dict.fromkeys(run.skipped.values()):
        if rows := [row.id for row in run.asked if run.skipped.get(row.id) == reason]:
            terminal.write_line(f"skipped: {', '.join(rows)}: {reason}")
    if run.chosen is not None:
        terminal.write_line(left_out(run, {ruling.id for ruling in rulings}))
    if path := terminal.config.option.scutch_report:
        terminal.write_line(f"report: {path}")
    if not complete:
        terminal.write_line("the run was cut short: what follows is about the laws that ran")
    text, colour = headline(run, rulings)
    if not complete:
        text = f"so far, {text}" if total.tested else f"{run.name} {run.version}: no verdict"
    terminal.write_line(text, bold=True, **{colour: True})


def left_out(run: Run, judged: Collection[str]) -> str:
    """The number of requirements in each part that a short run leaves out, and a run for all.

    Args:
      run: The run, with its settings.
      judged: The requirements that it has judged.
    """
    claims = set(run.claims)
    left = Counter(
        row.part
        for row in run.named
        if row.id not in judged and claims.issuperset(row.capabilities)
    )
    if not left:
        return "left out: no requirement"
    parts = ", ".join(f"{number} of {part}" for part, number in left.items())
    whole = "a run without --changed" if run.since else "--profile ci"
    return f"left out: {count(left.total(), 'requirement')} ({parts}); {whole} judges all"


def changes(run: Run, rulings: Sequence[Ruling], old: releases.Record) -> str:
    """The differences from a recorded release, for the requirements that this run judged.

    Args:
      run: The run, with its settings.
      rulings: On the requirements.
      old: The record of the release.

    Returns:
      Lines for people.
    """
    found = {r.requirement.id: Finding.of(r.verdict, r.trials, r.reason) for r in rulings}
    asked = {name: each for name, each in old.requirements.items() if name in found}
    new = releases.Record(
        run.name,
        run.version,
        jax.__version__,
        platform.python_version(),
        scutch.__version__,
        run.profile,
        run.examples,
        run.seed,
        "",
        0,
        found,
    )
    upgrade = upgrades.compare(replace(old, requirements=asked), new)
    return summary.text(summary.Summary(upgrade, (), (), has_interface=True))


def _counted(identifiers: Sequence[str], what: str) -> str:
    return f"{len(identifiers)} {what}" + (f" ({', '.join(identifiers)})" if identifiers else "")


def headline(run: Run, rulings: Sequence[Ruling]) -> tuple[str, str]:
    """The verdict on the whole, and its colour.

    Args:
      run: The run, with its settings.
      rulings: On the requirements.
    """
    total = summarize(rulings)
    name = f"{run.name} {run.version}"
    if not total.tested:
        return (
            f"nothing was tested: {name} claims {', '.join(run.claims)}, and no law for what was "
            "asked; choose other requirements, or claim the capability",
            "red",
        )
    levels = ("must", "should") if run.level == "should" else ("must",)
    fatal, untested = (
        [r for r in each if r.requirement.level in levels] for each in (total.roots, total.untested)
    )
    departs = len(total.roots) - len(fatal)
    aside = f"; it departs from {departs} should" if departs else ""
    if run.shard:
        aside += f"; this is {_part(run)}"
    elif run.chosen is not None:
        those = "that see what has changed" if run.since else "that find most for their time"
        aside += (
            f"; {len(rulings)} of {count(len(run.named), 'requirement')} were judged, those {those}"
        )
    elif run.patterns:
        aside += f"; {len(run.requirements)} of {len(catalogue.load())} requirements were asked for"
    ids = ", ".join(r.requirement.id for r in fatal or untested)
    if fatal:
        aside = f"; {len(untested)} untested{aside}" if untested else aside
        return f"{name} does not conform: {count(len(fatal), 'root cause')}: {ids}{aside}", "red"
    if untested:
        failed = "the judge could not try" if all(r.untried for r in untested) else "untested:"
        return f"no verdict on {name}: {failed} {ids}{aside}", "red"
    known = [ruling.requirement.id for ruling in rulings if ruling.verdict == "known"]
    besides = f", but for {_of_known(run, known)}" if known else ""
    return f"{name} conforms in all that it claims{besides}{aside}", "green"


def _of_known(run: Run, broken: Sequence[str]) -> str:
    """The number of causes of the known failures; of the failures, if none names a cause."""
    found = {entry.cause for entry in run.known if entry.requirement in broken}
    named = {each for each in found if each is not None}
    return counted(named) if named else count(len(broken), "known failure")


def is_brief(terminal: pytest.TerminalReporter, rulings: Sequence[Ruling]) -> bool:
    """Whether each root cause gets one line, because all details would not fit on a screen.

    Args:
      terminal: pytest's.
      rulings: On the requirements.
    """
    return terminal.config.get_verbosity() <= 0 and len(summarize(rulings).roots) > _FEW


def _show_one(
    terminal: pytest.TerminalReporter, run: Run, ruling: Ruling, prefix: str, *, brief: bool
) -> None:
    row = ruling.requirement
    level = "" if row.level == "must" else " (should)"
    colour = _COLOURS.get(ruling.verdict, "red")
    terminal.write(f"{ruling.verdict:9} ", **{colour: True})
    terminal.write_line(f"{row.id}  {row.title}{level}")
    if brief or ruling.verdict in ("passed", "unclaimed"):
        return
    found = ruling.counterexample
    if ruling.verdict in ("known", "fixed", "blocked", "untested", "crashed", "timeout"):
        terminal.write_line(f"{_INDENT}{shortened(ruling.reason or '', _LONGEST)}")
    if found is not None and ruling.verdict != "known":
        _show_found(terminal, found)
        terminal.write_line(f"{_INDENT}replay: {replay(run, ruling, prefix)}")
        for other in ruling.also[:_WAYS]:
            terminal.write_line(f"{_INDENT}and in another way:")
            _show_found(terminal, other)


def _show_found(terminal: pytest.TerminalReporter, found: Counterexample) -> None:
    if found.input:
        terminal.write_line(f"{_INDENT}input:  {found.input}")
    first = found.error.splitlines()[0] if found.error else ""
    terminal.write_line(f"{_INDENT}error:  {shortened(first, _LONGEST)}")
