"""States as mappings, as pairs of path and leaf, and as pure dictionaries: OBJ-4.

The oracle is the nested dictionary that a state is made of. The *pure dictionary* of a state has
the same nesting, and bare values in the place of variables.
"""

import operator
from collections import UserDict
from types import MappingProxyType

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.filters import build_filter
from scutch.inputs.graphs import leaves, metadata, same_leaves
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, alike_in_any_order, holds, says_equal
from scutch.lawkit.marks import raised, reached, refused, requirement
from scutch.lawkit.states import flat_state, raw_value
from scutch.strategies import copies, state_dicts, type_filters

METHODS = {
    "split_state": "split",
    "merge_state": "merge",
    "filter_state": "filter",
    "to_flat_state": "flat_state",
    "from_flat_state": "from_flat_path",
    "to_pure_dict": "to_pure_dict",
    "replace_by_pure_dict": "replace_by_pure_dict",
}
"""By function of states, the method or class method of `State` that does the same in Flax."""


def _way(nnx, name, by_method):
    """A function of states, or the method of `State` that does the same, if there is one."""
    method = getattr(nnx.State, METHODS[name], None) if by_method else None
    return getattr(nnx, name) if method is None else method


@requirement("objects/states/merge-undoes-split-state", must_reach=("several", "overlap"))
@given(
    pair=copies(state_dicts()),
    wanted=st.lists(type_filters(), min_size=1, max_size=2),
    order=st.permutations(range(3)),
    by_method=st.booleans(),
)
def test_the_parts_of_a_state_merge_back_to_it(nnx, pair, wanted, order, by_method):
    """The parts of a state that was split by filters merge to it in any order; where merged states
    have a path in common, the leaf of the later one stays. So it is for the methods and
    `|` of states.
    """
    split, merge, chosen = (
        _way(nnx, name, by_method) for name in ("split_state", "merge_state", "filter_state")
    )
    one, other = map(nnx.State, pair)
    filters = [build_filter(nnx, each) for each in wanted]
    parts = split(one, *filters, ...)
    if sum(bool(flat_state(nnx, part)) for part in parts) > 1:
        reached("several")
    merged = merge(*(parts[i] for i in order if i < len(parts)))
    assert same_leaves(nnx, flat_state(nnx, merged), leaves(nnx, pair[0]))
    later = chosen(other, filters[0])
    winners = flat_state(nnx, later)
    if winners:
        reached("overlap")
    last = flat_state(nnx, one) | winners
    operated = [one | later] if hasattr(nnx.State, "__or__") else []
    for joined in [merge(one, later), *operated]:
        both = flat_state(nnx, joined)
        assert alike_in_any_order(both, flat_state(nnx, one))
        assert not [path for path, leaf in both.items() if leaf is not last[path]]


@requirement(
    "objects/states/difference-keeps-missing-paths",
    must_reach=("kept", "taken", "nested", "nothing"),
)
@given(pair=copies(state_dicts()), wanted=type_filters(), further=state_dicts(), more=st.booleans())
def test_a_difference_of_states_has_what_the_other_lacks(nnx, pair, wanted, further, more):
    """A state less another one has its own leaves at the paths that the other has not, and no
    others; neither state is changed.
    """
    one, twin = map(nnx.State, pair)
    other = nnx.State(further) if more else nnx.filter_state(twin, build_filter(nnx, wanted))
    left, right = flat_state(nnx, one), flat_state(nnx, other)
    found = flat_state(nnx, one - other)
    expected = {path: leaf for path, leaf in left.items() if not holds(right, path)}
    assert same_leaves(nnx, found, expected)
    assert not [path for path, leaf in found.items() if leaf is not left[path]]
    for state, before in ((one, left), (other, right)):
        assert same_leaves(nnx, flat_state(nnx, state), before)
    homes = {path[:-1] for path in left if holds(right, path)}
    said = {
        "kept": expected,
        "taken": homes,
        "nested": homes & {path[:-1] for path in expected} - {()},
        "nothing": not right,
    }
    reached(*[name for name, is_so in said.items() if is_so])


@requirement("objects/states/flattening-is-invertible", must_reach=("integers", "strings", "deep"))
@given(mapping=state_dicts(), by_method=st.booleans())
def test_a_state_flattens_to_paths_and_back(nnx, mapping, by_method):
    """A state flattens to pairs of path and leaf, in which integers stay integers, and these pairs
    make an equal state; items and attributes lead along the paths to the leaves themselves. Where
    there is nothing, an item is a `KeyError`, and an attribute an `AttributeError`. Methods of
    states that flatten and rebuild them do the same.
    """
    state = nnx.State(mapping)
    pairs = list(_way(nnx, "to_flat_state", by_method)(state))
    assert {type(path) for path, _ in pairs} <= {tuple}
    assert same_leaves(nnx, dict(pairs), leaves(nnx, mapping))
    back = _way(nnx, "from_flat_state", by_method)(pairs)
    assert isinstance(back, nnx.State)
    assert same_leaves(nnx, flat_state(nnx, back), dict(pairs))
    for path, leaf in pairs:
        reached("deep" if len(path) > 1 else "strings" if isinstance(path[0], str) else "integers")
        by_item = by_name = back
        for key in path:
            assert holds(by_item, key), f"{path} leads nowhere: there is no {key!r} in {by_item}"
            assert operator.contains(by_item, key) is True, f"{key!r} is not in {by_item}"
            by_item = by_item[key]
            by_name = getattr(by_name, key) if isinstance(key, str) else by_name[key]
        assert by_item is leaf
        assert by_name is leaf
    assert operator.contains(back, "unknown") is False
    assert isinstance(raised(lambda: back["unknown"]), KeyError)
    assert isinstance(raised(lambda: back.unknown), AttributeError)
    assert isinstance(raised(lambda: back._unknown), AttributeError)


