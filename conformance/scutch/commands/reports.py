"""Commands that show, merge and compare reports, and that write them in other forms.

scutch report one.json other.json --html site
scutch badge one.json -o badge.svg
"""

import argparse
import os
import sys
from collections import Counter
from typing import Final

from scutch import catalogue
from scutch.commands.command import Add, UsageError, put
from scutch.report import badge, comparison, github, junit, sarif
from scutch.report.document import Report, load
from scutch.report.findings import Place
from scutch.report.text import count

_AT: Final = (
    "the file that findings stand at: an adapter, or what names the release that was judged"
)


def add(command: Add) -> None:
    """Add the commands about reports.

    Args:
      command: Adds one; see `command.adder`.
    """
    added = command(
        "report",
        "show reports side by side",
        _report,
        "It shows what was found and exits with 0, whatever that was; `scutch run` is the judge.",
    )
    added.add_argument("reports", metavar="REPORT.json", nargs="+", help="written by the judge")
    added.add_argument("--html", metavar="DIR", help="also write a static site to this folder")

    added = command(
        "merge",
        "make one report of the reports of shards",
        _merge,
        "`scutch run --shard 3/8` writes one of eight. A shard that is missing, that was run twice "
        "or that was cut short is said; then the merged report is not complete, and the exit code "
        "is 2.",
    )
    added.add_argument("reports", metavar="REPORT.json", nargs="+", help="one for each shard")
    added.add_argument(
        "-o", "--output", metavar="WHOLE.json", required=True, help="where the merged one goes"
    )

    added = command(
        "diff",
        "say what changed between two reports, and fail on a regression",
        _diff,
        "A regression is a law that held and does not any more, whatever became of it: failed, "
        "blocked, known, untested, unclaimed or gone; a known failure that now breaks in another "
        "way; or a new report that is not complete.",
    )
    added.add_argument("old", metavar="OLD.json", help="what is vouched for")
    added.add_argument("new", metavar="NEW.json", help="what is to be accepted")
    added.add_argument(
        "--level",
        choices=("must", "should"),
        default="must",
        help="the level whose regressions fail (default: %(default)s)",
    )
    added.add_argument(
        "--allow-known", action="store_true", help="passed to known is not a regression"
    )

    added = command("badge", "draw one report as a small SVG", _badge)
    added.add_argument("report", metavar="REPORT.json", help="written by the judge")
    added.add_argument("-o", "--output", metavar="FILE.svg", help="(default: standard output)")
    added.add_argument(
        "--endpoints",
        metavar="DIR",
        help="also write JSON for shields.io to this folder: scutch.json, and one for each part of "
        "the catalogue, such as bridge.json",
    )

    added = command("sarif", "write what one report found as SARIF 2.1.0", _sarif)
    added.add_argument("report", metavar="REPORT.json", help="written by the judge")
    added.add_argument("--at", metavar="FILE", help=_AT)
    added.add_argument("-o", "--output", metavar="FILE.sarif", help="(default: standard output)")

    added = command(
        "junit",
        "write one report as JUnit XML",
        lambda given: put(junit.text(load(given.report)), given.output, "JUnit file"),
    )
    added.add_argument("report", metavar="REPORT.json", help="written by the judge")
    added.add_argument("-o", "--output", metavar="FILE.xml", help="(default: standard output)")

    added = command(
        "github",
        "say in a job of GitHub Actions what one report found",
        _github,
        "Annotations are printed, and a summary in Markdown is added to $GITHUB_STEP_SUMMARY, or "
        "printed where that is not set.",
    )
    added.add_argument("report", metavar="REPORT.json", help="written by the judge")
    added.add_argument("--at", metavar="FILE", help=_AT)
    added.add_argument(
        "--vouched", metavar="OLD.json", help="the summary also says what changed since this report"
    )


def _report(arguments: argparse.Namespace) -> int:
    from scutch.report import table

    reports = [load(path) for path in arguments.reports]
    table.show(reports)
    if arguments.html:
        from scutch.report import site

        page = site.write(reports, catalogue.load(), arguments.html)
        print(f"\nsite: {page}")
    return 0


def _merge(arguments: argparse.Namespace) -> int:
    from scutch.report import merging
    from scutch.report.document import write
    from scutch.report.matrix import matrix

    if again := [path for path, n in Counter(arguments.reports).items() if n > 1]:
        raise UsageError(f"merge: {again[0]} is named twice; expected one report for each shard")
    whole, problems = merging.merged({path: load(path) for path in arguments.reports})
    write(whole, arguments.output)
    for problem in problems:
        print(f"scutch: {problem}; {arguments.output} is not complete", file=sys.stderr)
    (column,) = matrix([whole]).columns
    print(f"{arguments.output}: {count(len(whole.requirements), 'requirement')}, {column.headline}")
    return 2 if problems else int(bool(column.weighing("error")))


def _diff(arguments: argparse.Namespace) -> int:
    old, new = load(arguments.old), load(arguments.new)
    compared = comparison.compare(old, new, allow_known=arguments.allow_known)
    print(compared.text(arguments.level))
    return int(compared.regressed(arguments.level))


def _badge(arguments: argparse.Namespace) -> int:
    report = load(arguments.report)
    if arguments.endpoints:
        for name, text in badge.endpoints(report).items():
            put(text, f"{arguments.endpoints}/{name}.json", "badge")
    return put(badge.svg(report), arguments.output, "badge")


def _sarif(arguments: argparse.Namespace) -> int:
    report = load(arguments.report)
    return put(sarif.text(report, _place(arguments, report)), arguments.output, "SARIF file")


def _place(arguments: argparse.Namespace, report: Report) -> Place | None:
    """The place that `--at` names."""
    return Place.of(arguments.at, report.implementation.name) if arguments.at else None


def _github(arguments: argparse.Namespace) -> int:
    report = load(arguments.report)
    summary = github.summary(report, load(arguments.vouched) if arguments.vouched else None)
    print(github.annotations(report, _place(arguments, report)), end="")
    if not (path := os.environ.get("GITHUB_STEP_SUMMARY")):
        print(summary, end="")
        return 0
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(summary)
    except OSError as error:
        raise UsageError(f"cannot add the summary to {path}: {error.strerror}") from error
    return 0
