"""Constraints inside `shard_map`: the axes that it maps over are `Manual`, and others stay `Auto`.

A spec inside may name the other axes alone, so a law draws an axis that its spec does not name:

    axis = unnamed_axis(mesh, spec, number)
    expected = jax_constraints(spec, x, mesh, axis)
    assert alike(constraints_inside(function, x, mesh, axis), expected)
"""

import jax
from jax.sharding import PartitionSpec

from scutch.lawkit.domain import assume, not_available
from scutch.lawkit.mapped import shard_map
from scutch.lawkit.placement import constraints, entries, in_context, splits


def unnamed_axis(mesh, spec, number):
    """One of the axes of a mesh that a spec does not name, counted around.

    The law is left where the mesh has one axis, and where the spec names all of them.
    """
    named = named_axes(spec)
    free = [axis for axis in mesh.axis_names if axis not in named]
    assume(free and len(mesh.axis_names) > 1)
    return free[number % len(free)]


def named_axes(spec):
    """The mesh axes that a spec names, in its order."""
    parts = [each if isinstance(each, tuple) else (each,) for each in entries(spec)]
    return [axis for part in parts for axis in part if axis is not None]


def inside_shard_map(function, array, mesh, manual):
    """The result of a jitted function of one array inside `shard_map` over some axes of a mesh.

    Every device has the whole array. The law is left where JAX cannot map over some axes only.
    """
    if len(manual) < len(mesh.axis_names) and not hasattr(jax, "set_mesh"):
        not_available("JAX has no shard_map over some axes")
    with in_context(mesh):
        return jax.jit(_mapped(function, mesh, manual))(array)


def jax_constraints(spec, array, mesh, axis):
    """The specs that `jax.lax.with_sharding_constraint` records for a spec inside `shard_map`.

    The law is left where JAX cannot constrain there: it has no `jax.set_mesh`, or says so.
    """
    if not hasattr(jax, "set_mesh"):
        not_available("JAX has no constraints inside shard_map over some axes")
    try:
        return constraints_inside(
            lambda x: jax.lax.with_sharding_constraint(x, spec), array, mesh, axis
        )
    except (NotImplementedError, AssertionError):  # of JAX itself, before 0.9
        not_available("this JAX implements no constraints inside shard_map over some axes")


def constraints_inside(function, array, mesh, axis):
    """The specs of the constraints that a function of one array records inside `shard_map` over a
    mesh axis, as `splits` gives them. Every device has the whole array.
    """
    with in_context(mesh):
        specs = constraints(_mapped(function, mesh, {axis}), array)
    return [splits(spec, mesh) for spec in specs]


def _mapped(function, mesh, manual):
    """A function of one array, which every device has, under `shard_map` over some axes."""
    whole = PartitionSpec()
    options = {"axis_names": manual, "check_vma": False}
    return shard_map(function, mesh=mesh, in_specs=whole, out_specs=whole, **options)
