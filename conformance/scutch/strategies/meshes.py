"""Meshes of 1, 2, 4 and 8 devices, in one to three axes."""

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
    """Meshes with the given names of axes.

    Args:
      explicit: Whether the axes are `Explicit` rather than `Auto`.
      axes: The names to choose from.
    """
    return st.sampled_from(
        [Mesh(shape, names, explicit) for names in axes for shape in _SHAPES[names]]
    )
