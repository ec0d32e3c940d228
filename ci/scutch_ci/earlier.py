"""Counts of earlier commits, so that asv's graphs have lines from the first night on.

`ci/nightly --backfill N` measures the last N commits that changed the reference and that no night
has measured. Only counts are taken, which do not jitter, in the first environment, and only those
of the reference: the other implementations are the same at every commit.
"""

import re
from pathlib import Path

from scutch_ci import measurements, tasks
from scutch_ci.checkout import environment_of, git
from scutch_ci.configurations import configurations
from scutch_ci.environments import Environment
from scutch_ci.gate import check_out
from scutch_ci.history import History, write_json
from scutch_ci.tasks import Task

OWN = "'reference'"


def backfilling(
    history: History, environment: Environment, number: int, *, machine: str, select: str
) -> list[Task]:
    """The tasks that measure earlier commits, the last commit first.

    Args:
      history: All nights; the files of the tasks are kept beside them.
      environment: Where to measure.
      number: How many commits.
      machine: The name that the figures are filed under.
      select: A regular expression for configurations.

    Returns:
      A task for each commit and group of benchmarks; none where `number` is 0.
    """
    if not number:
        return []
    measured = {night.commit for night in history if night.figures}
    commits = git("rev-list", "--first-parent", "HEAD", "--", "reference").splitlines()
    counts = [
        one
        for one in configurations(environment.python, "track_")
        if OWN in one.parameters and not one.jitters and re.search(select, one.asv_name)
    ]
    return [
        _measuring(history, environment, commit, group, machine, select)
        for commit in [each for each in commits if each not in measured][:number]
        for group in dict.fromkeys(one.group for one in counts)
    ]


def _measuring(
    history: History, environment: Environment, commit: str, group: str, machine: str, select: str
) -> Task:
    result = history.folder / "earlier" / f"{commit[:12]}-{environment.name}-{group}.json"

    def make(scratch: Path, log: Path) -> None:
        tree = scratch / "tree"
        tree.mkdir()
        check_out(commit, tree)
        commands = measurements.asv_commands(
            environment,
            commit,
            group,
            scratch,
            machine=machine,
            quick=False,
            select=rf"(?=.*(?:{select}))[\w.]+\.track_\w+\({OWN}",
        )
        for command in commands:
            tasks.run(command, log, scratch, environment_of(tree) | {"HOME": str(scratch)})
        write_json(measurements.collected(environment, scratch, machine), result)

    return Task(f"measure {group} at {commit[:12]}", result, make, measurements.summary)
