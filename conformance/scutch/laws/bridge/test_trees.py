"""Trees of variables, as collections of Linen and as attributes of NNX: BRG-6.

The oracle is the original tree: `linen_vars_to_nnx_attrs` and `nnx_attrs_to_linen_vars` are
inverse. On Linen's side the first key of a path is the collection; on NNX's side the variable's
type takes its place.
"""

import itertools
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import jax
from hypothesis import given
from hypothesis import strategies as st
from jax.tree_util import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey

from scutch.inputs.graphs import differences
from scutch.lawkit.boxes import unplaced
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, alike_in_any_order, holds, says_equal
from scutch.lawkit.marks import few, raised, reached, refused, requirement
from scutch.strategies import (
    arrays,
    collection_names,
    collections,
    numbers,
    object_trees,
    variable_trees,
)

_numbers = itertools.count()
plain_collections = collections(arrays(max_rank=2))


class Frozen(Mapping[str, Any]):
    """A mapping that is no dictionary, and a pytree node."""

    def __init__(self, content):
        self.content = content

    def __getitem__(self, key):
        return self.content[key]

    def __iter__(self):
        return iter(self.content)

    def __len__(self):
        return len(self.content)


jax.tree_util.register_pytree_with_keys(
    Frozen,
    lambda x: ([(DictKey(k), x.content[k]) for k in sorted(x.content)], tuple(sorted(x.content))),
    lambda keys, children: Frozen(dict(zip(keys, children, strict=True))),
)


def _flat(tree, path=()):
    """The leaves of nested mappings, by path."""
    found = {}
    for key, node in tree.items():
        inside = isinstance(node, Mapping)
        found |= _flat(node, (*path, key)) if inside else {(*path, key): node}
    return found


def _crossed(crossing, tree):
    """The result of a conversion; `None` if it refuses a tree that has names and no mesh."""
    found = []
    error = raised(lambda: found.append(crossing()))
    if error is not None and not unplaced(tree):
        raise error
    return found[0] if found else None


@requirement("bridge/trees/linen-variables-return", must_reach=("several", "joined", "deep"))
@given(linen=collections())
def test_linen_variables_become_attributes_and_return(bridge, linen):
    """Each variable of Linen's collections becomes an attribute at its path, with its collection's
    type, and all of them return to an equal tree of collections; names without a mesh may be
    refused.
    """
    attributes = _crossed(lambda: bridge.linen_vars_to_nnx_attrs(linen), linen)
    if attributes is None:
        return
    expected = _flat(linen)
    if len(linen) > 1:
        reached("several")
        if any(
            holds(col, path[1])
            for path in expected
            for c, col in linen.items()
            if not alike(c, path[0])
        ):
            reached("joined")
    found = _flat(attributes)
    assert alike_in_any_order(found, {path[1:] for path in expected})
    for path in expected:
        if len(path) > 2:
            reached("deep")
        assert type(found[path[1:]]) is bridge.variable_type(path[0])
    assert alike(bridge.nnx_attrs_to_linen_vars(attributes), linen)


@requirement("bridge/trees/linen-variables-return", must_reach=("several", "deep"))
@given(linen=plain_collections)
def test_arrays_of_linen_become_attributes_and_return(bridge, linen):
    """So does each array of collections that hold no boxes."""
    if len(linen) > 1:
        reached("several")
    expected = {path[1:]: (path[0], array) for path, array in _flat(linen).items()}
    attributes = bridge.linen_vars_to_nnx_attrs(linen)
    found = _flat(attributes)
    assert alike_in_any_order(found, expected)
    for path, (col, array) in expected.items():
        if len(path) > 1:
            reached("deep")
        assert type(found[path]) is bridge.variable_type(col)
        assert alike(found[path].get_raw_value(), array)
    assert alike(bridge.nnx_attrs_to_linen_vars(attributes), linen)


