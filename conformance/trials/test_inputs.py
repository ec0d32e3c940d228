"""A law draws many different inputs, or says why there are few."""

from collections import Counter

import pytest
from scutch.judging import hypothesis_parts, suite
from scutch.judging.attempt import call_text
from scutch.judging.calls import parse_call

DRAWN = 60
MANY = 20
"""Of `DRAWN` inputs of each law, so many at least are different for a requirement."""


@pytest.mark.nightly
def test_a_requirement_with_few_inputs_says_why():
    """Fewer than 20 make a list of examples, written as a property."""
    different, said = Counter(), {}
    for law in suite.laws():
        drawn = []
        hypothesis_parts.search(
            law.function,
            drawn.append,
            fixtures=dict.fromkeys(law.fixtures),
            seed=0,
            examples=round(DRAWN / getattr(law.function, "scutch_share", 1.0)),
        )
        number = len({call_text(law.name, inputs) for inputs in drawn})
        different[law.requirement] += number
        if hasattr(law.function, "scutch_few"):
            said[law.name] = law.requirement, number
    explained = {requirement for requirement, _ in said.values()}
    assert {each for each, number in different.items() if number < MANY} <= explained
    assert not {name: number for name, (_, number) in said.items() if number >= MANY}


def test_reasons_are_texts():
    reasons = [
        law.function.scutch_few for law in suite.laws() if hasattr(law.function, "scutch_few")
    ]
    assert reasons
    assert all(isinstance(reason, str) and len(reason) > 10 for reason in reasons)


def test_inputs_of_every_law_can_be_written_and_read_back():
    """Without a call of the law: a counterexample is replayed from its text."""
    for law in suite.laws():
        drawn = []
        hypothesis_parts.search(
            law.function, drawn.append, fixtures=dict.fromkeys(law.fixtures), examples=5, seed=0
        )
        texts = [call_text(law.name, inputs) for inputs in drawn]
        assert texts, law.name
        assert [call_text(*parse_call(text)) for text in texts] == texts, law.name
