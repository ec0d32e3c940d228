"""The constraint that shards an array on a mesh, and the layout of arrays (BOX-18).

A *spec* (`jax.sharding.PartitionSpec`) has an entry for each axis of an array: a mesh axis, a tuple
of them, `None` (the axis stays whole) or `UNCONSTRAINED` (the compiler decides). To *constrain* an
array is to have it sharded by a spec on a mesh. JAX has three functions for it, and each refuses
the arrays of the others: `with_sharding_constraint` on mesh axes of type Auto, `reshard` on
Explicit ones, and `device_put` for an array that exists already. Inside `shard_map` axes are
Manual: an array is the part of one device, and those axes cannot be sharded again. `constrain`
chooses.

>>> import jax, numpy as np
>>> mesh = Mesh(np.array(jax.devices()[:1]), ("data",))
>>> sharded = constrain(np.ones(4), partition_spec(("data",)), mesh)
>>> tuple(sharded.sharding.spec)
('data',)
"""

import functools
from collections.abc import Collection
from typing import Any, cast

import jax
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from .jax_versions import (
    Tracer,
    axes_of_type,
    concrete_mesh,
    context_mesh as context_mesh,
    reshard,
    shard_alike,
    typeof,
)
from .types import Leaf, Tree

ARRAYS = (np.ndarray, np.generic, jax.Array)
"""The classes that count as arrays, for NumPy's arrays and scalars, JAX's arrays and tracers."""
UNCONSTRAINED = PartitionSpec.UNCONSTRAINED
_with_sharding_constraint: Any = jax.lax.with_sharding_constraint


@functools.lru_cache(maxsize=4096)
def partition_spec(names: tuple[Any, ...]) -> PartitionSpec:
    """Return `PartitionSpec(*names)`, the same object for the same names.

    Args:
      names: Hashable entries of a spec.
    """
    return cast(PartitionSpec, cast(Any, PartitionSpec)(*names))  # JAX leaves it untyped.


def mesh_axes(entry: Any) -> tuple[Any, ...]:
    """Return the mesh axes in one entry of a spec.

    Args:
      entry: A mesh axis, a tuple of them, `None` or `UNCONSTRAINED`.

    Returns:
      A tuple; empty for the last two.
    """
    if entry is None or entry is UNCONSTRAINED:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


def _without(spec: PartitionSpec, axes: Collection[Any], gap: Any) -> PartitionSpec:
    """The spec without some mesh axes; an entry of which nothing is left becomes `gap`."""
    kept = [tuple(axis for axis in mesh_axes(entry) if axis not in axes) for entry in spec]
    pairs = zip(spec, kept, strict=True)
    return partition_spec(tuple(old if new == mesh_axes(old) else new or gap for old, new in pairs))


def _settled(array: Leaf, spec: PartitionSpec) -> PartitionSpec:
    """The spec for `reshard`, which does not take `UNCONSTRAINED`.

    An axis with that entry keeps the mesh axes that it has in the type of the array, unless the
    spec gives them to another axis.
    """
    taken = {axis for entry in spec for axis in mesh_axes(entry)}
    present = typeof(array).sharding.spec
    kept = [entry if taken.isdisjoint(mesh_axes(entry)) else None for entry in present]
    entries = [kept[i] if entry is UNCONSTRAINED else entry for i, entry in enumerate(spec)]
    return partition_spec(tuple(entries))


