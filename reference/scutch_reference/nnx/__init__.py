"""Objects, variables and lifted transformations (contract OBJ, JIT, SHM)."""

from jax.nn import gelu as gelu, initializers as initializers, relu as relu, sigmoid as sigmoid
from jax.nn import silu as silu, softmax as softmax

from ..meta import PARTITION_NAME as PARTITION_NAME
from .filters import All as All, Any as Any, Everything as Everything, Not as Not
from .filters import Nothing as Nothing, OfType as OfType, PathContains as PathContains
from .filters import PathIn as PathIn, WithTag as WithTag, to_predicate as to_predicate
from .gradients import DiffState as DiffState, grad as grad, remat as remat
from .gradients import value_and_grad as value_and_grad
from .graphs import GraphDef as GraphDef, clone as clone, graphdef as graphdef
from .graphs import iter_children as iter_children, iter_graph as iter_graph, merge as merge
from .graphs import pop as pop, pure as pure, set_metadata as set_metadata, split as split
from .graphs import state as state, update as update
from .graphs import variables as variables
from .jit import JitWrapped as JitWrapped, eval_shape as eval_shape, jit as jit
from .layers import BatchNorm as BatchNorm, Dropout as Dropout, Embed as Embed
from .layers import LayerNorm as LayerNorm, Linear as Linear
from .modules import Dict as Dict, List as List, Module as Module, Sequential as Sequential
from .objects import Data as Data, Object as Object, Pytree as Pytree, Static as Static
from .objects import data as data, dataclass as dataclass, has_data as has_data, is_data as is_data
from .objects import static as static
from .optimizer import ModelAndOptimizer as ModelAndOptimizer, OptArray as OptArray
from .optimizer import OptState as OptState, OptVariable as OptVariable, Optimizer as Optimizer
from .prefixes import StateAxes as StateAxes, StateSharding as StateSharding
from .rngs import RngCount as RngCount, RngKey as RngKey, RngState as RngState
from .rngs import RngStream as RngStream, Rngs as Rngs, fork_rngs as fork_rngs, reseed as reseed
from .rngs import restore_rngs as restore_rngs, split_rngs as split_rngs
from .axes import Carry as Carry, scan as scan
from .shard_map import shard_map as shard_map
from .jit import Compiled as Compiled, Lowered as Lowered, Traced as Traced
from .states import FlatState as FlatState, State as State, filter_state as filter_state
from .states import from_flat_state as from_flat_state, map_state as map_state
from .states import merge_state as merge_state, replace_by_pure_dict as replace_by_pure_dict
from .states import split_state as split_state, to_flat_state as to_flat_state
from .states import to_pure_dict as to_pure_dict
from .variables import BatchStat as BatchStat, Cache as Cache, Intermediate as Intermediate
from .variables import Param as Param, Perturbation as Perturbation, Variable as Variable
from .variables import VariableMetadata as VariableMetadata, VariableState as VariableState
from .variables import get_named_sharding as get_named_sharding
from .variables import get_partition_spec as get_partition_spec, with_metadata as with_metadata
from .variables import with_partitioning as with_partitioning
from .axes import vmap as vmap
