"""The layout of a model as text, as a document for JSON, and as a page.

print(text(layouts(model)))
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from scutch.models.annotations import Decision
from scutch.models.layout import PARAMETERS, Layout, Row

LARGEST = 5
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size_text(size: float) -> str:
    """Bytes in the unit that a person reads.

    >>> size_text(512), size_text(1536), size_text(3 * 2**30)
    ('512 B', '1.5 KiB', '3.0 GiB')
    """
    unit = 0
    while abs(size) >= 1024 and unit + 1 < len(_UNITS):
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def shape_text(row: Row) -> str:
    """Dtype and shape, and how many arrays there are of a repeated one."""
    times = f"{row.count} x " if row.count > 1 else ""
    return f"{times}{row.dtype}[{','.join(map(str, row.shape))}]"


def decision_text(one: Decision, rules: Sequence[tuple[str, Any]]) -> str:
    """Why one axis of an array lies where it does, in a few words.

    Args:
      one: The decision.
      rules: The rules that it counts.

    Returns:
      Such as `mlp → tensor (rule 2)`.
    """
    if one.name is None:
        return "-"
    lost = "".join(f"; rule {n + 1} lost: its axis is taken" for n in one.lost)
    if one.rule is not None:
        return f"{one.name} → {axis_text(one.axis)} (rule {one.rule + 1}{lost})"
    if one.axis is not None:
        return f"{axis_text(one.name)} (mesh axis)"
    return f"{one.name} → unsharded ({'no rule' if not lost else lost.removeprefix('; ')})"


def axis_text(axis: Any) -> str:
    """Where a rule puts an axis: a mesh axis, several, or none."""
    if axis is None:
        return "unsharded"
    return "+".join(map(str, axis)) if isinstance(axis, tuple | list) else str(axis)


def reasons_text(row: Row, rules: Sequence[tuple[str, Any]]) -> str:
    """The decisions on all axes of a row.

    Args:
      row: The row.
      rules: The rules that its decisions count.
    """
    if row.names is None:
        return "not annotated"
    return ", ".join(decision_text(one, rules) for one in row.decisions)


def text(found: Sequence[Layout]) -> str:
    """The layouts as tables for a terminal, one for each mesh shape."""
    return "\n\n".join(_layout_text(layout) for layout in found)


def _layout_text(layout: Layout) -> str:
    lines = [f"mesh {layout.name}"]
    for section, rows in sections(layout):
        lines += ["", heading(layout, section)]
        cells = [
            (
                row.path,
                shape_text(row),
                row.spec,
                size_text(row.bytes),
                size_text(row.per_device),
                reasons_text(row, layout.rules),
            )
            for row in rows
        ]
        titles = ("path", "array", "spec", "bytes", "a device", "decided by")
        lines += _table([titles, *cells])
        along = layout.along(section)
        if along:
            divided = ", ".join(f"{axis} {size_text(size)}" for axis, size in along.items())
            lines.append(f"  divided along {divided}")
        if section == PARAMETERS and (whole := layout.replicated(section)):
            largest = ", ".join(f"{row.path} {size_text(row.bytes)}" for row in whole[:LARGEST])
            lines.append(f"  largest replicated: {largest}")
    return "\n".join(lines)


def sections(layout: Layout) -> list[tuple[str, tuple[Row, ...]]]:
    """The sections that have rows, each with them."""
    names = dict.fromkeys(row.section for row in layout.rows)
    return [(name, layout.section(name)) for name in names]


def heading(layout: Layout, section: str) -> str:
    """A section's totals in one line.

    Args:
      layout: The layout.
      section: One of its sections.
    """
    total, each = layout.total(section), layout.total(section, per_device=True)
    count = layout.arrays(section)
    return (
        f"{section}: {count} array{'s' * (count != 1)}, {size_text(total)} in total, "
        f"{size_text(each)} a device, {layout.replicated_share(section):.1%} replicated"
    )


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    right = (3, 4)
    return [
        "  "
        + "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def document(found: Sequence[Layout]) -> list[dict[str, Any]]:
    """The layouts for JSON: one object for each mesh, with its rows and totals."""
    return [
        {
            "mesh": dict(layout.mesh),
            "rules": [list(rule) for rule in layout.rules],
            "sections": {
                section: {
                    "arrays": layout.arrays(section),
                    "bytes": layout.total(section),
                    "bytes_per_device": layout.total(section, per_device=True),
                    "replicated_share": layout.replicated_share(section),
                    "bytes_along": layout.along(section),
                }
                for section, _ in sections(layout)
            },
            "rows": [_row_document(row) for row in layout.rows],
        }
        for layout in found
    ]


def _row_document(row: Row) -> dict[str, Any]:
    fields = asdict(row)
    fields["decisions"] = [
        {**fields, "rule": None if fields["rule"] is None else fields["rule"] + 1}
        for fields in fields["decisions"]
    ]
    return fields
