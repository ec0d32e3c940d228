"""From logical names to mesh axes, by rules: LOG-1 to LOG-6 (`002_`).

A *logical name*, such as `embed`, tells the purpose of an axis of an array. A *rule* is a pair: a
logical name, and the mesh axis, the tuple of mesh axes, or the `None` that it maps to.
`logical_to_mesh_axes(names, rules)` gives a `PartitionSpec` with one entry for each name. `None`
and `PartitionSpec.UNCONSTRAINED` may stand in the place of a name.

The oracle is a walk through the rules in order, written out in the law, and the array form for the
forms over trees.
"""

import contextlib
import threading

from hypothesis import example, given
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from scutch.inputs.descriptions import Spec, unconstrained
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, alike_in_any_order, holds, plain_text
from scutch.lawkit.interruptions import Interruption
from scutch.lawkit.marks import raised, reached, refused, requirement
from scutch.lawkit.placement import entries
from scutch.strategies import axis_names, logical_names, meshes, rules, trees

UNCONSTRAINED = PartitionSpec.UNCONSTRAINED


def _axes(entry):
    """The mesh axes in one entry of a spec: none, one, or several."""
    if entry is None or entry is UNCONSTRAINED:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


def _mapped(logical, names, mapping):
    """The entries of the spec that rules give names, one for each: a spec may end before them."""
    spec = logical.logical_to_mesh_axes(unconstrained(names), mapping)
    assert len([*spec]) <= len([*names]), f"{names} were mapped to {spec}, which has more entries"
    entries(spec)  # fails unless they are plain
    return (*spec, *[None] * (len([*names]) - len([*spec])))


def _answered(logical, names, mapping, *, about=()):
    """The entries of the spec that rules give names, as `_mapped`.

    An implementation may refuse rules that ask for a mesh axis twice, a name without a rule, or one
    with several, in each law that is not `about` this: such an input is then out of the domain of
    the law.
    """
    wanted = [axis for name, target in mapping if name in names for axis in _axes(target)]
    ruled = [name for name, _ in mapping if name in names]
    hard = {
        "contended": len({*wanted}) < len(wanted),
        "unruled": bool({*_ruled(names)} - {*ruled}),
        "several": len({*ruled}) < len(ruled),
    }
    for kind in about:
        del hard[kind]
    if any(hard.values()):
        given = unconstrained(names)
        assume(raised(lambda: logical.logical_to_mesh_axes(given, mapping)) is None)
    return _mapped(logical, names, mapping)


def _ruled(names):
    """The names that rules are about: neither `None` nor `UNCONSTRAINED`."""
    return [name for name in names if name not in (None, "UNCONSTRAINED")]


def _same_entry(one, other):
    """Whether two entries of specs mean the same: an axis alone is the tuple of that axis."""
    return alike(_axes(one), _axes(other)) and (one is UNCONSTRAINED) == (other is UNCONSTRAINED)


@requirement(
    "metadata/logical-rules/first-free-rule-wins", must_reach=("passed over", "second rule")
)
@given(names=logical_names(), mapping=rules())
@example(
    names=("batch", "embed"), mapping=(("batch", "data"), ("embed", "data"), ("embed", "model"))
)
@example(
    names=("batch", "embed"),
    mapping=(("batch", "data"), ("embed", ("data", "model")), ("embed", "stage")),
)
def test_the_first_rule_with_free_axes_wins(logical, names, mapping):
    """Each name gets the target of the first of its rules whose mesh axes no earlier rule has taken
    in the same spec.
    """
    spec = _answered(logical, names, mapping, about=("contended", "several"))
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


