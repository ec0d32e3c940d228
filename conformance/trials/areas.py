"""The requirements that a trial judges by: those near its planted fault, or all of the area.

    laws = suite.tried_by(near(liar.breaks))

With `SCUTCH_WHOLE_AREAS=1` in the environment, which `ci/test everywhere` and `ci/nightly` set, the
trials of liars and forks try every law of the area.
"""

import os
from collections.abc import Iterable

from scutch import catalogue

EVERYWHERE = bool(os.environ.get("SCUTCH_WHOLE_AREAS"))
"""Whether trials look everywhere."""


def near(broken: Iterable[str]) -> frozenset[str]:
    """The requirements of the groups of some, and all that these need.

    Args:
      broken: The ids of those that are broken.
    """
    known = catalogue.by_id()
    groups = {catalogue.group_of(each) for each in broken}
    found = [each for each in known if catalogue.group_of(each) in groups]
    for each in found:  # which grows meanwhile
        found += [need for need in known[each].needs if need in known and need not in found]
    return frozenset(found)
