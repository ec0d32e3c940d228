"""`Optimizer.update` takes the gradients alone.

Touches: flax.nnx.Optimizer.update
Instead: `optimizer.update(model, gradients)`
"""

import jax
import optax
from flax import nnx

model = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
try:
    optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
except TypeError:
    optimizer = nnx.Optimizer(model, optax.sgd(0.1))
gradients = nnx.grad(lambda m: m(jax.numpy.ones((1, 2))).sum())(model)
optimizer.update(gradients)
print("updated")
