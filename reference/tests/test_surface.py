"""User code for Flax 0.12 runs with only its imports changed: names, methods and arguments.

What is left out is written down here, with the reason, so that nothing is lost unseen.
"""

import importlib
import inspect
import warnings

import pytest

ROOMS = {
    "scutch_reference": "flax.linen",
    "scutch_reference.meta": "flax.core.meta",
    "scutch_reference.linen": "flax.linen",
    "scutch_reference.nnx": "flax.nnx",
    "scutch_reference.bridge": "flax.nnx.bridge",
}
INSIDE = """
    rngs module apply promote_dtype dot_general_cls force_float32_reductions concrete device backend
    _split_transpose data_transform check_constancy_invariants hijax ref set_view exclude_required
    required_metadata shape _unsafe_bypass_check _copy arrays recreate_variables cls capture_noop
""".split()
"""What modules are made of; deprecated, experimental; or about storage that only Flax has."""
LEFT = {
    "Module": "lazy_init perturb tabulate module_paths",  # of Linen: display, debugging
    "GraphDef": "with_no_outer_index with_matching_outer_index with_same_outer_index attributes "
    "nodes num_leaves",  # how Flax describes a graph
    "FlatState": "from_sorted_keys_values to_nested_state split filter merge",  # of states, too
    "StateAxes": "items",  # of a mapping
    "DiffState": "map_prefix",  # how Flax reads it
    "VariableMetadata": "on_set_value on_get_value on_create_value on_add_axis on_remove_axis",
    "NNXMeta": "replace",  # `dataclasses.replace` does it
    "Embed": "out_sharding",  # of a look-up: constrain the result
    "List": "it",  # by position
}


def shared(room):
    """The classes and functions of a room that Flax has under the same name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = map(importlib.import_module, (room, ROOMS[room]))
        for name, found in vars(ours).items():
            own = getattr(found, "__module__", "").startswith("scutch_reference")
            if own and not name.startswith("_") and callable(found) and hasattr(theirs, name):
                yield name, found, getattr(theirs, name)


def refused(ours, theirs):
    """The optional arguments that Flax's takes, and ours does not."""
    if not callable(ours) or not callable(theirs):
        return set()
    parts = [each.__init__ if isinstance(each, type) else each for each in (ours, theirs)]
    taken, asked = [inspect.signature(part).parameters for part in parts]
    if any(p.kind is p.VAR_KEYWORD for p in taken.values()):
        return set()
    return {name for name, p in asked.items() if p.default is not p.empty} - taken.keys()


def missing(ours, theirs):
    """Arguments, and of a class public members and their arguments."""
    found = refused(ours, theirs)
    if isinstance(ours, type) and isinstance(theirs, type):
        fields = {name for cls in ours.__mro__ for name in inspect.get_annotations(cls)}
        for name, member in vars(theirs).items():
            if name == "__call__" or not name.startswith("_"):
                has = hasattr(ours, name)
                found |= refused(getattr(ours, name), member) if has else {name} - fields
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_the_reference_takes_what_flax_takes(room):
    """Every name, method and optional argument that both have, but for those above."""
    pytest.importorskip("flax", reason="Flax, whose names are compared, is not installed")
    found = {
        name: sorted(left)
        for name, ours, theirs in shared(room)
        if (left := missing(ours, theirs) - {*INSIDE, *LEFT.get(name, "").split()})
    }
    assert found == {}
