"""Taking graphs of objects apart and putting them together: OBJ-1.

The oracle is the object itself: `graphs.differences` compares the merged object with it, attribute
by attribute, and never by the implementation's own equality.
"""

import copy
import inspect

import jax
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.inputs.descriptions import Graph, Object
from scutch.inputs.filters import build_filter, takes
from scutch.inputs.graphs import (
    ATTRIBUTES,
    children,
    classes,
    differences,
    follow,
    is_node,
    leaves,
    nodes,
    put,
    same_leaves,
    walk,
)
from scutch.lawkit.domain import assume, not_available
from scutch.lawkit.equality import alike, alike_in_any_order, holds, plain_text, says_equal
from scutch.lawkit.marks import raised, reached, refused, requirement
from scutch.lawkit.states import flat_state, raw_value
from scutch.strategies import arrays, copies, graphs, object_trees, type_filters, variables


def _restored(nnx, root):
    """The object after `split` and `merge`."""
    return nnx.merge(*nnx.split(root))


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
    assert not differences(nnx, root, _restored(nnx, root))


def _meetings(nnx, root):
    """How often a node is met again that was met before."""
    found = [id(value) for _, value in walk(nnx, root) if is_node(nnx, value)]
    return len(found) - len(set(found))


@requirement("objects/sharing/split-keeps-sharing", must_reach=("shared",))
@given(root=graphs(cycles=False, containers=False, marks=False))
def test_splitting_keeps_sharing(nnx, root):
    """Two places of an object that hold one node hold one node after `split` and `merge`; two that
    hold different nodes hold different ones.
    """
    if _meetings(nnx, root):
        reached("shared")
    assert not differences(nnx, root, _restored(nnx, root))


def _is_cyclic(nnx, root, above=()):
    """Whether an object can be reached from itself."""
    inside = {*above, id(root)}
    parts = [each for _, each in children(nnx, root) or () if isinstance(each, nnx.Pytree)]
    return any(id(each) in inside or _is_cyclic(nnx, each, inside) for each in parts)


@requirement("objects/sharing/split-keeps-cycles", must_reach=("cycle",))
@given(root=graphs(containers=False, marks=False, max_objects=3))
def test_splitting_keeps_cycles(nnx, root):
    """An object that leads back to itself does so, by the same paths, after `split` and `merge`."""
    assume(_is_cyclic(nnx, root))
    reached("cycle")
    assert not differences(nnx, root, _restored(nnx, root))


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
    reached(how)
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
    reached(how)
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
    reached(how)


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
    root=object_trees(), data=st.permutations(ATTRIBUTES),
    deleted=st.sampled_from([None, "variable", "static"]), at=st.integers(0, 5),
    empty=st.booleans(),
)  # fmt: skip
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
    pair=copies(object_trees()), wanted=st.lists(type_filters(), min_size=1, max_size=2),
    back=st.booleans(), at=st.integers(0, 3),
    held=st.lists(st.sampled_from(["Param", "BatchStat", "Count", "deeper"]), max_size=3),
)  # fmt: skip
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


@requirement("objects/walks/graph-meets-nodes-once", must_reach=("shared", "shared variable"))
@given(root=graphs(marks=False), again=st.integers(0, 3))
def test_iterating_meets_each_node_once(nnx, root, again):
    """`iter_graph` gives every object and variable once, with a path that leads to it."""
    found = [node for node in nodes(nnx, root) if isinstance(node, nnx.Variable)]
    if again and found:
        spare = next(name for name in ATTRIBUTES if not hasattr(root, name))
        setattr(root, spare, found[again % len(found)])
        reached("shared variable")
    if _meetings(nnx, root):
        reached("shared")
    found = [(path, value) for path, value in nnx.iter_graph(root) if is_node(nnx, value)]
    wrong = [path for path, value in found if follow(nnx, root, path) is not value]
    assert not wrong, f"other objects are at the paths {wrong}"
    assert sorted(map(id, [value for _, value in found])) == sorted(map(id, nodes(nnx, root)))


