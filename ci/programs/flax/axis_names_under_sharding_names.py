"""The axis names of a variable are given and read as `sharding_names`.

Touches: metadata[sharding_names], flax.nnx.Variable(sharding_names), .sharding_names
Instead: `out_sharding`, and read `get_metadata()` with both keys while both releases are in use
"""

import jax
import jax.numpy as jnp
from flax import nnx

mesh = jax.sharding.Mesh([jax.devices()[0]], ("data",))
with getattr(jax, "set_mesh", lambda mesh: mesh)(mesh):
    param = nnx.Param(jnp.ones((2, 4)), sharding_names=("data", None))
print(param.get_metadata().get("sharding_names") if hasattr(param, "get_metadata") else None)
