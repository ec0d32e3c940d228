"""Sharding constraints by logical names, and logically partitioned boxes: LOG-8 and LOG-9 (`002_`).

`with_logical_constraint(x, names)` asks for the sharding that rules give the logical names of `x`.
A *logically partitioned box* has logical names; `unbox` asks for the sharding of its value in the
same way. Rules and mesh come from the call or the box, or else from the context.

The oracle is `logical_to_mesh_axes`, judged by LOG-1 to LOG-4: the constraint in the traced
program, and the sharding of the result, must follow from its spec. That such boxes obey the laws of
all boxes is judged by the laws of BOX, on the subject `logical`.
"""

import dataclasses

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, holds, says_equal
from scutch.lawkit.marks import raised, reached, refused, requirement
from scutch.lawkit.placement import assert_placed, constraints, entries, in_context, splits
from scutch.strategies import (
    arrays,
    axis_names,
    logical_names,
    logical_placements,
    meshes,
    numbers,
    rules,
)
from scutch.strategies.names import LOGICAL


def _constrain(logical, names, mapping, **options):
    """A function of one array that constrains it by names and rules."""
    return lambda x: logical.with_logical_constraint(x, names, rules=mapping, **options)


def _mapped_sharding(logical, placed):
    """The sharding on the mesh of a placement that its rules give its names."""
    spec = logical.logical_to_mesh_axes(placed.names, placed.rules)
    return NamedSharding(placed.mesh, spec)


@requirement(
    "metadata/logical-constraints/needs-mesh-and-rules", must_reach=("context", "argument")
)
@given(
    array=arrays(min_rank=1, max_rank=1),
    name=st.sampled_from(["batch", None]),
    how=st.sampled_from(["context", "argument"]),
)
def test_without_a_mesh_nothing_is_constrained(logical, array, name, how):
    """Without a mesh in context or in the call, `with_logical_constraint` returns its argument
    itself.
    """
    mapping = (("batch", "data"),)
    with logical.logical_axis_rules(mapping if how == "context" else ()):
        options = {} if how == "context" else {"rules": mapping}
        assert logical.with_logical_constraint(array, (name,), **options) is array


@requirement(
    "metadata/logical-constraints/needs-mesh-and-rules", must_reach=("context", "argument")
)
@given(placed=logical_placements(), how=st.sampled_from(["context", "argument"]))
def test_without_rules_nothing_is_constrained(logical, placed, how):
    """Without rules in context or in the call, `with_logical_constraint` returns its argument
    itself.
    """
    options = {} if how == "context" else {"mesh": placed.mesh}
    with in_context(placed.mesh if how == "context" else None):
        result = logical.with_logical_constraint(placed.array, placed.names, **options)
    assert result is placed.array


@requirement(
    "metadata/logical-constraints/tracing-records-mapped-spec",
    must_reach=("context", "argument", "sharded"),
)
@given(placed=logical_placements(), how=st.sampled_from(["context", "argument"]))
def test_the_constraint_is_that_of_the_mapped_spec(logical, placed, how):
    """Tracing `with_logical_constraint` records one constraint, with the spec that the rules give
    the names; mesh axes of size one may be left out.
    """
    spec = logical.logical_to_mesh_axes(placed.names, placed.rules)
    if entries(spec):
        reached("sharded")
    mesh, rules = (placed.mesh, placed.rules) if how == "context" else (None, ())
    options = {} if how == "context" else {"mesh": placed.mesh, "rules": placed.rules}
    with in_context(mesh), logical.logical_axis_rules(rules):
        found = constraints(
            lambda x: logical.with_logical_constraint(x, placed.names, **options), placed.array
        )
    assert alike([splits(each, placed.mesh) for each in found], [splits(spec, placed.mesh)])


@requirement("metadata/logical-constraints/array-lies-as-mapped", must_reach=("sharded",))
@given(placed=logical_placements(max_rank=2))
def test_the_array_lies_as_the_mapped_spec_says(logical, placed):
    """`with_logical_constraint` returns an equal array, with the sharding that the rules give the
    names.
    """
    _check_constrained(logical, placed)


