"""`jax.core` has the classes of tracers and abstract values."""

import jax

print(jax.core.Tracer.__name__, jax.core.ShapedArray((2,), "float32").shape)
