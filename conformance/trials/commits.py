"""Which of many like cases a commit tries; the nightly tries all."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest


def some_in_a_commit(
    cases: Iterable[Any], title: Callable[[Any], str], kept: Collection[str]
) -> list[Any]:
    """Parameters for all cases, with the mark `nightly` on those that a commit leaves out.

    Args:
      cases: The cases.
      title: The id of a case.
      kept: The ids of the cases of a commit: one for each way in which they come out.

    Returns:
      A parameter for each case.

    Raises:
      ValueError: A kept id is none of a case.
    """
    titled = [(title(case), case) for case in cases]
    if unknown := set(kept) - {name for name, _ in titled}:
        raise ValueError(f"{sorted(unknown)} name no case of {sorted(n for n, _ in titled)}")
    slow = [pytest.mark.nightly]
    return [pytest.param(c, id=n, marks=() if n in kept else slow) for n, c in titled]
