"""User code for Flax 0.12 runs with only its imports changed: names, methods and arguments.

What is left out is written down here, with the reason, so that nothing is lost unseen.
"""

import importlib
import inspect
import warnings

import pytest

ROOMS = {
    "scutch_reference": "flax.linen",
    "scutch_reference.struct": "flax.struct",
    "scutch_reference.meta": "flax.core.meta",
    "scutch_reference.logical": "flax.linen.spmd",
    "scutch_reference.linen": "flax.linen",
    "scutch_reference.linen.partitioning": "flax.linen.partitioning",
    "scutch_reference.nnx": "flax.nnx",
    "scutch_reference.bridge": "flax.nnx.bridge",
}
LISTED_RELEASE = "0.12.8"
ANNOTATIONS = "an alias or a type variable, for the annotations of Flax's own code"
LAYERS = "other area: layers that no document uses"
WORKINGS = "how Flax lifts a transformation; no user code has it"
ELSEWHERE = {
    "flax.core.meta": ("scutch_reference.meta", {ANNOTATIONS: "LogicalNames TAxisMetadata"}),
    "flax.core.spmd": (
        "scutch_reference.logical",
        {
            ANNOTATIONS: "Sharding Format",
            "how Flax resolves `out_sharding`; here `logical_to_mesh_axes` is the one resolver": (
                "apply_rules composite_rules from_sharding_rules get_mesh get_pspec map_sharding "
                "shard_value"
            ),
        },
    ),
    "flax.linen.spmd": ("scutch_reference.logical", {ANNOTATIONS: "LogicalNames"}),
    "flax.linen.partitioning": (
        "scutch_reference.linen.partitioning",
        {
            "other area: the functional core, which works on scopes": "core_remat_static",
            "other area: frozen and flattened dictionaries": (
                "flatten_dict freeze unflatten_dict unfreeze"
            ),
        },
    ),
    "flax.linen.transforms": (
        "scutch_reference.linen",
        {
            ANNOTATIONS: "C ModuleT Target FlaxId LazyRng Scope InstancePlaceholder "
            "VariablePlaceholder",
            "other area: frozen dictionaries": "FrozenDict",
            WORKINGS: "clean_clone decorator_lift_transform decorator_lift_transform_cached "
            "fork_rngs get_module_scopes lift_direct_transform lift_transform "
            "lift_transform_cached module_class_lift_transform module_class_lift_transform_cached "
            "set_module_scopes wrap_method_once",
        },
    ),
    "flax.linen.initializers": ("scutch_reference.linen.initializers", {}),
    "flax.linen": (
        "scutch_reference.linen",
        {
            LAYERS: "BatchApply Bidirectional Conv ConvLSTMCell ConvLocal ConvTranspose "
            "DenseGeneral Einsum GRUCell GroupNorm InstanceNorm LSTMCell MGUCell "
            "MultiHeadAttention MultiHeadDotProductAttention OptimizedLSTMCell PReLU RMSNorm RNN "
            "RNNCellBase SelfAttention Sequential SimpleCell SpectralNorm WeightNorm avg_pool "
            "combine_masks dot_product_attention dot_product_attention_weights "
            "make_attention_mask make_causal_mask max_pool pool",
            "other area: quantization": "Fp8DirectDotGeneralOp Fp8DotGeneral Fp8DotGeneralOp "
            "Fp8Einsum NANOOFp8DotGeneralOp",
            "other area: frozen dictionaries": "FrozenDict",
            "other area: display": "tabulate",
            "other area: methods that are intercepted, and scopes that are shared": (
                "intercept_methods compact_name_scope share_scope"
            ),
            "names in profiles are always on": (
                "disable_named_call enable_named_call override_named_call"
            ),
        },
    ),
    "flax.nnx.bridge": (
        "scutch_reference.bridge",
        {
            "other area: modules that are of both kinds at once, which document 004 has not": (
                "AttrPriority Module Scope compact current_context current_module "
                "linen_in_bridge_mdl nnx_in_bridge_mdl"
            )
        },
    ),
    "flax.struct": ("scutch_reference.struct", {ANNOTATIONS: "TNode"}),
}
"""By module of Flax: the module here, and the names that are left out, by the reason."""
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
    "grad": "reduce_axes",  # which JAX has no more
    "value_and_grad": "reduce_axes",
    "vjp": "reduce_axes multi_scope",  # and of several modules at once: hand on their parent
    "scan_with_axes": "data_transform",  # experimental
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


def public_names(module):
    """The functions, classes and values of a module; what it imports to annotate is not its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = vars(importlib.import_module(module))
    return {
        name
        for name, value in found.items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and getattr(value, "__module__", None) not in ("typing", "collections.abc", "types")
    }


@pytest.mark.parametrize("theirs", ELSEWHERE)
def test_every_public_name_of_flax_is_there_or_is_left_out_with_the_reason(theirs):
    """Of the release that is listed; and what is left out is not there."""
    flax = pytest.importorskip("flax", reason="Flax, whose names are listed, is not installed")
    if flax.__version__ != LISTED_RELEASE:
        pytest.skip(f"the names are those of Flax {LISTED_RELEASE}, not {flax.__version__}")
    ours, left = ELSEWHERE[theirs]
    left_out = {name for names in left.values() for name in names.split()}
    room = importlib.import_module(ours)
    assert {name for name in public_names(theirs) - left_out if not hasattr(room, name)} == set()
    assert left_out <= public_names(theirs)
    assert {name for name in left_out if hasattr(room, name)} == set()
