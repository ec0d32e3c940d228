"""A Linen layer inside an NNX model, as in the guide of the bridge."""

import jax.numpy as jnp
from flax import linen as nn
from flax import nnx
from flax.nnx import bridge


class Mixed(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.dense = bridge.ToNNX(nn.Dense(4), rngs=rngs)
        self.out = nnx.Linear(4, 2, rngs=rngs)

    def __call__(self, x):
        return self.out(self.dense(x))


model = bridge.lazy_init(Mixed(nnx.Rngs(0)), jnp.ones((1, 3)))
print(model(jnp.ones((2, 3))).shape)
