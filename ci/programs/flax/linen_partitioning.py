"""A Linen layer with axis names gives its partition spec.

Touches: flax.linen.with_partitioning
"""

import flax.linen as nn
import jax

init = nn.with_partitioning(nn.initializers.lecun_normal(), ("data", "model"))
variables = nn.Dense(4, kernel_init=init).init(jax.random.key(0), jax.numpy.ones((1, 2)))
print(nn.get_partition_spec(variables)["params"]["kernel"])
