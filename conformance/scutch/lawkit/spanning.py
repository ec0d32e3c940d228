"""Arrays on meshes that span processes: made from host arrays, and compared part by part.

In a job of several processes each one *addresses* its own devices only: it can read the parts of an
array that those hold, and no others. So a law never reads such an array whole. Every process has
the same host array, hands JAX the parts that it asks for, and compares the parts that it can read.

With one process both functions work as well: then all parts can be read.
"""

from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from scutch.lawkit.equality import alike, assert_close
from scutch.lawkit.tolerances import MODELS


def spread(host: Any, mesh: Mesh, spec: PartitionSpec) -> jax.Array:
    """A global array with the contents of `host`, the same host array on every process.

    Args:
      host: An array-like of any shape whose sharded sizes the mesh axes divide.
      mesh: A mesh of the devices of all processes.
      spec: How the array is sharded on it.

    Returns:
      An array of the shape and dtype of `host`, with the sharding `NamedSharding(mesh, spec)`.
    """
    host = np.asarray(host)
    sharding = NamedSharding(mesh, spec)
    return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])


def assert_parts(array: Any, mesh: Mesh, spec: PartitionSpec, expected: Any) -> None:
    """Fail unless an array is sharded by `spec`, and every part that can be read is as expected.

    Args:
      array: The array that the implementation made.
      mesh: The mesh that it must be on.
      spec: The spec that it must have.
      expected: The whole array, on the host.

    Raises:
      AssertionError: It is no `jax.Array`, or has another shape or sharding, or a part has other
        contents.
    """
    expected = np.asarray(expected)
    if not isinstance(array, jax.Array):
        raise AssertionError(f"expected a jax.Array on {mesh}, got a {type(array).__name__}")
    if not alike(array.shape, expected.shape):
        raise AssertionError(f"expected the global shape {expected.shape}, got {array.shape}")
    asked = NamedSharding(mesh, spec)
    if not array.sharding.is_equivalent_to(asked, array.ndim):
        raise AssertionError(f"expected the sharding {asked}, got {array.sharding}")
    for part in array.addressable_shards:
        where = f"the part {part.index} on {part.device}"
        assert_close(np.asarray(part.data), expected[part.index], where, **MODELS)


def on_every_process(value: Any) -> np.ndarray:
    """The values that the processes hold, stacked: row `i` comes from process `i`.

    Args:
      value: A host array, of one shape and dtype on all processes.
    """
    gathered = multihost_utils.process_allgather(np.asarray(value))
    return np.asarray(gathered).reshape(jax.process_count(), *np.shape(value))
