"""The driver of a law: inputs that count, counterexamples, exceptions of an implementation."""

import ast
import asyncio
import contextlib
import importlib
import json
import os
import re
import signal
import struct
import sys
import unittest
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import hypothesis
import jax
import pytest
import scutch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from scutch.implementation import Implementation
from scutch.inputs.descriptions import Array, Box
from scutch.judging import hypothesis_parts, isolation, suite
from scutch.judging.attempt import Setting, mixed
from scutch.judging.hypothesis_parts import LEAST, Diverted
from scutch.judging.isolation import Channel, Closed, Runner
from scutch.judging.known import Expected
from scutch.judging.profiles import DEFAULT, PROFILES
from scutch.judging.suite import Law
from scutch.judging.trying import try_law
from scutch.lawkit.domain import (
    THE_JUDGE,
    assume,
    import_or_leave,
    need_devices,
    not_available,
)
from scutch.namespaces import Namespace
from scutch_reference import meta

# These runners are forked from a process in which other trials may have used JAX. JAX warns of that
# in the hook of the fork; the runners here do not touch JAX.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork")

REFERENCE = Implementation("reference", "0", meta=meta)


def law_of(function, *fixtures, must_reach=()):
    return Law(
        function.__name__,
        function,
        "metadata/box-axes/removing-undoes-adding",
        must_reach,
        None,
        fixtures,
    )


@given(number=st.integers(0, 1000))
def small(number):
    assert number < 7


# ---------------------------------------------------------------- inputs from Hypothesis


def test_the_counterexample_is_the_smallest_call_and_reads_back():
    trial = try_law(law_of(small), REFERENCE, examples=100)
    assert (trial.outcome, trial.counterexample.input) == ("failed", "small(number=7)")
    assert type(trial.error) is AssertionError
    assert trial.reason == trial.counterexample.error


def test_shrinking_can_be_left_out():
    calls = []
    trial = try_law(
        law_of(small), REFERENCE, examples=100, shrink=False, setting=Setting(journal=calls.append)
    )
    assert trial.outcome == "failed"
    assert len(calls) < len(set(calls)) + 3, "the engine tried what it had tried"
    assert trial.counterexample.input != "small(number=7)"


def test_a_law_gets_as_many_inputs_as_it_is_told_and_its_share_of_them():
    calls = []

    @given(number=st.integers())
    def test_any(number):
        calls.append(number)

    assert try_law(law_of(test_any), REFERENCE, examples=40).examples == len(calls) == 40
    test_any.scutch_share = 3 / 4
    assert try_law(law_of(test_any), REFERENCE, examples=40).examples == 30
    assert try_law(law_of(test_any), REFERENCE, examples=4).examples == 4
    test_any.scutch_share = 1 / 6
    assert try_law(law_of(test_any), REFERENCE, examples=40).examples == 7
    assert try_law(law_of(test_any), REFERENCE, examples=30).examples == LEAST


def test_a_law_may_need_more_inputs_than_a_run_has():
    @given(number=st.integers())
    def test_any(number):
        pass

    usual = PROFILES[DEFAULT].examples
    test_any.scutch_least = 3 * usual
    assert try_law(law_of(test_any), REFERENCE, examples=usual).examples == 3 * usual
    assert try_law(law_of(test_any), REFERENCE, examples=usual // 2).examples == 3 * (usual // 2)
    assert try_law(law_of(test_any), REFERENCE, examples=10 * usual).examples == 10 * usual


@pytest.mark.parametrize("seed", range(3))
def test_every_input_is_drawn_and_none_is_a_variant_of_another(seed):
    calls = []
    pairs = st.sampled_from("abcde").flatmap(lambda kind: st.tuples(st.just(kind), st.integers()))

    @given(pair=pairs, others=st.lists(st.integers(0, 99)))
    def test_any(pair, others):
        calls.append(pair[0])

    try_law(law_of(test_any), REFERENCE, examples=60, seed=seed)
    assert max(Counter(calls).values()) <= 20, "one of five alternatives came up too often"


def test_the_seed_decides_what_is_drawn():
    def drawn(seed):
        calls = []
        try_law(
            law_of(small), REFERENCE, examples=20, seed=seed, setting=Setting(journal=calls.append)
        )
        return calls

    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)


