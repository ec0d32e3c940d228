"""The reference implementation of the contract for boxes, Linen, NNX and the bridge between them.

Read it from top to bottom:

- `errors`, `jax_versions`, `placement`, `comparison`, `struct`: shared by all modules below;
- `meta`, `logical`: boxes, which know the names of axes, and rules for logical names;
- `functional`: the computations of layers, as functions of arrays;
- `core`, `traverse_util`, `serialization`: frozen, flat and saved dictionaries;
- `linen` and `nnx`: modules that read variables from collections, and modules that hold them as
  attributes; neither package imports the other;
- `bridge`: wrappers that make a Linen module an NNX module, and an NNX class a Linen module.

The functions on boxes and on logical names are here as well, under the names that Flax gives them.

>>> import numpy as np
>>> Partitioned(np.ones((2, 3)), names=(None, "model")).get_partition_spec() == (
...     get_partition_spec({"w": Partitioned(np.ones((2, 3)), (None, "model"))})["w"])
True
"""

__version__ = "0.1.0"

from . import (
    core as core,
    errors as errors,
    logical as logical,
    meta as meta,
    struct as struct,
    traverse_util as traverse_util,
)
from .logical import (
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
from .meta import (
    PARTITION_NAME as PARTITION_NAME,
    AxisMetadata as AxisMetadata,
    Partitioned as Partitioned,
    add_axis as add_axis,
    get_partition_spec as get_partition_spec,
    get_sharding as get_sharding,
    is_axis_metadata as is_axis_metadata,
    map_axis_meta as map_axis_meta,
    remove_axis as remove_axis,
    replace_boxed as replace_boxed,
    unbox as unbox,
    with_partitioning as with_partitioning,
)
