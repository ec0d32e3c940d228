"""`jax.shard_map` is manual over one of two mesh axes, by `axis_names`."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
spec = PartitionSpec("data")
total = jax.shard_map(
    lambda x: jax.lax.psum(x, "data"),
    mesh=mesh,
    in_specs=spec,
    out_specs=PartitionSpec(),
    axis_names={"data"},
)
print(jax.jit(total)(jnp.arange(8.0)))
