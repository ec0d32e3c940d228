"""A requirement that is tried on few inputs has a law that says why."""

from types import SimpleNamespace

from scutch.inputs.calls import parse_call
from scutch.judging import hypothesis_parts, suite
from scutch.judging.attempt import call_text
from scutch_ci.inputs import LEAST, unexplained


def row(identifier, examples, verdict="passed"):
    return SimpleNamespace(id=identifier, examples=examples, verdict=verdict)


def test_few_inputs_want_a_reason():
    """BRG-2 has one, BOX-5 has none, and a requirement that did not pass needs none."""
    rows = [
        row("bridge/registry/known-collections-have-types", 4),
        row("metadata/box-axes/removing-undoes-adding", LEAST - 1),
        row("metadata/box-axes/adding-undoes-removing", LEAST),
        row("metadata/box-axes/beyond-rank-pads", 1, "failed"),
    ]
    assert unexplained(SimpleNamespace(requirements=rows)) == [
        f"metadata/box-axes/removing-undoes-adding: {LEAST - 1}"
    ]


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
