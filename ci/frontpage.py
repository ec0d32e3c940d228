"""The first page of the site: the night at a glance, and the way to the matrix and the graphs."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import drawing
import jinja2
import judgment
import measurements
import regressions
from environments import Environment
from markupsafe import Markup
from measurements import Figure
from nights import History, Night
from regressions import Regression
from scutch.report import site
from scutch.report.document import load
from scutch.report.matrix import Column, matrix
from scutch.report.text import publish

TEMPLATES = judgment.ROOT / "ci" / "templates"
IMPLEMENTATIONS = ("flax", "jax", "reference")
STEP = {"program": "train", "layout": "unrolled", "mesh": "2x4"}
CALL = {"kind": "forward", "arrays": 256}
HEADLINES = (
    ("One call of a lifted jit, 256 arrays", "dispatch.Dispatch.time_call", CALL),
    ("Python calls in it", "dispatch.Dispatch.track_python_calls", CALL),
    ("An update of 256 arrays", "dispatch.Dispatch.time_call", CALL | {"kind": "update"}),
    ("A train step of the guide, 2x4 devices", "guide.Guide.time_step", STEP),
    ("Tracing and compiling it", "guide.Guide.time_compile", STEP),
    ("All-reduces in it", "compilation.Compilation.track_all_reduces", STEP),
    ("Peak memory of it, each device", "compilation.Compilation.track_peak_bytes", STEP),
)
GROWTH = {
    "All-reduces in one step": ("track_all_reduces", "collectives"),
    "All-gathers in one step": ("track_all_gathers", "collectives"),
    "Other collectives in one step": ("track_other_collectives", "collectives"),
    "Bytes that collectives leave on each chip": ("track_bytes_moved", "bytes"),
    "Peak memory of each chip": ("track_peak_bytes", "bytes"),
    "Arguments on each chip": ("track_argument_bytes", "bytes"),
}
PICTURED = ("track_all_reduces", "track_bytes_moved", "track_peak_bytes")
NIGHTS = 20
LABELS = {"jax": "plain JAX"}


@dataclass(frozen=True)
class Measured:
    """All figures of one environment, by benchmark and parameters as people write them."""

    environment: str
    figures: Mapping[tuple[str, tuple[str, ...]], Figure]

    def find(self, name: str, *choice: str) -> Figure | None:
        """The figure, where there is one."""
        found = self.figures.get((name, choice))
        return None if found is None or math.isinf(found.value) else found


@dataclass(frozen=True)
class Grown:
    """How the compiled step grows with the number of chips, in one environment.

    Args:
      layout: Of the guide's model.
      chips: How many.
      rows: For each measure: its name, its graph, and for each implementation the figures.
    """

    environment: str
    layout: str
    chips: tuple[int, ...]
    rows: tuple[tuple[str, str, Mapping[str, tuple[str, ...]]], ...]
    pictures: tuple[tuple[str, Markup], ...]


def write(
    history: History,
    night: Night,
    found: Sequence[Regression],
    failed: Sequence[str],
    missing: str,
    folder: Path,
) -> None:
    """Write the page.

    Args:
      found: What regressed.
      failed: Steps that left nothing behind.
      missing: Why the graphs need a network; empty where they do not.
    """
    style = (TEMPLATES / "frontpage.css").read_text("utf-8")
    environment = site.templates(jinja2.FileSystemLoader(TEMPLATES), style=style)
    environment.filters["pretty"] = drawing.pretty
    environment.globals |= {"commits": regressions.commits}
    measured = list(everything(night))
    page = environment.get_template("frontpage.html.jinja").render(
        root="",
        night=night,
        columns=matrix([load(path) for path in night.reports.values()]).columns,
        environments=[Environment(n, "", v) for n, v in night.environments.items()],
        found=found,
        failed=failed,
        missing=missing,
        threshold=regressions.THRESHOLD,
        last=history.before(night, lambda one: bool(one.reports or one.figures)),
        headlines=[(one.environment, rows) for one in measured if (rows := headlines(one))],
        dispatches=[(one.environment, drawn) for one in measured if (drawn := dispatches(one))],
        growth=[grown for one in measured for grown in growth(one)],
        implementations=IMPLEMENTATIONS,
        labels=LABELS,
        nights=[(one, scores(one)) for one in reversed(list(history)) if one.verdict][:NIGHTS],
    )
    publish(page, folder / "index.html")


def everything(night: Night) -> Iterator[Measured]:
    """What was measured, environment by environment."""
    found: dict[str, dict[tuple[str, tuple[str, ...]], Figure]] = {}
    for path in night.figures.values():
        document = json.loads(path.read_text("utf-8"))
        figures = found.setdefault(document["result"]["env_name"], {})
        for (name, choice), figure in measurements.figures(document).items():
            figures[name, tuple(each.strip("'") for each in choice)] = figure
    return (Measured(name, figures) for name, figures in found.items())


def scores(night: Night) -> list[str]:
    """What each implementation came to, in one line."""
    return [f"{name}: {score(Column(name, load(path)))}" for name, path in night.reports.items()]


def score(column: Column) -> str:
    """How many requirements hold."""
    return f"{column.passed('must')} of {column.claimed('must')}"


def graph(name: str, axis: str = "commit", **chosen: object) -> str:
    """The address of a graph on asv's page, over commits or a parameter, for some of the rest."""
    parts = [f"x-axis={quote(axis)}"]
    parts += [f"p-{quote(key)}={quote(repr(value))}" for key, value in chosen.items()]
    return f"benchmarks/index.html#{name}?{'&'.join(parts)}"


