"""`jax.core` has the classes of jaxprs.

Instead: `jax.extend.core`
"""

import jax

print(jax.core.ClosedJaxpr.__name__, jax.core.Primitive("twice").name)