@given(number=st.integers().map(lambda number: number // 0))
def undrawable(number):
    """Its strategy raises, so it is never called."""


def test_an_error_before_any_call_breaks_the_law():
    trial = try_law(law_of(undrawable), REFERENCE, examples=5)
    assert (trial.outcome, trial.counterexample.test) == ("failed", "undrawable")
    assert "ZeroDivisionError" in trial.reason


def test_a_law_is_afterwards_as_its_author_wrote_it():
    before = hypothesis_parts.written(small)
    try_law(law_of(small), REFERENCE, examples=5)
    assert hypothesis_parts.written(small) is before


def test_laws_leave_by_exceptions_of_the_judge():
    """`assume` of Hypothesis and `skip` of pytest would convict whoever is judged."""
    for file in (Path(scutch.__file__).parent / "laws").rglob("*.py"):
        text = file.read_text("utf-8")
        assert not re.search(r"hypothesis.*\bassume\b|pytest\.(skip|importorskip|xfail)", text), (
            file
        )


def test_nothing_is_imported_from_the_private_parts_of_pytest():
    for file in Path(scutch.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not [name for name in names if name.startswith("_pytest")], file


# ---------------------------------------------------------------- inputs rejected or known


def test_an_input_out_of_the_domain_counts_for_nothing():
    @given(number=st.integers())
    def test_none(number):
        assume(False)

    trial = try_law(law_of(test_none), REFERENCE, examples=5)
    assert (trial.outcome, trial.examples, trial.counterexample) == ("passed", 0, None)


def test_a_law_without_inputs_may_be_out_of_its_domain_too():
    def test_undrawn():
        assume(False)

    assert try_law(law_of(test_undrawn), REFERENCE, examples=5).examples == 0


def test_what_the_environment_lacks_skips_a_law():
    def test_absent():
        import_or_leave("no_such_module", "there is no such module")

    trial = try_law(law_of(test_absent), REFERENCE, examples=5)
    assert (trial.outcome, trial.examples) == ("skipped", 0)
    assert trial.reason == "there is no such module"


def test_a_counterexample_is_not_dropped_when_a_later_input_is_skipped():
    seen = []

    @given(number=st.integers())
    def test_both(number):
        seen.append(number)
        if len(seen) > 1:
            not_available("not here")
        raise ValueError("broken")

    trial = try_law(law_of(test_both), REFERENCE, examples=5)
    assert (trial.outcome, trial.reason) == ("failed", "ValueError: broken")


def test_what_must_be_reached_and_was_not_is_told():
    @given(number=st.integers())
    def test_hollow(number):
        if number is None:
            scutch.lawkit.marks.reached("none")

    law = law_of(test_hollow, must_reach=("none",))
    assert try_law(law, REFERENCE, examples=5).unmet == ("none",)
    assert try_law(law, REFERENCE, examples=5, replay=[{"number": 1}]).unmet == ()


def test_words_and_flags_that_are_drawn_are_reached_unless_the_law_is_left():
    @given(word=st.sampled_from(["one", "two"]), words=st.just(("three",)), flag=st.booleans())
    def test_worded(word, words, flag):
        scutch.lawkit.domain.assume(word == "one")

    law = law_of(test_worded, must_reach=("one", "two", "three", "flag", "not flag", "not three"))
    assert try_law(law, REFERENCE, examples=20).unmet == ("two", "not three")


@given(number=st.integers(0, 40))
def of_two_ways(number):
    if number >= 100:
        need_devices(8)
    assert number < 10, "it is large"
    if number in (3, 4):
        raise ValueError(f"an odd number {number}")


LARGE = 'AssertionError at `assert number < 10, "it is large"`'
ODD = 'ValueError: an odd number at `raise ValueError(f"an odd number {number}")`'


@pytest.mark.parametrize(("examples", "tried"), [(15, True), (14, False)])
def test_a_law_is_searched_again_until_it_has_reached_what_it_must(examples, tried):
    seen = []

    @given(number=st.integers())
    def test_late(number):
        seen.append(number)
        if len(seen) > examples:
            scutch.lawkit.marks.reached("late")

    trial = try_law(law_of(test_late, must_reach=("late",)), REFERENCE, examples=examples)
    assert trial.outcome == "passed"
    assert trial.unmet == (() if tried else ("late",))
    assert len(seen) == (examples + 1 if tried else examples), "the second search ends with it"


def test_a_witness_is_tried_first_and_what_breaks_alike_is_passed_over():
    calls = []
    trial = try_law(
        law_of(small),
        REFERENCE,
        examples=5,
        known=Expected("small(number=9)"),
        setting=Setting(journal=calls.append),
    )
    assert (trial.outcome, trial.broke) == ("failed", True)
    assert calls[0] == trial.expected == trial.counterexample.input
    assert len(calls) > trial.examples + 1
    assert str(trial.error) == "assert 9 < 7"


FORK = """
import json
import jax

def checked(call=lambda: None):
    call()
    raise TypeError("wrong")

def shaped():
    return jax.numpy.reshape(jax.numpy.zeros(3), 2)

def read():
    return json.loads("{")
"""


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (lambda fork: fork.checked(), "fork.py:7"),
        (lambda fork: fork.shaped(), "fork.py:10"),
        (lambda fork: fork.read(), "fork.py:13"),
        (lambda fork: fork.checked(lambda: need_devices(-1) or [][0]), ""),
        (lambda fork: [][fork.__name__ == "fork"], ""),
    ],
    ids=["its own", "of JAX", "of Python", "in a function of the law", "of the law"],
)
def test_a_counterexample_says_where_the_implementation_raised(call, place, tmp_path, monkeypatch):
    (tmp_path / "fork.py").write_text(FORK)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "fork", raising=False)
    monkeypatch.chdir(tmp_path)
    fork = importlib.import_module("fork")

    @given(number=st.just(1))
    def of_fork(number):
        call(fork)

    trial = try_law(law_of(of_fork), REFERENCE, examples=2)
    assert trial.counterexample.place == place, trial.counterexample
    assert trial.counterexample.fault == (
        (trial.counterexample.way.partition(" at ")[0], place) if place else None
    )


