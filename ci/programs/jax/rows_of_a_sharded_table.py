"""Rows are taken from a table that Explicit axes shard, with `out_sharding`."""

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec

mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Explicit,))
with jax.set_mesh(mesh):
    table = jax.device_put(jnp.arange(16.0).reshape(8, 2), PartitionSpec("data", None))
    rows = table.at[jnp.array([1, 5])].get(out_sharding=PartitionSpec(None, None))
print(rows.sum())
