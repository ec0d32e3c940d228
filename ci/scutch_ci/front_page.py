"""The first page of the nightly site, with regressions, verdicts and headline figures.

From it a reader goes to the matrix of verdicts (`conformance/`) and to asv's graphs
(`benchmarks/`). `benchmarks.headlines` chooses single configurations, which stand side by side for
each implementation, and `GROWTH` how the compiled train step grows with the number of chips.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import jinja2
from markupsafe import Markup
from scutch.report import site
from scutch.report.document import load
from scutch.report.matrix import Column, matrix
from scutch.report.text import publish

from benchmarks.drawing import Points, figure_text, line_chart
from benchmarks.headlines import COLUMNS, DISPATCH, ROWS
from scutch_ci import measurements, mutants, regressions
from scutch_ci.checkout import commit_range
from scutch_ci.configurations import Key
from scutch_ci.environments import Environment
from scutch_ci.history import History, Night, read_json
from scutch_ci.measurements import Figure
from scutch_ci.regressions import Regression

TEMPLATES = Path(__file__).parent / "templates"
STYLE = TEMPLATES / "front_page.css"
IMPLEMENTATIONS = ("flax", "jax", "reference")
"""Those that charts draw."""
LABELS = {"jax": "plain JAX"}
GROWTH = {
    "All-reduces in one step": ("track_all_reduces", "collectives"),
    "All-gathers in one step": ("track_all_gathers", "collectives"),
    "Other collectives in one step": ("track_other_collectives", "collectives"),
    "Bytes that collectives leave on each chip": ("track_bytes_moved", "bytes"),
    "Peak memory of each chip": ("track_peak_bytes", "bytes"),
    "Arguments on each chip": ("track_argument_bytes", "bytes"),
}
"""Title, method of `compilation.Scale`, and unit."""

DRAWN = ("track_all_reduces", "track_bytes_moved", "track_peak_bytes")
CHIPS = {16: "tpu v5e 4x4", 64: "tpu v5e 8x8", 256: "tpu v5e 16x16"}
ARRAYS = (4, 32, 256, 2048)
NIGHTS = 20


@dataclass(frozen=True)
class Measured:
    """All figures of one environment.

    Args:
      environment: Its name.
      figures: The figures by benchmark and parameters; text parameters are without quotes. A
        configuration whose measuring failed is left out.
    """

    environment: str
    figures: Mapping[Key, Figure]

    def by_implementation(self, name: str, *parameters: str) -> dict[str, Figure]:
        """A benchmark's figure with these parameters, for each implementation that has one."""
        keys = {each: (name, (each, *parameters)) for each in COLUMNS}
        return {each: self.figures[key] for each, key in keys.items() if key in self.figures}


@dataclass(frozen=True)
class Outcome:
    """The result of a night.

    Args:
      regressions: The laws and figures that are worse than on the last night that has them.
      failed: Names of the tasks that left no file.
      missing: Why asv's graphs need a network; empty where they do not.
    """

    regressions: Sequence[Regression]
    failed: Sequence[str]
    missing: str


@dataclass(frozen=True)
class Growth:
    """How the compiled train step grows with the number of chips, in one environment.

    Args:
      environment: Its name.
      loop: How the layers of the guide's model are repeated: `unrolled` or `scanned`.
      rows: For each measure: its title, the address of its graph, and the texts of the figures, one
        for each of `CHIPS`. Implementations with equal texts share a row, under all their names.
      pictures: Title and chart of the measures that are drawn.
    """

    environment: str
    loop: str
    rows: tuple[tuple[str, str, Mapping[str, tuple[str, ...]]], ...]
    pictures: tuple[tuple[str, Markup], ...]


def write(history: History, night: Night, outcome: Outcome, folder: Path) -> None:
    """Write the page as `index.html`.

    Args:
      history: All nights, the last of which are listed.
      night: The night that the page is about.
      outcome: The result of that night.
      folder: Where the site is made.
    """
    environment, shown = templates(history, night, outcome)
    page = environment.get_template("front_page.html.jinja").render(
        root="", verdicts="conformance/index.html", **shown
    )
    publish(page, folder / "index.html")


def fragment(history: History, night: Night, outcome: Outcome, verdicts: str) -> str:
    """The content of the page with its style, as HTML to put into a page of another site.

    Args:
      history: As in `write`.
      night: As in `write`.
      outcome: As in `write`.
      verdicts: Address of the matrix of verdicts on that site.
    """
    environment, shown = templates(history, night, outcome)
    text = environment.get_template("night.html.jinja").render(verdicts=verdicts, **shown)
    return f"<style>{STYLE.read_text('utf-8')}</style>\n<div class='night'>{text}</div>"


def templates(
    history: History, night: Night, outcome: Outcome
) -> tuple[jinja2.Environment, dict[str, object]]:
    """The templates of the page, and the values of their variables.

    Args:
      history: As in `write`.
      night: As in `write`.
      outcome: As in `write`.
    """
    environment = site.templates(jinja2.FileSystemLoader(TEMPLATES), style=STYLE.read_text("utf-8"))
    environment.filters["figure"] = figure_text
    environment.globals |= {"commit_range": commit_range}
    return environment, {
        "night": night,
        "outcome": outcome,
        "threshold": regressions.THRESHOLD,
        "last": history.before(night, lambda one: not one.is_empty),
        "nights": [(one, scores(one)) for one in reversed(list(history)) if one.verdict][:NIGHTS],
        "columns": matrix([load(path) for path in night.reports.values()]).columns,
        "environments": [Environment(n, "", v) for n, v in night.environments.items()],
        "implementations": IMPLEMENTATIONS,
        "heads": [each.replace("`", "") for each in COLUMNS.values()],
        "labels": LABELS,
        "chips": CHIPS,
        **speed(measured_in(night)),
    }