@pytest.mark.parametrize("known", [(), (LARGE,)], ids=["the way of the witness", "a way"])
def test_what_breaks_in_another_way_than_is_known_is_a_new_failure(known):
    trial = try_law(
        law_of(of_two_ways),
        REFERENCE,
        examples=200,
        known=Expected("of_two_ways(number=12)", known),
    )
    assert (trial.outcome, trial.broke) == ("failed", False)
    assert (trial.counterexample.input, trial.counterexample.way) == ("of_two_ways(number=3)", ODD)
    assert trial.reason.startswith("it is known to fail, but not so: ValueError: an odd number 3")
    assert [(found.input, found.way) for found in trial.also] == [(trial.expected, LARGE)]


def test_all_ways_that_are_known_are_passed_over():
    trial = try_law(
        law_of(of_two_ways),
        REFERENCE,
        examples=200,
        known=Expected("of_two_ways(number=12)", (LARGE, ODD)),
    )
    assert (trial.broke, trial.counterexample.way, trial.examples) == (True, LARGE, 8)


EDITED = 'AssertionError at `assert number < 11, "it is large"`'
ELSEWHERE = 'AssertionError at `assert number < 10, "it is large"` > `assert is_no_law()`'


@pytest.mark.parametrize("before", [EDITED, ELSEWHERE])
def test_a_way_that_was_recorded_before_the_law_was_edited_stands_for_its_error(before):
    trial = try_law(
        law_of(of_two_ways),
        REFERENCE,
        examples=200,
        known=Expected("of_two_ways(number=12)", (before, ODD)),
    )
    assert (trial.broke, trial.counterexample.way) == (True, LARGE)
    trial = try_law(
        law_of(of_two_ways),
        REFERENCE,
        examples=200,
        known=Expected("of_two_ways(number=12)", (before,)),
    )
    assert (trial.broke, trial.counterexample.way) == (False, ODD), "another error is none of it"


def test_a_witness_that_breaks_in_another_way_is_a_new_failure():
    trial = try_law(
        law_of(of_two_ways),
        REFERENCE,
        examples=200,
        known=Expected("of_two_ways(number=4)", (LARGE,)),
    )
    assert (trial.outcome, trial.broke, trial.counterexample.way) == ("failed", False, ODD)
    assert trial.reason.startswith("it is known to fail, but not so")


def test_where_the_witness_holds_no_way_is_known():
    trial = try_law(
        law_of(of_two_ways),
        REFERENCE,
        examples=200,
        known=Expected("of_two_ways(number=0)", (LARGE, ODD)),
    )
    assert (trial.outcome, trial.broke, trial.reason[:5]) == ("failed", False, "Asser")


def test_a_witness_out_of_the_domain_has_not_broken_the_law():
    @given(number=st.integers(0, 5))
    def test_domain(number):
        assume(number < 100)

    trial = try_law(
        law_of(test_domain), REFERENCE, examples=5, known=Expected("test_domain(number=100)")
    )
    assert (trial.outcome, trial.broke, trial.examples) == ("passed", False, 5)


@pytest.mark.parametrize(("known", "broke"), [((LARGE, ODD), True), ((LARGE,), False)])
def test_a_witness_that_needs_more_devices_leaves_what_is_known(monkeypatch, known, broke):
    monkeypatch.setattr("jax.device_count", lambda: 1)
    trial = try_law(
        law_of(of_two_ways),
        REFERENCE,
        examples=200,
        known=Expected("of_two_ways(number=112)", known),
    )
    assert (trial.outcome, trial.broke) == ("failed", broke)
    assert trial.witness_untried == "needs 8 devices, and there are 1"


