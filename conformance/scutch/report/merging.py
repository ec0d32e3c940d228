"""One report of the reports of shards: `scutch run --shard 3/8`, then `scutch merge`.

Shards judge different requirements with the same settings. So the merged report holds the outcomes
of all shards, and equals the report of one run of all requirements if every shard is given once.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from scutch import catalogue
from scutch.judging.faults import of_one_fault
from scutch.report.document import Outcome, Report, ReportError

_EQUAL = ("suite", "implementation", "environment", "profile", "seed", "level")


def merged(reports: Mapping[str, Report]) -> tuple[Report, tuple[str, ...]]:
    """The report of all shards together, and the reasons why it is not complete.

    Args:
      reports: At least one, by its path.

    Returns:
      The report, which is complete if every shard is given once and was not cut short; and a
      sentence for each reason why it is not complete.

    Raises:
      ReportError: One is no report of a shard, or its suite, implementation, environment, profile,
        seed, level or number of shards or requirements differs from the first one's.
    """
    first_path, first = next(iter(reports.items()))
    for path, report in reports.items():
        if report.shard is None:
            raise ReportError(path, "it is no report of a shard; expected one of `--shard`")
        for name in _EQUAL:
            here, there = getattr(report, name), getattr(first, name)
            if here != there:
                raise ReportError(path, f"{name} is {here}, but {there} in {first_path}")
        if first.shard and (report.shard.of, report.shard.requirements) != (
            first.shard.of,
            first.shard.requirements,
        ):
            raise ReportError(path, f"it is {report.shard}, but {first_path} is {first.shard}")
    shards = [(report.shard, report) for report in reports.values() if report.shard is not None]
    problems: list[str] = []
    outcomes: dict[str, Outcome] = {}
    numbers = Counter(shard.number for shard, _ in shards)
    of, total = shards[0][0].of, shards[0][0].requirements
    problems += [f"shard {n}/{of} is missing" for n in range(1, of + 1) if n not in numbers]
    problems += [f"shard {n}/{of} was run {k} times" for n, k in numbers.items() if k > 1]
    for shard, report in shards:
        if not report.complete:
            problems.append(f"shard {shard.number}/{of} was cut short")
        for one in report.requirements:
            outcomes.setdefault(one.id, one)
    if not problems and len(outcomes) != total:
        problems.append(f"{len(outcomes)} of {total} requirements are in the shards")
    found = [outcomes[name] for name in catalogue.in_order(outcomes)]
    whole = replace(first, requirements=of_one_fault(found), complete=not problems, shard=None)
    return whole, tuple(problems)
