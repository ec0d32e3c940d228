"""`jax.experimental.enable_x64` is a context of 64-bit types.

Instead: `jax.enable_x64(True)`
"""

import jax.numpy as jnp
from jax.experimental import enable_x64

with enable_x64():
    print(jnp.ones(2).dtype)
