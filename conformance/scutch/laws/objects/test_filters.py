"""Filters as predicates of paths and variables: OBJ-3.

The oracle is `takes`, which decides independently of the implementation which leaves a described
filter takes. A filter is tried on an object, by `state`, and on a state, by `filter_state`.
"""

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from scutch.inputs.described_objects import Graph, Object, Ref, Variable
from scutch.inputs.descriptions import Array
from scutch.inputs.filters import FAILING, build_filter, takes
from scutch.inputs.graphs import ATTRIBUTES, VARIABLES, classes, leaves
from scutch.lawkit.equality import alike, alike_in_any_order, says_equal
from scutch.lawkit.marks import at_least, raised, reached, refused, requirement
from scutch.strategies import filters, object_trees, variables

tagged = st.builds(
    lambda variable, tag: replace(variable, metadata={"tag": tag}),
    variables(annotated=False),
    st.sampled_from(["hot", "frozen"]),
)
KINDS = ("any", "all", "not", "list", "tuple", "literal")


def _check(nnx, root, wanted):
    """Fail unless a filter takes, from an object and from its state, the leaves that it
    must take.

    Args:
      nnx: The namespace of objects.
      root: The object.
      wanted: The described filter.

    Returns:
      The paths that it took.
    """
    expected = leaves(nnx, root)
    taken = {path for path, leaf in expected.items() if takes(nnx, wanted, path, leaf)}
    found = nnx.state(root, build_filter(nnx, wanted))
    assert alike_in_any_order(dict(nnx.to_flat_state(found)), taken)
    state = nnx.split(root)[1]
    if expected:
        found = nnx.filter_state(state, build_filter(nnx, wanted))
        assert alike_in_any_order(dict(nnx.to_flat_state(found)), taken)
    reached("taken" if taken else "left")
    return taken


@requirement("objects/filters/type-takes-instances", must_reach=("taken", "left", "base"))
@at_least(40)
@given(
    root=object_trees(),
    kind=st.sampled_from((*VARIABLES, "Variable")),
    spelling=st.sampled_from(["type", "of type"]),
)
def test_a_type_takes_variables_of_it_and_of_its_subclasses(nnx, root, kind, spelling):
    """A variable type as a filter takes its instances, and the instances of its subclasses."""
    taken = _check(nnx, root, (spelling, kind))
    if any(not alike(type(leaves(nnx, root)[path]).__name__, kind) for path in taken):
        reached("base")


TAGGED = Graph(
    (
        Object("Node", {"a": Ref(1)}),
        Variable("Param", Array((2,), "int32"), metadata={"tag": "hot"}),
    )
)


@requirement(
    "objects/filters/predicates-see-path-and-variable",
    must_reach=("taken", "left", "predicate", "path", "tag", "name"),
)
@given(
    root=object_trees(variable=tagged),
    wanted=st.one_of(
        st.tuples(st.sampled_from(["predicate", "path"]), st.sampled_from((*ATTRIBUTES, "", 0))),
        st.tuples(st.sampled_from(["tag", "name"]), st.sampled_from(["hot", "frozen"])),
    ),
)
@example(root=TAGGED, wanted=("name", "hot"))
@example(root=TAGGED, wanted=("tag", "hot"))
@example(root=TAGGED, wanted=("path", ""))
def test_predicates_paths_and_tags_take_what_they_say(nnx, root, wanted):
    """A callable is asked with a path and a variable; `PathContains(k)` takes leaves with `k` as a
    part of their path, and none where it is only in the text of a part; `WithTag(t)`, or the
    string, takes variables whose metadata has `tag` equal to `t`.
    """
    if _check(nnx, root, wanted):
        reached(wanted[0])


PLACES = ("alone", "not", "any", "all", "list", "tuple")
"""Positions of a value that is asked as a filter: alone, or inside of a filter or container."""


def _in_place(nnx, place, inner):
    """A filter with another filter, or a value that is none, in one of `PLACES`."""
    around = {
        "not": nnx.Not,
        "any": nnx.Any,
        "all": nnx.All,
        "list": lambda each: [each],
        "tuple": lambda each: (each,),
    }.get(place, lambda each: each)
    return around(inner)


ASKING = {
    "state": lambda nnx, root, by: nnx.state(root, by),
    "split": lambda nnx, root, by: nnx.split(root, by, ...),
    "filter_state": lambda nnx, root, by: nnx.filter_state(nnx.state(root), by),
}
"""Functions that ask a filter about the variables of an object."""


