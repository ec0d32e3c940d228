"""`jit` with options alone is a decorator.

Instead: `functools.partial(jax.jit, static_argnames="n")`
"""

import jax


@jax.jit(static_argnames="n")
def power(x, n):
    return x**n


print(power(2.0, n=3))
