"""From logical names to mesh axes, by rules: LOG-1 to LOG-6."""

import threading

from hypothesis import assume, example, given
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from scutch.inputs.descriptions import Spec, unconstrained
from scutch.lawkit.equality import alike
from scutch.lawkit.interruptions import Interruption
from scutch.lawkit.marks import raised, reached, refused, requirement
from scutch.strategies import axis_names, logical_names, meshes, rules, trees

UNCONSTRAINED = PartitionSpec.UNCONSTRAINED


def _axes(entry):
    """The mesh axes of one entry of a spec."""
    if entry is None or entry is UNCONSTRAINED:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


def _same_entry(one, other):
    return _axes(one) == _axes(other) and (one is UNCONSTRAINED) == (other is UNCONSTRAINED)


@requirement("LOG-1", must_reach=("passed over", "second rule"))
@given(names=logical_names(), mapping=rules())
@example(
    names=("batch", "embed"), mapping=(("batch", "data"), ("embed", "data"), ("embed", "model"))
)
def test_the_first_rule_with_free_axes_wins(logical, names, mapping):
    """Walking the rules in order, each decides a name exactly when it can."""
    names = unconstrained(names)
    spec = tuple(logical.logical_to_mesh_axes(names, mapping))
    decided, taken, skipped = set(), set(), set()
    for name, target in mapping:
        if name not in names or name in decided:
            continue
        if taken & set(_axes(target)):
            reached("passed over")
            skipped.add(name)
            continue
        if name in skipped:
            reached("second rule")
        assert _same_entry(spec[names.index(name)], target)
        decided.add(name)
        taken |= set(_axes(target))


@requirement("LOG-2", must_reach=("contended",))
@given(names=logical_names(), mapping=rules())
@example(names=("batch", "embed"), mapping=(("batch", "data"), ("embed", "data")))
def test_no_mesh_axis_is_used_twice(logical, names, mapping):
    """However the rules contend, each mesh axis lies on one axis of the array."""
    spec = logical.logical_to_mesh_axes(unconstrained(names), mapping)
    used = [axis for entry in spec for axis in _axes(entry)]
    wanted = [a for name, target in mapping if name in names for a in _axes(target)]
    if len(set(wanted)) < len(wanted):
        reached("contended")
    assert len(set(used)) == len(used)


@requirement("LOG-3a", must_reach=("without a rule",))
@given(names=logical_names(), mapping=rules())
def test_a_name_without_a_rule_is_unsharded(logical, names, mapping):
    """No rule, no sharding."""
    ruled = {name for name, _ in mapping}
    spec = tuple(logical.logical_to_mesh_axes(unconstrained(names), mapping))
    for name, entry in zip(names, spec, strict=True):
        if name not in ruled and name not in (None, "UNCONSTRAINED"):
            reached("without a rule")
            assert entry is None


@requirement("LOG-3b", must_reach=("None", "UNCONSTRAINED", "twice"))
@given(names=logical_names(often=True), mapping=rules())
@example(names=("UNCONSTRAINED",), mapping=())
@example(names=("UNCONSTRAINED", None, "UNCONSTRAINED"), mapping=(("batch", "data"),))
def test_none_and_unconstrained_stay(logical, names, mapping):
    """What is no name is no matter for rules."""
    spec = tuple(logical.logical_to_mesh_axes(unconstrained(names), mapping))
    for name, entry in zip(names, spec, strict=True):
        if name is None:
            reached("None")
            assert entry is None
        elif name == "UNCONSTRAINED":
            reached("twice" if names.count("UNCONSTRAINED") > 1 else "UNCONSTRAINED")
            assert entry is UNCONSTRAINED


@requirement("LOG-3c")
@given(names=logical_names(max_rank=3), mapping=rules(), at=st.integers(0, 3))
def test_a_repeated_name_is_an_error(logical, names, mapping, at):
    """The error says which name is there twice."""
    repeated = [name for name in names if name not in (None, "UNCONSTRAINED")]
    assume(repeated)
    twice = (*names[:at], repeated[0], *names[at:])
    refused(
        lambda: logical.logical_to_mesh_axes(unconstrained(twice), mapping), naming=(repeated[0],)
    )


@requirement("LOG-3d")
@given(names=logical_names(), mapping=rules())
def test_a_spec_has_an_entry_for_each_name(logical, names, mapping):
    """One entry for each axis; no spec for no names."""
    spec = logical.logical_to_mesh_axes(unconstrained(names), mapping)
    assert isinstance(spec, PartitionSpec)
    assert len(spec) == len(names)
    assert logical.logical_to_mesh_axes(None, mapping) is None


@requirement("LOG-4a", must_reach=("decided",))
@given(names=logical_names(), mapping=rules(), later=rules())
def test_a_rule_may_decide_for_unsharded(logical, names, mapping, later):
    """A rule to `None` is a decision; later rules come too late."""
    plain = [name for name in names if name not in (None, "UNCONSTRAINED")]
    assume(plain and plain[0] not in {name for name, _ in mapping})
    reached("decided")
    spec = logical.logical_to_mesh_axes(
        unconstrained(names), (*mapping, (plain[0], None), *later, (plain[0], "stage"))
    )
    assert tuple(spec)[names.index(plain[0])] is None


