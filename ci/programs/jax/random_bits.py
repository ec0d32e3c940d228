"""A key gives the same numbers."""

import jax

print(jax.random.bits(jax.random.key(0), (4,)).tolist())
