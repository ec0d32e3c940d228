"""A report as JUnit XML, which GitLab, Jenkins and other services show as a table of tests.

    publish(text(load("fork.json")), Path("fork.xml"))

Each requirement is a test case. A failure has the title, the smallest input, the error with the
expected and the actual value, and the command that shows it again.
"""

from xml.etree import ElementTree

from scutch.report.document import Report
from scutch.report.findings import findings
from scutch.report.text import visible


def text(report: Report) -> str:
    """The report as the text of a JUnit file; the same report gives the same bytes.

    A broken must is a failure. All else that did not pass, such as a known failure or a broken
    should, is skipped with its verdict and reason. A report that is not complete has an error.

    Args:
      report: Of one run.
    """
    found = {each.outcome.id: each for each in findings(report, None)}
    name = visible(f"{report.implementation}, {report.suite}, jax {report.environment.jax}")
    suite = ElementTree.Element("testsuite", name=name)
    for outcome in report.requirements:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=outcome.group,
            name=outcome.id,
            time=f"{outcome.seconds:.3f}",
        )
        if outcome.verdict == "passed":
            continue
        finding = found.get(outcome.id)
        kind = "failure" if finding is not None and finding.severity == "error" else "skipped"
        reason = finding.message if finding is not None else visible(outcome.reason or "")
        title = visible(f"{outcome.title}: {outcome.verdict}")
        ElementTree.SubElement(case, kind, type=outcome.verdict, message=title).text = reason
    if not report.complete:
        case = ElementTree.SubElement(suite, "testcase", classname="scutch", name="the whole run")
        ElementTree.SubElement(case, "error", message="the run was not complete")
    for kind, counted in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(kind, str(len(suite.findall(f"*/{counted}"))))
    suite.set("tests", str(len(suite)))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
