"""User code for Flax 0.12 runs with only its imports changed: names, methods and arguments.

Names that are left out are written down here, with the reason, so that none is lost unseen.
"""

import importlib
import inspect
import warnings

import pytest

ROOMS = {
    "scutch_reference": "flax.linen",
    "scutch_reference.struct": "flax.struct",
    "scutch_reference.core": "flax.core",
    "scutch_reference.meta": "flax.core.meta",
    "scutch_reference.serialization": "flax.serialization",
    "scutch_reference.traverse_util": "flax.traverse_util",
    "scutch_reference.logical": "flax.linen.spmd",
    "scutch_reference.linen": "flax.linen",
    "scutch_reference.linen.partitioning": "flax.linen.partitioning",
    "scutch_reference.nnx": "flax.nnx",
    "scutch_reference.bridge": "flax.nnx.bridge",
}
LISTED_RELEASE = "0.12.8"
ANNOTATIONS = "an alias or a type variable, for the annotations of Flax's own code"
LAYERS = "other area: layers that no document uses"
DISPLAY = "other area: display"
PRECISION = "other area: how a layer rounds, which no document sets"
STORAGE = "other area: variables that JAX stores as references (`hijax`, `ref`)"
BUNDLE = "other area: a definition and a state in one; `split` returns the pair"
FLAT = "`split` and `merge` do it, with `to_flat_state`"
CONTROL = "other area: checks inside of programs over objects"
SCOPES = "other area: the functional core, which works on scopes"
SOWN = "the weights are not sown; compute them, and `sow` them"
WORKINGS = "how Flax lifts a transformation; no user code has it"
ELSEWHERE = {
    "flax.core.meta": ("scutch_reference.meta", {ANNOTATIONS: "LogicalNames TAxisMetadata"}),
    "flax.core": (
        "scutch_reference.core",
        {
            "in `meta`": "AxisMetadata map_axis_meta unbox",
            SCOPES: "DenyList Scope apply bind broadcast custom_vjp init jit jvp "
            "lazy_init remat remat_scan scan vjp vmap while_loop",
            WORKINGS: "check_trace_level current_trace",
            DISPLAY: "pretty_repr",
        },
    ),
    "flax.serialization": (
        "scutch_reference.serialization",
        {
            "files: `jax.tree.leaves` and NumPy write them, and Orbax": "MAX_CHUNK_SIZE from_bytes "
            "msgpack_restore msgpack_serialize to_bytes",
            "every node of JAX can be saved": "is_serializable register_serialization_state",
            "a message has the key": "current_path",
            WORKINGS: "contextmanager",
        },
    ),
    "flax.traverse_util": (
        "scutch_reference.traverse_util",
        {
            ANNOTATIONS: "PathParts",
            "deprecated in Flax": "ModelParamTraversal Traversal TraverseAttr TraverseCompose "
            "TraverseEach TraverseFilter TraverseId TraverseItem TraverseMerge TraverseTree "
            "t_identity",
        },
    ),
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
            SCOPES: "core_remat_static",
            "in `core` and `traverse_util`": "flatten_dict freeze unflatten_dict unfreeze",
        },
    ),
    "flax.linen.transforms": (
        "scutch_reference.linen",
        {
            ANNOTATIONS: "C ModuleT Target FlaxId LazyRng Scope InstancePlaceholder "
            "VariablePlaceholder",
            "in `core`": "FrozenDict",
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
            LAYERS: "BatchApply Bidirectional ConvLSTMCell ConvLocal ConvTranspose "
            "Einsum GRUCell GroupNorm InstanceNorm LSTMCell MGUCell "
            "MultiHeadAttention MultiHeadDotProductAttention OptimizedLSTMCell PReLU RMSNorm RNN "
            "RNNCellBase SelfAttention Sequential SimpleCell SpectralNorm WeightNorm "
            "combine_masks dot_product_attention_weights "
            "make_attention_mask make_causal_mask max_pool pool",
            "other area: quantization": "Fp8DirectDotGeneralOp Fp8DotGeneral Fp8DotGeneralOp "
            "Fp8Einsum NANOOFp8DotGeneralOp",
            "in `core`": "FrozenDict",
            DISPLAY: "tabulate",
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
    "flax.nnx": (
        "scutch_reference.nnx",
        {
            ANNOTATIONS: "A M",
            LAYERS: "Bidirectional Conv ConvTranspose Einsum GRUCell GroupNorm InstanceNorm "
            "LSTMCell LoRA LoRALinear LoRAParam OptimizedLSTMCell PReLU RMSNorm RNN RNNCellBase "
            "SimpleCell SpectralNorm WeightNorm avg_pool combine_masks make_attention_mask "
            "make_causal_mask max_pool min_pool pool",
            CONTROL: "checkify",
            "deprecated in JAX, for `shard_map`": "pmap",
            "`jit(f).trace(...).jaxpr` is the program": "make_jaxpr",
            STORAGE: "var_defaults vars_as with_vars",
            DISPLAY: "display tabulate view_info",
            BUNDLE: "GraphState unpack",
            FLAT: "flatten unflatten",
            "attributes are looked at when they are set": "check_pytree",
            "other area: intermediate values that a wrapper collects; `sow` and `pop` are there": (
                "capture"
            ),
            "other area: moving averages of parameters": "EMA",
        },
    ),
    "flax.nnx.compat": (
        "scutch_reference.nnx.compat",
        {
            CONTROL: "checkify",
            "deprecated in JAX, for `shard_map`": "pmap",
            DISPLAY: "view_info",
            "`split_rngs` and `fork_rngs` return what `restore_rngs` takes": "backup_keys",
            FLAT: "flatten",
        },
    ),
    "flax.nnx.nn.initializers": ("scutch_reference.nnx.initializers", {}),
}
"""By module of Flax: the module here, and the names that are left out, by the reason."""
NNX = "scutch_reference.nnx"
DEFINED = {
    "flax.nnx.filterlib": (
        NNX,
        {ANNOTATIONS: "HasTag", WORKINGS: "filters_to_predicates"},
    ),
    "flax.nnx.variablelib": (
        NNX,
        {
            ANNOTATIONS: "A B C F P V",
            STORAGE: "AbstractVariable GetVariable HijaxVariable HijaxVariableMeta NewVariable "
            "SetVariable VarDefaults VarDefaultsContext VariableEffect VariableQDD get_variable_p "
            "is_array_ref new_variable_p set_variable_p var_defaults variable_effect",
            WORKINGS: "VARIABLE_CONTEXT VariableContext VariableMeta VariableTypeCache",
        },
    ),
    "flax.nnx.pytreelib": (
        NNX,
        {
            ANNOTATIONS: "A DataAnnotation P StaticAnnotation T",
            DISPLAY: "ArrayRepr MutableArrayRepr VariableRepr",
            "attributes are looked at when they are set": "check_pytree",
            WORKINGS: "AttributeStatus BUILDING_DOCS DATA_REGISTRY OBJECT_CONTEXT ObjectContext "
            "ObjectMeta PytreeMeta PytreeState",
        },
    ),
    "flax.nnx.statelib": (
        NNX,
        {
            ANNOTATIONS: "A K S V",
            DISPLAY: "NestedStateRepr",
            WORKINGS: "create_path_filters",
            "`State` has no difference; compare `to_flat_state`": "diff",
        },
    ),
    "flax.nnx.graphlib": (
        NNX,
        {
            ANNOTATIONS: "A AuxData B C F HA HB KeyT Leaf Node",
            STORAGE: "ArrayRefDef ArrayRefOutput NO_UPDATE NoUpdate REPEATED Repeated vars_as "
            "with_vars",
            "nodes are objects, and the pytrees of JAX; nothing else is registered": (
                "GRAPH_REGISTRY GraphNodeImpl JAX_PYTREE_REGISTRY NodeImplBase PYTREE_NODE_IMPL "
                "PYTREE_REGISTRY PytreeNodeImpl get_node_impl get_node_impl_for_type "
                "register_graph_node_type register_pytree_node_type"
            ),
            BUNDLE: "GraphState unpack",
            FLAT: "flatten unflatten",
            "`iter_graph` with `isinstance` tells": "is_graph_node is_node is_node_leaf "
            "is_node_module is_node_type is_pytree_node",
            "how Flax describes a graph": "DataElem GenericPytree IndexMap IndexesPytreeDef "
            "LEAF_ATTR LeafAttr NODE_ATTR NodeAttr NodeDef NodeRef PythonRefMap RefMap StaticElem "
            "TreeNodeDef VariableDef jax_to_nnx_path",
            WORKINGS: "GRAPH_CONTEXT GraphContext StaticCache UpdateContextManager "
            "graph_pop static_cache",
        },
    ),
    "flax.nnx.extract": (
        NNX,
        {
            ANNOTATIONS: "A B F S",
            WORKINGS: "ExtractIndex GraphDefState Mask Opaque OrderedDict PrefixMapping TreeState "
            "Updates apply_updates broadcast_prefix broadcast_prefix2 broadcast_prefix_map "
            "check_consistent_aliasing check_consistent_aliasing2 check_no_aliases check_prefix "
            "check_same_variables clear_non_graph_nodes copy_var_structure default_split_fn "
            "extract filter_kwargs find from_tree2 get_updates insert is_tree_node labeled mask_at "
            "merge_tree_node replace_at slice_at snapshot to_masked to_tree2 treemap_copy_args "
            "update_carry_variables variable_changed",
        },
    ),
    "flax.nnx.spmd": (
        NNX,
        {
            ANNOTATIONS: "A F",
            "`transform_metadata` does it": "add_axis remove_axis",
            "`get_partition_spec` does it": "get_var_pspec",
        },
    ),
    "flax.nnx.rnglib": (
        NNX,
        {
            ANNOTATIONS: "A F Fargs KeylessInitializer",
            "`split_rngs` and `fork_rngs` return what `restore_rngs` takes": (
                "SplitBackups backup_keys"
            ),
        },
    ),
    "flax.nnx.module": (
        NNX,
        {
            ANNOTATIONS: "A B F M P R S V",
            "other area: intermediate values that a wrapper collects; `sow` and `pop` are there": (
                "capture"
            ),
            DISPLAY: "view_info",
            WORKINGS: "ModuleMeta first_from tuple_init tuple_reduce",
        },
    ),
    "flax.nnx.helpers": (
        NNX,
        {
            ANNOTATIONS: "A M ModuleDefApply TS",
            WORKINGS: "has_keyword_arg",
        },
    ),
    "flax.nnx.training.optimizer": (
        NNX,
        {ANNOTATIONS: "F M", WORKINGS: "MISSING to_opt_state"},
    ),
    "flax.nnx.transforms.autodiff": (
        NNX,
        {
            ANNOTATIONS: "A F",
            WORKINGS: "BwdFn CustomVjp CustomVjpFnWrapper FwdFn GradFn SimpleBwdFn SimpleCustomVjp "
            "SimpleCustomVjpFn SimpleFwdFn SimpleGradFn SimpleJvpFn SimpleRematFn SimpleVjpFn",
        },
    ),
    "flax.nnx.transforms.compilation": (
        NNX,
        {
            ANNOTATIONS: "F P R",
            "in every mode the stages are `Traced`, `Lowered`, `Compiled`": (
                "SimpleCompiled SimpleLowered SimplePartialCompiled SimplePartialLowered "
                "SimplePartialTraced SimpleTraced Stage"
            ),
            "in every mode `jit` returns a `JitWrapped`": (
                "SimpleJitPartialWrapped SimpleJitWrapped"
            ),
            WORKINGS: "JitFn ShardMapFn SimpleJitFn SimpleJitPartialFn SimpleShardMapFn",
        },
    ),
    "flax.nnx.transforms.general": (
        NNX,
        {ANNOTATIONS: "A F", WORKINGS: "merge_inputs split_inputs"},
    ),
    "flax.nnx.transforms.iteration": (
        NNX,
        {
            ANNOTATIONS: "A B C F G M MA N StrInt T",
            "deprecated in JAX, for `shard_map`": "pmap",
            WORKINGS: "Broadcasted ForiLoopBodyFn PmapFn ScanFn SimpleForiLoopBodyFn SimplePmapFn "
            "SimpleScanFn SimpleVmapFn SimpleWhileLoopBodyFn SimpleWhileLoopCondFn VmapFn "
            "WhileLoopBodyFn WhileLoopCondFn",
        },
    ),
    "flax.nnx.transforms.transforms": (
        NNX,
        {
            ANNOTATIONS: "A B C F G M MA N StrInt",
            CONTROL: "checkify",
            "`jit(f).trace(...).jaxpr` is the program": "make_jaxpr",
            WORKINGS: "CheckifyFn LiftedModule SimpleCheckifyFn SimpleCondFn SimpleEvalShapeFn "
            "SimpleMakeJaxprFn ValueMetadata resolve_kwargs",
        },
    ),
    "flax.core.lift": (
        "scutch_reference",
        {
            ANNOTATIONS: "A C",
            SCOPES: "checkpoint cond custom_vjp fold_rngs jit jvp map_variables pack remat "
            "remat_scan scan swap_collection switch value_and_grad vjp vmap while_loop",
            WORKINGS: "CountsHolder TransformContext id_fn set_from_dict tree_map_rngs",
        },
    ),
}
"""The same for modules that Flax imports many names into: those that they define themselves."""
LEFT = {
    "scutch_reference.core": {
        "FrozenDict": {DISPLAY: "pretty_repr", WORKINGS: "tree_flatten_with_keys tree_unflatten"}
    },
    "scutch_reference.linen": {
        "BatchNorm LayerNorm": {PRECISION: "force_float32_reductions"},
        "Dense DenseGeneral": {PRECISION: "dot_general_cls promote_dtype"},
        "Conv": {
            PRECISION: "conv_general_dilated_cls promote_dtype",
            "`ConvLocal` is not there": "shared_weights",
        },
        "dot_product_attention": {
            PRECISION: "force_fp32_for_softmax einsum_dot_general qk_attn_weights_einsum "
            "attn_weights_value_einsum",
            SOWN: "module",
        },
        "Embed": {PRECISION: "promote_dtype"},
        "checkpoint remat": {"deprecated: `static_argnums` says it": "concrete"},
        "scan": {
            "experimental: what it asks of the compiler": "data_transform",
        },
        "Module": {
            DISPLAY: "tabulate module_paths",
            "other area: initialization without computing": "lazy_init",
            "other area: gradients of intermediate values": "perturb",
        },
        "grad value_and_grad vjp": {"JAX has it no more": "reduce_axes"},
        "vjp": {"of several modules at once: hand on their parent": "multi_scope"},
    },
    "scutch_reference.linen.partitioning": {
        "remat": {"deprecated: `static_argnums` says it": "concrete"},
        "scan_with_axes": {"experimental: what it asks of the compiler": "data_transform"},
    },
    "scutch_reference.nnx": {
        "vjp": {"JAX has it no more": "reduce_axes"},
        "set_graph_mode set_graph_updates use_eager_sharding": {WORKINGS: "get_default get_stack"},
        "Variable VariableState": {
            STORAGE: "hijax ref",
            WORKINGS: "exclude_required required_metadata",
            "an instance has it: that of its value": "shape",
        },
        "VariableMetadata": {
            "they are entries of its `metadata`": "on_set_value on_get_value on_create_value "
            "on_add_axis on_remove_axis"
        },
        "FlatState": {
            "`from_flat_state`, `split_state`, `filter_state`, `merge_state` do it, for states": (
                "to_nested_state split filter merge"
            ),
            WORKINGS: "from_sorted_keys_values",
        },
        "from_flat_state merge_state": {"here a nested state is a `State`": "cls"},
        "GraphDef": {
            WORKINGS: "attributes nodes num_leaves with_no_outer_index with_matching_outer_index "
            "with_same_outer_index"
        },
        "List": {"passed by position": "it"},
        "BatchNorm Embed LayerNorm Linear": {PRECISION: "promote_dtype"},
        "LinearGeneral": {PRECISION: "promote_dtype dot_general_cls"},
        "MultiHeadAttention": {
            PRECISION: "qkv_promote_dtype out_promote_dtype ln_promote_dtype qkv_dot_general_cls "
            "out_dot_general_cls qkv_dot_general out_dot_general",
            "other area: queries and keys that are normalized": "normalize_qk "
            "query_ln_scale_metadata key_ln_scale_metadata",
            "other area: a cache for one step of decoding after the other": "init_cache decode "
            "batch_size max_length",
            SOWN: "sow_weights",
        },
        "dot_product_attention": {PRECISION: "promote_dtype", SOWN: "module"},
        "from_tree": {WORKINGS: "is_leaf is_node_leaf map_non_graph_nodes merge_fn prefix"},
        "to_tree": {WORKINGS: "check_aliasing map_non_graph_nodes prefix split_fn"},
        "MergeContext": {"`merge` does it": "unflatten"},
        "SplitContext": {"`split` does it": "flatten"},
        "UpdateContext": {WORKINGS: "flatten_end unflatten_end"},
        "NodeStates": {WORKINGS: "from_prefixes from_split from_states replace"},
        "DiffState": {WORKINGS: "map_prefix"},
    },
    "scutch_reference.bridge": {
        "NNXMeta": {"`dataclasses.replace` does it": "replace"},
        "ToNNX": {"kept under longer names, which no parameter has (BRG-9)": "module rngs"},
    },
}
"""By room: classes and functions, and the members and arguments that are left out, by reason."""


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
    optional = {name for name, p in asked.items() if p.default is not p.empty}
    return {name for name in optional - taken.keys() if not name.startswith("_")}


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


def left_out(room):
    """The members and arguments that the table leaves out, by the name of the class or function."""
    found = {}
    for owners, reasons in LEFT.get(room, {}).items():
        for owner in owners.split():
            found.setdefault(owner, set()).update(*map(str.split, reasons.values()))
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_the_reference_takes_what_flax_takes(room):
    """Every name, method and optional argument that both have, but for those above."""
    flax = pytest.importorskip("flax", reason="Flax, whose names are compared, is not installed")
    lacking = {name: missing(ours, theirs) for name, ours, theirs in shared(room)}
    left = left_out(room)
    surplus = {name: names - left.get(name, set()) for name, names in lacking.items()}
    assert {name: names for name, names in surplus.items() if names} == {}
    if flax.__version__ == LISTED_RELEASE:
        assert {name: names for name, names in lacking.items() if names} == left


def public_names(module):
    """The functions, classes and values of a module, without names that it imports to annotate."""
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


def has(room, name):
    """Whether a room has a name for something that is no module of its own."""
    return not inspect.ismodule(getattr(room, name, inspect))


def defined_names(module):
    """The public names that a module defines itself."""
    found = vars(importlib.import_module(module))
    return {n for n in public_names(module) if getattr(found[n], "__module__", module) == module}


@pytest.mark.parametrize("theirs", [*ELSEWHERE, *DEFINED])
def test_every_public_name_of_flax_is_there_or_is_left_out_with_the_reason(theirs):
    """The names are from the listed release; the names that are left out are absent."""
    flax = pytest.importorskip("flax", reason="Flax, whose names are listed, is not installed")
    if flax.__version__ != LISTED_RELEASE:
        pytest.skip(f"the names are those of Flax {LISTED_RELEASE}, not {flax.__version__}")
    ours, left = (ELSEWHERE | DEFINED)[theirs]
    names = (defined_names if theirs in DEFINED else public_names)(theirs)
    unlisted = {name for names in left.values() for name in names.split()}
    room = importlib.import_module(ours)
    assert {name for name in names - unlisted if not has(room, name)} == set()
    assert unlisted <= names
    assert {name for name in unlisted if has(room, name)} == set()
