"""Setting the values of objects in place: OBJ-2.

The oracle is a second copy of the object, whose state the first is updated with.
"""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.inputs.described_objects import Graph, Object, Variable
from scutch.inputs.descriptions import Array, Copies
from scutch.inputs.filters import build_filter, takes
from scutch.inputs.graphs import differences, is_node, leaves, metadata, nodes, walk
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, alike_in_any_order, holds
from scutch.lawkit.marks import raised, reached, refused, requirement
from scutch.strategies import arrays, copies, graphs, object_trees, type_filters, variables

numeric = variables(arrays(max_rank=2))


def _renew(nnx, root, notes=()):
    """Give every variable of an object a value that it did not have, and some of them other
    metadata.

    Args:
      nnx: The namespace of objects.
      root: The object.
      notes: For the first variables: a new note, `None` for none, or "as it was".
    """
    variables = [node for node in nodes(nnx, root) if isinstance(node, nnx.Variable)]
    for number, node in enumerate(variables):
        node.set_raw_value(np.full(3, 100 + number))
        note = notes[number] if number < len(notes) else "as it was"
        if note is None and holds(metadata(node), "note"):
            node.del_metadata("note")
        elif isinstance(note, int):
            node.set_metadata(note=note)


def _pure(nnx, states):
    """The pure dictionaries of states."""
    return [nnx.to_pure_dict(state) for state in states]


def _hollow(nnx, paths):
    """A state that has an empty state in the place of each leaf."""
    tree = {}
    for path in paths:
        at = tree
        for key in path[:-1]:
            at = at.setdefault(key, {})
        at[path[-1]] = nnx.State({})
    return nnx.State(tree)


CHANGES = ("states", "pure dictionaries", "own state", "kept", "hollow", "metadata")


@requirement("objects/graphs/update-sets-named-values", must_reach=CHANGES)
@given(
    pair=copies(object_trees(variable=numeric, bare=False)),
    wanted=st.lists(type_filters(), min_size=1, max_size=2),
    how=st.sampled_from(["states", "pure dictionaries", "own state"]),
    notes=st.lists(st.sampled_from([None, "as it was", 7, 8]), max_size=3),
)
@example(
    pair=Copies(Graph((Object("Branch", {"a": Variable("Param", Array((2,)))}),))),
    wanted=[("type", "Param")],
    how="pure dictionaries",
    notes=[7],
)
def test_update_sets_the_values_of_states(nnx, pair, wanted, how, notes):
    """After `update` with states, or with their pure dictionaries, each variable that they name has
    the value there, and each other variable has the value that it had. A state that is empty in the
    place of a variable names none. Variables in states bring their metadata along.
    """
    one, other = pair
    if how != "own state":
        _renew(nnx, other, notes)
    states = nnx.state(other, *(build_filter(nnx, each) for each in wanted))
    states = states if len(wanted) > 1 else (states,)
    before = {path: leaf.get_raw_value() for path, leaf in leaves(nnx, one).items()}
    noted = {path: metadata(leaf) for path, leaf in leaves(nnx, one).items()}
    nnx.update(one, *(_pure(nnx, states) if how == "pure dictionaries" else states))
    after, news = leaves(nnx, one), leaves(nnx, other)
    if after and how == "states":
        reached("hollow")
        nnx.update(one, _hollow(nnx, after))
    assert alike_in_any_order(after, before)
    for path, leaf in after.items():
        taken = any(takes(nnx, each, path, leaf) for each in wanted)
        reached(how if taken else "kept")
        assert alike(leaf.get_raw_value(), news[path].get_raw_value() if taken else before[path])
        brought = metadata(news[path]) if taken and how == "states" else noted[path]
        if not alike(brought, noted[path]):
            reached("metadata")
        assert alike(metadata(leaf), brought), f"metadata at {path}"


@requirement("objects/graphs/update-keeps-identities", must_reach=("shared",))
@given(pair=copies(graphs(marks=False, bare=False, variable=numeric)))
def test_update_keeps_identities(nnx, pair):
    """After `update` each place holds the very object or variable that it held, so that a shared
    variable is updated in all of its places.
    """
    one, other = pair
    _renew(nnx, other)
    before = [(path, value) for path, value in walk(nnx, one) if is_node(nnx, value)]
    if len(before) > len(nodes(nnx, one)):
        reached("shared")
    nnx.update(one, nnx.state(other))
    after = [(path, value) for path, value in walk(nnx, one) if is_node(nnx, value)]
    assert alike([path for path, _ in after], [path for path, _ in before])
    changed = [p for (p, a), (_, b) in zip(before, after, strict=True) if a is not b]
    assert not changed, f"other objects than before are at {changed}"
    assert not differences(nnx, one, other)


@requirement("objects/graphs/update-drops-no-path", must_reach=("deep",))
@given(
    pair=copies(object_trees(variable=numeric, bare=False)),
    place=st.integers(0, 3),
    whole=st.booleans(),
)
def test_an_unknown_path_is_refused(nnx, pair, place, whole):
    """`update` with a path that the object does not have raises an error that shows it and changes
    nothing, or makes an attribute of it and sets the others.
    """
    one, other = pair
    before = nnx.clone(one)
    _renew(nnx, other)
    known = dict(nnx.to_flat_state(nnx.state(other))) if whole else {}
    homes = [path for path, value in walk(nnx, one) if isinstance(value, nnx.Pytree)]
    home = homes[place % len(homes)]
    assume(home or place == 0)
    if home:
        reached("deep")
    unknown = nnx.from_flat_state([*known.items(), ((*home, "unknown"), nnx.Param(np.ones(2)))])
    error = raised(lambda: nnx.update(one, unknown))
    if error is not None:
        refused(lambda: nnx.update(one, unknown), naming=("unknown", *home))
        assert not hasattr(one, "unknown")
        assert not differences(nnx, one, before)
        return
    found = dict(nnx.to_flat_state(nnx.state(one)))
    assert alike(found[(*home, "unknown")].get_raw_value(), np.ones(2))
    for path, leaf in known.items():
        assert alike(found[path].get_raw_value(), leaf.get_raw_value())
