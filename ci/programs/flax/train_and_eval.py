"""`train` and `eval` switch the dropout of a module.

Touches: flax.nnx.Module.train, flax.nnx.Module.eval
"""

import jax
from flax import nnx

model = nnx.Sequential(nnx.Linear(2, 2, rngs=nnx.Rngs(0)), nnx.Dropout(0.5, rngs=nnx.Rngs(1)))
model.eval()
print(model(jax.numpy.ones((1, 2))).shape)
