"""A static argument that has no hash is refused by `jit`."""

import jax

try:
    jax.jit(lambda x, dims: x, static_argnums=1)(1.0, [1, 2])
except ValueError:
    print("refused")
else:
    print("accepted")
