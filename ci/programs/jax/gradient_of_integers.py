"""`grad` with respect to integers is refused."""

import jax

try:
    jax.grad(lambda x: x * 2.0)(3)
except TypeError:
    print("refused")
else:
    print("accepted")
