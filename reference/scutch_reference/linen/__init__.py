"""Linen modules over collections of variables, and lifted transformations of them (contract LIN).

Read `scope`, `module`, `functions`, `lift`, `loops`, `gradients`, `transforms`, `partitioning`,
`layers`, `train_state`.
Code that is written for `flax.linen` runs with this package instead; so the package also exports
names of JAX and of other modules.
The document spells `PARTITION_NAME` as `PARITION_NAME` as well; both are the same.
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
from ..attention import dot_product_attention as dot_product_attention
from ..meta import (
    PARTITION_NAME as PARTITION_NAME,
    Partitioned as Partitioned,
    get_partition_spec as get_partition_spec,
    get_sharding as get_sharding,
    unbox as unbox,
    with_partitioning as with_partitioning,
)
from . import (
    initializers as initializers,
    layers as layers,
    partitioning as partitioning,
    train_state as train_state,
    transforms as transforms,
)
from .initializers import (
    ones as ones,
    ones_init as ones_init,
    zeros as zeros,
    zeros_init as zeros_init,
)
from .functions import (
    apply as apply,
    init as init,
    init_with_output as init_with_output,
    merge_param as merge_param,
)
from .gradients import (
    custom_vjp as custom_vjp,
    grad as grad,
    jvp as jvp,
    value_and_grad as value_and_grad,
    vjp as vjp,
)
from .layers import (
    BatchNorm as BatchNorm,
    Conv as Conv,
    Dense as Dense,
    DenseGeneral as DenseGeneral,
    Dropout as Dropout,
    Embed as Embed,
    LayerNorm as LayerNorm,
    avg_pool as avg_pool,
)
from .lift import (
    checkpoint as checkpoint,
    jit as jit,
    remat as remat,
)
from .loops import (
    broadcast as broadcast,
    scan as scan,
    vmap as vmap,
)
from .module import (
    Module as Module,
    compact as compact,
    nowrap as nowrap,
)
from .partitioning import (
    get_axis_names as get_axis_names,
    param_with_axes as param_with_axes,
    scan_with_axes as scan_with_axes,
    variable_with_axes as variable_with_axes,
    vmap_with_axes as vmap_with_axes,
)
from .scope import DenyList as DenyList
from .train_state import TrainState as TrainState
from .transforms import (
    add_metadata_axis as add_metadata_axis,
    cond as cond,
    fold_rngs as fold_rngs,
    map_variables as map_variables,
    named_call as named_call,
    remat_scan as remat_scan,
    switch as switch,
    while_loop as while_loop,
)
from .variable import Variable as Variable

linear = layers
normalize = standardize
spmd = logical
PARITION_NAME = PARTITION_NAME
