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
    gelu as gelu,
    initializers as initializers,
    relu as relu,
    sigmoid as sigmoid,
    silu as silu,
    softmax as softmax,
)

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
from .variables import (
    BatchStat as BatchStat,
    Cache as Cache,
    get_named_sharding as get_named_sharding,
    get_partition_spec as get_partition_spec,
    Intermediate as Intermediate,
    Param as Param,
    Perturbation as Perturbation,
    Variable as Variable,
    VariableMetadata as VariableMetadata,
    VariableState as VariableState,
    with_metadata as with_metadata,
    with_partitioning as with_partitioning,
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
    clone as clone,
    find_duplicates as find_duplicates,
    graphdef as graphdef,
    iter_children as iter_children,
    iter_graph as iter_graph,
    merge as merge,
    pop as pop,
    pure as pure,
    recursive_map as recursive_map,
    set_metadata as set_metadata,
    split as split,
    state as state,
    update as update,
    variables as variables,
)
from .modules import (
    Dict as Dict,
    iter_modules as iter_modules,
    List as List,
    Module as Module,
    Sequential as Sequential,
)
from .rngs import (
    fork_rngs as fork_rngs,
    reseed as reseed,
    restore_rngs as restore_rngs,
    RngCount as RngCount,
    RngKey as RngKey,
    Rngs as Rngs,
    RngState as RngState,
    RngStream as RngStream,
    split_rngs as split_rngs,
)
from .layers import (
    BatchNorm as BatchNorm,
    Dropout as Dropout,
    Embed as Embed,
    LayerNorm as LayerNorm,
    Linear as Linear,
)
from .optimizer import (
    ModelAndOptimizer as ModelAndOptimizer,
    OptArray as OptArray,
    Optimizer as Optimizer,
    OptState as OptState,
    OptVariable as OptVariable,
)
from .prefixes import StateAxes as StateAxes, StateSharding as StateSharding
from .jit import (
    eval_shape as eval_shape,
    jit as jit,
    jit_partial as jit_partial,
    JitWrapped as JitWrapped,
)
from .stages import Compiled as Compiled, Lowered as Lowered, Traced as Traced
from .shard_map import shard_map as shard_map
from .vmap import vmap as vmap
from .scan import Carry as Carry, scan as scan
from .grad import (
    DiffState as DiffState,
    grad as grad,
    remat as remat,
    value_and_grad as value_and_grad,
)