@requirement("metadata/logical-constraints/explicit-axes-move-or-refuse", must_reach=("sharded",))
@given(placed=logical_placements(max_rank=2, explicit=True))
def test_explicit_axes_are_constrained_too(logical, placed):
    """Under a mesh whose axes are `Explicit`, `with_logical_constraint` returns an equal array,
    with the sharding that the rules give the names, or raises an error; inside `jax.jit` too.
    """
    sharding = _mapped_sharding(logical, placed)
    if entries(sharding.spec):
        reached("sharded")
    constrain = _constrain(logical, placed.names, placed.rules)
    with in_context(placed.mesh):
        for function in (constrain, jax.jit(constrain)):
            found: list[jax.Array] = []
            if raised(lambda call=function, found=found: found.append(call(placed.array))) is None:
                assert_placed(found[0], placed.array, sharding)


def _check_constrained(logical, placed):
    """Fail unless a constraint under the mesh of a placement gives an equal array with the mapped
    sharding.
    """
    sharding = _mapped_sharding(logical, placed)
    if entries(sharding.spec):
        reached("sharded")
    with in_context(placed.mesh):
        result = _constrain(logical, placed.names, placed.rules)(placed.array)
    assert_placed(result, placed.array, sharding)


@requirement("metadata/logical-constraints/too-many-names-are-refused")
@given(
    placed=logical_placements(),
    extra=st.sampled_from(["extra", "batch"]),
    number=st.sampled_from([True, 3, 0.5]),
)
def test_more_names_than_axes_are_refused(logical, placed, extra, number):
    """`with_logical_constraint` raises an error for one name more than the array has axes. A number
    of Python is an array without axes.
    """
    assume(not holds(placed.names, extra))
    names = (*placed.names, extra)
    mapping = (*placed.rules, (extra, None))
    with in_context(placed.mesh):
        refused(lambda: _constrain(logical, names, mapping)(placed.array))
        refused(lambda: _constrain(logical, (extra,), mapping)(number))
        assert alike(float(_constrain(logical, (), mapping)(number)), float(number))


@requirement("metadata/logical-constraints/missing-names-mean-unsharded")
@given(placed=logical_placements())
def test_fewer_names_than_axes_leave_the_last_unsharded(logical, placed):
    """`with_logical_constraint` with one name fewer than the array has axes leaves the last axis
    unsharded, or raises an error.
    """
    assume(placed.names)
    names = placed.names[:-1]
    found: list[jax.Array] = []
    with in_context(placed.mesh):
        constrain = _constrain(logical, names, placed.rules)
        if raised(lambda: found.append(constrain(placed.array))) is None:
            sharding = _mapped_sharding(logical, dataclasses.replace(placed, names=names))
            assert_placed(found[0], placed.array, sharding)


@requirement(
    "metadata/logical-constraints/unmatched-names-are-unsharded", must_reach=("default", "named")
)
@given(placed=logical_placements(max_rank=2), how=st.sampled_from(["default", "named"]))
def test_by_default_an_unmatched_name_is_unsharded(logical, placed, how):
    """By default, and with the fallback `AXIS_IS_UNSHARDED`, an axis whose name has no rule is
    constrained to be unsharded, the others as their rules say.
    """
    fallback = logical.RulesFallback.AXIS_IS_UNSHARDED
    options = {} if how == "default" else {"fallback": fallback}
    array = np.stack([placed.array, placed.array])
    names = ("unmatched", *placed.names)
    spec = logical.logical_to_mesh_axes(names, placed.rules)
    with in_context(placed.mesh):
        found = constraints(_constrain(logical, names, placed.rules, **options), array)
    assert alike([splits(each, placed.mesh) for each in found], [splits(spec, placed.mesh)])
    assert spec[0] is None


@requirement("metadata/logical-constraints/raise-error-raises")
@given(placed=logical_placements())
def test_raise_error_raises(logical, placed):
    """With the fallback `RAISE_ERROR`, a name without a rule raises an error, and names with rules
    are constrained.
    """
    array, names = np.stack([placed.array, placed.array]), ("unmatched", *placed.names)
    fallback = logical.RulesFallback.RAISE_ERROR
    with in_context(placed.mesh):
        refused(lambda: _constrain(logical, names, placed.rules, fallback=fallback)(array))
        _constrain(logical, placed.names, placed.rules, fallback=fallback)(placed.array)