@requirement("bridge/trees/nnx-attributes-return", must_reach=("several", "deep"))
@given(attributes=variable_trees())
def test_attributes_become_linen_variables_and_return(bridge, nnx, attributes):
    """Each attribute becomes a Linen variable at its path in the collection of its type, and all of
    them return with paths, types, values and metadata; names without a mesh may be refused.
    """
    linen = bridge.nnx_attrs_to_linen_vars(attributes)
    expected = _flat(attributes)
    if any(len(path) > 1 for path in expected):
        reached("deep")
    if len(linen) > 1:
        reached("several")
    paths = {(bridge.variable_type_name(type(v)), *path) for path, v in expected.items()}
    assert alike_in_any_order(_flat(linen), paths)
    back = _crossed(lambda: bridge.linen_vars_to_nnx_attrs(linen), attributes)
    assert back is None or not differences(nnx, back, attributes)


@requirement("bridge/trees/nnx-attributes-return")
@given(value=arrays(max_rank=1))
def test_a_variable_of_a_new_type_gets_a_collection(bridge, nnx, value):
    """A variable of a type that is not registered goes to a collection named like its class, and
    comes back as a variable of that type, or is refused.
    """
    typ = type(f"Unseen_{next(_numbers)}", (nnx.Variable,), {})
    made = []
    attributes = {"a": {"b": typ(value)}}
    if raised(lambda: made.append(bridge.nnx_attrs_to_linen_vars(attributes))) is not None:
        return
    linen = made[0]
    assert alike(linen, {typ.__name__: {"a": {"b": value}}})
    back = bridge.linen_vars_to_nnx_attrs(linen)
    assert alike(
        {path: type(variable) for path, variable in _flat(back).items()}, {("a", "b"): typ}
    )


clashes = {
    "linen": collections(),
    "col": collection_names(),
    "place": st.integers(0, 5),
    "how": st.sampled_from(["same", "below", "above"]),
    "first": st.booleans(),
}


def _clashing(linen, col, place, how, first):
    """Collections with a path that two of them hold.

    Args:
      linen: Collections without such a path.
      col: The collection that is added.
      place: Chooses the path.
      how: Whether the added variable lies at the path, below it, or above it.
      first: Whether the added collection comes first.

    Returns:
      The collections, and the words that an error about the path must contain.
    """
    paths = sorted(
        path for path in _flat(linen) if not alike(path[0], col) and not holds(linen, col)
    )
    assume(paths)
    owner, *path = paths[place % len(paths)]
    if how == "below":
        other = {path[-1]: {"further": 1.0}}
    elif how == "above":
        assume(len(path) > 1)
        path = path[:-1]
        other = {path[-1]: 1.0}
    else:
        other = {path[-1]: 1.0}
    reached(how)
    for layer in reversed(path[:-1]):
        other = {layer: other}
    both = {col: other, **linen} if first else {**linen, col: other}
    return both, (*path, col, owner) if how != "above" else (*path, col)


@requirement("bridge/trees/path-in-two-is-refused", must_reach=("same", "below", "above"))
@given(**clashes)
def test_a_path_in_two_collections_is_refused(bridge, linen, col, place, how, first):
    """A path that is in two collections, or is a variable in one and a sub-layer in the other,
    raises an error.
    """
    both, _ = _clashing(linen, col, place, how, first)
    refused(lambda: bridge.linen_vars_to_nnx_attrs(both))


@requirement("bridge/trees/path-in-two-is-refused")
@given(**clashes | {"linen": plain_collections, "how": st.just("same")})
def test_an_array_in_two_collections_is_refused(bridge, linen, col, place, how, first):
    """A path at which two collections have an array raises an error, at any depth."""
    both, _ = _clashing(linen, col, place, how, first)
    refused(lambda: bridge.linen_vars_to_nnx_attrs(both))


@requirement("bridge/trees/path-in-two-is-refused[message]", must_reach=("same", "below", "above"))
@given(**clashes)
def test_the_refusal_shows_the_path_and_both_collections(bridge, linen, col, place, how, first):
    """The error for a path in two collections shows the path and the collections."""
    both, naming = _clashing(linen, col, place, how, first)
    refused(lambda: bridge.linen_vars_to_nnx_attrs(both), naming=naming)


MAPPINGS = {"frozen": Frozen, "ordered": OrderedDict, "dict": dict}


def _with_mappings(tree, kind):
    """Nested dictionaries with every dictionary replaced by another class of mapping."""
    inside = {k: _with_mappings(v, kind) if isinstance(v, dict) else v for k, v in tree.items()}
    return MAPPINGS[kind](inside)


