"""The README's table and picture of speed: reference, Flax and plain JAX side by side.

`python -m benchmarks.table` measures each row for the implementations in turns, so that a busy
machine slows all of them, and writes the figures between the marks in README.md.
"""

import argparse
import contextlib
import datetime
import math
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path

from .cases import cases
from .dispatch import ARRAYS
from .meshes import ask_for_devices
from .turns import BLOCKS, calls_in_a_block, seconds

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- written by python -m benchmarks.table -->", "<!-- the end of the table -->"
IMPLEMENTATIONS = {"reference": "reference", "flax": "Flax", "jax": "plain JAX"}
DISPATCH = "dispatch.Dispatch.time_call({}, forward, %s)"
STEP, SCANNED = "({}, train, unrolled, 2x4)", "({}, train, scanned, 2x4)"
ROWS = {
    "a lifted `jit` is called, 4 arrays": DISPATCH % 4,
    "the same, 256 arrays": DISPATCH % 256,
    "the same, and all 256 are updated": "dispatch.Dispatch.time_call({}, update, 256)",
    "a lifted `shard_map` is called, 32 arrays": "dispatch.Dispatch.time_call({}, shard_map, 32)",
    "`unbox` of 1,000 boxes": "metadata.Trees.time_function({}, unbox, 1000)",
    "`get_sharding` of 1,000 boxes": "metadata.Trees.time_function({}, get_sharding, 1000)",
    "1,024 variables cross from Linen to NNX": (
        "bridge.Conversion.time_conversion({}, linen_vars_to_nnx_attrs, 1024)"
    ),
    "and back": "bridge.Conversion.time_conversion({}, nnx_attrs_to_linen_vars, 1024)",
    "a `ToNNX` of four layers is called in `jit`": (
        "bridge.Wrapped.time_call({}, ToNNX in jit, 4)"
    ),
    "the guide's train step": f"guide.Guide.time_step{STEP}",
    "the same, scanned": f"guide.Guide.time_step{SCANNED}",
    "the guide's inference step": "guide.Guide.time_step({}, inference, unrolled, 2x4)",
    "the train step is traced and compiled": f"guide.Guide.time_compile{STEP}",
    "the scanned one is traced and compiled": f"guide.Guide.time_compile{SCANNED}",
    "Python calls in a lifted `jit`, 256 arrays": (
        "dispatch.Dispatch.track_python_calls({}, forward, 256)"
    ),
    "bytes between devices in a train step": f"compilation.Compilation.track_bytes_moved{STEP}",
}
LEAST, MOST, BUDGET = 5, 40, 2.0


def measured(template):
    """Seconds of one call, or a count, of each implementation that is there.

    Times are taken in turns: the least over rounds, as many as the time allows.
    """
    known = {case.name: case for case in cases("time_", "track_")}
    with contextlib.ExitStack() as stack:
        calls = {}
        for implementation in IMPLEMENTATIONS:
            with contextlib.suppress(NotImplementedError):
                case = known[template.format(implementation)]
                calls[implementation] = stack.enter_context(case.ready())
        if ".track_" in template:
            return {implementation: call() for implementation, call in calls.items()}
        numbers = {implementation: calls_in_a_block(call) for implementation, call in calls.items()}
        found = {implementation: [] for implementation in calls}
        started, rounds = time.perf_counter(), 0
        while rounds < LEAST or (rounds < MOST and time.perf_counter() - started < BUDGET):
            for implementation, call in calls.items():
                number = numbers[implementation]
                found[implementation].append(seconds(call, number, min(number, BLOCKS)))
            rounds += 1
        return {implementation: min(each) for implementation, each in found.items()}


def figure(template, value):
    """A figure for people; a dash where there is none."""
    if value is None:
        return "-"
    if ".track_" in template:
        return f"{value:,}"
    return span(value)


