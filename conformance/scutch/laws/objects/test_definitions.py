"""Graph definitions, and what is static in them: OBJ-1.

A definition has everything of an object but its leaves. The oracle is the description that the
object was built from.
"""

import copy
import warnings

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.graphs import ATTRIBUTES, children, classes, differences, nodes, put
from scutch.lawkit.domain import not_available
from scutch.lawkit.equality import alike, holds, says_equal
from scutch.lawkit.marks import raised, reached, refused, requirement
from scutch.lawkit.states import flat_state
from scutch.strategies import copies, object_trees


@requirement("objects/definitions/equal-graphs-equal-definitions", must_reach=("same", "other"))
@given(
    pair=copies(object_trees()),
    change=st.sampled_from(
        ["nothing", "value", "static", "attribute", "kind", "metadata", "sharing", "type"]
    ),
)
def test_definitions_are_equal_when_graphs_are(nnx, pair, change):
    """The graph definitions of two objects are equal, with equal hashes, when the objects differ in
    values alone; a difference in types, attributes, static data, metadata or sharing makes them
    unequal.
    """
    kinds = classes(nnx)
    one, other = kinds["Node"](), kinds["Node"]()
    for top, root in zip((one, other), pair, strict=True):
        top.a, top.c = root, "text"
        top.d, top.e = (kinds["Count"](np.ones(2), note=1) for _ in "de")
    match change:
        case "value":
            other.d.set_raw_value(np.zeros(2))
        case "static":
            other.c = "other"
        case "attribute":
            del other.c
        case "kind":
            other.d = kinds["Scale"](np.ones(2), note=1)
        case "metadata":
            other.d.set_metadata(note=2)
        case "sharing":
            other.e = other.d
        case "type":
            one.b, other.b = kinds["Node"](), kinds["Branch"]()
    same = change in ("nothing", "value")
    reached("same" if same else "other")
    ours, theirs = nnx.graphdef(one), nnx.graphdef(other)
    assert says_equal(ours, theirs) is same
    assert hash(ours) == hash(theirs) or not same


@requirement(
    "objects/definitions/attribute-order-does-not-matter", must_reach=("several", "none", "deleted")
)
@given(
    root=object_trees(),
    data=st.permutations(ATTRIBUTES),
    deleted=st.sampled_from([None, "variable", "static"]),
    at=st.integers(0, 5),
    empty=st.booleans(),
)
def test_the_order_of_attributes_does_not_matter(nnx, root, data, deleted, at, empty):
    """Two objects with the same attributes, set in another order, and with another one set and
    deleted again, have equal definitions and states.
    """
    root = type(root)() if empty else root
    attributes = dict(children(nnx, root))
    if len(attributes) > 1:
        reached("several")
    if not attributes:
        reached("none")
    other = type(root)()
    for n, name in enumerate([*data, "last"]):
        if deleted and n == at:
            reached("deleted")
            put(nnx, other, "gone", nnx.Param(np.ones(2)) if deleted == "variable" else 3)
            delattr(other, "gone")
        if holds(attributes, name):
            put(nnx, other, name, attributes[name])
    (ours, state), (theirs, other_state) = nnx.split(root), nnx.split(other)
    assert says_equal(ours, theirs)
    assert not differences(nnx, root, nnx.merge(ours, other_state))
    assert alike(list(flat_state(nnx, state)), list(flat_state(nnx, other_state)))


COPIES = {
    "merge": lambda nnx, root: nnx.merge(*nnx.split(root)),
    "clone": lambda nnx, root: nnx.clone(root),
    "copy": lambda nnx, root: copy.copy(root),
    "deepcopy": lambda nnx, root: copy.deepcopy(root),
    "tree map": lambda nnx, root: jax.tree.map(lambda leaf: leaf, root),
}


@requirement(
    "objects/definitions/data-and-static-marks-hold", must_reach=("data", "static", *COPIES)
)
@given(
    root=object_trees(),
    pair=st.sampled_from([(1.5, 2.5), (3, 4), (True, False)]),
    mark=st.booleans(),
    how=st.sampled_from(list(COPIES)),
)
def test_marks_say_what_is_data_and_what_is_static(nnx, root, pair, mark, how):
    """A number marked as data is in the state, and one marked as static is in the definition.

    A static number is no leaf of the object as a JAX pytree, either. Both come back from `split`
    and `merge`, and stay data or static in every copy.
    """
    found = []
    for value in pair:
        reached("data" if mark else "static")
        root.e = nnx.data(value) if mark else nnx.static(value)
        assert alike(root.e, value)
        definition, state = nnx.split(root)
        assert holds(flat_state(nnx, state), ("e",)) is mark
        assert alike(nnx.merge(definition, state).e, value)
        other = COPIES[how](nnx, root)
        assert alike(other.e, value)
        assert holds(flat_state(nnx, nnx.split(other)[1]), ("e",)) is mark
        found.append(definition)
        if not mark:
            count = len([*jax.tree.leaves(root)])
            root.e = nnx.static(None)
            assert len([*jax.tree.leaves(root)]) == count
    assert says_equal(found[0], found[1]) is mark