def test_a_fixture_that_is_unknown_is_refused():
    def test_odd(monkeypatch):
        pass

    marked = scutch.lawkit.marks.requirement("metadata/box-axes/removing-undoes-adding")(test_odd)
    with pytest.raises(scutch.SetupError, match="takes monkeypatch; expected arguments that"):
        list(suite.laws_of(SimpleNamespace(__name__="mine"), "test_odd", marked))


# ---------------------------------------------------------------- exceptions of an implementation


class Odd(BaseException):
    pass


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def _raise(error):
    raise error


ORDERS = {
    "skip": lambda: pytest.skip("not here"),
    "importorskip": lambda: pytest.importorskip("no_such_module"),
    "xfail": lambda: pytest.xfail("as ever"),
    "exit": lambda: pytest.exit("enough"),
    "SkipTest": lambda: _raise(unittest.SkipTest("not here")),
    "reject": hypothesis.reject,
    "assume": lambda: hypothesis.assume(False),
    "Unsatisfiable": lambda: _raise(Unsatisfiable("none")),
    "SystemExit": lambda: _raise(SystemExit(0)),
    "GeneratorExit": lambda: _raise(GeneratorExit()),
    "CancelledError": lambda: _raise(asyncio.CancelledError()),
    "BaseException": lambda: _raise(Odd("odd")),
}


def _raising(act):
    class Raising(meta.Partitioned):
        def remove_axis(self, index, params):
            return act()

    space = Namespace("raising", SimpleNamespace(Partitioned=Raising), meta)
    return Implementation("raising", "0", meta=space)


def the_law(requirement):
    return suite.tried_by([requirement])[0]


