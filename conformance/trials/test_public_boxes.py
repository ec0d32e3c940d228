"""Box classes of public projects are judged as they are: no conviction without a reason."""

import pytest
import scutch
from trials.commits import some_in_a_commit
from trials.public_boxes import PUBLIC

IN_A_COMMIT = ("Partitioned", "LogicallyPartitioned", "Beside", "Noted", "Handmade", "Averaged")
"""Flax's own two, one that is refused, one without names, one that conforms, and one that is asked
for some requirements alone."""


def _name(public):
    return public.box_class.__name__


@pytest.mark.parametrize("public", some_in_a_commit(PUBLIC, _name, IN_A_COMMIT))
def test_a_public_box_is_convicted_of_what_is_wrong_with_it(public):
    if public.refused:
        with pytest.raises(scutch.SetupError, match=public.refused):
            scutch.judge_box(public.box_class, **public.options)
        return
    try:
        judgment = scutch.judge_box(public.box_class, **public.options)
    except scutch.Nonconforming as convicted:
        judgment = convicted.judgment
    roots = {r.requirement.id for r in judgment.broken if r.verdict != "blocked"}
    assert roots == set(public.convicted)
    assert set(public.lacks) <= set(judgment.lacks)


def test_there_are_thirty_of_others():
    others = [each for each in PUBLIC if each.box_class.__module__ == "trials.public_boxes"]
    assert len(others) >= 30
