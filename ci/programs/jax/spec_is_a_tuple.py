"""A `PartitionSpec` is a tuple: it adds to tuples.

Instead: `PartitionSpec("layers", *spec)`
"""

from jax.sharding import PartitionSpec

spec = PartitionSpec("data", None)
print(isinstance(spec, tuple), tuple(("layers",) + spec))
