"""Under `jax.grad`, an object is merged from a state outside it, and draws random numbers.

Instead: `nnx.merge(graphdef, params, rest, copy=True)`
"""

import jax
import jax.numpy as jnp
from flax import nnx

model = nnx.MultiHeadAttention(2, 4, dropout_rate=0.1, decode=False, rngs=nnx.Rngs(0))
graphdef, params, rest = nnx.split(model, nnx.Param, ...)


def loss(params, rest):
    merged = nnx.merge(graphdef, params, rest)
    merged.train()
    return merged(jnp.ones((1, 3, 4))).sum()


print(len(jax.tree.leaves(jax.grad(loss)(params, rest))))
