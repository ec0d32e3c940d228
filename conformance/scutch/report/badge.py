"""A badge: one small picture that says how much of the contract an implementation meets.

    Path("flax.svg").write_text(svg(load("flax.json")))

It is drawn by hand, because a badge is forty lines of SVG that must show anywhere. `endpoints` says
the same of each part of the catalogue, as JSON from which shields.io draws badges.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from xml.sax.saxutils import escape

from scutch.catalogue import PARTS
from scutch.judging.verdicts import ROOTS
from scutch.report.document import Report
from scutch.report.matrix import Column
from scutch.report.text import line

_GREEN, _BLUE, _AMBER, _RED, _GREY = "#1a7f37", "#0a5cb8", "#8a5a00", "#b3261e", "#57606a"

_TEMPLATE = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{title}">
  <title>{title}</title>
  <clipPath id="round"><rect width="{width}" height="20" rx="3"/></clipPath>
  <g clip-path="url(#round)">
    <rect width="{left}" height="20" fill="#3b424a"/>
    <rect x="{left}" width="{right}" height="20" fill="{colour}"/>
  </g>
  <g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
    <text x="{left_middle}" y="14" textLength="{left_text}">scutch</text>
    <text x="{right_middle}" y="14" textLength="{right_text}">{message}</text>
  </g>
</svg>
"""


def svg(report: Report) -> str:
    """A picture that needs nothing else: "scutch | 78 of 80 must".

    The second number is how many must-requirements the implementation claims. Green: all of them
    pass. Blue: all pass but the known failures. Amber: nothing is broken, but the run was not
    complete, or something went untested or no longer fails. Red: something is broken. Grey:
    nothing is claimed. The title says the same in words.
    """
    column = Column(str(report.implementation), report)
    title = f"scutch: {line(column.label)}: {column.headline}"
    message = _message(report)
    left, right = 6 * 7, round(len(message) * 6.6)
    return _TEMPLATE.format(
        width=left + right + 24,
        left=left + 12,
        right=right + 12,
        left_middle=(left + 12) / 2,
        right_middle=left + 12 + (right + 12) / 2,
        left_text=left,
        right_text=right,
        colour=_colour(report),
        title=escape(title, {'"': "&quot;"}),
        message=message,
    )


def endpoints(report: Report) -> Mapping[str, str]:
    """Badges for shields.io, as the JSON of its endpoint: `scutch` and one for each part.

    Args:
      report: Of one run. A part that it has no requirement of is "not judged".

    Returns:
      The JSON texts, by `scutch` for the whole report and by the names of the parts.
    """
    of_part = {
        part: replace(
            report,
            requirements=tuple(one for one in report.requirements if one.id.startswith(f"{part}/")),
        )
        for part in PARTS
    }
    return {
        name: _endpoint(name if one is report else f"scutch {name}", one)
        for name, one in {"scutch": report, **of_part}.items()
    }


def _endpoint(label: str, report: Report) -> str:
    message, color = _message(report), _colour(report).removeprefix("#")
    badge = {"schemaVersion": 1, "label": label, "message": message, "color": color}
    return json.dumps(badge, indent=1) + "\n"


def _message(report: Report) -> str:
    column = Column(str(report.implementation), report)
    passed, claimed = column.passed("must"), column.claimed("must")
    nothing = "nothing claimed" if report.requirements else "not judged"
    message = f"{passed} of {claimed} must" if claimed else nothing
    return message if report.complete else f"{message}, incomplete"


def _colour(report: Report) -> str:
    verdicts = {one.verdict for one in report.requirements if one.level == "must"} - {"unclaimed"}
    if verdicts & {*ROOTS, "blocked"}:
        return _RED
    if not report.complete or verdicts & {"untested", "fixed"}:
        return _AMBER
    if not verdicts:
        return _GREY
    return _BLUE if "known" in verdicts else _GREEN
