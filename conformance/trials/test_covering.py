"""Inputs that are chosen for their pairs of features, and laws that are tried on them."""

import itertools

import pytest
import scutch
from hypothesis import given
from hypothesis import strategies as st
from scutch.implementation import Implementation
from scutch.inputs.descriptions import Array, Box, Mesh
from scutch.judging import hypothesis_parts
from scutch.judging.covering import Cover, features
from scutch.judging.suite import Law
from scutch.judging.trials import NO_PAIRS, Pairs, Trial
from scutch.judging.trying import CHOSEN, DRAWN, try_law
from scutch_reference import meta

REFERENCE = Implementation("reference", "0", meta=meta)


def law_of(function, *, must_reach=()):
    function.scutch_share = 1 / 3
    requirement = "metadata/box-axes/removing-undoes-adding"
    return Law(function.__name__, function, requirement, must_reach, None, ())


@pytest.mark.parametrize(
    ("one", "other", "place"),
    [
        ({"kind": "scan"}, {"kind": "vmap"}, "kind: 'scan'"),
        ({"axis": 0}, {"axis": -1}, "axis: int 0"),
        ({"axis": -7}, {"axis": 7}, "axis: int below 0"),
        ({"named": None}, {"named": True}, "named: None"),
        ({"at": (1,)}, {"at": ()}, "at: tuple of 1"),
        ({"box": Box(1, ())}, {"box": Array(())}, "box: Box"),
        ({"box": Box(1, ())}, {"box": Box(1, (), Mesh((2,), ("x",)))}, "Box.mesh: None"),
        ({"tree": {"a": "b"}}, {"tree": {}}, "tree[]: 'b'"),
    ],
)
def test_a_choice_is_a_feature(one, other, place):
    assert place in features(one)
    assert place not in features(other)


def test_large_numbers_of_one_sign_are_alike():
    assert features({"n": 40}) == features({"n": 41})
    assert features({"n": 0.5}) != features({"n": 5.0})


CHOICES = [dict(zip("abcd", each, strict=True)) for each in itertools.product("xyz", repeat=4)]


def tried(drawn, count, is_legal=lambda inputs: True):
    """The inputs that a cover calls a law on, and its pairs."""
    calls = []
    cover = Cover(drawn)
    cover.try_on(lambda inputs: calls.append(inputs) or is_legal(inputs), count)
    return calls, cover.pairs


def test_few_inputs_cover_all_pairs():
    calls, pairs = tried(CHOICES, 15)
    assert pairs == Pairs(54, 54), "nine pairs of values for each of six pairs of parameters"
    assert len(calls) <= 15 < len(CHOICES)


def test_the_most_telling_input_comes_first_and_none_twice():
    calls, pairs = tried([{"a": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 2}], 3)
    assert calls == [{"a": 1, "b": 2}, {"a": 1}]
    assert pairs == Pairs(1, 1)


def test_an_input_out_of_the_domain_covers_nothing_and_is_replaced():
    calls, pairs = tried(CHOICES, 20, lambda inputs: inputs["a"] != "x")
    assert sum(each["a"] != "x" for each in calls) == 20
    assert pairs.covered <= pairs.drawn
    every, pairs = tried(CHOICES, 81, lambda inputs: inputs["a"] != "x")
    assert len(every) == 81
    assert pairs == Pairs(45, 45), "the pairs of one value are not legal"


def test_nothing_drawn_is_nothing_tried():
    assert tried([], 3) == ([], NO_PAIRS)


def test_inputs_are_drawn_without_a_call():
    calls = []

    @given(number=st.integers(0, 5), kind=st.sampled_from("ab"))
    def test_any(number, kind):
        calls.append((number, kind))

    found = hypothesis_parts.drawn(test_any, fixtures={}, inputs=8, seed=0)
    assert calls == []
    assert len(found) == 8
    assert all(each.keys() == {"number", "kind"} for each in found)
    test_any()
    assert calls, "the law is afterwards as its author wrote it"


def test_a_law_that_compiles_is_tried_on_the_chosen_inputs():
    calls = []
    kinds = [st.sampled_from("xyz")] * 4

    @given(four=st.tuples(*kinds))
    def test_compiled(four):
        calls.append(four)

    trial = try_law(law_of(test_compiled), REFERENCE, examples=60)
    few = hypothesis_parts.inputs_of(test_compiled, 60)
    assert (few, DRAWN) == (22, 2)
    assert trial.examples == len(calls) == len(set(calls)) == round(few * CHOSEN) == 12
    assert 0 < trial.pairs.covered <= trial.pairs.drawn
    assert Trial.from_data(trial.to_data()).pairs == trial.pairs


def test_a_fault_in_a_chosen_input_is_shown_by_a_small_one():
    @given(numbers=st.lists(st.integers(0, 99), max_size=9), kind=st.sampled_from("abcdef"))
    def test_compiled(numbers, kind):
        assert not (kind == "e" and len(numbers) > 2)

    trial = try_law(law_of(test_compiled), REFERENCE, examples=60)
    assert trial.outcome == "failed"
    assert trial.counterexample.input == "test_compiled(numbers=[0, 0, 0], kind='e')"


def test_what_the_chosen_inputs_do_not_reach_is_searched():
    calls = []

    @given(number=st.integers(0, 10_000))
    def test_compiled(number):
        calls.append(number)
        if len(calls) > 30:
            scutch.lawkit.marks.reached("late")

    trial = try_law(law_of(test_compiled, must_reach=("late",)), REFERENCE, examples=60)
    assert trial.unmet == ()
    assert len(calls) == 31, "the search ends with the input that was missing"
