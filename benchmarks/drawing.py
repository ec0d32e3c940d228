"""Measured figures as text and pictures, by `figure_text` and by `line_chart`, which draws SVG.

The README's picture and the nightly site are both drawn here. The module needs only the standard
library, because `benchmarks` is also imported beside old versions of the package.

>>> figure_text(8.41e-05, "seconds")
'84.1 µs'
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

Points = Sequence[tuple[float, float]]
_SECONDS = ((1e-6, "ns", 1e9), (1e-3, "µs", 1e6), (1.0, "ms", 1e3), (math.inf, "s", 1.0))


def figure_text(value: float, unit: str, digits: int = 3) -> str:
    """A figure as people read it, in a unit that keeps the number short.

    >>> figure_text(84541440, "bytes"), figure_text(8, "collectives")
    ('84.5 MB', '8')
    >>> figure_text(7e-6, "seconds", digits=2)
    '7.0 µs'

    Args:
      value: The figure; infinity stands for a measurement that failed.
      unit: The unit as asv names it. Seconds and bytes are scaled; any other unit is left out of
        the text.
      digits: Significant digits. A whole number is written whole, whatever `digits` says.

    Returns:
      The text, such as `84.1 µs`; `failed` for infinity.
    """
    if math.isinf(value):
        return "failed"
    if unit == "seconds":
        name, times = next((name, times) for bound, name, times in _SECONDS if value < bound)
        return f"{_significant(value * times, digits)} {name}"
    if unit == "bytes" and value >= 1000:
        power = min(3, int(math.log10(value) // 3))
        return f"{_significant(value / 1000**power, digits)} {' kMG'[power]}B"
    text = f"{value:,.0f}" if value == round(value) else _significant(value, digits)
    return f"{text} B" if unit == "bytes" else text


def _significant(value: float, digits: int) -> str:
    """`value` with so many significant digits, and all digits of its whole part."""
    whole = value == 0 or round(value) >= 10 ** (digits - 1)
    return f"{value:,.0f}" if whole else f"{value:#.{digits}g}"


@dataclass(frozen=True)
class Frame:
    """The size of a chart and the margins around its lines, in pixels.

    Args:
      width: Of the whole picture.
      height: Of the whole picture.
      left: Margin for the labels of the y axis.
      right: Margin at the right; the names of the lines stand there if `names` is set.
      top: Margin for the title.
      bottom: Margin for the labels of the x axis.
      names: Whether each line has its name at its right end.
    """

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    names: bool = False


INLINE = Frame(340, 200, 62, 16, 14, 30)
"""A small chart inside a page, whose style sheet colours the lines."""

DOCUMENT = Frame(640, 380, 70, 110, 50, 50, names=True)
"""A file of its own, which brings its style along."""


@dataclass(frozen=True)
class _Scale:
    """The scale of an axis, which gives the pixel of a value.

    Args:
      low: The value at `start`.
      high: The value at `end`.
      start: Pixel of the lowest value.
      end: Pixel of the highest value.
      logarithmic: Whether equal factors are equally far apart.
    """

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool

    def pixel(self, value: float) -> float:
        """The pixel of a value."""
        low, high, value = (
            (math.log(end) for end in (self.low, self.high, value))
            if self.logarithmic
            else (self.low, self.high, value)
        )
        return self.start + (value - low) / ((high - low) or 1.0) * (self.end - self.start)


def line_chart(
    series: Mapping[str, Points],
    unit: str,
    x_label: str,
    *,
    logarithmic: bool = False,
    frame: Frame = INLINE,
    title: str = "",
    style: str = "",
) -> str:
    """A chart with one line for each series, as an SVG element.

    The x axis is logarithmic. A line is drawn over those before it, so where lines coincide the
    last one lies on top. Each line, its points and its name have the name of the series as their
    CSS class, with hyphens for spaces.

    Args:
      series: The points of each line as pairs of x and y, both in ascending x. With `logarithmic`
        every y is above zero.
      unit: Unit of the y axis, as in `figure_text`.
      x_label: The label under the x axis.
      logarithmic: Whether the y axis is logarithmic, with a line for each power of ten; if not, it
        begins at zero.
      frame: Size and margins.
      title: The title over the chart.
      style: CSS that the element brings along; without it the page that holds the element has it.

    Returns:
      The text of the element. All texts in it are escaped.
    """
    xs = sorted({x for points in series.values() for x, _ in points})
    marks = _y_marks([y for points in series.values() for _, y in points], logarithmic)
    right, bottom = frame.width - frame.right, frame.height - frame.bottom
    across = _Scale(xs[0], xs[-1], frame.left, right, True)
    up = _Scale(marks[0], marks[-1], bottom, frame.top, logarithmic)
    parts = [_opening(frame, style)]
    if title:
        parts.append(_text("title", frame.left, 28, title))
    parts.append(f"<title>{escape(_spoken(series, unit))}</title>")
    for y in marks:
        height = f"{up.pixel(y):.1f}"
        parts.append(
            f'<line class="grid" x1="{frame.left}" y1="{height}" x2="{right}" y2="{height}"/>'
        )
        label = figure_text(y, unit, 1 if logarithmic else 3)
        parts.append(_text("y", frame.left - 6, up.pixel(y) + 4, label))
    for x in xs:
        parts.append(_text("x", across.pixel(x), bottom + 16, f"{x:,g}"))
    parts.append(_text("x axis", (frame.left + right) / 2, frame.height - 2, x_label))
    pixels = {
        name: [(across.pixel(x), up.pixel(y)) for x, y in points] for name, points in series.items()
    }
    for name, line in pixels.items():
        parts += _line(name, line)
    if frame.names:
        parts += _names(pixels)
    return "\n".join([*parts, "</svg>", ""])


def _y_marks(ys: Sequence[float], logarithmic: bool) -> list[float]:
    """The values of y that have a line across the chart, from the lowest to the highest."""
    if not logarithmic:
        high = max(ys) or 1.0
        return [0.0, high / 2, high]
    first, last = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def _opening(frame: Frame, style: str) -> str:
    """The first tag of the picture, and its style."""
    size = f'viewBox="0 0 {frame.width} {frame.height}"'
    tag = f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" {size} role="img">'
    return f"{tag}\n<style>{style}</style>" if style else tag


def _spoken(series: Mapping[str, Points], unit: str) -> str:
    """All figures in words, for readers who do not see the picture."""
    return "; ".join(
        f"{name}: {', '.join(f'{figure_text(y, unit)} at {x:g}' for x, y in points)}"
        for name, points in series.items()
    )


def _line(name: str, pixels: Points) -> list[str]:
    """One line through its points."""
    css = escape(name.replace(" ", "-"))
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in pixels)
    circles = [f'<circle class="{css}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in pixels]
    return [f'<polyline class="{css}" points="{drawn}"/>', *circles]


def _names(pixels: Mapping[str, Points]) -> list[str]:
    """The name of each line at its right end, from top to bottom, none over another."""
    parts = []
    lowest = 0.0
    for name, line in sorted(pixels.items(), key=lambda item: item[1][-1][1]):
        x, y = line[-1]
        lowest = max(lowest + 18, y + 4)
        parts.append(_text(f"name {name.replace(' ', '-')}", x + 12, lowest, name))
    return parts


def _text(css: str, x: float, y: float, text: str) -> str:
    return f'<text class="{escape(css)}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
