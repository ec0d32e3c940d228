"""A model that is split, passed through `jax.jit` and merged again, as in the functional guide."""

import jax
import jax.numpy as jnp
from flax import nnx


class Count(nnx.Variable):
    pass


class Linear(nnx.Module):
    def __init__(self, din, dout, *, rngs: nnx.Rngs):
        key = rngs.params()
        self.w = nnx.Param(jax.random.uniform(key, (din, dout)))
        self.b = nnx.Param(jnp.zeros((dout,)))
        self.count = Count(jnp.array(0))

    def __call__(self, x):
        return x @ self.w + self.b[None]


graphdef, params, counts = nnx.split(Linear(3, 2, rngs=nnx.Rngs(0)), nnx.Param, Count)


@jax.jit
def forward(params, x):
    model = nnx.merge(graphdef, params, counts)
    return model(x)


print(forward(params, jnp.ones((4, 3))).shape, len(jax.tree.leaves(params)))