@requirement("metadata/logical-constraints/raise-error-raises[message]")
@given(placed=logical_placements())
def test_raise_error_names_the_unmatched_name(logical, placed):
    """With the fallback `RAISE_ERROR`, the error has the name that no rule matches."""
    array, names = np.stack([placed.array, placed.array]), ("unmatched", *placed.names)
    constrain = _constrain(logical, names, placed.rules, fallback=logical.RulesFallback.RAISE_ERROR)
    with in_context(placed.mesh):
        refused(lambda: constrain(array), naming=("unmatched",))


@requirement("metadata/logical-constraints/no-constraint-leaves-array")
@given(placed=logical_placements())
def test_no_constraint_leaves_the_array_alone(logical, placed):
    """With the fallback `NO_CONSTRAINT`, one name without a rule is enough to get the array itself
    back; names with rules are constrained.
    """
    array, names = np.stack([placed.array, placed.array]), ("unmatched", *placed.names)
    fallback = logical.RulesFallback.NO_CONSTRAINT
    with in_context(placed.mesh):
        assert _constrain(logical, names, placed.rules, fallback=fallback)(array) is array
        found = constraints(
            _constrain(logical, placed.names, placed.rules, fallback=fallback), placed.array
        )
    assert len(found) == 1


TREES = {
    "dict": lambda one, other: {"b": one, "a": other},
    "list": lambda one, other: [one, [other, one]],
    "tuple": lambda one, other: (one, {"a": other}),
    "pair of dicts": lambda one, other: ({"a": one}, {"a": other}),
}
"""Trees of two things, such as arrays, or their names."""


@requirement(
    "metadata/logical-constraints/trees-go-leaf-by-leaf",
    must_reach=(*TREES, "one for all", "sharded"),
)
@given(
    placed=logical_placements(max_rank=2),
    how=st.sampled_from(list(TREES)),
    shared=st.booleans(),
    where=st.sampled_from(["context", "argument"]),
)
def test_a_tree_is_constrained_leaf_by_leaf(logical, placed, how, shared, where):
    """`with_logical_constraint` of a tree of arrays, and of a tree of names, or of one tuple of
    names for arrays of one rank, gives each array the sharding that its names have alone.
    """
    tree, array, names = TREES[how], placed.array, placed.names
    assume(names and not (shared and how == "pair of dicts"))
    other, others = (array * 2, names) if shared else (array.T, names[::-1])
    resources = tree(names, others)
    if shared:
        reached("one for all")
        tree, resources = (lambda one, two: {"x": TREES[how](one, two)}), {"x": names}
    if entries(_mapped_sharding(logical, placed).spec):
        reached("sharded")
    mesh, rules = (placed.mesh, placed.rules) if where == "context" else (None, ())
    options = {} if where == "context" else {"mesh": placed.mesh, "rules": placed.rules}
    with in_context(mesh), logical.logical_axis_rules(rules):
        result = logical.with_logical_constraint(tree(array, other), resources, **options)
    expected = jax.tree.leaves(tree((array, names), (other, others)), is_leaf=_is_pair)
    assert alike(jax.tree.structure(result), jax.tree.structure(tree(array, other)))
    for found, (value, own) in zip(jax.tree.leaves(result), expected, strict=True):
        spec = logical.logical_to_mesh_axes(own, placed.rules)
        assert_placed(found, value, NamedSharding(placed.mesh, spec))


def _is_pair(node):
    """Whether a node of a tree is an array with its names."""
    return isinstance(node, tuple) and hasattr(node[0], "shape")


@requirement("metadata/logical-boxes/spec-stays-logical", must_reach=("box rules", "context rules"))
@given(
    names=logical_names(max_rank=3),
    own=st.one_of(st.none(), rules()),
    context=rules(),
)
def test_the_spec_of_a_logical_box_stays_logical(meta, logical, names, own, context):
    """`get_partition_spec` of a logically partitioned box has its logical names, whatever rules it
    has or are in context.
    """
    names = tuple(name for name in names if name != "UNCONSTRAINED")
    reached("box rules" if own else "context rules")
    box = logical.LogicallyPartitioned(1.0, names, rules=own)
    with logical.logical_axis_rules(context):
        assert alike(meta.get_partition_spec({"a": box}), {"a": PartitionSpec(*names)})
        assert alike(box.get_partition_spec(), PartitionSpec(*names))


