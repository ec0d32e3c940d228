"""Initializers, equality, classes of others: BOX-19 to BOX-21, BOX-24 and BOX-26 (`000_`).

The oracle for equality is `alike`, which compares the fields of two boxes and does not ask their
`__eq__`. The oracle for boxes of foreign classes is the box's own method: in the result of a tree
function, a box must be alike to the result of its method.

A *foreign* class is one of `scutch.inputs.boxes`: a subclass of `AxisMetadata` that is written
outside the implementation.
"""

import copy
import functools
import pickle

import jax
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from scutch.inputs.descriptions import Mesh
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, holds, says_equal, says_unequal
from scutch.lawkit.marks import raised, reached, refused, requirement
from scutch.laws.metadata.explicit_axes import explicit
from scutch.strategies import (
    abstract_values,
    any_boxes,
    arrays,
    axis_names,
    box_trees,
    boxes,
    copies,
    foreign_boxes,
    meshes,
    nested_boxes,
    numbers,
    values,
)

pytestmark = pytest.mark.usefixtures("subject")

names = st.lists(axis_names(), max_size=3).map(tuple)
identifiers = st.text("abcdefgh_", min_size=1, max_size=8)
comparable = st.one_of(
    numbers(), st.just("text"), abstract_values(), st.tuples(numbers(), st.just("text"))
)


@requirement("metadata/box-values/initializer-boxes-its-result")
@given(
    value=values(),
    names=names,
    mesh=st.one_of(st.none(), meshes()),
    arguments=st.lists(numbers(), max_size=3),
    keywords=st.dictionaries(st.sampled_from(["scale", "names", "mesh", "fn"]), numbers()),
)
def test_with_partitioning_boxes_the_result(subject, value, names, mesh, arguments, keywords):
    """`with_partitioning(init, names, mesh)` calls `init` once, with the arguments of the caller,
    and returns its result in a box with those names and that mesh.
    """
    calls = []

    def init(*args, **kwargs):
        calls.append((args, kwargs))
        return value

    box = subject.wrap(init, names, mesh)(*arguments, **keywords)
    assert alike(calls, [(tuple(arguments), keywords)])
    assert alike(box, subject.make(value, names, mesh))


@requirement("metadata/box-values/initializer-keeps-its-name", must_reach=("function", "partial"))
@given(kind=st.sampled_from(["function", "partial"]), name=identifiers, doc=st.text(max_size=20))
def test_with_partitioning_keeps_name_and_docstring(subject, kind, name, doc):
    """The wrapped initializer has the `__name__` and the `__doc__` of the original; one without
    them, such as a `functools.partial`, can be wrapped too.
    """

    def init(key, shape):
        return key, shape

    init.__name__, init.__doc__ = name, doc
    if kind == "partial":
        assert alike(subject.wrap(functools.partial(init, 1), ("data",), None)(2).unbox(), (1, 2))
    else:
        wrapped = subject.wrap(init, ("data",), None)
        assert alike((wrapped.__name__, wrapped.__doc__), (name, doc))


@requirement("metadata/box-equality/boxes-are-immutable", must_reach=("set", "delete"))
@given(
    pair=copies(boxes()),
    field=st.sampled_from(["value", "names", "mesh"]),
    action=st.sampled_from(["set", "delete"]),
)
def test_boxes_are_immutable(pair, field, action):
    """Setting or deleting the value, the names or the mesh of a box raises an error and changes
    nothing.
    """
    box, before = pair
    refused(lambda: setattr(box, field, ("other",)) if action == "set" else delattr(box, field))
    assert alike(box, before)


@requirement("metadata/box-equality/copies-equal-the-original", must_reach=("nested",))
@given(box=st.one_of(any_boxes(), nested_boxes()), deep=st.booleans())
def test_copies_are_alike(meta, box, deep):
    """`copy.copy` and `copy.deepcopy` of a box give a box like it."""
    if meta.is_axis_metadata(box.unbox()):
        reached("nested")
    twin = copy.deepcopy(box) if deep else copy.copy(box)
    assert alike(twin, box)


@requirement("metadata/box-equality/pickling-restores-the-box")
@given(box=boxes(st.one_of(arrays(), numbers(), abstract_values())))
def test_boxes_survive_pickling(box):
    """A box that is pickled and unpickled is like the original."""
    assert alike(pickle.loads(pickle.dumps(box)), box)


