"""Meshes of 1, 2, 4 and 8 devices, in one to three axes.

A mesh shrinks towards fewer axes, and towards two devices: on one device nothing is sharded.

    meshes(axes=(('data',),)).example()  # such as Mesh((2,), ('data',))
"""

from hypothesis import strategies as st

from scutch.inputs.descriptions import Mesh

_SHAPES: dict[tuple[str, ...], list[tuple[int, ...]]] = {
    ("data",): [(2,), (1,), (4,), (8,)],
    ("data", "model"): [(2, 2), (2, 1), (1, 2), (2, 4), (4, 2), (1, 8), (8, 1)],
    ("data", "model", "layers"): [(2, 2, 2), (1, 2, 4), (2, 1, 1)],
}


def meshes(
    *, explicit: bool = False, axes: tuple[tuple[str, ...], ...] = tuple(_SHAPES)
) -> st.SearchStrategy[Mesh]:
    """Meshes of up to eight devices.

    Args:
      explicit: Whether all axes are `Explicit` rather than `Auto`.
      axes: The tuples of names that a mesh may have for its axes: `("data",)`,
        `("data", "model")` and `("data", "model", "layers")`, or some of them.
    """
    return st.sampled_from(
        [Mesh(shape, names, explicit) for names in axes for shape in _SHAPES[names]]
    )
