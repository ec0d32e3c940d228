"""`nnx.jit` compiles a function of arrays."""

import jax.numpy as jnp
from flax import nnx

print(float(nnx.jit(lambda x: 2 * x)(jnp.ones(()))))
