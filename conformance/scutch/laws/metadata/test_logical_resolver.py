"""Names and rules become a spec in one way, whoever asks: LOG-10 (`002_`, `004_`).

Rules are as users have them: several for one name, several that contend for one mesh axis, rules
that map to nothing, to several axes, and to `UNCONSTRAINED`; some that a variable holds itself, and
some in context.

The oracle is `logical_to_mesh_axes` with the rules that hold, which LOG-1 to LOG-4 judge.
"""

import itertools

from hypothesis import example, given
from hypothesis import strategies as st
from jax.sharding import PartitionSpec

from scutch.inputs.descriptions import unconstrained
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, holds
from scutch.lawkit.marks import options, raised, reached, refused, requirement
from scutch.lawkit.states import raw_value
from scutch.laws.metadata.manual_axes import constraints_inside, jax_constraints, unnamed_axis
from scutch.strategies import logical_names, logical_placements, rules
from scutch.strategies.names import LOGICAL

UNCONSTRAINED = PartitionSpec.UNCONSTRAINED


spellings = st.sampled_from((None, "data", "model"))
"""How the logical name `embed` is spelled; some users give an axis the name of its mesh axis."""


def _state(nnx, names, **notes):
    """The state of one variable with names, and with rules of its own."""
    variable = nnx.Param(None, out_sharding=names, eager_sharding=False, **notes)
    return nnx.state(nnx.Dict(kernel=variable))


def _spec(nnx, state):
    """The spec that an implementation gives the variable."""
    return raw_value(nnx, nnx.get_partition_spec(state)["kernel"])


def _ruled(names, mapping):
    """The names with `None` in the place of those that no rule is about, which stay as they are.

    Names of which none is left are out of domain.
    """
    about = {name for name, _ in mapping}
    assume(about & set(names))
    return tuple(name if name in about else None for name in names)


def _spelled(names, mapping, spelling):
    """Names and rules with another spelling for the logical name `embed`; None leaves it."""
    new = {"embed": spelling or "embed"}
    renamed = tuple((new.get(name, name), target) for name, target in mapping)
    return tuple(new.get(name, name) for name in names), renamed


def _apart(mapping):
    """The first rule of each name; to `None` where it has an axis that one before it has."""
    found, taken = {}, set()
    for name, target in mapping:
        if name not in found:
            axes = {target} if isinstance(target, str) else {*(target or ())}
            found[name] = (name, None if axes & taken else target)
            taken |= axes
    return found


@requirement(
    "metadata/logical-resolver/contending-rules-resolve-alike",
    must_reach=("several for one name", "contending"),
)
@options("nnx.Variable.out_sharding")
@given(names=logical_names(), mapping=rules(), own=st.booleans())
def test_a_variable_and_its_names_have_one_spec(logical, nnx, names, mapping, own):
    """A variable with names has, by rules of its own or in context, the spec of its names, also
    where several rules are for one name or contend for one mesh axis.
    """
    names = _ruled(names, mapping)
    if len({name for name, _ in mapping}) < len(mapping):
        reached("several for one name")
    if len({target for _, target in mapping}) < len(mapping):
        reached("contending")
    state = _state(nnx, names, **({"sharding_rules": mapping} if own else {}))
    with logical.logical_axis_rules(() if own else mapping):
        found = _spec(nnx, state)
    assert alike(tuple(found), tuple(logical.logical_to_mesh_axes(names, mapping)))


@requirement(
    "metadata/logical-rules/rule-may-leave-to-compiler",
    must_reach=("one", "several", "beside one that is a name"),
)
@given(
    names=logical_names(often=True),
    mapping=rules(unconstrained=True),
    free=st.lists(st.sampled_from(LOGICAL), min_size=1, max_size=4, unique=True),
    place=st.sampled_from((0, 0, 1, 3)),
)
def test_a_rule_may_leave_an_axis_to_the_compiler(logical, names, mapping, free, place):
    """A name whose first rule maps to `UNCONSTRAINED` has that in the spec, and takes no axis, also
    where several names have such a rule, or `UNCONSTRAINED` stands in the place of a name.
    """
    names, open_ends = unconstrained(names), tuple((name, UNCONSTRAINED) for name in free)
    mapping = (*mapping[:place], *open_ends, *mapping[place:])
    mapping = [(n, UNCONSTRAINED if to == "UNCONSTRAINED" else to) for n, to in mapping]
    first = dict(reversed(mapping))
    decided = [n for n in names if isinstance(n, str) and first.get(n) is UNCONSTRAINED]
    assume(decided)
    reached("one" if len(decided) == 1 else "several")
    if any(name is UNCONSTRAINED for name in names):
        reached("beside one that is a name")
    rest = [(n, to) for n, to in mapping if n not in decided]
    others = tuple(None if n in decided else n for n in names)
    # Where the other rules and names are refused, the law is not about them.
    assume(raised(lambda: logical.logical_to_mesh_axes(others, rest)) is None)
    if len(mapping) - len(rest) > len(decided):  # one of them has several rules
        assume(raised(lambda: logical.logical_to_mesh_axes(names, mapping)) is None)
    spec = logical.logical_to_mesh_axes(names, mapping)
    expected = logical.logical_to_mesh_axes(others, rest)
    for name, entry, other in itertools.zip_longest(names, spec, expected):
        assert alike(entry, UNCONSTRAINED if holds(decided, name) else other), f"{name} of {spec}"


NO_RULES = (
    (("batch", "data", "model"),),
    (("batch",),),
    (3,),
    ((),),
    (("batch", "data"), None),
    3,
    1.5,
)
NO_LISTS = {
    "mapping": dict,
    "names of two letters": lambda pairs: dict.fromkeys(["ab", "cd"], pairs),
    "items": lambda pairs: dict(pairs).items(),
    "set": frozenset,
    "iterator": iter,
    "text": lambda pairs: " ".join(name for name, _ in pairs),
}
"""Containers of rules that are no lists, although Python can iterate over them."""


