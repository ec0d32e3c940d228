"""A dropout layer is made from streams none of which is `dropout` or `default`.

Touches: flax.nnx.Rngs(params,!dropout,!default,!*)
Beside: flax.nnx.Dropout, flax.nnx.MultiHeadAttention
Instead: `nnx.Rngs(params=0, dropout=1)`
"""

import jax.numpy as jnp
from flax import nnx

layer = nnx.Dropout(0.5, rngs=nnx.Rngs(params=0))
layer.eval()
print(layer(jnp.ones(2)).tolist())