@requirement(
    "metadata/box-equality/equality-compares-all-contents",
    must_reach=("equal", "value", "names", "mesh"),
)
@given(
    pair=st.tuples(
        st.tuples(comparable, names, st.one_of(st.none(), meshes())),
        st.tuples(comparable, names, st.one_of(st.none(), meshes())),
        st.tuples(st.booleans(), st.booleans(), st.booleans()),
    )
)
@example(pair=((1, ("data",), None), (2, (), Mesh((2,), ("data",))), (False, True, True)))
@example(pair=((1, ("data",), None), (2, (), Mesh((2,), ("data",))), (True, False, True)))
@example(pair=((1, ("data",), None), (2, (), Mesh((2,), ("data",))), (True, True, False)))
@example(pair=((1, ("data",), None), (2, (), Mesh((2,), ("data",))), (True, True, True)))
@example(pair=((1.0, ("data",), None), (float("nan"), (), None), (False, True, True)))
@example(pair=((float("nan"), ("data",), None), (1.0, (), None), (False, True, True)))
def test_equality_follows_the_whole_content(subject, pair):
    """Two boxes of one class are equal exactly when their values, names and meshes are, and `!=` is
    the opposite of `==`. Boxes of arrays of other shapes are not equal, if they can be compared.
    """
    one, other, shared = pair
    other = tuple(a if same else b for a, b, same in zip(one, other, shared, strict=True))
    fields = zip(("value", "names", "mesh"), one, other, strict=True)
    differing = [name for name, a, b in fields if not alike(a, b)]
    # 1 equals True, and is not alike.
    assume(not holds(differing, "value") or not says_equal(one[0], other[0]))
    reached(differing[0] if len(differing) == 1 else "equal" if not differing else "several")
    first, second = subject.make(*one), subject.make(*other)
    assert says_equal(first, second) is (not differing)
    assert says_unequal(first, second) is not (says_equal(first, second))
    arrays = [subject.make(np.ones(shape), *one[1:]) for shape in ((2,), (2, 2))]
    answers = []  # to compare two arrays may be refused, as NumPy refuses to say yes or no
    raised(lambda: answers.append(says_equal(*arrays)))
    assert not any(answers), "arrays of other shapes"


@requirement("metadata/box-equality/equality-compares-all-contents")
@given(value=comparable, names=names, mesh=meshes())
def test_boxes_are_unequal_where_the_types_of_mesh_axes_differ(subject, value, names, mesh):
    """Two boxes that differ in the types of the axes of their meshes alone are unequal."""
    other = explicit(subject, mesh)
    assert says_unequal(subject.make(value, names, mesh), subject.make(value, names, other))


@requirement("metadata/box-equality/equality-compares-all-contents")
@given(box=boxes(comparable), kind=foreign_boxes(comparable))
def test_boxes_of_other_classes_are_unequal(box, kind):
    """A box is unequal to a box of a foreign class, to its own value, and to its own names; and
    equal to itself, where its value is.
    """
    value = box.unbox(apply_constraint=False)
    if says_equal(value, value):
        assert says_equal(box, box)
        assert not says_unequal(box, box)
    assert says_unequal(box, kind)
    assert says_unequal(box, box.unbox())
    assert says_unequal(box, box.names)


@requirement("metadata/box-equality/equal-boxes-hash-equal", must_reach=("equal",))
@given(pair=copies(boxes(comparable)))
def test_equal_boxes_have_equal_hashes(pair):
    """Two boxes made from equal parts have equal hashes, and find each other as keys of a
    dictionary.
    """
    one, other = pair
    assume(says_equal(one, other))
    reached("equal")
    assert hash(one) == hash(other)
    assert alike({one: 1}[other], 1)


@requirement("metadata/box-equality/equal-boxes-hash-equal", must_reach=("equal",))
@given(value=comparable, names=names, other=names)
def test_hashes_follow_equality(subject, value, names, other):
    """Two boxes that the implementation calls equal have equal hashes."""
    first, second = subject.make(value, names, None), subject.make(value, other, None)
    if says_equal(first, second):
        reached("equal")
        assert hash(first) == hash(second)


METHODS = ("unbox", "replace_boxed", "add_axis", "remove_axis")


@requirement("metadata/box-subclasses/incomplete-class-is-refused", must_reach=METHODS)
@given(
    missing=st.lists(st.sampled_from(METHODS), min_size=1, unique=True),
    others=st.lists(identifiers, max_size=2),
    deep=st.booleans(),
)
def test_an_incomplete_class_cannot_be_instantiated(meta, missing, others, deep):
    """A subclass of `AxisMetadata` that lacks some of the four methods raises a `TypeError` when it
    is instantiated; with all four it is axis metadata.
    """
    names = {*METHODS, *others}
    base = type("Base", (meta.AxisMetadata,), {}) if deep else meta.AxisMetadata
    incomplete = type("Incomplete", (base,), dict.fromkeys(names - set(missing), _method))
    reached(*missing)
    error = refused(incomplete)
    assert isinstance(error, TypeError), f"expected a TypeError, not {error!r}"
    complete = type("Complete", (incomplete,), dict.fromkeys(missing, _method))
    assert meta.is_axis_metadata(complete())


@requirement("metadata/box-subclasses/incomplete-class-is-refused[message]", must_reach=METHODS)
@given(missing=st.lists(st.sampled_from(METHODS), min_size=1, unique=True))
def test_the_refusal_of_an_incomplete_class_names_the_methods(meta, missing):
    """The error for a subclass that lacks some of the four methods has their names."""
    reached(*missing)
    there = dict.fromkeys({*METHODS} - {*missing}, _method)
    refused(type("Incomplete", (meta.AxisMetadata,), there), naming=tuple(missing))