def _with_text_for_numbers(pure):
    """A pure dictionary as a checkpoint gives it back, which knows texts as keys alone."""
    return {
        str(key): _with_text_for_numbers(value) if isinstance(value, dict) else value
        for key, value in pure.items()
    }


def _has_only_numbers(pure):
    """Whether all keys at all levels are integers."""
    return all(
        isinstance(key, int) and (not isinstance(value, dict) or _has_only_numbers(value))
        for key, value in pure.items()
    )


@requirement(
    "objects/states/pure-dict-restores-state", must_reach=("variable", "texts for numbers")
)
@given(pair=copies(state_dicts()), by_method=st.booleans())
def test_a_state_becomes_a_pure_dictionary_and_returns(nnx, pair, by_method):
    """The pure dictionary of a state has the bare values at their paths; replacing the values of
    another such state by it restores values, types and metadata, also where it has texts in the
    place of numbers, as a checkpoint has them. So it is for the methods of states.
    """
    one, other = map(nnx.State, pair)
    pure = _way(nnx, "to_pure_dict", by_method)(one)
    assert type(pure) is dict
    flat = dict(_pairs(pure))
    expected = flat_state(nnx, one)
    assert alike_in_any_order(flat, expected)
    for path, leaf in expected.items():
        assert alike(flat[path], raw_value(nnx, leaf))
        if isinstance(leaf, nnx.Variable):
            reached("variable")
    given_back = [pure]
    if pure and _has_only_numbers(pure):
        reached("texts for numbers")
        given_back.append(_with_text_for_numbers(pure))
    for each in given_back:
        cleared = jax.tree_util.tree_map(lambda _: np.zeros(5), other)
        _way(nnx, "replace_by_pure_dict", by_method)(cleared, each)
        assert same_leaves(nnx, flat_state(nnx, cleared), expected)


@requirement("objects/states/pure-dict-restores-state", must_reach=("not texts", "texts"))
@given(
    named=st.lists(st.sampled_from(["0", "1", "10", "a"]), min_size=1, max_size=3, unique=True),
    numbers=st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True),
    deep=st.booleans(),
    texts=st.booleans(),
)
def test_texts_of_digits_and_numbers_are_keys_of_one_state(nnx, named, numbers, deep, texts):
    """A state that has texts of digits for keys in one part, as a dictionary of layers has, and
    numbers in another, as a list has, is restored by its pure dictionary, also where that has texts
    in the place of the numbers.
    """

    def made(start):
        parts = {
            "named": {key: nnx.Param(np.full(2, start + n)) for n, key in enumerate(named)},
            "listed": {key: nnx.Param(np.full(2, start - n)) for n, key in enumerate(numbers)},
        }
        return nnx.State({"layers": parts} if deep else parts)

    expected, state = made(7), made(100)
    pure = nnx.to_pure_dict(expected)
    parts = pure["layers"] if deep else pure
    if texts:
        parts["listed"] = _with_text_for_numbers(parts["listed"])
    nnx.replace_by_pure_dict(state, pure)
    assert same_leaves(nnx, flat_state(nnx, state), flat_state(nnx, expected))


def _pairs(nested, path=()):
    """The paths and leaves of nested dictionaries."""
    for key, value in nested.items():
        if isinstance(value, dict):
            yield from _pairs(value, (*path, key))
        else:
            yield (*path, key), value


def _replacing(nnx, mapping, place):
    """A call that replaces by a pure dictionary with an unknown key at some level."""
    state = nnx.State(mapping)
    pure = nnx.to_pure_dict(state)
    homes = [pure, *(value for value in pure.values() if isinstance(value, dict))]
    home = homes[place % len(homes)]
    if home is not pure:
        reached("deep")
    home["unknown"] = np.ones(2)
    return lambda: nnx.replace_by_pure_dict(state, pure)


@requirement("objects/states/unknown-key-is-refused", must_reach=("deep",))
@given(mapping=state_dicts(), place=st.integers(0, 3))
def test_a_pure_dictionary_with_an_unknown_path_is_refused(nnx, mapping, place):
    """Replacing by a pure dictionary with a key that the state lacks raises an error."""
    refused(_replacing(nnx, mapping, place))


