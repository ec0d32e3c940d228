"""Taking graphs of objects apart and putting them together: OBJ-1.

The oracle is the object itself: `graphs.differences` compares the merged object with it, attribute
by attribute, and never by the implementation's own equality.
"""

import inspect

import jax
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.inputs.described_objects import Graph, Object
from scutch.inputs.filters import build_filter, takes
from scutch.inputs.graphs import (
    ATTRIBUTES,
    children,
    classes,
    differences,
    leaves,
    nodes,
    put,
    same_leaves,
    walk,
)
from scutch.lawkit.domain import assume, not_available
from scutch.lawkit.equality import alike, alike_in_any_order, holds, plain_text
from scutch.lawkit.marks import reached, refused, requirement
from scutch.lawkit.states import flat_state, raw_value
from scutch.strategies import arrays, copies, object_trees, type_filters, variables


def _copied(nnx, root):
    """The same with new variables, for which Flax must be asked by `copy=True`."""
    asked = {"copy": True} if holds(inspect.signature(nnx.merge).parameters, "copy") else {}
    return nnx.merge(*nnx.split(root), **asked)


def _scramble(nnx, root):
    """Change every variable of a graph, and give every module one more attribute."""
    for node in nodes(nnx, root):
        if isinstance(node, nnx.Variable):
            node.set_raw_value(np.full(7, 7.0))
            node.set_metadata(note="changed")
        elif isinstance(node, nnx.Module):
            put(nnx, node, "e", "changed")


@requirement("objects/graphs/merge-undoes-split", must_reach=("variable", "array"))
@given(root=object_trees())
@example(root=Graph((Object("Node", {"a": None}),)))
def test_merging_a_split_object_restores_it(nnx, root):
    """`merge(*split(x))` has the types, attributes, values, metadata and static data of `x`."""
    for leaf in leaves(nnx, root).values():
        reached("variable" if isinstance(leaf, nnx.Variable) else "array")
    assert not differences(nnx, root, nnx.merge(*nnx.split(root)))


@requirement(
    "objects/containers/containers-are-walked", must_reach=("list", "tuple", "dict", "List", "Dict")
)
@given(root=object_trees(containers=True))
def test_containers_are_part_of_the_graph(nnx, root):
    """Variables and arrays in lists, tuples and dicts, plain or tracked, are leaves of the graph
    under their index or key, and are restored by `merge`.
    """
    for _, value in walk(nnx, root):
        if children(nnx, value):
            reached(type(value).__name__)
    definition, state = nnx.split(root)
    numbers = {
        path for path, leaf in flat_state(nnx, state).items() if isinstance(leaf, int | float)
    }
    assert alike_in_any_order(flat_state(nnx, state).keys() - numbers, leaves(nnx, root))
    assert not differences(nnx, root, nnx.merge(definition, state))


@requirement("objects/graphs/merged-object-is-new", must_reach=("merge", "clone"))
@given(pair=copies(object_trees()), how=st.sampled_from(["merge", "clone"]))
def test_a_copy_of_an_object_is_a_new_one(nnx, pair, how):
    """The merged object and the clone are isomorphic to the original and hold none of its nodes;
    changing them does not change the original.
    """
    root, before = pair
    new = _copied(nnx, root) if how == "merge" else nnx.clone(root)
    assert not differences(nnx, before, new)
    assert not {*map(id, nodes(nnx, root))} & {*map(id, nodes(nnx, new))}
    _scramble(nnx, new)
    assert not differences(nnx, before, root)


@requirement(
    "objects/copies/clone-options-share-or-copy", must_reach=("arrays", "variables", "neither")
)
@given(
    pair=copies(object_trees(variable=variables(arrays(max_rank=2)))),
    how=st.sampled_from(["arrays", "variables", "neither"]),
)
def test_a_clone_says_what_is_new_in_it(nnx, pair, how):
    """With `arrays=True`, a clone has arrays of its own, too; with `variables=False`, it has the
    variables of the original in new objects; both at once, which cannot be, are refused.
    """
    if not holds(inspect.signature(nnx.clone).parameters, "arrays"):
        not_available("clone has no option for arrays")
    root, before = pair
    options = {"arrays": how != "variables", "variables": how == "arrays"}
    if how == "neither":
        refused(lambda: nnx.clone(root, **options))
        return
    new = nnx.clone(root, **options)
    assert not differences(nnx, before, new)
    ours, theirs = leaves(nnx, root), leaves(nnx, new)
    same = {path: ours[path] is theirs[path] for path in ours}
    is_variable = {path: isinstance(leaf, nnx.Variable) for path, leaf in ours.items()}
    if how == "variables":
        assert not [path for path in ours if is_variable[path] and not same[path]]
    else:
        raw = [raw_value(nnx, each[path]) for path in ours for each in (ours, theirs)]
        assert not [one for one, other in zip(raw[::2], raw[1::2], strict=True) if one is other]
    found = [
        {id(node) for node in nodes(nnx, each) if not isinstance(node, nnx.Variable)}
        for each in (root, new)
    ]
    assert not found[0] & found[1]


