"""A plain list of layers is an attribute of a module.

Touches: flax.nnx.Module[list]
Instead: `nnx.List([...])`
"""

import jax
from flax import nnx


class Model(nnx.Module):
    def __init__(self, rngs):
        self.layers = [nnx.Linear(2, 2, rngs=rngs) for _ in range(2)]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


print(Model(nnx.Rngs(0))(jax.numpy.ones((1, 2))).shape)
