"""A Linen layer is used as an object, made by `lazy_init`.

Touches: flax.nnx.bridge.ToNNX
"""

import flax.linen as nn
import jax
from flax import nnx

model = nnx.bridge.ToNNX(nn.Dense(4), rngs=nnx.Rngs(0))
nnx.bridge.lazy_init(model, jax.numpy.ones((1, 2)))
print(model.kernel.shape)
