"""An optimizer is made from a model and a transformation alone.

Touches: flax.nnx.Optimizer(!wrt)
Instead: `nnx.Optimizer(model, tx, wrt=nnx.Param)`
"""

import optax
from flax import nnx

optimizer = nnx.Optimizer(nnx.Linear(2, 2, rngs=nnx.Rngs(0)), optax.sgd(0.1))
print(
    int(optimizer.step[...])
    if hasattr(optimizer.step, "__getitem__")
    else int(optimizer.step.value)
)
