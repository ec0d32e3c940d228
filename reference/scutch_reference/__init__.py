"""The reference implementation: it defines what conforming looks like.

Read it top to bottom: `errors`; `placement`, `content`, and on them `meta`; `logical`; then
`arithmetic`, and on it `linen` and `nnx`, which do not know each other, and `bridge` between them.
"""

__version__ = "0.1.0"

from . import errors as errors, logical as logical, meta as meta
from .logical import LogicallyPartitioned as LogicallyPartitioned, RulesFallback as RulesFallback
from .logical import get_logical_axis_rules as get_logical_axis_rules
from .logical import logical_axis_rules as logical_axis_rules, logical_to_mesh as logical_to_mesh
from .logical import logical_to_mesh_axes as logical_to_mesh_axes
from .logical import logical_to_mesh_sharding as logical_to_mesh_sharding
from .logical import set_logical_axis_rules as set_logical_axis_rules
from .logical import with_logical_constraint as with_logical_constraint
from .logical import with_logical_partitioning as with_logical_partitioning
from .meta import PARTITION_NAME as PARTITION_NAME, AxisMetadata as AxisMetadata
from .meta import Partitioned as Partitioned, add_axis as add_axis
from .meta import get_partition_spec as get_partition_spec, get_sharding as get_sharding
from .meta import is_axis_metadata as is_axis_metadata, map_axis_meta as map_axis_meta
from .meta import remove_axis as remove_axis, replace_boxed as replace_boxed, unbox as unbox
from .meta import with_partitioning as with_partitioning