def constrain(array: Leaf, spec: PartitionSpec, mesh: Mesh | None) -> Tree:
    """Lay one array out by a spec, on a mesh or on the mesh in context (BOX-18).

    Args:
      array: An array or tracer whose rank is at least the length of `spec`. Anything else, such as
        a scalar of Python or an abstract value, is returned as it is.
      spec: For each axis the mesh axes that it is cut along.
      mesh: A mesh with these axes. `None`, or a mesh without axes, as `jax.sharding.get_mesh()`
        gives it where none is set, means the mesh in context; if there is none, the array is
        returned as it is.

    Returns:
      An array of the same shape, dtype and numbers. Axes that are Manual in context are left out
      of the spec.

    Raises:
      ValueError: JAX refuses the spec: an unknown mesh axis, or a size that it cannot divide.
    """
    around: Any = context_mesh()
    target: Any = mesh if mesh is not None and mesh.axis_names else around
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
        # `device_put` alone takes axes of every type, and a mesh other than the one in context.
        return jax.device_put(array, NamedSharding(target, spec))
    explicit, auto = axes_of_type(target, "Explicit"), axes_of_type(target, "Auto")
    alone = traced and isinstance(target, Mesh) and not isinstance(around, AbstractMesh)
    if explicit and alone and typeof(array).sharding.mesh.empty:
        # In a program that is traced without a mesh, JAX takes no Explicit axes: call them Auto.
        target = Mesh(target.devices, target.axis_names)
        explicit, auto = [], auto + explicit
    if explicit:
        settled = _settled(array, _without(spec, auto, None))
        array = reshard(array, NamedSharding(target, settled))
    if auto:
        free = NamedSharding(target, _without(spec, explicit, UNCONSTRAINED))
        array = _with_sharding_constraint(array, free)
    return array


def explicit_sharding(array: Leaf) -> NamedSharding | None:
    """Return the sharding that the type of an array has on Explicit mesh axes, or `None`.

    Args:
      array: An array or a tracer.
    """
    sharding = typeof(array).sharding if typeof is not None else None
    if sharding is None or not axes_of_type(sharding.mesh, "Explicit"):
        return None
    return cast(NamedSharding, sharding) if any(sharding.spec) else None


def laid_out_like(array: Leaf, model: Leaf) -> Tree:
    """Lay an array out over the Explicit mesh axes of another one, which it broadcasts to.

    JAX selects and adds only where the two types agree. Without Explicit axes nothing happens.

    Args:
      array: An array of the rank of `model`; an axis that is broadcast stays whole.
      model: The array whose type has the mesh axes.

    Returns:
      An array of the same shape, dtype and numbers.
    """
    sharding = explicit_sharding(model)
    if sharding is None:
        return array
    axes = zip(array.shape, model.shape, sharding.spec, strict=True)
    spec = partition_spec(tuple(entry if size == whole else None for size, whole, entry in axes))
    if isinstance(model, Tracer) or isinstance(array, Tracer):
        return reshard(array, NamedSharding(sharding.mesh, spec))
    return jax.device_put(
        array, NamedSharding(model.sharding.mesh, spec)
    )  # Also without a context.


def laid_out_as_before(old: Tree, new: Tree) -> Tree:
    """Lay the new value of an array out over the devices as the old value is (OBJ-7e).

    A program does not know the layout of an argument when it is traced: the compiler is told that
    both arrays have the same one. Explicit axes are part of the types of both already, and inside
    `shard_map` an array lies on one device.

    Args:
      old: The array, or a tracer.
      new: An array of the same shape, or a tracer.

    Returns:
      `new`, laid out as `old`.
    """
    if isinstance(new, Tracer):
        mesh: Any = context_mesh()
        is_fixed = axes_of_type(mesh, "Manual") or explicit_sharding(new) is not None
        return new if is_fixed else shard_alike(old, new)[1]
    is_placed = isinstance(old, jax.Array) and isinstance(new, jax.Array)
    if not is_placed or new.sharding.is_equivalent_to(old.sharding, new.ndim):
        return new
    return jax.device_put(new, old.sharding)


def formatted(array: Leaf, format: Any) -> Tree:
    """Lay one array out on devices and in memory, as a `Format` of JAX says (OBJ-9).

    Args:
      array: An array or tracer.
      format: A `Format` with a sharding, which JAX 0.4 calls `Layout`.

    Returns:
      An array of the same shape, dtype and numbers.

    Raises:
      TypeError, ValueError: JAX refuses the layout, or the sharding, for this array.
    """
    place = _with_sharding_constraint if isinstance(array, Tracer) else jax.device_put
    return place(array, format)
