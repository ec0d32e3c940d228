"""The places that an upgrade changes: as text, JSON, SARIF, and annotations of GitHub.

print(FORMATS["github"](findings))
"""

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final

from scutch.report.text import command_message, command_property, count
from scutch.upgrades.findings import GRAVITIES, Finding, Findings

SHOWN_PLACES: Final = 5
"""How many places of one change the text lists before it counts the others."""

_REACHED: Final = {None: "", True: "  (run)", False: "  (not run)"}
_LEVELS: Final = {"breaks": "error", "differs": "error", "deprecated": "warning"}


def text(found: Findings) -> str:
    """For people: the changes by gravity, each with its places."""
    lines = [f"{found.old.package} {found.old.release} -> {found.new.release}: {_read(found)}"]
    for gravity, heading in GRAVITIES.items():
        chosen = [each for each in found.found if each.gravity == gravity]
        if chosen:
            lines += ["", f"{heading} ({count(len(chosen), 'place')})"]
            lines += _changes(chosen)
    lines += ["", *_closing(found)]
    return "\n".join(lines)


def _read(found: Findings) -> str:
    code = found.code
    return (
        f"read {count(code.files, 'file')}, {count(code.lines, 'line')}; "
        f"{count(len(code.uses), 'use')} of names"
    )


def _changes(chosen: list[Finding]) -> Iterator[str]:
    by_text = sorted(chosen, key=lambda each: (each.text, each.use.file, each.use.line))
    for sentence, group in groupby(by_text, key=lambda each: each.text):
        by_line = {(each.use.file, each.use.line): each for each in group}
        places = list(by_line.values())
        yield f"  {sentence}  [{places[0].since}]"
        if places[0].instead:
            yield f"      write: {places[0].instead}"
        for each in places[:SHOWN_PLACES]:
            yield f"      {each.use.file}:{each.use.line}{_REACHED[each.reached]}"
        if len(places) > SHOWN_PLACES:
            yield f"      and {len(places) - SHOWN_PLACES} more"


def _closing(found: Findings) -> Iterator[str]:
    for file, reason in found.code.unread:
        yield f"{file} was not read: {reason}"
    if not found.found:
        yield "No use that was found is changed."
    if any(each.reached is not None for each in found.found):
        number = sum(bool(each.reached) for each in found.found)
        yield (
            f"The command ran {number} of {count(len(found.found), 'place')}. A place that it did "
            "not run may run elsewhere. Not observed: Pythons that it started with -S, -I or "
            "another PYTHONPATH, and, before Python 3.12, code that a debugger or coverage traces."
        )
    yield (
        "Not seen: names that are made at run time, attributes of objects whose class the code "
        "does not tell, and changes that no recorded program or interface shows. "
        f"`scutch changes {found.old.package} {found.old.release} {found.new.release}` lists all."
    )


def to_json(found: Findings) -> str:
    """As data."""
    data = {
        "old": found.old.release,
        "new": found.new.release,
        "package": found.old.package,
        "files": found.code.files,
        "lines": found.code.lines,
        "unread": [list(each) for each in found.code.unread],
        "findings": [
            {
                "file": f.use.file,
                "line": f.use.line,
                "column": f.use.column,
                "name": f.use.name,
                "gravity": f.gravity,
                "text": f.text,
                "instead": f.instead,
                "since": f.since,
                "reached": f.reached,
            }
            for f in found.found
        ],
    }
    return json.dumps(data, indent=1, ensure_ascii=False)


def sarif(found: Findings) -> str:
    """As SARIF 2.1.0: a rule for each gravity."""
    results = [
        {
            "ruleId": each.gravity,
            "level": _LEVELS[each.gravity],
            "message": {"text": _message(each)},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": each.use.file},
                        "region": {"startLine": each.use.line, "startColumn": each.use.column},
                    }
                }
            ],
        }
        for each in found.found
    ]
    rules = [{"id": key, "shortDescription": {"text": title}} for key, title in GRAVITIES.items()]
    run: dict[str, Any] = {
        "tool": {"driver": {"name": "scutch upgrade", "rules": rules}},
        "results": results,
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2)


def github(found: Findings) -> str:
    """As annotations of a GitHub workflow."""
    return "\n".join(
        f"::{_LEVELS[each.gravity]} file={command_property(each.use.file)},"
        f"line={each.use.line},col={each.use.column}::{command_message(_message(each))}"
        for each in found.found
    )


def _message(finding: Finding) -> str:
    instead = f"; write {finding.instead}" if finding.instead else ""
    return f"{finding.text}{instead} (since {finding.since})"


FORMATS: Final[Mapping[str, Callable[[Findings], str]]] = {
    "text": text,
    "json": to_json,
    "sarif": sarif,
    "github": github,
}
