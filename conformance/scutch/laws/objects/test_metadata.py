"""Metadata of variables, and the partition specs that follow from it: OBJ-5.

The oracles are the metadata that was given, and the names from which a spec must follow. Hooks, the
metadata that an implementation calls, are judged in `test_variables`.
"""

import copy

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from scutch.inputs.described_objects import Variable
from scutch.inputs.descriptions import Array
from scutch.inputs.graphs import VARIABLES, classes, differences
from scutch.lawkit.equality import alike, holds, plain_text, says_equal
from scutch.lawkit.marks import options, raised, reached, requirement
from scutch.lawkit.states import raw_values
from scutch.strategies import arrays, logical_placements, variables
from scutch.strategies.objects import metadata

COPIES = {
    "split": lambda nnx, v: _inside(nnx, v, lambda root: nnx.merge(*nnx.split(root))),
    "clone": lambda nnx, v: _inside(nnx, v, nnx.clone),
    "state": lambda nnx, v: _inside(nnx, v, nnx.state),
    "copy": lambda nnx, v: copy.copy(v),
    "deepcopy": lambda nnx, v: copy.deepcopy(v),
    "replace": lambda nnx, v: v.replace(v.get_raw_value()),
    "tree map": lambda nnx, v: jax.tree_util.tree_map(lambda x: x, v),
    "trace": lambda nnx, v: _traced(v),
}


def _holder(nnx, variable):
    """A module with the variable as its attribute `a`."""
    root = classes(nnx)["Node"]()
    root.a = variable
    return root


def _inside(nnx, variable, through):
    """Take a module with the variable through a function, and return the attribute `a` of the
    result.
    """
    return through(_holder(nnx, variable)).a


def _traced(variable):
    """The variable that a traced function is given, with the value of the original put back."""
    seen = []
    jax.eval_shape(lambda v: seen.append(v) or v, variable)
    return seen[0].replace(variable.get_raw_value())


def _note(variable, value):
    """A get hook that leaves the value as it is."""
    return value


def _by_every_copy(law):
    """Give a law examples of each way to copy, which few random inputs might miss.

    One example is of the base class `Variable`, which an implementation that registers the
    subclasses may miss; one has metadata that is no hook.
    """
    for how in COPIES:
        for variable in (
            Variable("Variable", Array((2,), "int32")),
            Variable("Param", Array((2,), "int32"), {"note": "kept"}),
        ):
            law = example(variable=variable, how=how, hook=True)(law)
    return law


kinds = (*VARIABLES, "Variable")


@requirement("objects/metadata/metadata-survives-copies", must_reach=tuple(COPIES))
@given(
    variable=variables(arrays(max_rank=2), kinds=kinds),
    how=st.sampled_from(list(COPIES)),
    hook=st.booleans(),
)
@_by_every_copy
def test_metadata_survives_copies(nnx, variable, how, hook):
    """A variable keeps type, metadata and hooks through split and merge, `clone`, `state`, `copy`,
    `deepcopy`, `replace`, `jax.tree.map`, and into a traced function. Merged with a state of a
    variable with other metadata, it has those of the state.
    """
    if hook:
        variable.set_metadata(on_get_value=_note)
    found = COPIES[how](nnx, variable)
    assert not differences(nnx, variable, found)
    definition = nnx.graphdef(_holder(nnx, variable))
    variable.set_metadata(note="of the state")
    merged = nnx.merge(definition, nnx.state(_holder(nnx, variable))).a
    assert not differences(nnx, variable, merged)


@requirement("objects/definitions/metadata-order-does-not-matter", must_reach=("several",))
@given(
    notes=st.dictionaries(st.sampled_from("pqrs"), st.integers(0, 2), min_size=1),
    order=st.permutations("pqrs"),
    later=st.booleans(),
)
def test_metadata_in_another_order_is_the_same(nnx, notes, order, later):
    """Two variables whose metadata was given in another order have equal tree structures and equal
    graph definitions.
    """
    if len(notes) > 1:
        reached("several")
    shuffled = [(name, notes[name]) for name in order if name in notes]
    one, other = nnx.Param(np.ones(2), **notes), nnx.Param(np.ones(2))
    if later:
        for name, value in shuffled:
            other.set_metadata(name, value)
    else:
        other = nnx.Param(np.ones(2), **dict(shuffled))
    structures = [jax.tree_util.tree_structure(v) for v in (one, other)]
    assert says_equal(structures[0], structures[1])
    assert hash(structures[0]) == hash(structures[1])
    definitions = [nnx.graphdef(_holder(nnx, v)) for v in (one, other)]
    assert says_equal(definitions[0], definitions[1])


GIVEN = ("keyword", "mapping", "pair", "creation")


READ = ("all", "one", "mapping itself", "all itself")