BODIES = ("annotation", "text", "default")
"""Forms in which the body of a class can mark an attribute."""
MARKS = ("data", "static", "neither")


def _marked_class(nnx, base, form, marks):
    """A class whose body marks the attributes `x0`, `x1`, ... in a form."""
    body, annotations = {}, {}
    written = {"data": "nnx.Data[int]", "static": "nnx.Static[int]", "neither": "int"}
    for n, mark in enumerate(marks):
        name = f"x{n}"
        annotations[name] = int
        if form == "text":
            annotations[name] = written[mark]
        elif mark != "neither":
            marker = {"data": nnx.data, "static": nnx.static}[mark]
            if form == "default":
                body[name] = marker()
            else:
                annotations[name] = (nnx.Data if mark == "data" else nnx.Static)[int]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return type("Marked", (base,), {"__annotations__": annotations, **body})


@requirement(
    "objects/definitions/data-and-static-marks-hold", must_reach=(*MARKS, *BODIES, "inherited")
)
@given(
    marks=st.lists(st.sampled_from(MARKS), min_size=1, max_size=3),
    form=st.sampled_from(BODIES),
    value=st.sampled_from([1.5, 3, True]),
    inherited=st.booleans(),
    how=st.sampled_from(list(COPIES)),
)
def test_the_body_of_a_class_says_what_is_data(nnx, marks, form, value, inherited, how):
    """The body of a class, or of a base, marks attributes as `nnx.data` and `nnx.static` mark the
    values that a constructor sets: by an annotation such as `nnx.Data[...]`, written as a type or
    as text, or by a default such as `nnx.data()`. It is so in every copy.
    """
    if not (hasattr(nnx, "Data") and hasattr(nnx, "Static")):
        not_available("there are no annotations Data and Static")
    kind = _marked_class(nnx, nnx.Module, form, marks)
    if inherited:
        kind = _marked_class(nnx, kind, form, ())
    root = kind()
    names = [f"x{n}" for n in range(len(marks))]
    for name in names:
        setattr(root, name, value)
    twin = nnx.Module()
    for name, mark in zip(names, marks, strict=True):
        marked = {"data": nnx.data, "static": nnx.static}.get(mark)
        setattr(twin, name, marked(value) if marked else value)
    data = flat_state(nnx, nnx.split(twin)[1])
    for each in (root, COPIES[how](nnx, root)):
        assert alike([getattr(each, name) for name in names], [value] * len(names))
        assert alike(flat_state(nnx, nnx.split(each)[1]), data)


WHAT = ("array", "variable", "a variable of none", "object", "an object without leaves")
"""Values that cannot be static data, because JAX traces them or because they have an identity."""


@requirement(
    "objects/definitions/static-arrays-are-refused",
    must_reach=(*WHAT, "alone", "in a container", "marked", "not marked", "grown"),
)
@given(
    root=object_trees(),
    kind=st.sampled_from(WHAT),
    wraps=st.sampled_from(["alone", "list", "tuple", "dict", "nested"]),
    library=st.sampled_from("nj"),
    marked=st.booleans(),
    before=st.sampled_from(["nothing", "number", "static", "grown"]),
)
def test_what_jax_is_to_trace_cannot_be_static(nnx, root, kind, wraps, library, marked, before):
    """An array, a variable or an object cannot be static, alone or in a container.

    If it is marked as static, setting the attribute or at the latest `split` raises an error; this
    includes a variable whose value is `None`, and an object without attributes. Without a mark,
    `split` refuses it or has it in the state, whatever the attribute held before. An object without
    attributes is in no state, and a copy must have another one. The same holds for a value that
    `__init__` appends to a list after it has set the list, marked or not.
    """
    reached("alone" if wraps == "alone" else "in a container")
    array = np.ones(2, "float32") if library == "n" else jax.numpy.ones(2)
    branch, bare = (classes(nnx)["Branch"]() for _ in range(2))
    branch.a = nnx.Param(array)
    things = [array, nnx.Param(array), nnx.Param(None), branch, bare]
    value = dict(zip(WHAT, things, strict=True))[kind]
    wrapped = {
        "alone": value,
        "list": [value],
        "tuple": (1, value),
        "dict": {"x": value},
        "nested": {"x": [value, 1]},
    }[wraps]
    found = []

    class Grown(nnx.Module):
        def __init__(self):
            self.e = nnx.static([]) if marked else []
            self.e.append(wrapped)

    def split():
        if before in ("number", "static"):
            root.e = 3 if before == "number" else nnx.static(3)
        if before != "grown":
            root.e = nnx.static(wrapped) if marked else wrapped
        found.extend(nnx.split(Grown() if before == "grown" else root))

    if before == "grown":
        reached(before)
    if marked and before != "grown":
        refused(split)
    elif raised(split) is not None:
        return
    elif value is bare:
        copied = nodes(nnx, nnx.merge(*found).e)
        assert not [node for node in copied if node is bare], "the copy has the object itself"
    else:
        paths = [*flat_state(nnx, found[1])]
        assert any(alike(path[0], "e") for path in paths), f"it is at none of {paths}"
