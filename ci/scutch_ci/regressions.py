"""The regressions from one night to the next, with the commits that they lie between.

- A *law* regressed if `scutch diff` of both reports lists its must requirement as a regression.
- A *count* regressed when it is worse at all, or is not counted any more, unless
  `ci/accepted.toml` allows it.
- A *time*, or a peak of *memory*, of the reference regressed when it is worse by more than the
  threshold. For a time, the near ends of its two 99 % intervals must differ by as much. The machine
  may be slower on one night than on another. So every change is divided by the night's *pace*: the
  median change of the same figures of plain JAX, Flax and Equinox.
"""

import math
import statistics
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from scutch.report import comparison
from scutch.report.document import load

from benchmarks.drawing import figure_text
from scutch_ci import gate, measurements
from scutch_ci.configurations import Key, gate_name
from scutch_ci.gate import Finding
from scutch_ci.history import History, Night, read_json
from scutch_ci.measurements import Figure, method

THRESHOLD = 1.2
OURS = "'reference"
JITTERING = {"time": ("time",), "memory": ("peakmem", "mem")}
"""The kinds of figures that jitter, and the prefixes of their methods."""

Figures = Mapping[Key, Figure]


@dataclass(frozen=True)
class Regression:
    """Something that is worse than it was.

    Args:
      kind: `law`, `count`, `time` or `memory`.
      where: For a law, implementation and environment; else the environment.
      name: The requirement, or the benchmark with its parameters.
      text: The verdict or figure before and now.
      since: The commit of the earlier night.
      until: The commit of the later night.
    """

    kind: str
    where: str
    name: str
    text: str
    since: str
    until: str

    def __str__(self) -> str:
        """All but the commits, in one line."""
        return f"{self.kind:6} {self.where:20} {self.name}: {self.text}"


def between(history: History, night: Night) -> list[Regression]:
    """All regressions, each since the last night on which the same thing was judged or measured."""
    return [*laws(history, night), *speeds(history, night)]


def laws(history: History, night: Night) -> Iterator[Regression]:
    """The laws that regressed in the conformance reports."""
    for name, path in night.reports.items():
        last = history.before(night, partial(Night.has_counterpart, file=path))
        if last is None:
            continue
        changes = comparison.compare(load(last.reports[name]), load(path))
        for change in changes.failures():
            text = str(change).removeprefix(change.latest.id).strip()
            replay = change.new.replay if change.new else None
            text += f"; {replay}" if replay else ""
            yield Regression("law", name, change.latest.id, text, last.commit, night.commit)


def speeds(history: History, night: Night) -> Iterator[Regression]:
    """The counts, times and peaks of memory that regressed."""
    allowed = gate.accepted()
    for name, path in night.figures.items():
        last = history.before(night, partial(Night.has_counterpart, file=path))
        if last is None:
            continue
        document = read_json(path)
        where = document["result"]["env_name"]
        for kind, one in worse(read_json(last.figures[name]), document):
            if one.figure > allowed.get(one.benchmark, -math.inf):
                yield Regression(kind, where, one.benchmark, one.text, last.commit, night.commit)


def worse(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Finding]]:
    """The figures that are worse in a document than in an earlier one, each with its kind."""
    old = measurements.figures(before)
    new = measurements.figures(now)
    jittering = now["jitters"]
    for one in gate.worse_counts(_counts(old, jittering), _counts(new, jittering)):
        yield "count", one
    for kind, prefixes in JITTERING.items():
        for one in worse_figures(old, new, prefixes):
            yield kind, one


def _counts(figures: Figures, jittering: Collection[str]) -> dict[str, float]:
    """The counts that could be measured, by the gate's names; `jittering` names other `track_*`."""
    return {
        gate_name(key): figure.value
        for key, figure in figures.items()
        if method(key[0]).startswith("track_") and key[0] not in jittering
        if figure.value != math.inf
    }


def worse_figures(old: Figures, new: Figures, prefixes: tuple[str, ...]) -> Iterator[Finding]:
    """The figures of the reference that are worse beyond the threshold, the pace divided out.

    Args:
      old: Of the earlier night.
      new: Of the later night.
      prefixes: Only methods that begin with one of these.

    Yields:
      A finding for each figure that is worse.
    """
    before = _measured(old, prefixes)
    after = _measured(new, prefixes)
    ratios = {key: after[key].value / before[key].value for key in before if key in after}
    others = [ratio for key, ratio in ratios.items() if not _is_ours(key)]
    pace = statistics.median(others) if others else 1.0
    for key, figure in before.items():
        if not _is_ours(key):
            continue
        name, then = gate_name(key), f"{figure_text(figure.value, figure.unit)} before"
        if key not in ratios:
            yield Finding(name, math.inf, f"{then}, and not measured any more")
            continue
        now = after[key]
        ratio = ratios[key] / pace
        nearest = now.low / figure.high / pace  # NaN or below zero without intervals
        if ratio > THRESHOLD and nearest > THRESHOLD:
            text = f"{then}, {figure_text(now.value, now.unit)} now: {ratio:.2f} times"
            yield Finding(name, ratio, f"{text}, beside {pace:.2f} for what is not ours")


def _measured(figures: Figures, prefixes: tuple[str, ...]) -> Figures:
    """The figures above zero that could be measured, of methods with one of these prefixes."""
    return {
        key: figure
        for key, figure in figures.items()
        if method(key[0]).startswith(prefixes) and 0 < figure.value < math.inf
    }


def _is_ours(key: Key) -> bool:
    """Whether a configuration measures the reference."""
    return any(each.startswith(OURS) for each in key[1])