@requirement("objects/metadata/metadata-is-copied-over", must_reach=(*READ, *GIVEN))
@given(
    content=st.lists(st.integers(0, 3), max_size=2),
    wraps=st.sampled_from(["list", "dict", "list in dict"]),
    ways=st.lists(st.sampled_from([*READ, *GIVEN]), min_size=4, unique=True),
)
def test_metadata_is_handed_over_in_copies(nnx, content, wraps, ways):
    """Changing a list or dict that was given as metadata, or that `get_metadata` returned, does not
    change the metadata of the variable; nor does writing to the mapping of all metadata itself.
    """

    def fresh():
        inner = list(content)
        return {"list": inner, "dict": {"x": 1}, "list in dict": {"x": inner}}[wraps]

    for way in ways:
        reached(way)
        variable = _with_spoilt_note(nnx, way, fresh(), wraps)
        assert alike(variable.get_metadata("note"), fresh()), way


def _with_spoilt_note(nnx, way, container, wraps):
    """A variable whose metadata `note` is a container, which was then changed where it was given
    or read.
    """
    variable = nnx.Param(np.ones(2), **({"note": container} if way == "creation" else {}))
    match way:
        case "keyword":
            variable.set_metadata(note=container)
        case "mapping":
            variable.set_metadata({**variable.get_metadata(), "note": container})
        case "mapping itself":
            whole = {**variable.get_metadata(), "note": container}
            variable.set_metadata(whole)
            whole["note"], container = "spoilt", {}
        case "pair" | "all" | "one" | "all itself":
            variable.set_metadata("note", container)
    if way == "all itself":
        variable.get_metadata()["note"], container = "spoilt", {}
    elif way == "all":
        container = variable.get_metadata()["note"]
    elif way == "one":
        container = variable.get_metadata("note")
    inner = container.get("x", container) if wraps == "list in dict" else container
    inner.append(99) if isinstance(inner, list) else inner.update(x=99)
    return variable


HANDED = ("set_value", "attribute", "copy", "replace", "get_value", "value", "copied")


@requirement("objects/copies/values-are-copied-over", must_reach=HANDED)
@given(
    content=st.lists(st.integers(0, 3), max_size=2),
    wraps=st.sampled_from(["list", "dict"]),
    ways=st.lists(st.sampled_from(HANDED), min_size=4, unique=True),
)
def test_a_value_that_is_a_container_is_handed_over_in_copies(nnx, content, wraps, ways):
    """Changing a list or dict of arrays that a variable was set to, or copied with, or that reading
    its value gave, does not change the value of the variable; nor does changing the value of its
    copy.
    """

    def fresh():
        inner = [np.full(2, each) for each in content]
        return {"x": inner} if wraps == "list" else {"x": dict(zip("pq", inner, strict=False))}

    for way in ways:
        reached(way)
        variable, container = nnx.Param(fresh()), fresh()
        match way:
            case "set_value":
                variable.set_value(container)
            case "attribute":
                variable.value = container
            case "copy" | "replace":
                variable = getattr(variable, way)(container)
            case "get_value":
                container = variable.get_value()
            case "value":
                container = variable.value
            case "copied":
                container = variable.copy().get_raw_value()
        inner = container["x"]
        inner.append(9) if isinstance(inner, list) else inner.update(z=9)
        container["y"] = 9
        assert alike(variable.get_raw_value(), fresh()), way


@requirement("objects/metadata/names-set-and-read-metadata", must_reach=GIVEN)
@given(
    value=st.sampled_from(["some", 1, None, ("x", 2)]),
    old=st.sampled_from([None, 0]),
    how=st.sampled_from(GIVEN),
)
def test_metadata_is_set_read_and_deleted_by_name(nnx, value, old, how):
    """Metadata given by keyword, mapping or pair, or at creation, is read by `get_metadata` and as
    an attribute; once deleted, it is not there, and reading it is an error that shows the name.
    """
    start = {} if old is None else {"note": old}
    variable = nnx.Param(np.ones(2), **({"note": value} if how == "creation" else start))
    match how:
        case "keyword":
            variable.set_metadata(note=value)
        case "mapping":
            variable.set_metadata({**variable.get_metadata(), "note": value})
        case "pair":
            variable.set_metadata("note", value)
    assert variable.has_metadata("note")
    assert alike(variable.get_metadata("note"), value)
    assert alike(variable.get_metadata()["note"], value)
    assert alike(variable.note, value)
    variable.del_metadata("note")
    assert not variable.has_metadata("note")
    assert alike(variable.get_metadata("note", "nothing"), "nothing")
    error = raised(lambda: variable.get_metadata("note"))
    assert error is not None
    assert "note" in plain_text(error)
    assert isinstance(raised(lambda: variable.note), AttributeError)