@requirement("bridge/trees/any-mapping-is-accepted", must_reach=("frozen", "ordered", "empty"))
@given(
    linen=collections(),
    kind=st.sampled_from(list(MAPPINGS)),
    empty=st.lists(st.sampled_from([(), ("sub",), ("a", "sub")]), max_size=2),
    col=collection_names(),
)
def test_any_mapping_is_accepted_empty_ones_too(bridge, nnx, linen, kind, empty, col):
    """Collections and sub-layers of other mapping classes, and empty ones, give the attributes that
    dictionaries without the empty ones give; names without a mesh may be refused.
    """
    expected = _crossed(lambda: bridge.linen_vars_to_nnx_attrs(linen), linen)
    if expected is None:
        return
    taken = {path[1:] for path in _flat(linen)}
    variables = {name: dict(tree) for name, tree in linen.items()}
    for path in empty:
        if any(holds(taken, path[:end]) for end in range(len(path) + 1)):
            continue
        reached("empty")
        home = variables.setdefault(col, {})
        for key in path:
            home[key] = dict(home.get(key, {}))
            home = home[key]
    found = bridge.linen_vars_to_nnx_attrs(_with_mappings(variables, kind))
    wanted, flat = _flat(expected), _flat(found)
    assert alike_in_any_order(flat, wanted)
    assert not [path for path in wanted if differences(nnx, flat[path], wanted[path])]


OTHER_KEYS = {"31": SequenceKey(31), "attr": GetAttrKey("attr"), "71": FlattenedIndexKey(71)}
"""First keys of a path that are no collection, by the text that an error must contain."""


@requirement("bridge/trees/collection-is-first-key", must_reach=("collection", "refused"))
@given(col=collection_names(), rest=st.lists(st.integers(0, 3), max_size=2), key=st.integers(0, 3))
def test_the_collection_is_the_first_key(bridge, col, rest, key):
    """`get_col_name` of a key path gives its first dictionary key, and refuses a path that begins
    with any other key.
    """
    keys = [DictKey(col), *OTHER_KEYS.values()]
    path = (keys[key], *(keys[i] for i in rest))
    if key == 0:
        reached("collection")
        assert alike(bridge.get_col_name(path), col)
    else:
        reached("refused")
        refused(lambda: bridge.get_col_name(path))


@requirement("bridge/trees/collection-is-first-key[message]")
@few("the kinds of keys that are no text")
@given(shown=st.sampled_from(list(OTHER_KEYS)))
def test_the_refusal_shows_the_first_key(bridge, shown):
    """The error for a path that does not begin with a dictionary key shows its first key."""
    refused(lambda: bridge.get_col_name((OTHER_KEYS[shown],)), naming=(shown,))


@requirement("bridge/trees/attribute-is-variable")
@given(
    attributes=variable_trees(),
    deep=st.booleans(),
    held=st.one_of(arrays(max_rank=1), numbers(), st.sampled_from(["text", b"text"])),
)
def test_what_is_no_variable_has_no_collection(bridge, attributes, deep, held):
    """An array, a number or a text among the attributes, in the place of a variable, is refused."""
    attributes |= {"rest": {"held": held}} if deep else {"held": held}
    refused(lambda: bridge.nnx_attrs_to_linen_vars(attributes))


@requirement("bridge/trees/graph-definitions-travel")
@given(attributes=variable_trees(), root=object_trees(), deep=st.booleans())
def test_graph_definitions_travel_in_their_own_collection(bridge, nnx, attributes, root, deep):
    """A graph definition among the attributes goes to the collection `nnx` at its path, and returns
    unchanged, or is refused.
    """
    definition = nnx.graphdef(root)
    path = ("graphs", "inner") if deep else ("graph",)
    attributes |= {"graphs": {"inner": definition}} if deep else {"graph": definition}
    linen, returned = [], []
    if raised(lambda: linen.append(bridge.nnx_attrs_to_linen_vars(attributes))) is not None:
        return
    assert says_equal(_flat(linen[0]).get(("nnx", *path)), definition)
    if raised(lambda: returned.append(bridge.linen_vars_to_nnx_attrs(linen[0]))) is not None:
        return
    back = _flat(returned[0])
    assert alike_in_any_order(back, _flat(attributes))
    assert says_equal(back[path], definition)
