"""The functions of `nnx` that take `graph` and `graph_updates`, with both on.

Flax has them for programs from before it had other modes. Here both are on unless a call says
otherwise, so these are the functions of `nnx` themselves (JIT-12).

>>> from scutch_reference import nnx
>>> nnx.compat.jit is nnx.jit
True
"""

from .grad import grad as grad, remat as remat, value_and_grad as value_and_grad
from .graph import (
    clone as clone,
    graphdef as graphdef,
    split as split,
    state as state,
)
from .traversals import (
    iter_children as iter_children,
    iter_graph as iter_graph,
    recursive_map as recursive_map,
)
from .jit import (
    cached_partial as cached_partial,
    eval_shape as eval_shape,
    get_abstract_model as get_abstract_model,
    jit as jit,
)
from .modules import iter_modules as iter_modules, view as view
from .forks import fork_rngs as fork_rngs, reseed as reseed, split_rngs as split_rngs
from .scan import scan as scan
from .shard_map import shard_map as shard_map
from .vmap import vmap as vmap
