"""A carry of `scan` that the body returns in another type is refused."""

import jax
import jax.numpy as jnp

try:
    jax.lax.scan(lambda c, x: (c + x, x), jnp.int32(0), jnp.ones(3))
except TypeError:
    print("refused")
else:
    print("accepted")