@requirement("objects/walks/graph-ends-with-root")
@given(root=graphs(marks=False))
def test_iterating_ends_with_the_root(nnx, root):
    """`iter_graph` gives the object itself last."""
    found = [value for _, value in nnx.iter_graph(root)]
    assert found, "there is nothing to iterate"
    assert found[-1] is root


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


COPIES = {
    "merge": _restored,
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
    mark=st.booleans(), how=st.sampled_from(list(COPIES)),
)  # fmt: skip
def test_marks_say_what_is_data_and_what_is_static(nnx, root, pair, mark, how):
    """A number marked as data is in the state, and one marked as static is in the definition.

    A static number is no leaf of the object as a JAX pytree, either. Both come back from `split`
    and `merge`, and stay data or static in every copy.
    """
    reached(how)
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


WHAT = ("array", "variable", "a variable of none", "object", "an object without leaves")
"""Values that cannot be static data, because JAX traces them or because they have an identity."""


@requirement(
    "objects/definitions/static-arrays-are-refused",
    must_reach=(*WHAT, "alone", "in a container", "marked", "unmarked", "grown"),
)
@given(
    root=object_trees(), kind=st.sampled_from(WHAT),
    wraps=st.sampled_from(["alone", "list", "tuple", "dict", "nested"]),
    library=st.sampled_from("nj"), marked=st.booleans(),
    before=st.sampled_from(["nothing", "number", "static", "grown"]),
)  # fmt: skip
def test_what_jax_is_to_trace_cannot_be_static(nnx, root, kind, wraps, library, marked, before):
    """An array, a variable or an object cannot be static, alone or in a container.

    If it is marked as static, setting the attribute or at the latest `split` raises an error; this
    includes a variable whose value is `None`, and an object without attributes. Without a mark,
    `split` refuses it or has it in the state, whatever the attribute held before. An object without
    attributes is in no state, and a copy must have another one. The same holds for a value that
    `__init__` appends to a list after it has set the list, marked or not.
    """
    reached(kind)
    reached("alone" if wraps == "alone" else "in a container")
    reached("marked" if marked else "unmarked")
    array = np.ones(2, "float32") if library == "n" else jax.numpy.ones(2)
    branch, bare = (classes(nnx)["Branch"]() for _ in range(2))
    branch.a = nnx.Param(array)
    things = [array, nnx.Param(array), nnx.Param(None), branch, bare]
    value = dict(zip(WHAT, things, strict=True))[kind]
    wrapped = {
        "alone": value, "list": [value], "tuple": (1, value), "dict": {"x": value},
        "nested": {"x": [value, 1]},
    }[wraps]  # fmt: skip
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


@requirement(
    "objects/sharing/duplicates-list-shared-paths",
    must_reach=("object", "variable", "none", "left out"),
)
@given(
    root=graphs(marks=False, bare=False, containers=False), again=st.integers(0, 3),
    only=st.one_of(st.none(), st.sampled_from(["Param", "BatchStat"])),
)  # fmt: skip
def test_duplicates_are_the_paths_of_what_is_shared(nnx, root, again, only):
    """`find_duplicates` gives all paths of each object and variable that has more than one.

    The inside of a shared object is walked once. With `only`, it lists the nodes of that type
    alone.
    """
    found = [node for node in nodes(nnx, root) if isinstance(node, nnx.Variable)]
    if again and found:
        spare = next(name for name in ATTRIBUTES if not hasattr(root, name))
        setattr(root, spare, found[again % len(found)])
    paths = {}
    for path, value in walk(nnx, root):
        if is_node(nnx, value):
            paths.setdefault(id(value), []).append((path, value))
    shared = [met for met in paths.values() if len(met) > 1]
    for (_, value), *_ in shared:
        reached("variable" if isinstance(value, nnx.Variable) else "object")
    if not shared:
        reached("none")
    options = {}
    if only is not None:
        kind = getattr(nnx, only)
        options["only"] = kind
        all_of_them, shared = shared, [met for met in shared if isinstance(met[0][1], kind)]
        if len(shared) < len(all_of_them):
            reached("left out")
    ours = [sorted(map(repr, map(tuple, group))) for group in nnx.find_duplicates(root, **options)]
    assert alike_in_any_order(ours, [sorted(repr(path) for path, _ in met) for met in shared])
