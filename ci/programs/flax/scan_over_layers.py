"""Layers are made by `nnx.vmap` and applied by `nnx.scan`.

Touches: flax.nnx.scan
"""

import jax
from flax import nnx


@nnx.split_rngs(splits=3)
@nnx.vmap(in_axes=0, out_axes=0)
def make(rngs):
    return nnx.Linear(2, 2, rngs=rngs)


@nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
def apply(x, layer):
    return layer(x)


print(apply(jax.numpy.ones((1, 2)), make(nnx.Rngs(0))).shape)
