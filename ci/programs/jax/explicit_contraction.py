"""A product that sums over an axis which both sides shard asks for `out_sharding`."""

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec

mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Explicit,))
with jax.set_mesh(mesh):
    x = jax.device_put(jnp.ones((2, 8)), PartitionSpec(None, "data"))
    y = jax.device_put(jnp.ones((8, 2)), PartitionSpec("data", None))
    try:
        x @ y
    except Exception as error:  # its class has moved between releases
        print("refused", "ShardingTypeError" in type(error).__name__)
    else:
        print("accepted")
