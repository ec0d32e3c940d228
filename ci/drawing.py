"""Small pictures of figures, as SVG that a page holds inside."""

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup

WIDTH, HEIGHT = 340, 200
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 14, 30
STEPS = ((1e-6, "n", 1e9), (1e-3, "µ", 1e6), (1.0, "m", 1e3))
Points = Sequence[tuple[float, float]]


def pretty(value: float, unit: str) -> str:
    """A number as people read it.

    >>> pretty(8.41e-05, "seconds"), pretty(84541440, "bytes"), pretty(8, "collectives")
    ('84.1 µs', '84.5 MB', '8')
    """
    if math.isinf(value):
        return "failed"
    if unit == "seconds":
        for bound, letter, times in STEPS:
            if value < bound:
                return f"{_digits(value * times)} {letter}s"
        return f"{_digits(value)} s"
    if unit == "bytes":
        for letter in ("", "k", "M", "G"):
            if value < 1000 or letter == "G":
                return f"{_digits(value)} {letter}B"
            value /= 1000
    return f"{value:,.0f}" if value == round(value) or value >= 1000 else _digits(value)


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def lines(series: Mapping[str, Points], unit: str, across: str, *, growing: bool = False) -> Markup:
    """A line for each name, over numbers that grow by factors; what is equal lies on top.

    Args:
      series: For each name, which is its class too, x and y.
      across: What x is.
      growing: Whether y grows by factors too; if not, it begins at zero.
    """
    xs = sorted({x for points in series.values() for x, _ in points})
    ys = sorted({y for points in series.values() for _, y in points})
    low, high = (ys[0], ys[-1]) if growing else (0.0, ys[-1] or 1.0)

    def place(value: float, ends: tuple[float, float], factors: bool) -> float:
        if factors:
            value, *ends = (math.log(each) for each in (value, *ends))
        return (value - ends[0]) / ((ends[1] - ends[0]) or 1.0)

    def across_at(x: float) -> float:
        return LEFT + place(x, (xs[0], xs[-1]), True) * (WIDTH - LEFT - RIGHT)

    def up_at(y: float) -> float:
        return HEIGHT - BOTTOM - place(y, (low, high), growing) * (HEIGHT - TOP - BOTTOM)

    parts = [Markup('<svg class="picture" viewBox="0 0 {} {}" role="img">').format(WIDTH, HEIGHT)]
    text = "; ".join(
        f"{name}: {', '.join(f'{pretty(y, unit)} at {x:g}' for x, y in points)}"
        for name, points in series.items()
    )
    parts.append(Markup("<title>{}</title>").format(text))
    middle = math.sqrt(low * high) if growing else high / 2
    for y in (low, middle, high):
        parts.append(_line("grid", LEFT, up_at(y), WIDTH - RIGHT, up_at(y)))
        parts.append(_text("y", LEFT - 6, up_at(y) + 4, pretty(y, unit)))
    for x in xs:
        parts.append(_text("x", across_at(x), HEIGHT - BOTTOM + 16, f"{x:g}"))
    parts.append(_text("x axis", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 2, across))
    for name, points in series.items():
        drawn = " ".join(f"{across_at(x):.1f},{up_at(y):.1f}" for x, y in points)
        kind = name.replace(" ", "-")
        parts.append(Markup('<polyline class="{}" points="{}"/>').format(kind, drawn))
        parts += [
            Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="3"/>').format(
                kind, across_at(x), up_at(y)
            )
            for x, y in points
        ]
    return Markup("\n").join([*parts, Markup("</svg>")])


def _line(kind: str, *ends: float) -> Markup:
    places = (f"{end:.1f}" for end in ends)
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(kind, *places)


def _text(kind: str, x: float, y: float, text: str) -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>').format(kind, x, y, text)
