"""A report as SARIF 2.1.0, the form in which tools of static analysis say what they found.

    publish(text(load("fork.json"), Place.of("my_fork.py", "my-fork")), Path("fork.sarif"))

A requirement is a *rule*, and what is not as it should be a *result*. SARIF wants a place in a file
for each; all have the one that stands for the implementation.
"""

import json
from typing import Any, Final
from urllib.parse import quote

from scutch.report.document import Outcome, Report
from scutch.report.findings import Finding, Place, findings
from scutch.report.text import visible

VERSION: Final = "2.1.0"
SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def text(report: Report, place: Place | None) -> str:
    """The report as the text of a SARIF file; the same report gives the same bytes.

    Args:
      report: Of one run.
      place: Of every result; GitHub shows no result without.
    """
    found = list(findings(report, place))
    rules = [_rule(each.outcome) for each in found]
    suite, implementation = report.suite, report.implementation
    run = {
        "tool": {"driver": {"name": suite.name, "version": suite.version, "rules": rules}},
        "automationDetails": {"id": visible(f"scutch/{implementation.name}/")},
        "invocations": [{"executionSuccessful": report.complete}],
        "results": [_result(each, index) for index, each in enumerate(found)],
        "properties": {
            "implementation": visible(str(implementation)),
            "jax": visible(report.environment.jax),
            "profile": report.profile,
            "seed": report.seed,
        },
    }
    return json.dumps({"$schema": SCHEMA, "version": VERSION, "runs": [run]}, indent=2) + "\n"


def _rule(outcome: Outcome) -> dict[str, Any]:
    """What a requirement asks for, and how much it weighs."""
    return {
        "id": outcome.id,
        "shortDescription": {"text": visible(outcome.title)},
        "help": {"text": f"scutch explain {outcome.id}"},
        "properties": {"tags": [outcome.group, outcome.level]},
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    """What became of it. `index` is that of its rule."""
    result: dict[str, Any] = {
        "ruleId": finding.outcome.id,
        "ruleIndex": index,
        "level": finding.severity,
        "message": {"text": f"{finding.title}\n{finding.message}"},
        "partialFingerprints": {"requirement/v1": finding.outcome.id},
        "properties": {"verdict": finding.outcome.verdict},
    }
    if finding.place is not None:
        file = {"uri": quote(finding.place.file), "uriBaseId": "%SRCROOT%"}
        region = {"startLine": finding.place.line}
        where = {"physicalLocation": {"artifactLocation": file, "region": region}}
        result["locations"] = [where]
    return result