@requirement("metadata/logical-rules/malformed-rules-are-refused")
@given(before=rules(max_size=3), wrong=st.sampled_from(NO_RULES), names=logical_names())
def test_what_is_no_list_of_pairs_is_refused(logical, before, wrong, names):
    """A rule that is not a pair is an error at any position among the rules."""
    mapping = (*before, *wrong) if isinstance(wrong, tuple) else wrong
    assume(any(name in LOGICAL for name in names))
    refused(lambda: logical.logical_to_mesh_axes(names, mapping))


@requirement("metadata/logical-rules/malformed-rules-are-refused", must_reach=(*NO_LISTS,))
@given(
    pairs=rules(max_size=3).filter(bool),
    how=st.sampled_from(list(NO_LISTS)),
    names=logical_names(),
)
@example(pairs=(("batch", "data"), ("batch", "model")), how="set", names=("batch",))
def test_rules_in_what_is_no_list_are_refused(logical, pairs, how, names):
    """Rules in a container that is neither a list nor a tuple are an error.

    A set or mapping does not tell which rule comes first, and an iterator can be used only once.
    Where there is no rule, none comes first.
    """
    assume(any(name in LOGICAL for name in names))
    refused(lambda: logical.logical_to_mesh_axes(names, NO_LISTS[how](pairs)))


@requirement("metadata/logical-resolver/own-and-context-rules-combine", must_reach=("both",))
@options("nnx.Variable.out_sharding")
@given(
    names=logical_names(),
    mapping=rules(),
    split=st.lists(st.sampled_from(LOGICAL), unique=True),
    spelling=spellings,
)
@example(
    names=("embed", "batch"),
    mapping=(("embed", "model"), ("batch", "data")),
    split=["embed"],
    spelling="data",
)
def test_rules_of_a_variable_and_in_context_hold_together(
    logical, nnx, names, mapping, split, spelling
):
    """A variable has the spec of its names by its own rules and those in context for other names,
    also where one of these is the name of a mesh axis; rules that both have are the same rules.
    """
    names, mapping = _spelled(_ruled(names, mapping), mapping, spelling)
    split = [spelling or name if name == "embed" else name for name in split]
    first = _apart(mapping)
    own = tuple(rule for name, rule in first.items() if name in split)
    others = tuple(rule for name, rule in first.items() if name not in split)
    if own and others:
        reached("both")
    state = _state(nnx, names, sharding_rules=own)
    with logical.logical_axis_rules((*others, *own[:1])):
        found = _spec(nnx, state)
    assert alike(tuple(found), tuple(logical.logical_to_mesh_axes(names, (*own, *others))))


@requirement("metadata/logical-resolver/contradicting-rules-are-refused")
@options("nnx.Variable.out_sharding")
@given(
    name=st.sampled_from(LOGICAL),
    targets=st.permutations(["data", "model", "layers", None, ("data", "model")]),
)
def test_rules_that_contradict_each_other_are_refused(logical, nnx, name, targets):
    """If a variable's own rule contradicts one in context, the error shows the targets of both."""
    own, other = targets[:2]
    state = _state(nnx, (name,), sharding_rules=((name, own),))
    with logical.logical_axis_rules(((name, other),)):
        refused(lambda: _spec(nnx, state), naming=(own, other))


def _in_lists(mapping, how):
    """Rules with lists in the place of some tuples: of all rules, of each rule, of its axes."""
    if how == "of axes":
        mapping = [(n, [*to] if isinstance(to, tuple) else to) for n, to in mapping]
    elif how == "of each rule":
        mapping = [[*rule] for rule in mapping]
    return tuple(mapping) if how == "of axes" else [*mapping]


@requirement(
    "metadata/logical-rules/lists-mean-tuples",
    must_reach=("of rules", "of each rule", "of axes", "several axes"),
)
@given(
    names=logical_names(),
    mapping=rules(),
    how=st.sampled_from(["of rules", "of each rule", "of axes"]),
    around=st.booleans(),
)
def test_rules_in_lists_are_rules_in_tuples(logical, names, mapping, how, around):
    """A list of rules, rules that are lists, and lists of mesh axes in them give the spec that the
    same rules give as tuples, passed or in context.
    """
    names = unconstrained(names)
    if any(isinstance(target, tuple) and name in names for name, target in mapping):
        reached("several axes")
    listed = _in_lists(mapping, how)
    expected = logical.logical_to_mesh_axes(names, mapping)
    with logical.logical_axis_rules(listed if around else ()):
        spec = logical.logical_to_mesh_axes(names, *(() if around else (listed,)))
    assert alike(spec, expected)


@requirement("metadata/logical-constraints/tracing-records-mapped-spec", must_reach=("sharded",))
@given(placed=logical_placements(), manual=st.integers(0, 2))
def test_inside_shard_map_the_other_axes_are_constrained(logical, placed, manual):
    """Inside `shard_map` over one mesh axis, `with_logical_constraint` records the constraint that
    JAX's own records for the mapped spec. The spec names other mesh axes alone.
    """
    mesh, spec = placed.mesh, logical.logical_to_mesh_axes(placed.names, placed.rules)
    axis = unnamed_axis(mesh, spec, manual)
    expected = jax_constraints(spec, placed.array, mesh, axis)
    if any(expected):
        reached("sharded")
    with logical.logical_axis_rules(placed.rules):
        found = constraints_inside(
            lambda x: logical.with_logical_constraint(x, placed.names), placed.array, mesh, axis
        )
    assert alike(found, expected)
