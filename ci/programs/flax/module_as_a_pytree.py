"""A module passes through `jax.jit` as an argument."""

import jax
from flax import nnx

model = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
print(jax.jit(lambda m, x: m(x))(model, jax.numpy.ones((1, 2))).shape)
