"""Where arrays go: the mesh in context, and the constraint that sends an array to a mesh.

JAX has three ways to say it, and each refuses what the others are for: `with_sharding_constraint`
speaks of Auto axes, `reshard` of Explicit ones, `device_put` moves a value that exists already.
Inside `shard_map` axes are Manual: the value is one device's part, and nothing is left to say.
"""

import functools
import warnings
from collections.abc import Collection
from typing import Any, cast

import jax
import numpy as np
from jax.interpreters import pxla
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

ARRAYS = (np.ndarray, np.generic, jax.Array)
UNCONSTRAINED = PartitionSpec.UNCONSTRAINED
with warnings.catch_warnings():
    # What `with mesh:` sets, as the document uses it; JAX deprecates it, and may drop it.
    warnings.simplefilter("ignore", DeprecationWarning)
    _environment: Any = getattr(pxla, "thread_resources", None)
# JAX 0.4 has no mesh in context but that of `with mesh:`, and no Explicit axes.
_get_abstract_mesh: Any = getattr(jax.sharding, "get_abstract_mesh", None)
_get_mesh: Any = getattr(jax.sharding, "get_mesh", None)
_reshard: Any = getattr(jax.sharding, "reshard", None)
_with_sharding_constraint: Any = jax.lax.with_sharding_constraint


def context_mesh() -> Mesh | AbstractMesh | None:
    """The mesh in context: of `jax.set_mesh`, else of `with mesh:`, else `None` (BOX-18)."""
    mesh: Any = _get_abstract_mesh() if _get_abstract_mesh is not None else None
    if _environment is not None and (mesh is None or not mesh.axis_names):
        mesh = _environment.env.physical_mesh
    return mesh if mesh is not None and mesh.axis_names else None


def _axes(mesh: Mesh | AbstractMesh | None, kind: str) -> list[Any]:
    """The axes of one kind. In a mesh without axis types, of JAX 0.4, they are Auto."""
    names = () if mesh is None else mesh.axis_names
    types = getattr(mesh, "axis_types", None)
    kinds = [its.name for its in types] if isinstance(types, tuple) else ["Auto"] * len(names)
    return [axis for axis, its in zip(names, kinds, strict=True) if its == kind]


@functools.lru_cache(maxsize=4096)
def partition_spec(names: tuple[Any, ...]) -> PartitionSpec:
    """Return `PartitionSpec(*names)`, the same object for the same names."""
    # JAX leaves the constructor untyped.
    return cast(PartitionSpec, cast(Any, PartitionSpec)(*names))


def mesh_axes(entry: Any) -> tuple[Any, ...]:
    """The mesh axes in one entry of a spec."""
    if entry is None or entry is UNCONSTRAINED:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


def _without(spec: PartitionSpec, axes: Collection[Any], gap: Any) -> PartitionSpec:
    """The spec with `axes` struck out, and `gap` where nothing else stood."""

    def entry(old: Any) -> Any:
        kept = tuple(axis for axis in mesh_axes(old) if axis not in axes)
        if kept == mesh_axes(old):
            return old
        return (kept if len(kept) > 1 else kept[0]) if kept else gap

    return partition_spec(tuple(map(entry, spec)))


def _settled(array: Any, spec: PartitionSpec) -> PartitionSpec:
    """The spec for `reshard`, which knows no `UNCONSTRAINED`: such an axis stays as it is."""
    taken = {axis for entry in spec for axis in mesh_axes(entry)}
    present = jax.typeof(array).sharding.spec
    kept = [None if taken & {*mesh_axes(entry)} else entry for entry in present]
    return partition_spec(
        tuple(kept[axis] if entry is UNCONSTRAINED else entry for axis, entry in enumerate(spec))
    )


def constrain(array: Any, spec: PartitionSpec, mesh: Mesh | None) -> Any:
    """Constrain one array to `spec`, on `mesh` or else on the mesh in context (BOX-18).

    What is no array has no sharding, and is returned; so is an array without a mesh. `ValueError`:
    JAX refuses the spec, for its length, an unknown axis, or an indivisible size.
    """
    around = context_mesh()
    if not isinstance(array, ARRAYS) or (mesh is None and around is None):
        return array
    if manual := _axes(around, "Manual"):
        spec, mesh = _without(spec, manual, None), None
        if not _axes(around, "Auto") and not _axes(around, "Explicit"):
            return array
    # An operation on a constant may be traced too.
    tracer = jax.core.Tracer
    traced = isinstance(array, tracer) or isinstance(jax.numpy.zeros(()), tracer)
    target = mesh if mesh is not None else around
    if isinstance(target, AbstractMesh) and not traced and _get_mesh is not None:
        try:
            target = _get_mesh() if not _get_mesh().empty else target
        except ValueError:  # JAX tells it nobody in a transformation: a constant under `vmap`.
            traced = True

    def sharding(spec: PartitionSpec) -> NamedSharding | PartitionSpec:
        return NamedSharding(target, spec) if isinstance(target, Mesh) else spec

    if not traced and UNCONSTRAINED not in tuple(spec):
        # The one way that takes all kinds of axes, any device, and leaves a mesh in context.
        return jax.device_put(array, sharding(spec))
    explicit, auto = _axes(target, "Explicit"), _axes(target, "Auto")
    alone = traced and not isinstance(around, AbstractMesh)
    if explicit and alone and isinstance(target, Mesh) and jax.typeof(array).sharding.mesh.empty:
        # Without a mesh of its own, a program knows Auto axes only.
        target, explicit, auto = Mesh(target.devices, target.axis_names), [], auto + explicit
    if explicit:
        array = _reshard(array, sharding(_settled(array, _without(spec, auto, None))))
    if auto or not explicit:
        spec = _without(spec, explicit, UNCONSTRAINED)
        array = _with_sharding_constraint(array, sharding(spec))
    return array
