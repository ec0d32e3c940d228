"""An array of fewer dimensions than its spec has entries is refused."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

mesh = jax.sharding.Mesh(jax.devices(), ("data",))
try:
    jax.device_put(jnp.ones(8), NamedSharding(mesh, PartitionSpec("data", None)))
except ValueError:
    print("refused")
else:
    print("accepted")
