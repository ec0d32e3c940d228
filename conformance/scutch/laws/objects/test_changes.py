"""Ways to fill and to change objects and variables in part: OBJ-1, OBJ-2, OBJ-5.

The oracles are Python's own list and dictionary, and NumPy's assignment to a part of an array.
"""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.inputs.described_objects import Graph, Object, Ref, Variable
from scutch.inputs.descriptions import Array, Copies
from scutch.inputs.graphs import classes, differences, leaves, metadata, nodes, walk
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, alike_in_any_order, holds
from scutch.lawkit.marks import reached, refused, requirement
from scutch.strategies import arrays, copies, graphs, variables

small = variables(arrays(max_rank=2))


@requirement(
    "objects/containers/constructor-keeps-elements",
    must_reach=("List", "Dict", "several", "shared"),
)
@given(
    kind=st.sampled_from(["List", "Dict"]),
    elements=st.lists(small, max_size=4),
    twice=st.booleans(),
    named=st.booleans(),
)
def test_a_container_holds_what_it_was_made_of(nnx, kind, elements, twice, named):
    """A tracked list made of the elements of any iterable, and a tracked dict made of a mapping, of
    pairs or of keywords, hold these very elements in their order, before and after split and merge.
    """
    if len(elements) > 1:
        reached("several")
    if twice and elements:
        reached("shared")
        elements = [*elements, elements[0]]
    if kind == "List":
        made = nnx.List(iter(elements) if named else elements)
        found = list(made)
        assert alike([made[n] is each for n, each in enumerate(elements)], [True] * len(elements))
    else:
        by_name = {f"key{n}": each for n, each in enumerate(elements)}
        made = nnx.Dict(**by_name) if named else nnx.Dict(by_name)
        assert alike(list(made), list(by_name))
        found = [made[name] for name in by_name]
    assert len([*made]) == len([*elements])
    assert [id(each) for each in found] == [id(each) for each in elements]
    difference = differences(nnx, made, nnx.merge(*nnx.split(made)))
    assert not difference, f"before and after: {difference}"


SHARED_LATER = Copies(
    Graph(
        (
            Object("Branch", {"a": Ref(1), "b": Ref(2), "c": Ref(2)}),
            *(Variable("Param", Array((2,), seed=seed)) for seed in (1, 2)),
        )
    )
)
"""An object with a variable, and with another one at two paths."""


@requirement("objects/sharing/any-path-updates-shared", must_reach=("shared", "another path"))
@given(pair=copies(graphs(marks=False, bare=False, variable=small)), place=st.integers(0, 20))
@example(pair=SHARED_LATER, place=2)
def test_a_shared_variable_is_updated_by_any_of_its_paths(nnx, pair, place):
    """`update` with one new value at any path that leads to a variable sets the value of that
    variable, in every place where it sits, and of no other.
    """
    one, other = pair
    paths = [path for path, value in walk(nnx, one) if isinstance(value, nnx.Variable)]
    assume(paths)
    path = paths[place % len(paths)]
    count = len([n for n in nodes(nnx, one) if isinstance(n, nnx.Variable)])
    if len(paths) > count:
        reached("shared")
    if not holds(leaves(nnx, one), path):
        reached("another path")
    (target,) = [v for p, v in walk(nnx, other) if alike(p, path)]
    kept = metadata(target)
    target.set_raw_value(np.full(3, 100))
    nnx.update(one, nnx.from_flat_state([(path, nnx.Param(np.full(3, 100), **kept))]))
    (found,) = [v for p, v in walk(nnx, one) if alike(p, path)]
    assert alike(found.get_raw_value(), np.full(3, 100))
    values = [
        {p: leaf.get_raw_value() for p, leaf in leaves(nnx, root).items()} for root in (one, other)
    ]
    assert alike_in_any_order(values[0], values[1])
    wrong = [path for path in values[0] if not alike(values[0][path], values[1][path])]
    assert not wrong, f"other values are at {wrong}"


@requirement("objects/copies/copy-from-takes-all", must_reach=("same", "other"))
@given(
    one=small,
    source=small,
    kind=st.sampled_from(["Param", "BatchStat"]),
    same=st.booleans(),
    notes=st.dictionaries(st.sampled_from("pqr"), st.integers(0, 2)),
)
def test_a_variable_takes_over_all_of_another(nnx, one, source, kind, same, notes):
    """`copy_from` gives a variable the value and the metadata of another of its type, which stays
    as it is and is not changed with it; another type is refused.
    """
    source = type(one)(source.get_raw_value(), **notes) if same else source
    before = source.replace(source.get_raw_value())
    if type(source) is type(one):
        reached("same")
        one.copy_from(source)
        assert not differences(nnx, one, before)
        one.set_metadata("p", "other")
        one.set_raw_value(np.full(3, 100))
    else:
        reached("other")
        kept = one.replace(one.get_raw_value())
        refused(lambda: one.copy_from(source))
        assert not differences(nnx, one, kept)
    assert not differences(nnx, source, before)


