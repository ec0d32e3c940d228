"""Layers on arrays that are sharded over `Explicit` mesh axes, where JAX types know the sharding.

The oracles are the layer itself on one device, and plain JAX on the same sharded array:

    x, sharding = sharded_input(placed)
    found = on_mesh(layer, x, sharding, jitted)
    assert_placed(found, layer(x), sharding)
"""

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from scutch.engine.agreement import attempted
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import assert_close
from scutch.lawkit.marks import reached
from scutch.lawkit.placement import entries, has_sharding, in_context
from scutch.lawkit.tolerances import CALLS


def sharded_input(placed):
    """Numbers from 1 on in the shape of a placement, and the sharding that its rules ask for.

    The law is left for a placement without axes.
    """
    assume(placed.names)
    rules = dict(placed.rules)
    spec = PartitionSpec(*[rules.get(name) for name in placed.names])
    shape = np.shape(placed.array)
    values = np.arange(1, 1 + np.prod(shape, dtype=int), dtype="float32").reshape(shape)
    return values, NamedSharding(placed.mesh, spec)


def reach_ways(sharding, jitted):
    """Note whether a law is tried under `jit`, and whether the array is sharded at all."""
    reached("jitted" if jitted else "eager")
    if entries(sharding.spec):
        reached("sharded")


def on_mesh(function, x, sharding, jitted):
    """The result of a function of an array that lies by a sharding, with its mesh in context."""
    with in_context(sharding.mesh):
        return (jax.jit(function) if jitted else function)(jax.device_put(x, sharding))


def assert_computes_as_jax(layer, formula, x, sharding, jitted):
    """Fail unless a layer of a sharded array has the result of one device, laid out as plain JAX
    lays it out; where plain JAX refuses the sharded array, the layer may refuse it, too.

    Args:
      layer: A function of one array, by the implementation.
      formula: The same computation in plain JAX.
      x: The array, on the host.
      sharding: The sharding of the array.
      jitted: Whether both are called under `jax.jit`.
    """
    by_jax, by_layer = (
        attempted(lambda f=f: on_mesh(f, x, sharding, jitted)) for f in (formula, layer)
    )
    if by_jax.error is None:
        assert by_layer.error is None, f"plain JAX computes it; the layer raises {by_layer.error!r}"
        assert has_sharding(by_layer.results, by_jax.results.sharding), by_layer.results.sharding
    if by_layer.error is None:
        assert_close(np.asarray(by_layer.results), np.asarray(layer(x)), **CALLS)