@requirement("objects/graphs/first-filter-takes-leaf", must_reach=("several", "flat"))
@given(
    root=object_trees(),
    wanted=st.lists(type_filters(), max_size=2),
    order=st.permutations(range(5)),
    whole=st.lists(st.sampled_from(["...", True]), min_size=1, max_size=3),
    flattened=st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_each_leaf_goes_to_the_first_filter_that_takes_it(
    nnx, root, wanted, order, whole, flattened
):
    """`split` with filters puts each leaf in the state of the first filter that takes it and in no
    other, also where several take all; the states, nested or flat, merge back in any order.
    """
    wanted = [*wanted, *(("literal", each) for each in whole)]
    definition, *states = nnx.split(root, *(build_filter(nnx, each) for each in wanted))
    flat = [flat_state(nnx, state) for state in states]
    if sum(map(bool, flat)) > 1:
        reached("several")
    expected = leaves(nnx, root)
    assert len([*states]) == len([*wanted]), f"{len(states)} states for {len(wanted)} filters"
    assert sum(len([*each]) for each in flat) == len([*expected])
    for path, leaf in expected.items():
        first = next(i for i, each in enumerate(wanted) if takes(nnx, each, path, leaf))
        assert holds(flat[first], path), f"{path} is not in state {first} of {flat}"
        assert not differences(nnx, flat[first][path], leaf)
    shuffled = [states[i] for i in order if i < len(states)]
    for number, is_flat in zip(range(len(shuffled)), flattened, strict=False):
        if is_flat and flat_state(nnx, shuffled[number]):
            reached("flat")
            shuffled[number] = nnx.to_flat_state(shuffled[number])
    assert not differences(nnx, root, nnx.merge(definition, *shuffled))


few_filters = st.lists(type_filters(), min_size=1, max_size=2)


def _refused_split(nnx, root, wanted, how="split"):
    """The message of the error that `split`, or `split_state` of the state, raises, and the paths
    that the filters leave out.
    """
    left = [
        path
        for path, leaf in leaves(nnx, root).items()
        if not any(takes(nnx, each, path, leaf) for each in wanted)
    ]
    assume(left)
    given_to = root if how == "split" else nnx.split(root)[1]
    filters = [build_filter(nnx, each) for each in wanted]
    return str(refused(lambda: getattr(nnx, how)(given_to, *filters))), left


@requirement("objects/graphs/unmatched-leaf-is-refused", must_reach=("split", "split_state"))
@given(root=object_trees(), wanted=few_filters, how=st.sampled_from(["split", "split_state"]))
def test_a_leaf_that_no_filter_takes_is_refused(nnx, root, wanted, how):
    """`split`, and `split_state` of a state, with filters that leave a leaf out raise an error."""
    _refused_split(nnx, root, wanted, how)


@requirement("objects/graphs/merge-needs-exact-leaves", must_reach=("one too many", "one too few"))
@given(root=object_trees(), place=st.integers(0, 9), more=st.booleans(), apart=st.booleans())
def test_merging_needs_the_leaves_of_the_definition_and_no_others(nnx, root, place, more, apart):
    """`merge` refuses states that lack a leaf of the definition, and states that have one more; all
    in one state, or each leaf in a state of its own.
    """
    definition, state = nnx.split(root)
    flat = flat_state(nnx, state)
    if more:
        reached("one too many")
        flat["unknown",] = nnx.Param(np.ones(2))
    else:
        assume(flat)
        reached("one too few")
        del flat[list(flat)[place % len(flat)]]
    parts = [[pair] for pair in flat.items()] if apart else [flat.items()]
    refused(lambda: nnx.merge(definition, *map(nnx.from_flat_state, parts)))


@requirement("objects/graphs/unmatched-leaf-is-refused[message]")
@given(root=object_trees(), wanted=few_filters)
def test_the_refusal_of_a_split_shows_a_path(nnx, root, wanted):
    """The error of `split` shows the path of a leaf that no filter takes."""
    error, left = _refused_split(nnx, root, wanted)
    shown = [
        path for path in left if all(plain_text(repr(key)) in plain_text(error) for key in path)
    ]
    assert shown, f"{error!r} shows no path of {left}"


@requirement("objects/graphs/state-equals-split", must_reach=("left out", "taken"))
@given(root=object_trees(), wanted=st.lists(type_filters(), min_size=1, max_size=2))
def test_state_gives_the_states_of_split(nnx, root, wanted):
    """`state(x, *filters)` gives the states that `split(x, *filters, ...)` gives for these filters,
    without the leaves that none of them takes.
    """
    wanted = [build_filter(nnx, each) for each in wanted]
    _, *split = nnx.split(root, *wanted, ...)
    if flat_state(nnx, split.pop()):
        reached("left out")
    states = nnx.state(root, *wanted)
    states = states if len(wanted) > 1 else (states,)
    assert len([*states]) == len([*split]), f"{len(states)} states for {len(split)} filters"
    for ours, theirs in zip(states, split, strict=True):
        if flat_state(nnx, theirs):
            reached("taken")
        assert same_leaves(nnx, flat_state(nnx, ours), flat_state(nnx, theirs))


@requirement(
    "objects/graphs/pop-removes-variables",
    must_reach=("popped", "left", "cycle", "several filters", "dictionary", "array"),
)
@given(
    pair=copies(object_trees()),
    wanted=st.lists(type_filters(), min_size=1, max_size=2),
    back=st.booleans(),
    at=st.integers(0, 3),
    held=st.lists(st.sampled_from(["Param", "BatchStat", "Count", "deeper"]), max_size=3),
)
def test_popped_variables_leave_the_object(nnx, pair, wanted, back, at, held):
    """`pop` returns the variables that its filters take, each with the first that does, and the
    object, and each dictionary in it, has all others and none of these, also where it leads back to
    itself; arrays that no filter takes stay.
    """

    def dictionary():
        """A dictionary of variables, and of one more dictionary with one."""
        return {
            name: {"a": nnx.Param(np.ones(2))} if kind == "deeper" else classes(nnx)[kind](1.0)
            for name, kind in zip("abc", held, strict=False)
        }

    for root in pair:
        inner = [node for node in nodes(nnx, root) if isinstance(node, nnx.Module)]
        home = inner[at % len(inner)]
        spare = [name for name in ATTRIBUTES[::-1] if not hasattr(home, name)]
        if back:
            reached("cycle")
            put(nnx, home, spare.pop(0), root)
        if held and spare:
            reached("dictionary")
            put(nnx, home, spare[0], dictionary())
    root, before = pair
    expected = leaves(nnx, before)
    taken = [{} for _ in wanted]
    for path, leaf in expected.items():
        first = [n for n, each in enumerate(wanted) if takes(nnx, each, path, leaf)][:1]
        if not isinstance(leaf, nnx.Variable):
            assume(not first)  # only variables are popped, or arrays as well
            reached("array")
        for n in first:
            taken[n][path] = leaf
    every = {path for each in taken for path in each}
    if every:
        reached("popped")
    if len(every) < len(expected):
        reached("left")
    popped = nnx.pop(root, *(build_filter(nnx, each) for each in wanted))
    if len(wanted) > 1:
        reached("several filters")
    states = popped if len(wanted) > 1 else (popped,)
    for ours, theirs in zip(states, taken, strict=True):
        assert same_leaves(nnx, flat_state(nnx, ours), theirs)
    rest = {p: leaf for p, leaf in expected.items() if not holds(every, p)}
    assert same_leaves(nnx, leaves(nnx, root), rest)


@requirement("objects/graphs/abstract-state-merges", must_reach=("variable",))
@given(root=object_trees(variable=variables(arrays(max_rank=3))))
def test_graphs_may_hold_abstract_values(nnx, root):
    """A definition and a state of shapes, from `jax.eval_shape`, merge to an object of the same
    structure whose values are `ShapeDtypeStruct`s.
    """
    definition, state = nnx.split(root)
    merged = nnx.merge(definition, jax.eval_shape(lambda: state))
    abstract, concrete = leaves(nnx, merged), leaves(nnx, root)
    assert alike_in_any_order(abstract, concrete)
    assert alike_in_any_order(flat_state(nnx, nnx.state(merged)), flat_state(nnx, state))
    for ours, theirs in zip(abstract.values(), concrete.values(), strict=True):
        if isinstance(theirs, nnx.Variable):
            reached("variable")
            assert type(ours) is type(theirs)
            ours, theirs = ours.get_raw_value(), theirs.get_raw_value()
        assert isinstance(ours, jax.ShapeDtypeStruct)
        assert alike((ours.shape, ours.dtype), (theirs.shape, theirs.dtype))
