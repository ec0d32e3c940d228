"""Layers that are made by `nnx.vmap` and run by `nnx.scan`, as in the guide of transforms."""

import jax.numpy as jnp
from flax import nnx


class Layer(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.linear = nnx.Linear(4, 4, rngs=rngs)

    def __call__(self, x):
        return nnx.gelu(self.linear(x))


@nnx.split_rngs(splits=3)
@nnx.vmap(in_axes=(0,), out_axes=0)
def create(rngs: nnx.Rngs):
    return Layer(rngs)


@nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
def forward(x, layer):
    return layer(x)


layers = create(nnx.Rngs(0))
print(forward(jnp.ones((2, 4)), layers).shape)
