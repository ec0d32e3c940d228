"""Annotated layers are made by `nnx.vmap` with a partition name.

Touches: flax.nnx.vmap(transform_metadata), flax.nnx.scan(transform_metadata)
"""

import jax
from flax import nnx

init = nnx.with_partitioning(nnx.initializers.lecun_normal(), (None, "model"))


@nnx.split_rngs(splits=4)
@nnx.vmap(in_axes=0, out_axes=0, transform_metadata={nnx.PARTITION_NAME: "layers"})
def make(rngs):
    return nnx.Linear(2, 2, kernel_init=init, rngs=rngs)


mesh = jax.sharding.Mesh([[jax.devices()[0]]], ("layers", "model"))
with getattr(jax, "set_mesh", lambda mesh: mesh)(mesh):
    spec = nnx.get_partition_spec(nnx.state(make(nnx.Rngs(0))))["kernel"]
print(getattr(spec, "value", spec))
