"""`jax.vmap` maps a method that `nnx.jit` compiles, of an object made outside.

Instead: `nnx.vmap` with the object as an argument, `in_axes=(None, 0)`
"""

import jax
import jax.numpy as jnp
from flax import nnx


class Model(nnx.Module):
    def __init__(self):
        self.scale = nnx.Param(jnp.ones(()))

    @nnx.jit
    def render(self, frame):
        return frame * self.scale


print(jax.vmap(Model().render)(jnp.ones((3, 2))).shape)