@requirement(
    "objects/metadata/names-give-partition-spec",
    must_reach=("sharded", "bare", "initializer", "metadata"),
)
@options("nnx.Variable.out_sharding")
@given(
    placed=logical_placements(),
    how=st.sampled_from(["initializer", "initializer", "metadata", "bare"]),
    meshed=st.sampled_from([True, True, False]),
    notes=st.dictionaries(st.sampled_from("pq"), st.integers(0, 2)),
)
def test_an_annotated_variable_knows_its_partition_spec(nnx, placed, how, meshed, notes):
    """`get_partition_spec` of a state gives each annotated variable the spec of its names.

    It gives others, arrays without a variable among them, the empty spec; `get_named_sharding`
    gives the sharding of that spec on a mesh. The variable has the mesh and the further metadata
    that its initializer was given.
    """
    rules = dict(placed.rules)
    names = tuple(rules.get(name) for name in placed.names)
    if any(names):
        reached("sharded")
    array = placed.array
    match how:
        case "initializer":
            notes = {"eager_sharding": False, **notes}
            own = (placed.mesh,) if meshed else ()
            variable = nnx.Param(nnx.with_partitioning(lambda: array, names, *own, **notes)())
            assert alike(variable.get_metadata("mesh", None), own[0] if own else None)
            del notes["eager_sharding"]
            assert alike({key: variable.get_metadata(key, None) for key in notes}, notes)
            assert alike(variable.get_metadata("out_sharding"), names)
        case "metadata":
            variable = nnx.Param(array, out_sharding=names, eager_sharding=False)
        case "bare":
            names, variable = (), nnx.Param(array)
    holder = _holder(nnx, variable)
    holder.b = array
    state = nnx.state(holder)
    specs = {("a",): PartitionSpec(*names), ("b",): PartitionSpec()}
    assert alike(raw_values(nnx, nnx.get_partition_spec(state)), specs)
    shardings = raw_values(nnx, nnx.get_named_sharding(state, placed.mesh))
    assert alike(shardings, {at: NamedSharding(placed.mesh, spec) for at, spec in specs.items()})
    assert alike(raw_values(nnx, state), {("a",): array, ("b",): array})


@st.composite
def _notes_twice(draw):
    """A described array with two drawings of metadata for a variable that holds it."""
    value = draw(arrays(max_rank=2))
    before, after = (draw(metadata(len(value.shape))) for _ in range(2))
    if {*before, *after} & {"eager_sharding"}:  # it is chosen when a variable is made, for good
        before, after = ({**notes, "eager_sharding": False} for notes in (before, after))
    return value, before, after


@requirement(
    "objects/metadata/mapping-replaces-all-metadata", must_reach=("none", "other", "names")
)
@given(drawn=_notes_twice(), kind=st.sampled_from(["Param", "BatchStat", "Count"]))
def test_setting_all_metadata_gives_the_variable_that_is_made_with_them(nnx, drawn, kind):
    """A variable of which all metadata are set by one mapping is the one that the constructor makes
    of its value with these metadata: the same metadata, partition spec and definition, and a clone
    of it has them, too.
    """
    value, before, after = drawn
    reached("names" if holds(after, "out_sharding") else "other" if after else "none")
    variable, expected = (classes(nnx)[kind](value, **notes) for notes in (before, after))
    variable.set_metadata(after)
    for each in (variable, nnx.clone(_holder(nnx, variable)).a):
        different = differences(nnx, each, expected)
        assert not different, f"set and made: {different}"
    specs = (nnx.get_partition_spec(each).get_raw_value() for each in (variable, expected))
    assert alike(*specs)
    definitions = (nnx.graphdef(_holder(nnx, each)) for each in (variable, expected))
    assert says_equal(*definitions)


def _array(number):
    """A vector of two equal numbers."""
    return jnp.full(2, number, "float32")


OLD_NAMES = ("sharding", "sharding_names", "out_sharding")
WRITTEN = ("constructor", "initializer", "keyword", "pair", "mapping")


@requirement("objects/metadata/older-names-become-todays", must_reach=(*OLD_NAMES, *WRITTEN))
@options("nnx.Variable.out_sharding", "nnx.with_metadata")
@given(
    key=st.sampled_from(OLD_NAMES),
    ways=st.lists(st.sampled_from(WRITTEN), min_size=3, unique=True),
    names=st.sampled_from([("data",), (None,), (("data", "model"),)]),
)
def test_an_older_name_of_a_key_is_the_key(nnx, key, ways, names):
    """Names of axes that are given under an older name of `out_sharding` are kept, and read, under
    the name of today, and no longer under the older one.
    """
    for way in ways:
        reached(way)
        notes = {key: names}
        match way:
            case "constructor":
                variable = nnx.Param(_array(0), eager_sharding=False, **notes)
            case "initializer":
                made = nnx.with_metadata(lambda: _array(0), eager_sharding=False, **notes)()
                variable = nnx.Param(made)
            case _:
                variable = nnx.Param(_array(0), eager_sharding=False)
        match way:
            case "keyword":
                variable.set_metadata(**notes)
            case "pair":
                variable.set_metadata(key, names)
            case "mapping":
                variable.set_metadata({**variable.get_metadata(), **notes})
        assert alike(variable.get_metadata("out_sharding"), names), way
        assert key == "out_sharding" or not variable.has_metadata(key), way
