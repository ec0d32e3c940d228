"""JAX itself, with the transformations that Flax lifts to objects.

The laws about calls of arrays compare an implementation with JAX. A release of JAX that breaks one
shows that the law asks for more than JAX does.
"""

import jax

from scutch.implementation import Implementation
from scutch.namespaces import Namespace

_NAMES = "jit vmap grad value_and_grad remat shard_map".split()
"""`scan` is left out: Flax gives that name another signature."""

implementation = Implementation(
    "jax",
    jax.__version__,
    transforms=Namespace("jax", jax, names=[name for name in _NAMES if hasattr(jax, name)]),
)