@requirement("metadata/logical-rules/mesh-axes-are-used-once", must_reach=("contended",))
@given(names=logical_names(), mapping=rules())
@example(names=("batch", "embed"), mapping=(("batch", "data"), ("embed", "data")))
@example(names=("batch", "embed"), mapping=(("batch", "data"), ("embed", ("data", "model"))))
def test_no_mesh_axis_is_used_twice(logical, names, mapping):
    """No mesh axis stands twice in one spec, whatever the rules ask for."""
    spec = _answered(logical, names, mapping)
    used = [axis for entry in spec for axis in _axes(entry)]
    wanted = [a for name, target in mapping if name in names for a in _axes(target)]
    if len(set(wanted)) < len(wanted):
        reached("contended")
    assert len({*map(plain_text, used)}) == len(used)


@requirement("metadata/logical-rules/unruled-names-are-unsharded", must_reach=("without a rule",))
@given(names=logical_names(), mapping=rules())
def test_a_name_without_a_rule_is_unsharded(logical, names, mapping):
    """A name that no rule maps has the entry `None`."""
    ruled = {name for name, _ in mapping}
    spec = _answered(logical, names, mapping, about=("unruled",))
    for name, entry in zip(names, spec, strict=True):
        if name in _ruled(names) and name not in ruled:
            reached("without a rule")
            assert entry is None


@requirement(
    "metadata/logical-rules/none-and-unconstrained-stay",
    must_reach=("None", "UNCONSTRAINED", "twice"),
)
@given(names=logical_names(often=True), mapping=rules())
@example(names=("UNCONSTRAINED",), mapping=())
@example(names=("UNCONSTRAINED", None, "UNCONSTRAINED"), mapping=(("batch", "data"),))
def test_none_and_unconstrained_stay(logical, names, mapping):
    """`None` stays `None` in the spec, and `UNCONSTRAINED` stays `UNCONSTRAINED`, whatever the
    rules are.
    """
    spec = _answered(logical, names, mapping)
    for name, entry in zip(names, spec, strict=True):
        if name is None:
            reached("None")
            assert entry is None
        elif name == "UNCONSTRAINED":
            reached("twice" if names.count("UNCONSTRAINED") > 1 else "UNCONSTRAINED")
            assert entry is UNCONSTRAINED


@requirement("metadata/logical-rules/repeated-name-is-refused")
@given(names=logical_names(max_rank=3), mapping=rules(), at=st.integers(0, 3))
def test_a_repeated_name_is_an_error(logical, names, mapping, at):
    """`logical_to_mesh_axes` raises an error for a logical name that stands twice."""
    twice, _ = _repeated(names, at)
    refused(lambda: logical.logical_to_mesh_axes(unconstrained(twice), mapping))


@requirement("metadata/logical-rules/repeated-name-is-refused[message]")
@given(names=logical_names(max_rank=3), mapping=rules(), at=st.integers(0, 3))
def test_the_error_of_a_repeated_name_has_the_name(logical, names, mapping, at):
    """The error for a logical name that stands twice has the name in its message.

    The names and rules are accepted without it: else the error may tell of another fault.
    """
    twice, name = _repeated(names, at)
    _answered(logical, names, mapping)
    refused(lambda: logical.logical_to_mesh_axes(unconstrained(twice), mapping), naming=(name,))


def _repeated(names, at):
    """Names with the first logical one once more, at `at`; and that name."""
    assume(_ruled(names))
    return (*names[:at], _ruled(names)[0], *names[at:]), _ruled(names)[0]


@requirement("metadata/logical-rules/one-entry-per-name")
@given(names=logical_names(), mapping=rules())
def test_a_spec_has_an_entry_for_each_name(logical, names, mapping):
    """The result is a `PartitionSpec` with one entry for each name; for `None` in the place of all
    names it is `None`.
    """
    _answered(logical, names, mapping)
    spec = logical.logical_to_mesh_axes(unconstrained(names), mapping)
    assert type(spec) is PartitionSpec
    assert len([*spec]) == len([*names])
    assert logical.logical_to_mesh_axes(None, mapping) is None


