"""The array of a variable is read and written as `value`.

Touches: flax.nnx.Variable.value, .value
Beside: flax.nnx
Instead: `variable[...]`
"""

import jax.numpy as jnp
from flax import nnx

param = nnx.Param(jnp.ones(2))
param.value = param.value + 1
print(param.value.tolist())
