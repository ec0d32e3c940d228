"""Meshes whose axes have the type `Explicit`, for laws of boxes that hold a mesh."""

import jax

from scutch.inputs.descriptions import has_explicit_axes
from scutch.lawkit.domain import not_available


def explicit(subject, mesh):
    """A mesh with the devices and names of another one, and `Explicit` axes.

    The law is left for the class of an owner, and where JAX has no types of axes.
    """
    if subject.owned or not has_explicit_axes():
        not_available("types of mesh axes")
    types = (jax.sharding.AxisType.Explicit,) * len(mesh.axis_names)
    return jax.sharding.Mesh(mesh.devices, mesh.axis_names, axis_types=types)
