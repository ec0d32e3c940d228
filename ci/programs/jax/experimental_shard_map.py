"""`shard_map` comes from `jax.experimental`, with `check_rep`.

Instead: `jax.shard_map`, with `check_vma`
"""

import jax
import jax.numpy as jnp
from jax.experimental.shard_map import shard_map
from jax.sharding import PartitionSpec

mesh = jax.sharding.Mesh(jax.devices(), ("data",))
spec = PartitionSpec("data")
double = shard_map(lambda x: x * 2, mesh=mesh, in_specs=spec, out_specs=spec, check_rep=False)
print(double(jnp.arange(8.0)).sum())
