"""A Python number takes the type of the array that it meets."""

import jax.numpy as jnp

print((jnp.ones(2, "bfloat16") * 2.0).dtype, (jnp.ones(2, "int8") + 1).dtype)
