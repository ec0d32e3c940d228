"""`jax.shard_map` refuses an output that is said to be replicated and is not."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

mesh = jax.sharding.Mesh(jax.devices(), ("data",))
same = jax.shard_map(
    lambda x: x, mesh=mesh, in_specs=PartitionSpec("data"), out_specs=PartitionSpec()
)
try:
    same(jnp.arange(8.0))
except ValueError:
    print("refused")
else:
    print("accepted")