@requirement("metadata/logical-boxes/rules-place-the-array", must_reach=("ruled", "not ruled"))
@given(placed=logical_placements(max_rank=2), ruled=st.booleans())
def test_a_logical_box_is_constrained_by_the_rules(logical, placed, ruled):
    """Under a mesh, `unbox` of a logical box gives an array with the mapped sharding where there
    are rules in context, and the value itself where there are none.
    """
    box = logical.LogicallyPartitioned(placed.array, placed.names)
    with in_context(placed.mesh), logical.logical_axis_rules(placed.rules if ruled else ()):
        result = box.unbox()
    if ruled:
        assert_placed(result, placed.array, _mapped_sharding(logical, placed))
    else:
        assert result is placed.array


@requirement("metadata/logical-boxes/own-rules-win", must_reach=("other rules",))
@given(
    placed=logical_placements(max_rank=2),
    context=st.one_of(st.just(tuple((name, None) for name in LOGICAL)), rules(axes=("data",))),
)
def test_the_rules_of_a_box_win(logical, placed, context):
    """`unbox` of a logical box with rules of its own gives an array with the sharding of those
    rules, whatever rules are in context.
    """
    box = logical.LogicallyPartitioned(placed.array, placed.names, rules=placed.rules)
    spec, other = (
        logical.logical_to_mesh_axes(placed.names, mapping) for mapping in (placed.rules, context)
    )
    if entries(spec) != entries(other):
        reached("other rules")
    with in_context(placed.mesh), logical.logical_axis_rules(context):
        result = box.unbox()
    assert_placed(result, placed.array, _mapped_sharding(logical, placed))


@requirement("metadata/logical-boxes/own-mesh-wins", must_reach=("another mesh", "no mesh"))
@given(
    placed=logical_placements(max_rank=2),
    context=st.one_of(st.none(), meshes(axes=(("data",), ("data", "model")))),
)
def test_the_mesh_of_a_logical_box_wins(logical, placed, context):
    """`unbox` of a logical box with a mesh of its own gives an array that is sharded on that mesh,
    whatever mesh is in context.
    """
    assume(context is None or int(context.size) == int(placed.mesh.size))
    same = alike(context, placed.mesh)
    reached("no mesh" if context is None else "same mesh" if same else "another mesh")
    box = logical.LogicallyPartitioned(placed.array, placed.names, mesh=placed.mesh)
    with in_context(context), logical.logical_axis_rules(placed.rules):
        result = box.unbox()
    assert_placed(result, placed.array, _mapped_sharding(logical, placed))


@requirement("metadata/logical-boxes/rules-are-part-of-it", must_reach=("equal", "unequal"))
@given(
    value=numbers(),
    names=st.lists(axis_names(), max_size=2).map(tuple),
    pair=st.tuples(st.one_of(st.none(), rules()), st.one_of(st.none(), rules()), st.booleans()),
)
def test_rules_are_part_of_a_logical_box(meta, logical, value, names, pair):
    """Boxes that differ in their rules alone are unequal and have different tree structures; every
    method, and `tree_map`, keeps the rules.
    """
    one, other, shared = pair
    other = one if shared else other
    assume(one == other or (one and other))
    first = logical.LogicallyPartitioned(value, names, rules=one)
    second = logical.LogicallyPartitioned(value, names, rules=other)
    structure = jax.tree_util.tree_structure
    reached("equal" if one == other else "unequal")
    assert says_equal(structure(first), structure(second)) is (one == other)
    assert says_equal(first, second) is (one == other)
    params = {meta.PARTITION_NAME: "layers"}
    grown = first.add_axis(0, params)
    for box in (first.replace_boxed(2), grown, grown.remove_axis(0, params)):
        assert alike(box.rules, one)
    assert alike(jax.tree_util.tree_map(lambda x: x, first).rules, one)
