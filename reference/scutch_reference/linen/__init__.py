"""Linen: modules over collections of variables, and their lifted transformations (contract LIN).

Read `scope`, `module`, `lift`, `layers`, `train_state`, in this order. User code for `flax.linen`
runs with this package in its place; so this front door has names of other rooms, and of JAX, too.
The document spells `PARTITION_NAME` as `PARITION_NAME` as well; both are the same.
"""

from jax.nn import (
    gelu as gelu,
    initializers as initializers,
    log_softmax as log_softmax,
    relu as relu,
    sigmoid as sigmoid,
    silu as silu,
    softmax as softmax,
)
from jax.numpy import tanh as tanh

from .. import logical as logical, meta as meta
from ..logical import (
    LogicallyPartitioned as LogicallyPartitioned,
    RulesFallback as RulesFallback,
    get_logical_axis_rules as get_logical_axis_rules,
    logical_axis_rules as logical_axis_rules,
    logical_to_mesh as logical_to_mesh,
    logical_to_mesh_axes as logical_to_mesh_axes,
    logical_to_mesh_sharding as logical_to_mesh_sharding,
    set_logical_axis_rules as set_logical_axis_rules,
    with_logical_constraint as with_logical_constraint,
    with_logical_partitioning as with_logical_partitioning,
)
from ..meta import (
    PARTITION_NAME as PARTITION_NAME,
    Partitioned as Partitioned,
    get_partition_spec as get_partition_spec,
    get_sharding as get_sharding,
    unbox as unbox,
    with_partitioning as with_partitioning,
)
from . import train_state as train_state
from .layers import (
    BatchNorm as BatchNorm,
    Dense as Dense,
    Dropout as Dropout,
    Embed as Embed,
    LayerNorm as LayerNorm,
)
from .lift import (
    broadcast as broadcast,
    checkpoint as checkpoint,
    jit as jit,
    remat as remat,
    scan as scan,
    vmap as vmap,
)
from .module import (
    Module as Module,
    Variable as Variable,
    compact as compact,
    nowrap as nowrap,
)
from .scope import DenyList as DenyList
from .train_state import TrainState as TrainState

spmd = logical
PARITION_NAME = PARTITION_NAME