def headlines(measured: Measured) -> list[tuple[str, str, list[Figure | None]]]:
    """Title, graph and the figure of each implementation, where there are any."""
    rows = []
    for title, name, chosen in HEADLINES:
        values = [str(value) for value in chosen.values()]
        figures = [measured.find(name, each, *values) for each in IMPLEMENTATIONS]
        if any(figures):
            rows.append((title, graph(name, **chosen), figures))
    return rows


def dispatches(measured: Measured) -> Markup | None:
    """How the time of a call grows with the number of arrays."""
    name = "dispatch.Dispatch.time_call"
    return _drawn(
        {
            implementation: [
                (float(arrays), figure.value)
                for arrays in (4, 32, 256, 2048)
                if (figure := measured.find(name, implementation, "forward", str(arrays)))
            ]
            for implementation in IMPLEMENTATIONS
        },
        "seconds", "arrays in the model", growing=True,
    )  # fmt: skip


def _drawn(
    series: Mapping[str, drawing.Points], unit: str, across: str, *, growing: bool = False
) -> Markup | None:
    there = {name: points for name, points in series.items() if len(points) > 1}
    return drawing.lines(there, unit, across, growing=growing) if there else None


def growth(measured: Measured) -> Iterator[Grown]:
    """The compiled train step on 16, 64 and 256 TPU v5e chips, for each layout."""
    meshes = {16: "tpu v5e 4x4", 64: "tpu v5e 8x8", 256: "tpu v5e 16x16"}
    for layout in ("unrolled", "scanned"):
        rows, drawn = [], []
        for title, (method, unit) in GROWTH.items():
            name = f"compilation.Scale.{method}"
            found = {
                each: {
                    chips: figure.value
                    for chips, mesh in meshes.items()
                    if (figure := measured.find(name, each, "train", layout, mesh))
                }
                for each in IMPLEMENTATIONS
            }
            if not any(found.values()):
                continue
            alike: dict[tuple[str, ...], list[str]] = {}
            for each, values in reversed(found.items()):
                row = [drawing.pretty(values[c], unit) if c in values else "" for c in meshes]
                alike.setdefault(tuple(row), []).append(LABELS.get(each, each))
            texts = {", ".join(names): row for row, names in alike.items() if any(row)}
            rows.append((title, graph(name, "mesh", program="train", layout=layout), texts))
            series = {each: [(float(c), v) for c, v in vs.items()] for each, vs in found.items()}
            if method in PICTURED and (picture := _drawn(series, unit, "chips")):
                drawn.append((title, picture))
        if rows:
            yield Grown(measured.environment, layout, tuple(meshes), tuple(rows), tuple(drawn))