@requirement("LOG-4b", must_reach=("all free", "one taken"))
@given(names=logical_names(), mapping=rules(axes=("data", "model")), beside=axis_names())
@example(names=("batch", "embed"), mapping=(("embed", "data"),), beside="data")
@example(names=("batch", "embed"), mapping=(("embed", "data"),), beside="model")
def test_a_rule_may_take_several_axes(logical, names, mapping, beside):
    """Either all of the axes are free, or the rule does not count."""
    plain = [name for name in names if name not in (None, "UNCONSTRAINED")]
    assume(plain and plain[0] not in {name for name, _ in mapping})
    several = ("stage", beside if isinstance(beside, str) else "data")
    before = tuple(logical.logical_to_mesh_axes(unconstrained(names), mapping))
    taken = {axis for entry in before for axis in _axes(entry)}
    spec = logical.logical_to_mesh_axes(unconstrained(names), (*mapping, (plain[0], several)))
    free = not taken & set(several)
    reached("all free" if free else "one taken")
    expected = several if free else ()
    assert _axes(tuple(spec)[names.index(plain[0])]) == expected


specs = st.builds(Spec, logical_names(max_rank=3))


def _is_spec(node):
    return isinstance(node, PartitionSpec)


def _map_specs(function, tree):
    """`function` on each spec of a tree of the types that trees here are made of."""
    if _is_spec(tree):
        return function(tree)
    if isinstance(tree, dict):
        return {key: _map_specs(function, value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(_map_specs(function, value) for value in tree)
    if hasattr(tree, "first"):
        return type(tree)(_map_specs(function, tree.first), _map_specs(function, tree.second))
    return tree


@requirement("LOG-5a")
@given(tree=trees(specs), mapping=rules())
def test_a_tree_of_specs_is_mapped_spec_by_spec(logical, tree, mapping):
    """The tree form is the array form on each spec."""
    expected = _map_specs(lambda spec: logical.logical_to_mesh_axes(spec, mapping), tree)
    assert alike(logical.logical_to_mesh(tree, mapping), expected)


@requirement("LOG-5b")
@given(tree=trees(specs), mapping=rules(), mesh=meshes(axes=(("data", "model", "layers"),)))
def test_a_tree_of_specs_is_placed_spec_by_spec(logical, tree, mapping, mesh):
    """Each mapped spec becomes the sharding on the mesh."""
    expected = _map_specs(
        lambda spec: NamedSharding(mesh, logical.logical_to_mesh_axes(spec, mapping)), tree
    )
    assert alike(logical.logical_to_mesh_sharding(tree, mesh, mapping), expected)


@requirement("LOG-6a", must_reach=("set", "context"))
@given(
    names=logical_names(), mapping=rules(), passed=rules(), how=st.sampled_from(["set", "context"])
)
@example(names=("batch",), mapping=(("batch", "data"),), passed=(("batch", None),), how="set")
@example(names=("batch",), mapping=(("batch", "data"),), passed=(("batch", None),), how="context")
def test_rules_in_context_are_used(logical, names, mapping, passed, how):
    """Rules in force are those that are asked for, unless others are passed."""
    assume(passed)
    names = unconstrained(names)
    reached(how)
    with logical.logical_axis_rules(mapping if how == "context" else ()):
        if how == "set":
            logical.set_logical_axis_rules(mapping)
        assert tuple(logical.get_logical_axis_rules()) == mapping
        implied = logical.logical_to_mesh_axes(names)
        told = logical.logical_to_mesh_axes(names, passed)
    assert implied == logical.logical_to_mesh_axes(names, mapping)
    assert told == logical.logical_to_mesh_axes(names, passed)


@requirement("LOG-6b", must_reach=("exception", "set inside"))
@given(
    stack=st.lists(rules(max_size=2), min_size=1, max_size=3),
    outer=rules(max_size=2),
    inside=st.one_of(st.none(), rules(max_size=2)),
    fails=st.booleans(),
)
def test_leaving_a_context_restores_the_rules(logical, stack, outer, inside, fails):
    """However a context is left, the rules before it are back."""

    def enter(rest):
        if not rest:
            if inside is not None:
                reached("set inside")
                logical.set_logical_axis_rules(inside)
            if fails:
                reached("exception")
                raise Interruption
            return
        before = tuple(logical.get_logical_axis_rules())
        try:
            with logical.logical_axis_rules(rest[0]):
                assert tuple(logical.get_logical_axis_rules()) == rest[0]
                enter(rest[1:])
        finally:
            assert tuple(logical.get_logical_axis_rules()) == before

    with logical.logical_axis_rules(outer):
        error = raised(lambda: enter(stack))
        assert isinstance(error, Interruption) if fails else error is None
        assert tuple(logical.get_logical_axis_rules()) == outer


@requirement("LOG-6c", must_reach=("context", "set"))
@given(mapping=rules(), theirs=rules(), how=st.sampled_from(["context", "set"]))
def test_other_threads_do_not_see_the_rules(logical, mapping, theirs, how):
    """A thread begins without rules, and what it sets is its own."""
    assume(mapping)
    reached(how)
    seen = []

    def other():
        seen.append(tuple(logical.get_logical_axis_rules() or ()))
        logical.set_logical_axis_rules(theirs)

    with logical.logical_axis_rules(mapping if how == "context" else ()):
        if how == "set":
            logical.set_logical_axis_rules(mapping)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert seen == [()]
        assert tuple(logical.get_logical_axis_rules()) == mapping
