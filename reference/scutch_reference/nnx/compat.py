"""The functions of `nnx` that take `graph` and `graph_updates`, with both on.

Flax has them for programs from before it had other modes. Here both are on unless a call says
otherwise, so these are the functions of `nnx` themselves (JIT-12).

>>> from scutch_reference import nnx
>>> nnx.compat.jit is nnx.jit
True
"""

from . import (
    cached_partial as cached_partial,
    clone as clone,
    cond as cond,
    custom_vjp as custom_vjp,
    eval_shape as eval_shape,
    fori_loop as fori_loop,
    fork_rngs as fork_rngs,
    get_abstract_model as get_abstract_model,
    grad as grad,
    graphdef as graphdef,
    iter_children as iter_children,
    iter_graph as iter_graph,
    iter_modules as iter_modules,
    jit as jit,
    jvp as jvp,
    recursive_map as recursive_map,
    remat as remat,
    reseed as reseed,
    scan as scan,
    shard_map as shard_map,
    split as split,
    split_rngs as split_rngs,
    state as state,
    switch as switch,
    value_and_grad as value_and_grad,
    view as view,
    vjp as vjp,
    vmap as vmap,
    while_loop as while_loop,
)