PARTS = {
    "number": 0,
    "last": -1,
    "slice": slice(0, 2),
    "strided": slice(None, None, 2),
    "all": slice(None),
    "whole": ...,
    "rest": (..., 0),
    "pair": (1, slice(0, 1)),
}
arrays_of_indices = st.one_of(
    st.lists(st.integers(-3, 2), min_size=2, max_size=4, unique_by=lambda n: n % 3),
    st.lists(st.booleans(), min_size=3, max_size=3),
)
libraries = st.sampled_from(["numpy", "jax"])


WHOLE = {
    "array": lambda whole, number: whole,
    "of another dtype": lambda whole, number: whole.astype("int16"),
    "number": lambda whole, number: number,
    "row": lambda whole, number: np.full(2, number, whole.dtype),
}
"""Functions that make the value for a whole variable, from an array like it and a number.

For a part, the key tells only whether a number is written or an array of the part's shape.
"""


def _check_written(nnx, library, dtype, index, number, *, array, whole="array"):
    """Write a number to a part of a variable, and compare it with NumPy's array.

    `array` makes the written value, and an index that is an array, of NumPy or of JAX.
    """
    reached(library)
    start = np.arange(6).reshape(3, 2).astype(dtype)
    held = start.copy() if library == "numpy" else jnp.asarray(start)
    variable, expected = nnx.Param(held), start.copy()
    value = np.asarray(number, dtype)
    if index is ...:
        reached(whole)
        value = WHOLE[whole](np.full_like(start, number), number)
    elif whole != "number":
        value = np.full_like(start[index], number)
    expected[index] = value
    given = array(index) if isinstance(index, np.ndarray) else index
    value = array(value) if library == "jax" else value
    variable[given] = value
    found = variable.get_value()
    assert alike(found.dtype, start.dtype)
    assert np.array_equal(found, expected), f"{found}; NumPy has {expected}"
    assert np.array_equal(variable[given], expected[index])
    assert library == "numpy" or np.array_equal(held, start)
    assert isinstance(found, jax.Array if library == "jax" else np.ndarray)
    variable.set_metadata(note=number)
    assert alike(variable.get_metadata("note"), number)
    assert np.array_equal(variable.get_raw_value(), expected)


@requirement(
    "objects/arithmetic/index-writes-like-numpy", must_reach=("numpy", "jax", *PARTS, *WHOLE)
)
@example(part="slice", library="jax", dtype="int32", number=1, whole="array", of_jax=True)
@given(
    part=st.one_of(st.sampled_from(list(PARTS)), st.just("whole")),
    library=libraries,
    dtype=st.sampled_from(["float32", "int32"]),
    number=st.integers(-3, 3),
    whole=st.sampled_from(list(WHOLE)),
    of_jax=st.booleans(),
)
def test_a_part_of_a_value_is_written(nnx, part, library, dtype, number, whole, of_jax):
    """Writing to an index of a variable changes that part of its value, as in NumPy.

    The written value is broadcast and cast to the dtype of the variable. The old JAX array stays
    unchanged. Reading the index gives the new part.
    """
    array = jnp.asarray if of_jax else np.asarray
    _check_written(nnx, library, dtype, PARTS[part], number, whole=whole, array=array)


@requirement("objects/arithmetic/array-index-writes-rows", must_reach=("numpy", "jax"))
@given(
    indices=arrays_of_indices,
    library=libraries,
    number=st.integers(-3, 3),
    of_jax=st.booleans(),
)
def test_the_rows_that_an_array_names_are_written(nnx, indices, library, number, of_jax):
    """Writing to an index that is an array, of integers or of booleans, changes the rows that it
    names, as NumPy does it.
    """
    array = jnp.asarray if of_jax else np.asarray
    _check_written(nnx, library, "float32", np.asarray(indices), number, array=array)


@requirement("objects/graphs/update-sets-bare-arrays", must_reach=("attribute", "list", "dict"))
@given(
    kinds=st.lists(st.sampled_from(["attribute", "list", "dict"]), min_size=1, max_size=3),
    place=st.integers(0, 9),
    whole=st.booleans(),
)
def test_arrays_without_a_variable_are_updated_too(nnx, kinds, place, whole):
    """`update` with the state of an object, or with a part of it, sets the arrays that are no
    variables, as attributes and in plain containers, and leaves all others.
    """

    def made(start):
        module = classes(nnx)["Node"]()
        for n, (name, kind) in enumerate(zip("abc", kinds, strict=False)):
            reached(kind)
            one, two = (jnp.full(2, start + 10 * n + i, "float32") for i in range(2))
            value = {"attribute": one, "list": [one, two], "dict": {"x": one, "y": two}}[kind]
            setattr(module, name, value if kind == "attribute" else nnx.data(value))
        return module

    one, other = made(0), made(100)
    flat = list(nnx.to_flat_state(nnx.state(other)))
    taken = flat if whole else [flat[place % len(flat)]]
    before = leaves(nnx, one)
    nnx.update(one, nnx.from_flat_state(taken))
    after = leaves(nnx, one)
    expected = {**before, **dict(taken)}
    assert alike_in_any_order(after, before)
    wrong = [path for path in after if not np.array_equal(after[path], expected[path])]
    assert not wrong, f"other values are at {wrong}"
