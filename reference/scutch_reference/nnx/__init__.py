"""Objects, variables and lifted transformations (contract OBJ, JIT, SHM).

Models are objects, which own their variables; functions of objects change them in place, also when
they are compiled, mapped or differentiated.

>>> import jax.numpy as jnp
>>> from scutch_reference import nnx
>>> model = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
>>> @nnx.jit
... def step(model, x):
...     gradient = nnx.grad(lambda model: model(x).sum())(model)
...     model.bias.value -= gradient.bias.value
>>> step(model, jnp.ones((1, 2)))
>>> model.bias.value.tolist()
[-1.0, -1.0, -1.0]
"""

from jax.nn import (
    celu as celu,
    elu as elu,
    gelu as gelu,
    glu as glu,
    hard_sigmoid as hard_sigmoid,
    hard_silu as hard_silu,
    hard_swish as hard_swish,
    hard_tanh as hard_tanh,
    leaky_relu as leaky_relu,
    log_sigmoid as log_sigmoid,
    log_softmax as log_softmax,
    logsumexp as logsumexp,
    one_hot as one_hot,
    relu as relu,
    relu6 as relu6,
    selu as selu,
    sigmoid as sigmoid,
    silu as silu,
    soft_sign as soft_sign,
    softmax as softmax,
    softplus as softplus,
    standardize as standardize,
    swish as swish,
)
from jax.numpy import tanh as tanh

from ..attention import dot_product_attention as dot_product_attention
from ..jax_versions import identity as identity
from ..logical import logical_axis_rules as logical_axis_rules
from ..meta import PARTITION_NAME as PARTITION_NAME
from .filters import (
    All as All,
    Any as Any,
    Everything as Everything,
    Not as Not,
    Nothing as Nothing,
    OfType as OfType,
    PathContains as PathContains,
    PathIn as PathIn,
    to_predicate as to_predicate,
    WithTag as WithTag,
)
from .defaults import (
    set_graph_mode as set_graph_mode,
    set_graph_updates as set_graph_updates,
    use_eager_sharding as use_eager_sharding,
    using_eager_sharding as using_eager_sharding,
)
from .metadata import (
    VariableMetadata as VariableMetadata,
    with_metadata as with_metadata,
    with_partitioning as with_partitioning,
)
from .variables import (
    BatchStat as BatchStat,
    Cache as Cache,
    Intermediate as Intermediate,
    Param as Param,
    Perturbation as Perturbation,
    Variable as Variable,
    VariableState as VariableState,
)
from .axes import (
    get_named_sharding as get_named_sharding,
    get_partition_spec as get_partition_spec,
)
from .registry import (
    register_variable_name as register_variable_name,
    variable_name_from_type as variable_name_from_type,
    variable_type_from_name as variable_type_from_name,
)
from .objects import (
    Data as Data,
    data as data,
    dataclass as dataclass,
    has_data as has_data,
    is_data as is_data,
    Object as Object,
    Pytree as Pytree,
    register_data_type as register_data_type,
    Static as Static,
    static as static,
)
from .states import (
    filter_state as filter_state,
    FlatState as FlatState,
    from_flat_state as from_flat_state,
    map_state as map_state,
    merge_state as merge_state,
    replace_by_pure_dict as replace_by_pure_dict,
    restore_int_paths as restore_int_paths,
    split_state as split_state,
    State as State,
    to_flat_state as to_flat_state,
    to_pure_dict as to_pure_dict,
)
from .graphdef import GraphDef as GraphDef
from .graph import (
    as_pure as as_pure,
    call as call,
    clone as clone,
    graphdef as graphdef,
    merge as merge,
    pop as pop,
    pure as pure,
    PureState as PureState,
    split as split,
    state as state,
    update as update,
    variables as variables,
)
from .traversals import (
    find_duplicates as find_duplicates,
    iter_children as iter_children,
    iter_graph as iter_graph,
    map as map,
    recursive_map as recursive_map,
    set_metadata as set_metadata,
)
from .modules import (
    Dict as Dict,
    iter_module_children as iter_module_children,
    iter_modules as iter_modules,
    List as List,
    Module as Module,
    Sequential as Sequential,
    view as view,
    with_attributes as with_attributes,
)
from .rngs import (
    RngCount as RngCount,
    RngKey as RngKey,
    Rngs as Rngs,
    RngState as RngState,
    RngStream as RngStream,
)
from .forks import (
    fork_rngs as fork_rngs,
    reseed as reseed,
    restore_rngs as restore_rngs,
    split_rngs as split_rngs,
    with_rngs as with_rngs,
)
from .layers import (
    BatchNorm as BatchNorm,
    Dropout as Dropout,
    Embed as Embed,
    LayerNorm as LayerNorm,
    Linear as Linear,
)
from .attention import LinearGeneral as LinearGeneral, MultiHeadAttention as MultiHeadAttention
from .metrics import Metric as Metric, MetricState as MetricState, MultiMetric as MultiMetric
from .optimizer import (
    ModelAndOptimizer as ModelAndOptimizer,
    OptArray as OptArray,
    Optimizer as Optimizer,
    OptState as OptState,
    OptVariable as OptVariable,
    TrainState as TrainState,
)
from .prefixes import (
    prefix as prefix,
    StateAxes as StateAxes,
    StateSharding as StateSharding,
)
from .contexts import (
    current_update_context as current_update_context,
    from_tree as from_tree,
    merge_context as merge_context,
    MergeContext as MergeContext,
    NodeStates as NodeStates,
    split_context as split_context,
    SplitContext as SplitContext,
    to_tree as to_tree,
    update_context as update_context,
    UpdateContext as UpdateContext,
)
from .jit import (
    abstract_with_sharding as abstract_with_sharding,
    as_abstract as as_abstract,
    cached_partial as cached_partial,
    get_abstract_model as get_abstract_model,
    eval_shape as eval_shape,
    jit as jit,
    jit_partial as jit_partial,
    JitWrapped as JitWrapped,
)
from .stages import Compiled as Compiled, Lowered as Lowered, Traced as Traced
from .shard_map import shard_map as shard_map
from .vmap import transform_metadata as transform_metadata, vmap as vmap
from .carries import Carry as Carry
from .scan import scan as scan
from .branches import cond as cond, switch as switch
from .custom import custom_vjp as custom_vjp
from .derivatives import jvp as jvp, vjp as vjp
from .loops import fori_loop as fori_loop, while_loop as while_loop
from .grad import (
    DiffState as DiffState,
    grad as grad,
    remat as remat,
    value_and_grad as value_and_grad,
)
from . import compat as compat, initializers as initializers, metrics as metrics
