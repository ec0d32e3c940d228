"""Boxes: of the class under judgment, and of foreign classes, which are written elsewhere.

Most boxes have any names. A *placed* box comes with a mesh on which its value can be sharded by its
names: they are distinct axes of the mesh, and each size of the value is a multiple of the number of
devices along the mesh axes in its name.

    boxes().example()  # such as Box(Array((2,)), ('data',))
    placed_boxes().example()  # such as (Box(Array((2,)), ('data',)), Mesh((2,), ('data',)))
"""

from math import prod
from typing import Any

from hypothesis import strategies as st

from scutch.inputs.boxes import KINDS
from scutch.inputs.descriptions import Abstract, Array, Box, Foreign, Mesh, Placement
from scutch.strategies.meshes import meshes
from scutch.strategies.names import LOGICAL, axis_names, name_tuples
from scutch.strategies.values import arrays, values


def rank_of(value: Any) -> int:
    """The number of axes of a described value; numbers and keys have none."""
    return len(value.shape) if isinstance(value, Array | Abstract) else 0


@st.composite
def boxes(draw: st.DrawFn, wraps: st.SearchStrategy[Any] | None = None) -> Box:
    """Boxes of the class under judgment, without a mesh, with one name for each axis.

    Args:
      draw: The function that Hypothesis passes.
      wraps: Draws the values; where left out, `values()`.
    """
    value = draw(values() if wraps is None else wraps)
    return Box(value, draw(name_tuples(rank_of(value))))


@st.composite
def foreign_boxes(
    draw: st.DrawFn,
    wraps: st.SearchStrategy[Any] | None = None,
    *,
    kinds: tuple[str, ...] = KINDS,
) -> Foreign:
    """Boxes of the classes in `scutch.inputs.boxes`, with one name for each axis.

    Args:
      draw: The function that Hypothesis passes.
      wraps: Draws the values; where left out, `values()`.
      kinds: The names of the classes; where left out, those that cannot cross the bridge.
    """
    value = draw(values() if wraps is None else wraps)
    return Foreign(draw(st.sampled_from(kinds)), value, draw(name_tuples(rank_of(value))))


def any_boxes(wraps: st.SearchStrategy[Any] | None = None) -> st.SearchStrategy[Any]:
    """Boxes of the class under judgment or of a foreign one; `wraps` as in `boxes`."""
    return st.one_of(boxes(wraps), foreign_boxes(wraps))


def nested_boxes() -> st.SearchStrategy[Any]:
    """Boxes that wrap a box, or a dictionary with boxes in it; up to two names, of any number."""
    inner = any_boxes(arrays(max_rank=2))
    names = st.lists(axis_names(), max_size=2).map(tuple)
    wrapped = st.one_of(inner, st.builds(lambda a, b: {"b": a, "a": [b, None]}, inner, inner))
    return st.one_of(
        st.builds(Box, wrapped, names),
        st.builds(Foreign, st.sampled_from(KINDS), wrapped, names),
    )


@st.composite
def placed_boxes(
    draw: st.DrawFn,
    *,
    explicit: bool = False,
    abstract: bool = False,
    own_mesh: bool = False,
    min_rank: int = 0,
    max_rank: int = 3,
) -> tuple[Box, Mesh]:
    """A box, and a mesh on which its value can be sharded by its names.

    Args:
      draw: The function that Hypothesis passes.
      explicit: Whether the axes of the mesh are `Explicit`.
      abstract: Whether the value is abstract, and not an array.
      own_mesh: Whether the box holds the mesh.
      min_rank: The smallest number of axes.
      max_rank: The largest number of axes.

    Returns:
      A strategy for pairs of descriptions, of a box and of a mesh.
    """
    mesh = draw(meshes(explicit=explicit))
    shape, names = draw(sharded_shapes(mesh, min_rank=min_rank, max_rank=max_rank))
    value = Abstract(shape) if abstract else Array(shape)
    return Box(value, names, mesh if own_mesh else None), mesh


def boxes_with_mesh(**options: Any) -> st.SearchStrategy[Box]:
    """Boxes that hold a mesh; options as for `placed_boxes`, whose mesh is left out."""
    return placed_boxes(own_mesh=True, **options).map(lambda placed: placed[0])


@st.composite
def sharded_shapes(
    draw: st.DrawFn, mesh: Mesh, *, min_rank: int = 0, max_rank: int = 3, tuples: bool = True
) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """A shape, and for each axis a name by which it can be sharded on a mesh.

    Args:
      draw: The function that Hypothesis passes.
      mesh: Names are distinct axes of it, and each size is a multiple of the sizes of its name.
      min_rank: The smallest number of axes.
      max_rank: The largest number of axes.
      tuples: Whether a name may be a tuple of two mesh axes.

    Returns:
      A strategy for pairs of tuples of one length: the sizes of the axes, and their names, each a
      mesh axis, a tuple of two, or `None`.
    """
    size = dict(zip(mesh.axes, mesh.shape, strict=True))
    free = list(draw(st.permutations(mesh.axes)))
    shape, names = [], []
    for _ in range(draw(st.integers(min_rank, max_rank))):
        take = min(draw(st.sampled_from([1, 0, 2] if tuples else [1, 0])), len(free))
        taken, free = free[:take], free[take:]
        names.append(None if not taken else taken[0] if take == 1 else tuple(taken))
        shape.append(prod(size[a] for a in taken) * draw(st.sampled_from([1, 2])))
    return tuple(shape), tuple(names)


@st.composite
def logical_placements(draw: st.DrawFn, *, explicit: bool = False, max_rank: int = 3) -> Placement:
    """An array, logical names for its axes, and rules by which it can be sharded on a mesh.

    Each name has one rule or none, and there is always a rule; rules that contend for one mesh axis
    are drawn by `names.rules`.

    Args:
      draw: The function that Hypothesis passes.
      explicit: Whether the axes of the mesh are `Explicit`.
      max_rank: The largest number of axes.
    """
    mesh = draw(meshes(explicit=explicit))
    shape, targets = draw(sharded_shapes(mesh, max_rank=max_rank))
    names: list[Any] = draw(st.permutations(LOGICAL))[: len(shape)]
    rules = [(n, t) for n, t in zip(names, targets, strict=True)]
    names = [draw(st.sampled_from([n, n, None])) if t is None else n for n, t in rules]
    rules = [("spare", None), *draw(st.permutations(rules))]
    return Placement(Array(shape), tuple(names), tuple(rules), mesh)
