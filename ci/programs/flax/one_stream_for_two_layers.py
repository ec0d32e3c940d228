"""Two dropout layers share the streams that they are given.

Touches: flax.nnx.Dropout.rngs
"""

import jax
from flax import nnx

rngs = nnx.Rngs(0)
layers = [nnx.Dropout(0.5, rngs=rngs) for _ in range(2)]
print(layers[0](jax.numpy.ones(4)).shape, layers[1].rngs is rngs)