def span(value):
    """Seconds, in a unit of which there are at least one, with two or three digits."""
    unit, size = next((u, s) for u, s in (("s", 1), ("ms", 1e-3), ("µs", 0)) if value >= s)
    digits = value / (size or 1e-6)
    return f"{digits:,.{max(0, 1 - math.floor(math.log10(digits)))}f} {unit}"


def conditions():
    """On what, with what and when."""
    return (
        f"The least of several rounds in turns, on {os.cpu_count()} CPU cores "
        f"({platform.machine()}, load average {os.getloadavg()[1]:.1f}), the guide on a 2x4 mesh "
        f"of fake devices. Python {platform.python_version()}, JAX {version('jax')}, Flax "
        f"{version('flax')}, {datetime.date.today()}."
    )


def section(figures, under):
    """What stands between the marks.

    Args:
      figures: For each of `ROWS`, the figure of each implementation that is there.
      under: The conditions.
    """
    lines = ["| | " + " | ".join(IMPLEMENTATIONS.values()) + " |", "|---|--:|--:|--:|"]
    for label, template in ROWS.items():
        cells = (figure(template, figures[label].get(name)) for name in IMPLEMENTATIONS)
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", under])


def written(text, inside):
    """A text in which this stands between the marks."""
    before, found, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        raise ValueError(f"the text has no {BEGIN!r} that is followed by {END!r}")
    return f"{before}{BEGIN}\n\n{inside}\n\n{END}{after}"


# The picture --------------------------------------------------------------------------------------

COLOURS = {"reference": "#1b7837", "flax": "#d95f02", "jax": "#4575b4"}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 380, 70, 110, 50, 50


def picture(points):
    """Time against arrays, both logarithmic, as an SVG document.

    Args:
      points: For each implementation, seconds for each number of arrays.
    """
    times = [value for each in points.values() for value in each.values()]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    first, last = math.log10(min(ARRAYS)), math.log10(max(ARRAYS))

    def across(arrays):
        return LEFT + (math.log10(arrays) - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def down(value):
        return TOP + (high - math.log10(value)) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="28" font-size="15">One call of a lifted jit that does next to '
        "nothing, by the arrays of its object</text>",
    ]
    for power in range(low, high + 1):
        y = down(10.0**power)
        right = WIDTH - RIGHT
        parts.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#ddd"/>')
        label = span(10.0**power * 1.0001).replace(".0", "")
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for arrays in ARRAYS:
        x, y = across(arrays), HEIGHT - BOTTOM + 20
        parts.append(f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{arrays:,}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">arrays</text>')
    free = 0.0  # labels are written from top to bottom, none over another
    for name, each in sorted(points.items(), key=lambda item: -max(item[1].values())):
        places = [(across(arrays), down(value)) for arrays, value in each.items()]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        colour, (x, y) = COLOURS[name], places[-1]
        style = f'fill="none" stroke="{colour}" stroke-width="2.5"'
        parts.append(f'<polyline points="{line}" {style}/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in places]
        free = max(free + 18, y + 4)
        label = f'x="{x + 12:.1f}" y="{free:.1f}" fill="{colour}"'
        parts.append(f"<text {label}>{IMPLEMENTATIONS[name]}</text>")
    return "\n".join([*parts, "</svg>", ""])


def main(arguments):
    """Measure and write; returns an exit code."""
    parser = argparse.ArgumentParser("python -m benchmarks.table", description=__doc__)
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    parser.add_argument("--picture", type=Path, default=ROOT / "benchmarks" / "dispatch.svg")
    given = parser.parse_args(arguments)
    ask_for_devices(8)
    figures = {}
    for label, template in ROWS.items():
        print(f"{label} ...", flush=True)
        figures[label] = measured(template)
    points = {name: {} for name in COLOURS}
    for arrays in ARRAYS:
        for name, value in measured(DISPATCH % arrays).items():
            points[name][arrays] = value
    points = {name: each for name, each in points.items() if each}
    given.picture.write_text(picture(points), "utf-8")
    inside = section(figures, conditions())
    given.readme.write_text(written(given.readme.read_text("utf-8"), inside), "utf-8")
    print(inside)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
