"""A variable with axis names is made where no mesh is set.

Touches: flax.nnx.Variable(sharding), flax.nnx.Variable(sharding_names)
Instead: set a mesh first, `with jax.set_mesh(mesh):`, or give `mesh=mesh` as metadata
"""

import jax.numpy as jnp
from flax import nnx

param = nnx.Param(jnp.ones((2, 4)), sharding=("data", "model"))
print(param[...].shape if hasattr(param, "__getitem__") else param.value.shape)