@requirement("objects/filters/predicates-see-path-and-variable", must_reach=(*ASKING, *PLACES))
@at_least(60)
@given(
    how=st.sampled_from(list(ASKING)),
    place=st.sampled_from(PLACES),
    error=st.sampled_from(list(FAILING)),
)
def test_an_error_of_a_predicate_reaches_the_caller(nnx, how, place, error):
    """An error that a callable raises when it is asked comes out of the function that asked it,
    also from inside another filter.
    """
    by = _in_place(nnx, place, FAILING[error])
    found = raised(lambda: ASKING[how](nnx, _small(nnx), by))
    assert alike(type(found).__name__, error), f"the {error} came out as {found!r}"


PARAM = Graph((Object("Node", {"a": Ref(1)}), Variable("Param", Array((2,), "int32"))))


def _of_every_kind(law):
    """Give a law an example of each kind of filter, which few random inputs might miss."""
    for kind in KINDS:
        law = example(root=PARAM, kind=kind, parts=[("type", "Param")], literal=True)(law)
    return law


@requirement("objects/filters/filters-compose", must_reach=("taken", "left", *KINDS))
@given(
    root=object_trees(variable=tagged),
    kind=st.sampled_from(KINDS),
    parts=st.lists(filters(), min_size=1, max_size=3),
    literal=st.sampled_from(["...", True, False, None]),
)
@_of_every_kind
def test_filters_compose_as_predicates(nnx, root, kind, parts, literal):
    """`Any`, `All` and `Not` filter leaves by the `or`, `and` and `not` of their parts.

    `...` and `True` take all leaves, `None` and `False` none. A list or tuple takes a leaf if any
    of its members does.
    """
    parts = [literal] if kind == "literal" else parts[:1] if kind == "not" else parts
    _check(nnx, root, (kind, *parts))


@requirement("objects/filters/equal-filters-hash-equal", must_reach=("same", "other"))
@given(described=st.lists(filters(spelled=True), min_size=2, max_size=4))
def test_filters_are_equal_by_content(nnx, described):
    """Filters that are built alike are equal and have equal hashes; filters of other kinds or parts
    are not equal.
    """
    some, others = ([build_filter(nnx, each) for each in described] for _ in range(2))
    for one, filter_ in zip(described, some, strict=True):
        for other, compared in zip(described, others, strict=True):
            same = one == other
            reached("same" if same else "other")
            assert says_equal(filter_, compared) is same
            assert not same or hash(filter_) == hash(compared)


def _small(nnx):
    """An object with one parameter."""
    root = classes(nnx)["Node"]()
    root.a = nnx.Param(1.0)
    return root


numbers = st.one_of(st.integers(2, 99), st.floats(2, 99))


def _with_each_place(law):
    """A law that is tried first with the number 7 as a filter in each place, on an empty object."""
    for place in PLACES:
        law = example(wrong=7, how="state", place=place, empty=True)(law)
    return law


@requirement(
    "objects/filters/non-filters-are-refused", must_reach=("state", "split", "empty", *PLACES)
)
@_with_each_place
@given(
    wrong=st.one_of(numbers, st.just(0)),
    how=st.sampled_from(["state", "split"]),
    place=st.sampled_from(PLACES),
    empty=st.booleans(),
)
def test_what_is_no_filter_is_refused(nnx, wrong, how, place, empty):
    """A number in the place of a filter, or inside one, is refused, also where the object has
    nothing that a filter could take.
    """
    root = classes(nnx)["Node"]() if empty else _small(nnx)
    refused(lambda: getattr(nnx, how)(root, _in_place(nnx, place, wrong)))


@requirement("objects/filters/non-filters-are-refused[message]")
@given(
    wrong=st.one_of(st.integers(2, 99), st.floats(2, 99)), how=st.sampled_from(["state", "split"])
)
def test_the_refusal_shows_what_is_no_filter(nnx, wrong, how):
    """The error for a number in the place of a filter shows the number."""
    refused(lambda: getattr(nnx, how)(_small(nnx), wrong), naming=(wrong,))


@requirement("objects/filters/unreachable-filters-are-refused")
@given(whole=st.sampled_from(["...", True]), later=filters(spelled=True))
def test_a_filter_that_could_never_be_reached_is_refused(nnx, whole, later):
    """`split` refuses a filter that comes after one which takes every leaf."""
    refused(
        lambda: nnx.split(
            _small(nnx), build_filter(nnx, ("literal", whole)), build_filter(nnx, later)
        )
    )