def speed(measured: Sequence[Measured]) -> dict[str, object]:
    """The headlines, charts and growth of all environments, as variables of the page's template."""
    rows = ((one.environment, headlines(one)) for one in measured)
    charts = ((one.environment, dispatch_chart(one)) for one in measured)
    return {
        "headlines": [(environment, each) for environment, each in rows if each],
        "dispatches": [(environment, chart) for environment, chart in charts if chart],
        "growth": [growth for one in measured for growth in growths(one)],
    }


def measured_in(night: Night) -> list[Measured]:
    """The figures of a night, one object for each environment."""
    found: dict[str, dict[Key, Figure]] = {}
    for document in map(read_json, night.figures.values()):
        figures = found.setdefault(document["result"]["env_name"], {})
        for (name, parameters), figure in measurements.figures(document).items():
            if not math.isinf(figure.value):
                figures[name, tuple(each.strip("'") for each in parameters)] = figure
    return [Measured(name, figures) for name, figures in found.items()]


def scores(night: Night) -> list[str]:
    """The scores of a night, one text for each report and for each file of planted faults.

    The text of a report says how many of the must requirements that the implementation claims hold.
    The text of a file of planted faults says how many of them the laws found.
    """
    columns = (Column(name, load(path)) for name, path in night.reports.items())
    held = [f"{one.label}: {one.passed('must')} of {one.claimed('must')}" for one in columns]
    planted = {name: mutants.results_in(path) for name, path in night.mutants.items()}
    return held + [f"faults in {n}: {mutants.score(found)}" for n, found in planted.items()]


def graph_address(name: str, parameters: Mapping[str, object], axis: str = "commit") -> str:
    """The address of a graph on asv's site.

    Args:
      name: The benchmark.
      parameters: Values for some of the benchmark's parameters.
      axis: The quantity on the x axis: `commit`, or the name of a parameter.

    Returns:
      The address, relative to the front page.
    """
    parts = [f"x-axis={quote(axis)}"]
    parts += [f"p-{quote(key)}={quote(repr(value))}" for key, value in parameters.items()]
    return f"benchmarks/index.html#{name}?{'&'.join(parts)}"


def headlines(measured: Measured) -> list[tuple[str, str, list[Figure | None]]]:
    """The headlines that have a figure, each as title, address of the graph, and figures."""
    rows = []
    for title, (name, parameters) in ROWS.items():
        figures = measured.by_implementation(name, *map(str, parameters.values()))
        if figures:
            address = graph_address(name, parameters)
            row = [figures.get(each) for each in COLUMNS]
            rows.append((title.replace("`", ""), address, row))
    return rows


def dispatch_chart(measured: Measured) -> Markup | None:
    """How the time of a lifted call grows with the number of arrays, if it was measured."""
    parameters = {float(arrays): ("forward", str(arrays)) for arrays in ARRAYS}
    times = series(measured, DISPATCH, parameters)
    return chart(times, "seconds", "arrays in the model", logarithmic=True)


def series(
    measured: Measured, name: str, parameters: Mapping[float, tuple[str, ...]]
) -> dict[str, list[tuple[float, float]]]:
    """The figures of a benchmark as a function of a number, such as the number of chips.

    Args:
      measured: The figures of one environment.
      name: The benchmark.
      parameters: For each number, the benchmark's parameters without the implementation.

    Returns:
      For each implementation, the pairs of number and figure, where there is a figure.
    """
    found: dict[str, list[tuple[float, float]]] = {each: [] for each in IMPLEMENTATIONS}
    for x, rest in parameters.items():
        for implementation, figure in measured.by_implementation(name, *rest).items():
            if implementation in found:
                found[implementation].append((x, figure.value))
    return found


def chart(
    points: Mapping[str, Points], unit: str, x_label: str, *, logarithmic: bool = False
) -> Markup | None:
    """A chart of the series that have two points or more; None where there are none."""
    lines = {name: each for name, each in points.items() if len(each) > 1}
    if not lines:
        return None
    return Markup(line_chart(lines, unit, x_label, logarithmic=logarithmic))  # escapes its texts


def growths(measured: Measured) -> Iterator[Growth]:
    """How the compiled train step grows from 16 to 256 TPU v5e chips, for each loop."""
    for loop in ("unrolled", "scanned"):
        rows = []
        pictures = []
        for title, (method, unit) in GROWTH.items():
            name = f"compilation.Scale.{method}"
            points = series(measured, name, {n: ("train", loop, on) for n, on in CHIPS.items()})
            if not any(points.values()):
                continue
            address = graph_address(name, {"program": "train", "loop": loop}, "mesh")
            rows.append((title, address, shared_texts(points, unit)))
            if method in DRAWN and (picture := chart(points, unit, "chips")):
                pictures.append((title, picture))
        if rows:
            yield Growth(measured.environment, loop, tuple(rows), tuple(pictures))


def shared_texts(points: Mapping[str, Points], unit: str) -> dict[str, tuple[str, ...]]:
    """The rows of a table, in which implementations with equal figures share one row.

    Args:
      points: For each implementation, the pairs of number of chips and figure.
      unit: asv's name of the unit, such as `bytes`.

    Returns:
      For the names of the implementations that share a row, a text for each number of chips.
    """
    sharing: dict[tuple[str, ...], list[str]] = {}
    for implementation in reversed(IMPLEMENTATIONS):
        texts = {chips: figure_text(value, unit) for chips, value in points[implementation]}
        row = tuple(texts.get(chips, "") for chips in CHIPS)
        sharing.setdefault(row, []).append(LABELS.get(implementation, implementation))
    return {", ".join(names): row for row, names in sharing.items() if any(row)}
