"""Meshes of all devices of a job, and specs of arrays on them.

Every axis has two, four or eight devices (or one), so that sizes which eight divides can be
sharded by any of the specs. In a job of several processes some axis spans them.
"""

from hypothesis import strategies as st

from scutch.inputs.descriptions import Mesh, Spec

DEVICES = 8
"""The devices of a job, all processes together."""

_MESHES = (
    Mesh((8,), ("data",)),
    Mesh((2, 4), ("data", "model")),
    Mesh((4, 2), ("data", "model")),
    Mesh((8, 1), ("data", "model")),
    Mesh((1, 8), ("data", "model")),
    Mesh((2, 2, 2), ("data", "model", "stage")),
)


def spanning_meshes(*axes: str) -> st.SearchStrategy[Mesh]:
    """Meshes of eight devices that have all the named axes.

    Args:
      axes: Names among `data`, `model` and `stage`; without any, every mesh is drawn.
    """
    return st.sampled_from([mesh for mesh in _MESHES if set(axes) <= set(mesh.axes)])


def matrix_specs(mesh: Mesh) -> st.SearchStrategy[Spec]:
    """Specs of a matrix on this mesh: no axis, either, both, or both mesh axes on one.

    Args:
      mesh: The mesh whose axes are named.
    """
    first, *others = mesh.axes
    names: list[tuple[object, ...]] = [(first,), (None, first), ()]
    for other in others[:1]:
        names += [(first, other), (other, first), ((first, other),), (None, (other, first))]
    return st.sampled_from([Spec(each) for each in names])
