"""A report as SARIF 2.1.0, the form in which tools of static analysis write their findings.

    publish(text(load("fork.json"), Place.of("my_fork.py", "my-fork")), Path("fork.sarif"))

An unmet requirement is a *rule*, and its finding is a *result*. GitHub wants a place in a file for
each result: the line that raised the error, where that lies in the checkout, else the line that
stands for the implementation.
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
      place: The line for findings whose error no file of the checkout raised; GitHub shows no
        result without a place.
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
    """The rule of a requirement, with its id, its title, its group and its level."""
    return {
        "id": outcome.id,
        "shortDescription": {"text": visible(outcome.title)},
        "help": {"text": f"scutch explain {outcome.id}"},
        "properties": {"tags": [outcome.group, outcome.level]},
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    """The result of a finding; `index` is the index of its rule."""
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
