"""Objects, variables and lifted transformations (contract OBJ, JIT, SHM)."""

from jax.nn import gelu as gelu, initializers as initializers, relu as relu, sigmoid as sigmoid
from jax.nn import silu as silu, softmax as softmax

from ..meta import PARTITION_NAME as PARTITION_NAME
from .vmap import vmap as vmap
from .scan import Carry as Carry, scan as scan
from .filters import All as All, Everything as Everything, OfType as OfType, WithTag as WithTag
from .filters import Any as Any, Not as Not, PathIn as PathIn
from .filters import Nothing as Nothing, PathContains as PathContains, to_predicate as to_predicate
from .grad import DiffState as DiffState, value_and_grad as value_and_grad
from .grad import grad as grad, remat as remat
from .graph import recursive_map as recursive_map, find_duplicates as find_duplicates
from .graph import clone as clone, graphdef as graphdef, merge as merge, pop as pop, split as split
from .graphdef import GraphDef as GraphDef
from .graph import iter_graph as iter_graph, variables as variables
from .graph import iter_children as iter_children, set_metadata as set_metadata, update as update
from .graph import pure as pure, state as state
from .jit import jit_partial as jit_partial
from .jit import eval_shape as eval_shape, jit as jit, JitWrapped as JitWrapped
from .stages import Compiled as Compiled, Lowered as Lowered, Traced as Traced
from .layers import BatchNorm as BatchNorm, Dropout as Dropout, LayerNorm as LayerNorm
from .layers import Embed as Embed, Linear as Linear
from .modules import Dict as Dict, List as List, Module as Module, Sequential as Sequential
from .objects import Data as Data, dataclass as dataclass, has_data as has_data, is_data as is_data
from .modules import iter_modules as iter_modules
from .objects import data as data, register_data_type as register_data_type
from .objects import Object as Object, Pytree as Pytree, Static as Static, static as static
from .optimizer import ModelAndOptimizer as ModelAndOptimizer, OptVariable as OptVariable
from .optimizer import OptArray as OptArray, Optimizer as Optimizer, OptState as OptState
from .prefixes import StateAxes as StateAxes, StateSharding as StateSharding
from .rngs import fork_rngs as fork_rngs, RngCount as RngCount, Rngs as Rngs, RngState as RngState
from .rngs import reseed as reseed, RngKey as RngKey
from .rngs import restore_rngs as restore_rngs, RngStream as RngStream, split_rngs as split_rngs
from .shard_map import shard_map as shard_map
from .states import restore_int_paths as restore_int_paths
from .states import filter_state as filter_state, State as State, to_flat_state as to_flat_state
from .states import FlatState as FlatState, merge_state as merge_state, to_pure_dict as to_pure_dict
from .states import from_flat_state as from_flat_state, replace_by_pure_dict as replace_by_pure_dict
from .states import map_state as map_state, split_state as split_state
from .variables import BatchStat as BatchStat, Param as Param, Variable as Variable
from .variables import Cache as Cache, Intermediate as Intermediate, Perturbation as Perturbation
from .variables import get_named_sharding as get_named_sharding, VariableState as VariableState
from .variables import get_partition_spec as get_partition_spec, with_metadata as with_metadata
from .variables import VariableMetadata as VariableMetadata, with_partitioning as with_partitioning
