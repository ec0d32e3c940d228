"""Streams are split for several layers with `Rngs.fork(split=...)`.

Touches: flax.nnx.Rngs.fork(split)
Instead: `nnx.split_rngs(splits=2)` as a decorator
"""

from flax import nnx

print(nnx.Rngs(0).fork(split=2).params.key.shape)
