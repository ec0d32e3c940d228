"""Failures with the same error at the same place of the implementation count as one fault.

of_one_fault(rulings)      # one of them stays `failed`; the others are `blocked` by it
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any


def of_one_fault(found: Iterable[Any]) -> tuple[Any, ...]:
    """Block each failure whose errors and places are all those of one earlier failure.

    The failed requirement becomes `blocked` by the earlier one. A must is never blocked by a
    should.

    Args:
      found: All `Ruling`s of a run, or all `Outcome`s of its report.

    Returns:
      As many rulings or outcomes, in their order.
    """
    ruled = tuple(found)
    of_fault: dict[tuple[str, str], str] = {}
    roots: dict[str, str] = {}
    for each in sorted(ruled, key=lambda each: each.level != "must"):
        broken = (each.counterexample, *each.also) if each.verdict == "failed" else ()
        faults = {one.fault for one in broken if one is not None}
        first = {of_fault.get(fault) if fault else None for fault in faults}
        if len(first) == 1 and (root := first.pop()) is not None:
            roots[each.id] = root
        else:
            of_fault.update({fault: each.id for fault in faults if fault and fault not in of_fault})
    return tuple(_of_roots(each, roots) for each in ruled)


def _of_roots(each: Any, roots: Mapping[str, str]) -> Any:
    """A ruling or outcome `blocked` by its root, or with the roots in `blocked_by` traced back.

    Args:
      each: The ruling or outcome.
      roots: By the id of a requirement, the id of the root that fails with the same error.
    """
    if root := roots.get(each.id):
        reason = f"fails as {root} does: the same error at {each.counterexample.place}"
        return replace(each, verdict="blocked", blocked_by=(root,), reason=reason)
    through = tuple(dict.fromkeys(roots.get(one, one) for one in each.blocked_by))
    return each if through == each.blocked_by else replace(each, blocked_by=through)
