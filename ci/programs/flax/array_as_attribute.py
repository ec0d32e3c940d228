"""A bare array is an attribute of a module, and part of its state."""

import jax
import jax.numpy as jnp
from flax import nnx


class Model(nnx.Module):
    def __init__(self):
        self.scale = jnp.ones(2)


print(len(jax.tree.leaves(nnx.state(Model()))))
