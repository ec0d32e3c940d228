"""The README's table and picture of speed: the reference, Flax and plain JAX side by side.

`python -m benchmarks.table` measures each row for the three implementations alternately, so that a
busy machine slows all of them, writes the table between two marks in README.md, and draws
`benchmarks/dispatch.svg`. With `--platform cuda` or `tpu` the same rows are measured on the
accelerators of this machine, and their table stands under that of the host.
"""

import argparse
import contextlib
import datetime
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path

from .configurations import configurations
from .dispatch import ARRAYS
from .drawing import DOCUMENT, figure_text, line_chart
from .headlines import COLUMNS, DISPATCH, HOST_MESH, ROWS, configuration
from .meshes import accelerators, use_platform
from .timing import BLOCKS, calls_in_a_block, seconds

ROOT = Path(__file__).parents[1]
BEGIN = "<!-- written by python -m benchmarks.table{} -->"
END = "<!-- the end of the table{} -->"
DRAWN = ("reference", "flax", "jax")
"""The implementations in the picture."""
LEAST_ROUNDS = 5
MOST_ROUNDS = 40
SECONDS_FOR_A_ROW = 2.0


def rows(mesh):
    """The rows of the table on a mesh.

    Args:
      mesh: The name of the mesh that the guide's steps run on, such as `2x4`. Compiled programs are
        counted on fake devices of the host alone.

    Returns:
      By label, a benchmark and its parameters without the implementation.
    """
    return {
        label: (benchmark, {**parameters, "mesh": mesh} if "mesh" in parameters else parameters)
        for label, (benchmark, parameters) in ROWS.items()
        if mesh == HOST_MESH or not benchmark.startswith("compilation.")
    }


def measured(benchmark, parameters):
    """Measure one row.

    Args:
      benchmark: Such as `dispatch.Dispatch.time_call`.
      parameters: Its parameters without the implementation, by their names.

    Returns:
      For each installed implementation that the benchmark knows, seconds of one call or a count.
      Seconds are the least over several rounds; the implementations alternate within a round.

    Raises:
      KeyError: There is no such benchmark with these parameters.
    """
    known = {each.name: each for each in configurations("time_", "track_")}
    names = {each: configuration(benchmark, each, parameters) for each in COLUMNS}
    if known.keys().isdisjoint(names.values()):
        raise KeyError(names["reference"])
    with contextlib.ExitStack() as stack:
        calls = {}
        for implementation, name in names.items():
            if name in known:
                with contextlib.suppress(NotImplementedError):
                    calls[implementation] = stack.enter_context(known[name].ready())
        if ".track_" in benchmark:
            return {implementation: call() for implementation, call in calls.items()}
        return _least_seconds(calls)


def _least_seconds(calls):
    """The least seconds of each call, over as many alternating rounds as the time allows."""
    numbers = {implementation: calls_in_a_block(call) for implementation, call in calls.items()}
    times = {implementation: [] for implementation in calls}
    started = time.perf_counter()
    for rounds in range(MOST_ROUNDS):
        if rounds >= LEAST_ROUNDS and time.perf_counter() - started > SECONDS_FOR_A_ROW:
            break
        for implementation, call in calls.items():
            number = numbers[implementation]
            times[implementation].append(seconds(call, number, min(number, BLOCKS)))
    return {implementation: min(each) for implementation, each in times.items()}


def cell(benchmark, value):
    """The text of one cell of the table; a dash where there is no figure."""
    if value is None:
        return "-"
    unit = "count" if ".track_" in benchmark else "seconds"
    return figure_text(value, unit, digits=2)


def conditions(mesh):
    """One sentence on the machine, devices, versions and date of the measurement.

    Args:
      mesh: The name of the mesh that the guide's steps ran on.
    """
    found = accelerators()
    devices = f"{len(found)} {found[0].device_kind}" if found else "fake devices"
    return (
        f"The least of several rounds in turns, on {os.cpu_count()} CPU cores "
        f"({platform.machine()}, load average {os.getloadavg()[1]:.1f}), the guide on a "
        f"{mesh.split()[-1]} mesh of {devices}. Python {platform.python_version()}, JAX "
        f"{version('jax')}, Flax {version('flax')}, {datetime.date.today()}."
    )


