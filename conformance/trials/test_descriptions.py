"""Inputs as text: a printed input can be read back, and other text is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scutch import strategies
from scutch.judging.calls import NotACall, parse_call

SETTINGS = settings(max_examples=200, database=None, deadline=None)

drawn = st.one_of(
    strategies.any_boxes(),
    strategies.nested_boxes(),
    strategies.box_trees(),
    strategies.copies(strategies.box_trees()),
    strategies.placed_boxes(),
    strategies.placed_boxes(explicit=True, own_mesh=True),
    strategies.logical_placements(),
    strategies.logical_names(),
    strategies.rules(),
    strategies.meshes(),
    strategies.models(),
    strategies.lifted_models(inner=("scan", "vmap")),
)


@SETTINGS
@given(one=drawn, other=drawn)
def test_a_call_reads_back_as_it_prints(one, other):
    assert parse_call(f"test_x[logical](one={one!r}, other={other!r})") == (
        "test_x[logical]",
        {"one": one, "other": other},
    )


def test_a_law_without_inputs_reads_back():
    assert parse_call(" test_x() ") == ("test_x", {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("test_x", "expected law"),
        ("", "expected law"),
        ("test_x(1)", "expected law"),
        ("test_x(a=", "cannot read"),
        ("test_x(a=open('/etc/passwd'))", "cannot read \"open('/etc/passwd')\""),
        ("test_x(a=Box.__class__)", "cannot read 'Box.__class__'"),
        ("test_x(a=Box())", "missing"),
        ("test_x(a=Array((2,), colour='red'))", "colour"),
        ("test_x(**a)", "is not allowed"),
        ("test_x(a=[x for x in y])", "cannot read"),
        ("test_x(a=-'b')", "cannot read"),
    ],
)
def test_anything_else_is_refused(text, message):
    with pytest.raises(NotACall) as caught:
        parse_call(text)
    assert message in str(caught.value)


def test_descriptions_print_without_defaults():
    from scutch.inputs.descriptions import Array, Box, Mesh

    assert repr(Box(Array((2,)), ("data",))) == "Box(Array((2,)), ('data',))"
    assert repr(Array((2,), seed=1)) == "Array((2,), seed=1)"
    assert repr(Mesh((2,), ("data",), explicit=True)) == "Mesh((2,), ('data',), True)"
