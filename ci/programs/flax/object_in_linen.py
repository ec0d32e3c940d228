"""An object is used as a Linen module.

Touches: flax.nnx.bridge.to_linen
"""

import jax
from flax import nnx

model = nnx.bridge.to_linen(nnx.Linear, 2, 4)
variables = model.init(jax.random.key(0), jax.numpy.ones((1, 2)))
print(jax.tree.map(jax.numpy.shape, variables["params"]["bias"]))
