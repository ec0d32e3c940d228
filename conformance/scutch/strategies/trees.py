"""Nested trees of dict, list, tuple, dataclass, `None` and empty containers.

A tree shrinks to a single leaf. Keys of dictionaries come in another order than JAX's, which sorts
them.

    box_trees(depth=1).example()  # such as {'b': Box(Array((2,)), ('data',)), 'a': None}
"""

from typing import Any

from hypothesis import strategies as st

from scutch.inputs.descriptions import Copies, Record
from scutch.strategies.boxes import any_boxes, nested_boxes
from scutch.strategies.values import arrays, leaves

_KEYS = ("b", "a", "c")
_KINDS = ("leaf", "dict", "list", "tuple", "record", "none", "leaf")


@st.composite
def trees(draw: st.DrawFn, leaf: st.SearchStrategy[Any] | None = None, depth: int = 2) -> Any:
    """Trees over a strategy of leaves.

    Args:
      draw: The function that Hypothesis passes.
      leaf: Draws the leaves; where left out, everything of `leaves()`, which has no boxes.
      depth: How many containers are around a leaf at most; 0 for a leaf alone.
    """
    return _tree(draw, leaves() if leaf is None else leaf, depth)


def box_trees(*, depth: int = 2, nested: bool = True) -> st.SearchStrategy[Any]:
    """Trees with boxes of the class under judgment and of foreign classes among the leaves.

    Args:
      depth: How many containers are around a leaf at most.
      nested: Whether a box may wrap a box, or a container of boxes.
    """
    small = any_boxes(arrays(max_rank=3))
    kinds = [small, any_boxes(), leaves()] + ([nested_boxes()] if nested else [])
    return trees(st.one_of(*kinds), depth)


def copies(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Copies]:
    """One value of `of`, built twice, so that a law can compare the first with an unchanged one."""
    return st.builds(Copies, of)


def _tree(draw: st.DrawFn, leaf: st.SearchStrategy[Any], depth: int) -> Any:
    """Draw one tree of at most `depth` containers around each leaf."""
    kind = draw(st.sampled_from(_KINDS)) if depth else "leaf"
    match kind:
        case "none":
            return None
        case "record":
            return Record(_tree(draw, leaf, depth - 1), _tree(draw, leaf, depth - 1))
        case "leaf":
            return draw(leaf)
    children = [_tree(draw, leaf, depth - 1) for _ in range(draw(st.integers(0, 3)))]
    match kind:
        case "list":
            return children
        case "tuple":
            return tuple(children)
    return dict(zip(_KEYS, children, strict=False))
