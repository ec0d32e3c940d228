"""A spec alone constrains an array where the mesh is a context manager."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

mesh = jax.sharding.Mesh(jax.devices(), ("data",))
with mesh:
    constrained = jax.jit(lambda x: jax.lax.with_sharding_constraint(x * 2, PartitionSpec("data")))(
        jnp.ones((8, 2))
    )
print(constrained.sharding.spec[0])
