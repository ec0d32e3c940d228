"""The check `inputs` of `ci/test`: every requirement was tried on enough inputs, or says why not.

A law proves little if it draws few different inputs. The report of the conformance run on the
reference says on how many *different* inputs each requirement was tried; where these are fewer than
20, one of its laws must say why, with the mark `few`:

    @requirement("bridge/registry/known-collections-have-types")
    @few("these are the collections that have a type from the start")
"""

import sys
from collections.abc import Sequence

from scutch.judging import suite
from scutch.report.document import Report, load

from scutch_ci import conformance

LEAST = 20


def unexplained(report: Report) -> list[str]:
    """The requirements with too few inputs and no reason, each with the number of its inputs."""
    explained = {law.requirement for law in suite.laws() if hasattr(law.function, "scutch_few")}
    return [
        f"{row.id}: {row.examples}" for row in report.requirements
        if row.verdict == "passed" and row.examples < LEAST and row.id not in explained
    ]  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Check the report on the reference; returns an exit code."""
    path = conformance.report_path("reference")
    if arguments or not path.exists():
        print(f"the check inputs takes no options, and {path}, which conformance-reference writes")
        return 2
    found = unexplained(load(path))
    if found:
        print(f"tried on fewer than {LEAST} different inputs, and no law says why:", *found)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
