"""The axis names of a variable are read from its metadata `sharding`.

Touches: metadata[sharding]
Instead: `out_sharding`, and read `get_metadata()` with both keys while both releases are in use
"""

import jax
import jax.numpy as jnp
from flax import nnx

mesh = jax.sharding.Mesh([jax.devices()[0]], ("data",))
with getattr(jax, "set_mesh", lambda mesh: mesh)(mesh):
    param = nnx.Param(jnp.ones((2, 4)), sharding=("data", None))
print(getattr(param, "sharding", None))
