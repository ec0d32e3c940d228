"""Linen: modules over collections of variables, and their lifted transformations (contract LIN).

The document spells `PARTITION_NAME` as `PARITION_NAME` too; both are the same.
"""

from jax.nn import gelu as gelu
from jax.nn import initializers as initializers
from jax.nn import log_softmax as log_softmax
from jax.nn import relu as relu
from jax.nn import sigmoid as sigmoid
from jax.nn import silu as silu
from jax.nn import softmax as softmax
from jax.numpy import tanh as tanh

from .. import logical as logical
from .. import meta as meta
from ..logical import LogicallyPartitioned as LogicallyPartitioned
from ..logical import RulesFallback as RulesFallback
from ..logical import get_logical_axis_rules as get_logical_axis_rules
from ..logical import logical_axis_rules as logical_axis_rules
from ..logical import logical_to_mesh as logical_to_mesh
from ..logical import logical_to_mesh_axes as logical_to_mesh_axes
from ..logical import logical_to_mesh_sharding as logical_to_mesh_sharding
from ..logical import set_logical_axis_rules as set_logical_axis_rules
from ..logical import with_logical_constraint as with_logical_constraint
from ..logical import with_logical_partitioning as with_logical_partitioning
from ..meta import PARTITION_NAME as PARTITION_NAME
from ..meta import Partitioned as Partitioned
from ..meta import get_partition_spec as get_partition_spec
from ..meta import get_sharding as get_sharding
from ..meta import unbox as unbox
from ..meta import with_partitioning as with_partitioning
from . import train_state as train_state
from .layers import BatchNorm as BatchNorm
from .layers import Dense as Dense
from .layers import Dropout as Dropout
from .layers import Embed as Embed
from .layers import LayerNorm as LayerNorm
from .lift import broadcast as broadcast
from .lift import checkpoint as checkpoint
from .lift import jit as jit
from .lift import remat as remat
from .lift import scan as scan
from .lift import vmap as vmap
from .module import Module as Module
from .module import Variable as Variable
from .module import compact as compact
from .module import nowrap as nowrap
from .scope import DenyList as DenyList
from .train_state import TrainState as TrainState

spmd = logical
PARITION_NAME = PARTITION_NAME