@requirement("metadata/logical-rules/rule-may-leave-unsharded", must_reach=("decided",))
@given(names=logical_names(), mapping=rules(), later=rules())
def test_a_rule_may_decide_for_unsharded(logical, names, mapping, later):
    """A rule that maps a name to `None` leaves it unsharded, and later rules for the name are not
    used.
    """
    plain = _ruled(names)
    assume(plain and plain[0] not in {name for name, _ in mapping})
    reached("decided")
    extended = (*mapping, (plain[0], None), *later, (plain[0], "stage"))
    spec = _answered(logical, names, extended, about=("several",))
    assert spec[names.index(plain[0])] is None


@requirement(
    "metadata/logical-rules/rule-may-take-several-axes", must_reach=("all free", "one taken")
)
@given(names=logical_names(), mapping=rules(axes=("data", "model")), beside=axis_names())
@example(names=("batch", "embed"), mapping=(("embed", "data"),), beside="data")
@example(names=("batch", "embed"), mapping=(("embed", "data"),), beside="model")
def test_a_rule_may_take_several_axes(logical, names, mapping, beside):
    """A rule that maps a name to several mesh axes is used if all of them are free, and passed over
    if one is taken.
    """
    plain = _ruled(names)
    assume(plain and plain[0] not in {name for name, _ in mapping})
    several = ("stage", beside if isinstance(beside, str) else "data")
    ruled = {name for name, _ in mapping}
    others = tuple(name if name in ruled or name not in plain else None for name in names)
    before = _answered(logical, others, mapping)
    taken = {axis for entry in before for axis in _axes(entry)}
    extended = (*mapping, (plain[0], several))
    spec = _answered(logical, names, extended, about=("contended",))
    free = not taken & set(several)
    reached("all free" if free else "one taken")
    expected = several if free else ()
    assert alike(_axes(spec[names.index(plain[0])]), expected)


specs = st.builds(Spec, logical_names(max_rank=3))


