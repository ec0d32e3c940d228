"""`jax.set_mesh` is the mesh of a block, in which `device_put` takes a spec."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

with jax.set_mesh(jax.sharding.Mesh(jax.devices(), ("data",))):
    x = jax.device_put(jnp.ones((8, 2)), PartitionSpec("data"))
print(x.sharding.spec[0])
