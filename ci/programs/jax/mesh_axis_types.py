"""`jax.make_mesh` makes a mesh whose axes the compiler partitions: they are Auto.

Instead: `axis_types` given for each axis
"""

import jax

mesh = jax.make_mesh((8,), ("data",))
types = getattr(mesh, "axis_types", None)
print([str(each) for each in types] if isinstance(types, tuple) else types)
