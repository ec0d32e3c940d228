"""The first page of the site: the night at a glance, and the way to the matrix and the graphs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import jinja2
import judgment
import measurements
import pictures
import regressions
from markupsafe import Markup
from measurements import Figure
from nights import Environment, History, Night
from regressions import Regression
from scutch.report import site
from scutch.report.document import load
from scutch.report.matrix import Column, matrix
from scutch.report.text import publish

TEMPLATES = judgment.ROOT / "ci" / "templates"
IMPLEMENTATIONS = ("flax", "jax", "reference")
STEP = ("train", "unrolled", "2x4")
HEADLINES = (
    ("One call of a lifted jit, 256 arrays", "dispatch.Dispatch.time_call", ("forward", "256")),
    ("the same, Python calls", "dispatch.Dispatch.track_python_calls", ("forward", "256")),
    ("An update of 256 arrays", "dispatch.Dispatch.time_call", ("update", "256")),
    ("A train step of the guide, 2x4 devices", "guide.Guide.time_step", STEP),
    ("Tracing and compiling it", "guide.Guide.time_compile", STEP),
    ("its all-reduces", "compilation.Compilation.track_all_reduces", STEP),
    ("its peak memory, each device", "compilation.Compilation.track_peak_bytes", STEP),
)
GROWTH = {
    "All-reduces in one step": ("track_all_reduces", "collectives"),
    "Other collectives in one step": ("track_other_collectives", "collectives"),
    "All-gathers in one step": ("track_all_gathers", "collectives"),
    "Bytes that collectives leave on each chip": ("track_bytes_moved", "bytes"),
    "Peak memory of each chip": ("track_peak_bytes", "bytes"),
    "Arguments on each chip": ("track_argument_bytes", "bytes"),
}
PICTURED = ("track_all_reduces", "track_bytes_moved", "track_peak_bytes")
NIGHTS = 20


@dataclass(frozen=True)
class Measured:
    """All figures of one environment, and how to find one."""

    environment: str
    figures: Mapping[tuple[str, tuple[str, ...]], Figure]

    def find(self, name: str, *choice: str) -> Figure | None:
        """The figure for the parameters, written as people write them."""
        plain = {
            (each, tuple(one.strip("'") for one in chosen)): figure
            for (each, chosen), figure in self.figures.items()
        }
        return plain.get((name, choice))


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
    environment.filters |= {"pretty": pictures.pretty, "graph": graph}
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
        nights=[(one, scores(one)) for one in reversed(list(history)) if one.verdict][:NIGHTS],
    )
    publish(page, folder / "index.html")


def everything(night: Night) -> Iterator[Measured]:
    """What was measured, environment by environment."""
    found: dict[str, dict[tuple[str, tuple[str, ...]], Figure]] = {}
    for path in night.figures.values():
        document = json.loads(path.read_text("utf-8"))
        found.setdefault(document["result"]["env_name"], {}).update(measurements.figures(document))
    return (Measured(name, figures) for name, figures in found.items())


def scores(night: Night) -> list[str]:
    """What each implementation came to, in one line."""
    return [f"{name}: {score(Column(name, load(path)))}" for name, path in night.reports.items()]


def score(column: Column) -> str:
    """How many requirements hold."""
    return f"{column.passed('must')} of {column.claimed('must')}"


def graph(name: str, **parameters: str) -> str:
    """The address of a graph on asv's page."""
    chosen = "&".join(f"{quote(key)}={quote(value)}" for key, value in parameters.items())
    return f"benchmarks/index.html#{name}" + (f"?{chosen}" if chosen else "")


def headlines(measured: Measured) -> list[tuple[str, str, list[Figure | None]]]:
    """Name, benchmark and the figure of each implementation, where there are any."""
    rows = []
    for title, name, choice in HEADLINES:
        figures = [measured.find(name, each, *choice) for each in IMPLEMENTATIONS]
        if any(figures):
            rows.append((title, name, figures))
    return rows


def dispatches(measured: Measured) -> Markup | None:
    """How the time of a call grows with the number of arrays."""
    return _drawn(
        {
            implementation: [
                (float(arrays), figure.value)
                for arrays in (4, 32, 256, 2048)
                if (figure := _finite(measured, "dispatch.Dispatch.time_call", implementation,
                                      "forward", str(arrays)))
            ]
            for implementation in IMPLEMENTATIONS
        },
        "seconds", "arrays in the model", growing=True,
    )  # fmt: skip


def _finite(measured: Measured, *asked: str) -> Figure | None:
    found = measured.find(*asked)
    return None if found is None or found.value == float("inf") else found


def _drawn(
    series: Mapping[str, pictures.Points], unit: str, across: str, *, growing: bool = False
) -> Markup | None:
    there = {name: points for name, points in series.items() if len(points) > 1}
    return pictures.lines(there, unit, across, growing=growing) if there else None


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
                    if (figure := _finite(measured, name, each, "train", layout, mesh))
                }
                for each in IMPLEMENTATIONS
            }
            if not any(found.values()):
                continue
            texts = {
                each: tuple(pictures.pretty(v[c], unit) if c in v else "" for c in meshes)
                for each, v in found.items()
                if v
            }
            chosen = {"x-axis": "mesh", "p-program": "'train'", "p-layout": f"'{layout}'"}
            rows.append((title, graph(name, **chosen), texts))
            series = {each: [(float(c), v) for c, v in vs.items()] for each, vs in found.items()}
            if method in PICTURED and (picture := _drawn(series, unit, "chips")):
                drawn.append((title, picture))
        if rows:
            yield Grown(measured.environment, layout, tuple(meshes), tuple(rows), tuple(drawn))