def _map(function, tree, kind=PartitionSpec):
    """A tree with `function` applied to each spec, or to each leaf of another kind.

    JAX may take a spec for a tuple, so this is written without its tree functions.
    """
    if isinstance(tree, kind):
        return function(tree)
    if isinstance(tree, dict):
        return {key: _map(function, value, kind) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(_map(function, value, kind) for value in tree)
    if hasattr(tree, "first"):
        return type(tree)(_map(function, tree.first, kind), _map(function, tree.second, kind))
    return tree


def _divided(sharding):
    """A `NamedSharding` without mesh axes of one device, which places arrays alike."""
    if type(sharding) is not NamedSharding:
        return sharding
    sizes = sharding.mesh.shape
    wide = [
        entry if entry is UNCONSTRAINED else tuple(axis for axis in _axes(entry) if sizes[axis] > 1)
        for entry in sharding.spec
    ]
    return NamedSharding(sharding.mesh, PartitionSpec(*entries(wide)))


@requirement("metadata/logical-trees/specs-map-one-by-one")
@given(tree=trees(specs), mapping=rules())
def test_a_tree_of_specs_is_mapped_spec_by_spec(logical, tree, mapping):
    """`logical_to_mesh(tree, rules)` replaces each spec by `logical_to_mesh_axes(spec, rules)`."""
    expected = _map(lambda spec: logical.logical_to_mesh_axes(spec, mapping), tree)
    assert alike(logical.logical_to_mesh(tree, mapping), expected)


@requirement("metadata/logical-trees/specs-land-on-the-mesh")
@given(tree=trees(specs), mapping=rules(), mesh=meshes(axes=(("data", "model", "layers"),)))
def test_a_tree_of_specs_is_placed_spec_by_spec(logical, tree, mapping, mesh):
    """`logical_to_mesh_sharding(tree, mesh, rules)` has in the place of each logical spec a
    `NamedSharding` on `mesh` that places arrays as the mapped spec does.
    """
    expected = _map(
        lambda spec: NamedSharding(mesh, logical.logical_to_mesh_axes(spec, mapping)), tree
    )
    given = logical.logical_to_mesh_sharding(tree, mesh, mapping)
    expected = _map(_divided, expected, NamedSharding)
    assert alike(_map(_divided, given, NamedSharding), expected)


@requirement("metadata/logical-context/context-rules-are-used", must_reach=("set", "context"))
@given(
    names=logical_names(), mapping=rules(), passed=rules(), how=st.sampled_from(["set", "context"])
)
@example(names=("batch",), mapping=(("batch", "data"),), passed=(("batch", None),), how="set")
@example(names=("batch",), mapping=(("batch", "data"),), passed=(("batch", None),), how="context")
def test_rules_in_context_are_used(logical, names, mapping, passed, how):
    """Rules in context, set by `logical_axis_rules` or `set_logical_axis_rules`, are used where a
    call passes none, and are not used where it passes some.
    """
    assume(passed)
    names = unconstrained(names)
    with logical.logical_axis_rules(mapping if how == "context" else ()):
        if how == "set":
            logical.set_logical_axis_rules(mapping)
        assert alike(tuple(logical.get_logical_axis_rules()), mapping)
        implied = logical.logical_to_mesh_axes(names)
        told = logical.logical_to_mesh_axes(names, passed)
    assert alike(implied, logical.logical_to_mesh_axes(names, mapping))
    assert alike(told, logical.logical_to_mesh_axes(names, passed))


def _are_of(given, mapping):
    """Whether rules in context are those of a mapping: all of them, or one for each name."""
    given = [*given]
    strange = [rule for rule in given if not holds(mapping, rule)]
    ruled = {name for name, _ in given}, {name for name, _ in mapping}
    return not strange and alike_in_any_order(*ruled)


@requirement(
    "metadata/logical-context/leaving-restores-rules", must_reach=("exception", "set inside")
)
@given(
    stack=st.lists(rules(max_size=2), min_size=1, max_size=3),
    outer=rules(max_size=2),
    inside=st.one_of(st.none(), rules(max_size=2)),
    fails=st.booleans(),
)
def test_leaving_a_context_restores_the_rules(logical, stack, outer, inside, fails):
    """Leaving `logical_axis_rules`, also by an exception or after rules were set inside, puts the
    rules back that were there before.
    """

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
                enter(rest[1:])
        finally:
            assert alike(tuple(logical.get_logical_axis_rules()), before)

    with logical.logical_axis_rules(outer):
        error = raised(lambda: enter(stack))
        assert isinstance(error, Interruption) if fails else error is None
        assert _are_of(logical.get_logical_axis_rules(), outer)


@requirement("metadata/logical-context/inner-rules-replace-outer", must_reach=("nested",))
@given(stack=st.lists(rules(max_size=2), min_size=2, max_size=3))
def test_entering_a_context_replaces_the_rules(logical, stack):
    """Inside of nested `logical_axis_rules`, only the rules of the innermost context hold."""
    reached("nested")
    with contextlib.ExitStack() as contexts:
        for mapping in stack:
            contexts.enter_context(logical.logical_axis_rules(mapping))
            assert _are_of(logical.get_logical_axis_rules(), mapping)


@requirement("metadata/logical-context/threads-have-own-rules", must_reach=("context", "set"))
@given(mapping=rules(), theirs=rules(), how=st.sampled_from(["context", "set"]))
def test_other_threads_do_not_see_the_rules(logical, mapping, theirs, how):
    """A new thread has no rules, whatever its parent has set; the rules that it sets are not seen
    by its parent.
    """
    assume(mapping)
    seen, set_rules = [], logical.set_logical_axis_rules

    def other():
        seen.append(tuple(logical.get_logical_axis_rules() or ()))
        set_rules(theirs)

    with logical.logical_axis_rules(mapping if how == "context" else ()):
        if how == "set":
            set_rules(mapping)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert alike(seen, [()])
        assert alike(tuple(logical.get_logical_axis_rules()), mapping)
