"""The tables of lifts, one for each carrier; one file for each transformation has its cells."""

from collections.abc import Mapping

from scutch.engine.lifts import (
    branches,
    custom_vjp,
    derivatives,
    grad,
    jit,
    remat,
    scan,
    shard_map,
    turns,
    vmap,
)
from scutch.engine.lifts.cells import OnArrays, OnLinen, OnObjects

ARRAYS: Mapping[str, OnArrays] = {
    "jit": jit.ARRAYS,
    "vmap": vmap.ARRAYS,
    "scan": scan.ARRAYS,
    "grad": grad.ARRAYS,
    "value_and_grad": grad.VALUES_OF_ARRAYS,
    "remat": remat.ARRAYS,
    "shard_map": shard_map.ARRAYS,
}
OBJECTS: Mapping[str, OnObjects] = {
    "jit": jit.OBJECTS,
    "vmap": vmap.OBJECTS,
    "scan": scan.OBJECTS,
    "grad": grad.OBJECTS,
    "vjp": derivatives.VJP,
    "jvp": derivatives.JVP,
    "remat": remat.OBJECTS,
    "shard_map": shard_map.OBJECTS,
    "cond": branches.COND,
    "switch": branches.SWITCH,
    "while_loop": turns.WHILE_LOOP,
    "fori_loop": turns.FORI_LOOP,
    "custom_vjp": custom_vjp.OBJECTS,
}
LINEN: Mapping[str, OnLinen] = {
    "jit": jit.LINEN,
    "vmap": vmap.LINEN,
    "scan": scan.LINEN,
    "remat": remat.LINEN,
}
