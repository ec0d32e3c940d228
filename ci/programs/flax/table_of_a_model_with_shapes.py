"""`nnx.tabulate` shows a model that passes the shape of an array to a part of it."""

import jax.numpy as jnp
from flax import nnx


class Ones(nnx.Module):
    def __call__(self, shape):
        return jnp.ones(shape)


class Model(nnx.Module):
    def __init__(self):
        self.ones = Ones()

    def __call__(self, x):
        return x + self.ones(x.shape)


print("Ones" in nnx.tabulate(Model(), jnp.ones((2, 3))))
