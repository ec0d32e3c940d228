"""A layer whose initializer names axes is made where no mesh is set.

Touches: flax.nnx.with_partitioning
Instead: set a mesh first, `with jax.set_mesh(mesh):`, or give `mesh=mesh` as metadata
"""

import jax
from flax import nnx

init = nnx.with_partitioning(nnx.initializers.lecun_normal(), ("data", "model"))
layer = nnx.Linear(2, 4, kernel_init=init, rngs=nnx.Rngs(0))
print(layer(jax.numpy.ones((1, 2))).shape)
