"""In a `PartitionSpec` an empty tuple equals `None`."""

from jax.sharding import PartitionSpec

print(PartitionSpec((), "data") == PartitionSpec(None, "data"))