@requirement("objects/states/unknown-key-is-refused[message]")
@given(mapping=state_dicts(), place=st.integers(0, 3))
def test_the_refusal_of_a_pure_dictionary_shows_the_key(nnx, mapping, place):
    """The error for a key that the state lacks shows the key."""
    refused(_replacing(nnx, mapping, place), naming=("unknown",))


@requirement(
    "objects/states/path-through-leaf-is-refused",
    must_reach=("merged", "from pairs", "first", "not first"),
)
@given(
    pair=copies(state_dicts()),
    place=st.integers(0, 7),
    keys=st.lists(st.sampled_from([0, 1, "b"]), min_size=1, max_size=2),
    first=st.booleans(),
    how=st.sampled_from(["merged", "from pairs"]),
)
def test_a_path_through_a_leaf_is_refused(nnx, pair, place, keys, first, how):
    """A state of two leaves, of which one has a path that leads through the other, cannot be made
    by `merge_state` or `from_flat_state`, whichever comes first; both leaves stay as they are.
    """
    expected, flat = (flat_state(nnx, nnx.State(each)) for each in pair)
    assume(flat)
    path = list(flat)[place % len(flat)]
    leaf, further = flat[path], nnx.Param(np.float32(7))
    parts = [(path, leaf), ((*path, *keys), further)][:: 1 if first else -1]
    if how == "merged":
        states = [nnx.from_flat_state([part]) for part in parts]
        refused(lambda: nnx.merge_state(*states))
    else:
        refused(lambda: nnx.from_flat_state(parts))
    assert same_leaves(nnx, {path: leaf}, {path: expected[path]})
    assert alike(further.get_value(), np.float32(7))


MAPPINGS = {"mapping": dict, "read-only mapping": MappingProxyType, "other mapping": UserDict}
WRITTEN = ("item", "attribute", *MAPPINGS)


@requirement("objects/states/nested-writes-reach-state", must_reach=("deep", "deleted", *WRITTEN))
@given(mapping=state_dicts(), place=st.integers(0, 7), how=st.sampled_from(["deleted", *WRITTEN]))
def test_a_state_in_a_state_is_a_part_of_it(nnx, mapping, place, how):
    """A leaf that is written by items or by attributes, or deleted, at any depth, is changed in the
    state itself; a dictionary that is written becomes a state in it, and the items of any other
    mapping are found by their keys.
    """
    state = nnx.State(mapping)
    expected = flat_state(nnx, state)
    assume(expected)
    path = list(expected)[place % len(expected)]
    reached("deep" if len(path) > 1 else "shallow")
    home = state
    for key in path[:-1]:
        home = home[key]
    assume(how != "attribute" or isinstance(path[-1], str))
    leaf = nnx.Param(np.full(3, 7))
    if how == "deleted":
        del home[path[-1]]
        del expected[path]
    elif how in MAPPINGS:
        home[path[-1]] = MAPPINGS[how]({"new": {"leaf": leaf}})
        del expected[path]
        expected[*path, "new", "leaf"] = leaf
        assert home[path[-1]]["new"]["leaf"] is leaf
        assert how != "mapping" or home[path[-1]].new.leaf is leaf
    else:
        if how == "attribute":
            setattr(home, path[-1], leaf)
        else:
            home[path[-1]] = leaf
        expected[path] = leaf
    assert same_leaves(nnx, flat_state(nnx, state), expected)


def _reversed(mapping):
    """Nested dictionaries with the keys in reverse order."""
    return {k: _reversed(v) if isinstance(v, dict) else v for k, v in reversed(mapping.items())}


@requirement("objects/states/state-is-a-pytree", must_reach=("variable", "several"))
@given(mapping=state_dicts())
def test_a_state_is_a_pytree(nnx, mapping):
    """The leaves of a state as a JAX pytree are its values, in an order that depends on the paths
    alone; `jax.tree.map` keeps paths, types and metadata.
    """
    state, other = nnx.State(mapping), nnx.State(_reversed(mapping))
    found, structure = jax.tree_util.tree_flatten(state)
    values = [raw_value(nnx, leaf) for _, leaf in nnx.to_flat_state(state)]
    if len(values) > 1:
        reached("several")
    assert len([*found]) == len([*values])
    assert {*map(id, found)} == {*map(id, values)}
    others, other_structure = jax.tree_util.tree_flatten(other)
    assert says_equal(structure, other_structure)
    assert [*map(id, others)] == [*map(id, found)], f"{found} in one order, {others} in another"
    mapped = flat_state(nnx, jax.tree_util.tree_map(lambda x: "seen", state))
    assert alike_in_any_order(mapped, flat_state(nnx, state))
    for path, leaf in flat_state(nnx, state).items():
        assert type(mapped[path]) is (type(leaf) if isinstance(leaf, nnx.Variable) else str)
        assert alike(raw_value(nnx, mapped[path]), "seen")
        if isinstance(leaf, nnx.Variable):
            reached("variable")
            assert alike(metadata(mapped[path]), metadata(leaf))
