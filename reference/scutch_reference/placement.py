"""Where arrays go: the mesh in context, and the constraint that sends an array to a mesh.

JAX says it in three ways, and each refuses what the others are for: `with_sharding_constraint`
with Auto axes, `reshard` with Explicit ones, `device_put` with a value that exists already. Inside
`shard_map` axes are Manual: the value is one device's part, and nothing is left to say.
"""

import functools
from collections.abc import Collection
from typing import Any, cast

import jax
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from .jax_versions import Tracer, axes_of_type, concrete_mesh, reshard, typeof
from .jax_versions import context_mesh as context_mesh

ARRAYS = (np.ndarray, np.generic, jax.Array)
UNCONSTRAINED = PartitionSpec.UNCONSTRAINED
_with_sharding_constraint: Any = jax.lax.with_sharding_constraint


@functools.lru_cache(maxsize=4096)
def partition_spec(names: tuple[Any, ...]) -> PartitionSpec:
    """Return `PartitionSpec(*names)`, the same object for the same names."""
    return cast(PartitionSpec, cast(Any, PartitionSpec)(*names))  # JAX leaves it untyped.


def mesh_axes(entry: Any) -> tuple[Any, ...]:
    """The mesh axes in one entry of a spec."""
    if entry is None or entry is UNCONSTRAINED:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


def _without(spec: PartitionSpec, axes: Collection[Any], gap: Any) -> PartitionSpec:
    """The spec with `axes` struck out, and `gap` where nothing else stood."""
    kept = [tuple(axis for axis in mesh_axes(entry) if axis not in axes) for entry in spec]
    pairs = zip(spec, kept, strict=True)
    return partition_spec(tuple(old if new == mesh_axes(old) else new or gap for old, new in pairs))


def _settled(array: Any, spec: PartitionSpec) -> PartitionSpec:
    """The spec for `reshard`, which knows no `UNCONSTRAINED`: such an axis stays as it is."""
    taken = {axis for entry in spec for axis in mesh_axes(entry)}
    present = typeof(array).sharding.spec
    kept = [entry if taken.isdisjoint(mesh_axes(entry)) else None for entry in present]
    entries = [kept[i] if entry is UNCONSTRAINED else entry for i, entry in enumerate(spec)]
    return partition_spec(tuple(entries))


def constrain(array: Any, spec: PartitionSpec, mesh: Mesh | None) -> Any:
    """Constrain one array to `spec`, on `mesh` or else on the mesh in context (BOX-18).

    What is no array, or has no mesh, is returned. It is a `ValueError` if JAX refuses the spec.
    """
    around: Any = context_mesh()
    target: Any = around if mesh is None else mesh
    if target is None or not isinstance(array, ARRAYS):
        return array
    if manual := axes_of_type(around, "Manual"):
        spec, target = _without(spec, manual, None), around
        if len(manual) == len(around.axis_names):
            return array
    # An operation on a constant may be traced too.
    traced = isinstance(array, Tracer) or isinstance(jax.numpy.zeros(()), Tracer)
    if isinstance(target, AbstractMesh) and not traced:
        placed = concrete_mesh(target)
        if placed is None:  # The array is a constant in a transformation, as under `vmap`.
            traced = True
        else:
            target = placed
    if not traced and UNCONSTRAINED not in tuple(spec):
        # The one way that takes all kinds of axes, any device, and leaves a mesh in context.
        return jax.device_put(array, NamedSharding(target, spec))
    explicit, auto = axes_of_type(target, "Explicit"), axes_of_type(target, "Auto")
    alone = traced and isinstance(target, Mesh) and not isinstance(around, AbstractMesh)
    if explicit and alone and typeof(array).sharding.mesh.empty:
        # Without a mesh of its own, a program knows Auto axes only.
        target, explicit, auto = Mesh(target.devices, target.axis_names), [], auto + explicit
    if explicit:
        settled = _settled(array, _without(spec, auto, None))
        array = reshard(array, NamedSharding(target, settled))
    if auto:
        free = NamedSharding(target, _without(spec, explicit, UNCONSTRAINED))
        array = _with_sharding_constraint(array, free)
    return array