def _method(self, *arguments):
    """Stands for a method that the law does not call."""
    return self


@requirement(
    "metadata/box-subclasses/foreign-boxes-take-part", must_reach=("Wrapped", "Annotated", "Padded")
)
@given(box=foreign_boxes(), index=st.integers(0, 5), name=axis_names(), value=values())
def test_foreign_boxes_take_part(meta, box, index, name, value):
    """Every tree function replaces a foreign box by the result of the box's own method."""
    reached(type(box).__name__)
    params = {meta.PARTITION_NAME: name}
    tree = {"box": box, "other": [value]}
    added = meta.add_axis(tree, index, params)
    assert alike(added, {"box": box.add_axis(index, params), "other": [value]})
    assert alike(
        meta.remove_axis(added, index, params),
        {"box": box.add_axis(index, params).remove_axis(index, params), "other": [value]},
    )
    assert alike(meta.unbox(tree), {"box": box.unbox(), "other": [value]})
    updates = {"box": 7, "other": [8]}
    if raised(lambda: jax.tree_util.tree_leaves(value)) is None:
        assert alike(meta.replace_boxed(tree, updates)["box"], box.replace_boxed(7))
    assert meta.map_axis_meta(type, tree)["box"] is type(box)


OVERRIDDEN = (
    "unbox",
    "replace_boxed",
    "add_axis",
    "remove_axis",
    "get_partition_spec",
    "get_sharding",
)


@functools.lru_cache(maxsize=64)
def _with_own(base, overridden):
    """A subclass of `Partitioned` that overrides some methods, each with an answer of its own."""

    def doubled(box, value):
        return base.replace_boxed(box, jax.tree_util.tree_map(lambda leaf: 2 * leaf, value))

    own = {
        "unbox": lambda box, apply_constraint=True: base.unbox(box, False) + 1,
        "replace_boxed": doubled,
        "add_axis": lambda box, index, params: box.replace(names=("own", *box.names)),
        "remove_axis": lambda box, index, params: box.replace(names=("less", *box.names[1:])),
        "get_partition_spec": lambda box: PartitionSpec(None, "data"),
        "get_sharding": lambda box, mesh: NamedSharding(mesh, PartitionSpec("data")),
    }
    return type("Own", (base,), {name: own[name] for name in overridden})


@requirement("metadata/box-subclasses/overridden-methods-are-used", must_reach=OVERRIDDEN)
@given(
    overridden=st.lists(st.sampled_from(OVERRIDDEN), min_size=1, max_size=3, unique=True),
    value=numbers(),
    mesh=meshes(axes=(("data",),)),
    index=st.integers(0, 1),
)
def test_a_method_that_a_subclass_overrides_is_the_one_that_is_asked(
    meta, overridden, value, mesh, index
):
    """Every tree function calls the methods that a subclass of `Partitioned` overrides.

    This includes the methods that only some box classes have: `get_partition_spec` and
    `get_sharding`.
    """
    reached(*overridden)
    own = _with_own(meta.Partitioned, frozenset(overridden))
    box, params = own(value, ("data", None)), {meta.PARTITION_NAME: "data" if index == 0 else None}
    tree = {"part": [box, value]}

    def inside(found):
        return found["part"][0]

    assert alike(inside(meta.unbox(tree)), box.unbox())
    assert alike(
        inside(meta.replace_boxed(tree, {"part": [value, value]})), box.replace_boxed(value)
    )
    assert alike(inside(meta.add_axis(tree, index, params)), box.add_axis(index, params))
    assert alike(inside(meta.remove_axis(tree, index, params)), box.remove_axis(index, params))
    assert alike(inside(meta.get_partition_spec(tree)), box.get_partition_spec())
    assert alike(inside(meta.get_sharding(tree, mesh)), box.get_sharding(mesh))


@requirement("metadata/box-values/inputs-stay-unchanged")
@given(pair=copies(box_trees()), index=st.integers(0, 3), name=axis_names())
def test_no_function_changes_its_inputs(meta, subject, pair, index, name):
    """No function of boxes changes the tree, its boxes and containers, or the parameters."""
    tree, before = pair
    params = subject.params(name) | {"other": 1}
    updates = meta.unbox(tree)
    for call in (
        lambda: meta.map_axis_meta(lambda box: None, tree),
        lambda: meta.add_axis(tree, index, params),
        lambda: meta.remove_axis(meta.add_axis(tree, index, params), index, params),
        lambda: meta.unbox(tree),
        lambda: meta.replace_boxed(tree, updates),
        lambda: meta.get_partition_spec(tree),
        lambda: meta.remove_axis(tree, index, params),
    ):
        raised(call)
        assert alike(tree, before)
        assert alike(params, subject.params(name) | {"other": 1})
