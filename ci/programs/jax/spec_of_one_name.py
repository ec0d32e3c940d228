"""In a `PartitionSpec` a tuple of one name equals the name."""

from jax.sharding import PartitionSpec

print(PartitionSpec(("data",)) == PartitionSpec("data"))
