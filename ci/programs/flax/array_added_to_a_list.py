"""A variable is appended to a list that is an attribute of a module.

Touches: flax.nnx.Module[list]
Instead: `nnx.List([...])`
"""

import jax
import jax.numpy as jnp
from flax import nnx


class Model(nnx.Module):
    def __init__(self):
        self.parts = []
        for _ in range(2):
            self.parts.append(nnx.Param(jnp.ones(1)))


print(len(jax.tree.leaves(nnx.state(Model()))))
