"""`jax.typeof` shows the spec of an array on Explicit axes, also inside `jit`."""

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec

mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Explicit,))
seen = []
with jax.set_mesh(mesh):
    x = jax.device_put(jnp.ones((8, 2)), PartitionSpec("data"))
    jax.jit(lambda x: seen.append(jax.typeof(x).sharding.spec[0]))(x)
print(seen)
