"""`vmap` with `spmd_axis_name` shards the mapped axis of a constraint."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

mesh = jax.sharding.Mesh(jax.devices(), ("data",))
replicated = NamedSharding(mesh, PartitionSpec(None))


def constrain(x):
    return jax.lax.with_sharding_constraint(x, replicated)


mapped = jax.jit(jax.vmap(constrain, spmd_axis_name="data"))
print(mapped(jnp.ones((8, 2))).sharding.spec[0])
