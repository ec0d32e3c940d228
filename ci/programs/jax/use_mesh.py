"""`jax.sharding.use_mesh` is the mesh of a block.

Instead: `jax.set_mesh`
"""

import jax

mesh = jax.sharding.Mesh(jax.devices(), ("data",))
with jax.sharding.use_mesh(mesh):
    print(mesh.axis_names)
