"""The output of `pmap` has a `PmapSharding`."""

import jax
import jax.numpy as jnp

print(type(jax.pmap(lambda x: x)(jnp.ones((8, 2))).sharding).__name__)