@pytest.mark.parametrize("act", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("drawn", [True, False], ids=["drawn", "replayed"])
def test_an_order_of_an_implementation_is_a_failure(act, drawn):
    lying, inputs = _raising(act), {"number": 3}

    @given(number=st.integers(3, 9))
    def test_removal(meta, number):
        meta.Partitioned(1.0, ("data",)).remove_axis(0, {})

    law = law_of(test_removal, "meta")
    trial = try_law(law, lying, examples=5, replay=None if drawn else [inputs])
    assert (trial.outcome, trial.examples) == ("failed", 0)
    assert trial.counterexample.input == "test_removal(number=3)"
    assert type(trial.error) is Diverted
    assert "by which it would not have been judged" in trial.reason


def test_a_law_of_the_suite_is_not_passed_by_rejecting_every_input():
    trial = try_law(
        the_law("metadata/box-axes/removing-undoes-adding"),
        _raising(hypothesis.reject),
        examples=20,
    )
    assert trial.outcome == "failed"
    assert trial.counterexample.input.startswith("test_removing_an_added_axis_restores_the_box(")


def test_an_error_without_words_is_told_by_its_type():
    trial = try_law(
        the_law("metadata/box-axes/removing-undoes-adding"),
        _raising(lambda: _raise(Mute())),
        examples=20,
    )
    assert trial.reason == "Mute: (no message: str() raised RuntimeError)"


def test_a_user_can_interrupt_a_run_that_is_not_isolated():
    """Unless the process ignores the signal, as a shell arranges for background jobs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            try_law(
                the_law("metadata/box-axes/removing-undoes-adding"),
                _raising(lambda: _raise(KeyboardInterrupt())),
                examples=5,
            )
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_trial_is_sent_without_its_exception():
    trial = try_law(law_of(small), REFERENCE, examples=100)
    again = type(trial).from_data(trial.to_data())
    assert again == trial
    assert again.error is None


# ---------------------------------------------------------------- messages between processes


def test_a_message_comes_as_it_was_sent():
    one, other = Channel.pair()
    message = {"text": "ä\ud800\x1b", "numbers": [1, 2.5, None]}
    one.send(message)
    assert other.receive(1) == message


@pytest.mark.parametrize("rest", [b"", b"{"], ids=["header alone", "part"])
def test_a_message_that_is_cut_off_midway_is_the_end_of_the_channel(rest):
    one, other = Channel.pair()
    os.write(one.fileno(), struct.pack("!i", 100) + rest)
    one.close()
    with pytest.raises(Closed):
        other.receive(1)


def test_a_message_that_stalls_midway_is_given_up(monkeypatch):
    monkeypatch.setattr(isolation, "_STALL", 1)
    one, other = Channel.pair()
    os.write(one.fileno(), struct.pack("!i", 100) + b"{")
    with pytest.raises(TimeoutError):
        other.receive(1)
    one.close()


def test_what_is_no_message_is_the_end_of_the_channel():
    one, other = Channel.pair()
    text = b"\x80\x04K\x01."  # a pickle
    os.write(one.fileno(), struct.pack("!i", len(text)) + text)
    with pytest.raises(Closed):
        other.receive(1)


def test_nothing_comes_in_time():
    one, other = Channel.pair()
    with pytest.raises(TimeoutError):
        other.receive(0.01)
    one.close()


def _behave(request):
    if request == "print":
        print("noise")
        os.write(2, b"and past Python\n")
    if request == "exit":
        print("last words")
        runner.note("test_x(a=1)")
        os._exit(3)
    if request == "fault":
        raise KeyError("no such law")
    return {"asked": request}


runner = Runner(_behave)


def test_a_runner_keeps_what_is_printed_and_what_it_did_last():
    assert runner.ask("print", 5) == {"asked": "print"}
    assert runner.output() == "noise\nand past Python\n"
    lost = runner.ask("exit", 5)
    assert (lost.outcome, lost.reason) == ("crashed", "the process exited with 3")
    assert (lost.doing, lost.output) == ("test_x(a=1)", "last words\n")
    assert runner.ask("again", 5) == {"asked": "again"}
    runner.close()
    assert runner.pid is None


def test_a_fault_of_the_judge_in_a_runner_is_no_crash_of_the_implementation():
    lost = runner.ask("fault", 5)
    assert lost.outcome == "untried"
    assert lost.reason == f"{THE_JUDGE}: KeyError: 'no such law'"
    assert "in _behave" in lost.output
    runner.close()


@jax.tree_util.register_pytree_node_class
class Endless:
    """A node of JAX's trees that is its own child."""

    def tree_flatten(self):
        return (self,), None

    @classmethod
    def tree_unflatten(cls, static, children):
        return cls()


def _walk(request):
    """The process; an endless tree is walked first, which JAX counts for good."""
    if request == "an endless tree":
        with contextlib.suppress(RecursionError):
            jax.tree.leaves(Endless())
    return os.getpid()


def test_a_runner_that_can_no_longer_nest_calls_gives_way_to_another():
    with contextlib.closing(Runner(_walk)) as walker:
        first = walker.ask("", 5)
        assert walker.ask("an endless tree", 5) == first
        assert walker.ask("", 5) != first


def test_a_run_goes_to_a_worker_as_plain_data():
    from scutch.judging.run import Run, settle

    run = settle("reference", isolate=False, known_files=["shipped"], patterns=["BOX"])
    assert Run.from_data(json.loads(json.dumps(run.to_data()))) == run


def test_a_law_may_take_longer_when_it_gets_more_inputs():
    from scutch.judging.run import settle

    options = ({}, {"examples": 15}, {"examples": 80}, {"examples": 80, "timeout": 5})
    runs = [settle("reference", isolate=False, profile="ci", **each) for each in options]
    assert [run.timeout for run in runs] == [120, 120, 480, 5]


def test_a_call_that_breaks_one_law_is_mixed_with_the_inputs_of_another():
    box, array = Box(Array((2,)), ("data",)), Array((3,))
    assert list(mixed({"box": box}, {"box": array})) == [{"box": array}]
    assert {"tree": box} in list(mixed({"tree": Box(array, ("x",))}, {"pair": [box]}))


def test_nothing_in_common_is_no_evidence_of_a_consequence():
    assert list(mixed({"box": Box(Array((2,)), ("data",))}, {"rate": 0.5})) == []


def test_an_error_of_the_law_itself_shows_the_statement():
    def law():
        seen = []
        return seen[0]

    error = try_law(law_of(law), REFERENCE, examples=1).counterexample.error
    assert error == "IndexError: list index out of range, at `return seen[0]`"


def test_an_assertion_without_a_word_shows_what_was_asked():
    def law():
        seen = []
        assert any(seen)

    error = try_law(law_of(law), REFERENCE, examples=1).counterexample.error
    assert error.splitlines()[0] == "AssertionError: assert any(seen)"


def test_each_line_that_breaks_is_a_way_of_its_own():
    @given(number=st.integers(0, 9))
    def law(number):
        if number > 5:
            _break()
        if number > 2:
            _break()

    trial = try_law(law_of(law), REFERENCE, examples=50)
    assert {trial.counterexample.input, *(way.input for way in trial.also)} == {
        "law(number=3)",
        "law(number=6)",
    }


def _break():
    raise ValueError("broken")
