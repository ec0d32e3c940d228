"""Random numbers do not depend on how the output is sharded."""

import jax
from jax.sharding import NamedSharding, PartitionSpec

sharding = NamedSharding(jax.sharding.Mesh(jax.devices(), ("data",)), PartitionSpec("data"))


def draw(key):
    return jax.random.normal(key, (8,))


key = jax.random.key(0)
print((jax.jit(draw)(key) == jax.jit(draw, out_shardings=sharding)(key)).all())
