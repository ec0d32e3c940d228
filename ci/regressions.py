"""What regressed from one night to the next, and between which commits.

- **Laws**, as `scutch diff` has it.
- **Counts** do not jitter: any that is worse, or is not counted any more, unless
  `ci/accepted.toml` allows it.
- **Times** and memory of the reference that are worse by more than the threshold, times also
  between the near ends of their 99 % intervals. One night may find the machine slower than another
  did: by how much is the median over what is not ours, plain JAX, Flax and Equinox, and is divided
  out.
"""

import json
import math
import statistics
import subprocess
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import gatekeeper
import judgment
import measurements
from drawing import pretty
from measurements import Figure
from nights import History, Night
from scutch.report import comparison
from scutch.report.document import load

THRESHOLD = 1.2
OURS = "'reference"
JITTERING = {"time": ("time",), "memory": ("peakmem", "mem")}
Figures = Mapping[tuple[str, tuple[str, ...]], Figure]


@dataclass(frozen=True)
class Regression:
    """Something that is worse than it was.

    Args:
      kind: `law`, `count`, `time` or `memory`.
      where: What was judged or measured, and in which environment.
      name: The requirement, or the benchmark.
      text: What it was and is.
      since, until: The commits of both nights.
    """

    kind: str
    where: str
    name: str
    text: str
    since: str
    until: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.kind:6} {self.where:20} {self.name}: {self.text}"

    def to_data(self) -> dict[str, str]:
        """As JSON has it."""
        return asdict(self)


def between(history: History, night: Night) -> list[Regression]:
    """All since the last night that each thing was judged or measured."""
    return [*laws(history, night), *speeds(history, night)]


def laws(history: History, night: Night) -> Iterator[Regression]:
    """What the reports of the two nights say."""
    for name, path in night.reports.items():
        last = history.before(night, lambda one, name=name: name in one.reports)
        if last is None:
            continue
        compared = comparison.compare(load(last.reports[name]), load(path))
        for change in compared.failures():
            text = str(change).removeprefix(change.latest.id).strip()
            replay = change.new.replay if change.new else None
            text += f"; {replay}" if replay else ""
            yield Regression("law", name, change.latest.id, text, last.commit, night.commit)


def speeds(history: History, night: Night) -> Iterator[Regression]:
    """What the figures of the two nights say."""
    allowed = gatekeeper.accepted()
    for name, path in night.figures.items():
        last = history.before(night, lambda one, name=name: name in one.figures)
        if last is None:
            continue
        before, now = (json.loads(p.read_text("utf-8")) for p in (last.figures[name], path))
        old, new = measurements.figures(before), measurements.figures(now)
        where = now["result"]["env_name"]
        worse = [("count", one) for one in worse_counts(old, new, now["jitters"])]
        for kind, prefixes in JITTERING.items():
            worse += [(kind, one) for one in worse_figures(old, new, prefixes)]
        for kind, one in worse:
            if one.figure > allowed.get(one.benchmark, -math.inf):
                yield Regression(kind, where, one.benchmark, one.text, last.commit, night.commit)


def _method(name: str) -> str:
    return name.rpartition(".")[2]


def worse_counts(
    old: Figures, new: Figures, jittering: Collection[str]
) -> Iterator[gatekeeper.Finding]:
    """By the rule of the gate."""

    def counts(figures: Figures) -> dict[str, float]:
        return {
            measurements.short(name, choice): figure.value
            for (name, choice), figure in figures.items()
            if _method(name).startswith("track_") and name not in jittering
            if figure.value != math.inf  # it failed
        }

    return gatekeeper.worse_counts(counts(old), counts(new))


def worse_figures(
    old: Figures, new: Figures, prefixes: tuple[str, ...]
) -> Iterator[gatekeeper.Finding]:
    """Of the reference, measured against all else; of methods that begin with one of these."""
    before, after = _chosen(old, prefixes), _chosen(new, prefixes)
    ratios = {key: after[key].value / before[key].value for key in before if key in after}
    others = [ratio for key, ratio in ratios.items() if not _is_ours(key)]
    pace = statistics.median(others) if others else 1.0
    for key, figure in before.items():
        if not _is_ours(key):
            continue
        name, then = measurements.short(*key), f"{pretty(figure.value, figure.unit)} before"
        if key not in ratios:
            yield gatekeeper.Finding(name, math.inf, f"{then}, and not measured any more")
            continue
        ratio, near = ratios[key] / pace, after[key].low / figure.high / pace
        if ratio > THRESHOLD and near > THRESHOLD:  # without intervals, the second is no number
            text = f"{then}, {pretty(after[key].value, figure.unit)} now: {ratio:.2f} times"
            yield gatekeeper.Finding(name, ratio, f"{text}, beside {pace:.2f} for what is not ours")


def _chosen(figures: Figures, prefixes: tuple[str, ...]) -> Figures:
    return {
        (name, choice): figure
        for (name, choice), figure in figures.items()
        if _method(name).startswith(prefixes) and 0 < figure.value < math.inf
    }


def _is_ours(key: tuple[str, tuple[str, ...]]) -> bool:
    return any(each.startswith(OURS) for each in key[1])


def commits(since: str, until: str) -> str:
    """The range of commits, and how many they are where git still knows."""
    if since == until:
        return f"{until[:12]}, the same commit"
    done = subprocess.run(
        ["git", "-C", str(judgment.ROOT), "rev-list", "--count", f"{since}..{until}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    number = done.stdout.strip()
    known = f" ({number} commit{'' if number == '1' else 's'})" if done.returncode == 0 else ""
    return f"{since[:12]}..{until[:12]}{known}"


def verdict(regressions: list[Regression], failed: list[str]) -> dict[str, Any]:
    """What is kept of a night that came to its end."""
    return {"regressions": [one.to_data() for one in regressions], "failed": failed}
