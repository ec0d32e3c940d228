"""`nnx.get_partition_spec` gives the spec of a variable that was annotated with `sharding`.

Touches: flax.nnx.get_partition_spec
"""

import jax
import jax.numpy as jnp
from flax import nnx


class Model(nnx.Module):
    def __init__(self):
        self.kernel = nnx.Param(jnp.ones((2, 4)), sharding=("data", None))


mesh = jax.sharding.Mesh([jax.devices()[0]], ("data",))
with getattr(jax, "set_mesh", lambda mesh: mesh)(mesh):
    state = nnx.state(Model())
spec = nnx.get_partition_spec(state)["kernel"]
print(getattr(spec, "value", spec))