def section(measurable, figures, under):
    """The Markdown that stands between the marks.

    Args:
      measurable: The configuration of each row, by its label, as `rows` gives them.
      figures: For each label, the figure of each installed implementation.
      under: The conditions, which stand under the table.

    Returns:
      The table and the conditions.
    """
    lines = ["| | " + " | ".join(COLUMNS.values()) + " |", "|---" + "|--:" * len(COLUMNS) + "|"]
    for label, (benchmark, _) in measurable.items():
        cells = (cell(benchmark, figures[label].get(name)) for name in COLUMNS)
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", under])


def replaced(text, inside, platform="cpu"):
    """`text` with `inside` between the two marks of a platform.

    A platform that has no marks yet gets them under the marks of the CPU.

    Raises:
      ValueError: The marks of the CPU are not in the text, or not in this order.
    """
    begin, end = marks(platform)
    if begin not in text and platform != "cpu":
        of_cpu = marks("cpu")[1]
        text = text.replace(of_cpu, f"{of_cpu}\n\n{begin}\n{end}", 1)
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"the text has no {begin!r} that is followed by {end!r}")
    return f"{before}{begin}\n\n{inside}\n\n{end}{after}"


def marks(platform):
    """The two comments that the table of a platform stands between."""
    option = "" if platform == "cpu" else f" --platform {platform}"
    return BEGIN.format(option), END.format(option)


TITLE = "One call of a lifted jit that does next to nothing, by the arrays of its object"
STYLE = """
.picture { font: 13px sans-serif; background: white; }
.title { font-size: 15px; }
.x { text-anchor: middle; }
.y { text-anchor: end; }
.grid { stroke: #ddd; }
polyline { fill: none; stroke-width: 2.5; }
polyline.reference { stroke: #1b7837; } .name.reference, circle.reference { fill: #1b7837; }
polyline.Flax { stroke: #d95f02; } .name.Flax, circle.Flax { fill: #d95f02; }
polyline.plain-JAX { stroke: #4575b4; } .name.plain-JAX, circle.plain-JAX { fill: #4575b4; }
"""


def picture(points):
    """Seconds of a call against the arrays of its object, both logarithmic, as an SVG document.

    Args:
      points: For each implementation, the seconds for each number of arrays.

    Returns:
      The text of the document, which needs no other file.
    """
    series = {COLUMNS[name]: sorted(each.items()) for name, each in points.items()}
    options = {"logarithmic": True, "frame": DOCUMENT, "title": TITLE, "style": STYLE}
    return line_chart(series, "seconds", "arrays", **options)


def main(arguments):
    """Measure, and write table and picture; returns an exit code."""
    parser = argparse.ArgumentParser("python -m benchmarks.table", description=__doc__)
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    parser.add_argument("--picture", type=Path, default=ROOT / "benchmarks" / "dispatch.svg")
    parser.add_argument(
        "--platform",
        default="cpu",
        metavar="NAME",
        help="JAX's platform to measure on: cpu, cuda or tpu (%(default)s); only that of the CPU "
        "is drawn",
    )
    options = parser.parse_args(arguments)
    try:
        use_platform(options.platform)
    except RuntimeError as error:
        parser.error(f"--platform {options.platform}: {error}")
    on_cpu = options.platform == "cpu"
    mesh = HOST_MESH if on_cpu else "accelerators 1xN"
    measurable = rows(mesh)
    figures = {}
    for label, row in measurable.items():
        print(f"{label} ...", flush=True)
        figures[label] = measured(*row)
    if on_cpu:
        draw(options.picture)
    inside = section(measurable, figures, conditions(mesh))
    readme = replaced(options.readme.read_text("utf-8"), inside, options.platform)
    options.readme.write_text(readme, "utf-8")
    print(inside)
    return 0


def draw(file):
    """Measure a dispatch for each number of arrays, and draw the picture into a file."""
    points = {name: {} for name in DRAWN}
    for arrays in ARRAYS:
        for name, value in measured(DISPATCH, {"kind": "forward", "arrays": arrays}).items():
            if name in points:
                points[name][arrays] = value
    drawn = picture({name: each for name, each in points.items() if each})
    file.write_text(drawn, "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
