"""Nested trees of dict, list, tuple, dataclass, `None` and empty containers."""

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
      draw: Hypothesis's.
      leaf: What the leaves are; where left out, everything but boxes.
      depth: How many containers lie around a leaf at most.
    """
    return _tree(draw, leaves() if leaf is None else leaf, depth)


def box_trees(*, depth: int = 2, nested: bool = True) -> st.SearchStrategy[Any]:
    """Trees with boxes of all classes among the leaves, and boxes in boxes.

    Args:
      depth: As in `trees`.
      nested: Whether boxes may hold boxes.
    """
    small = any_boxes(arrays(max_rank=3))
    kinds = [small, any_boxes(), leaves()] + ([nested_boxes()] if nested else [])
    return trees(st.one_of(*kinds), depth)


def copies(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Copies]:
    """The same value twice, so that a change to the first shows."""
    return st.builds(Copies, of)


def _tree(draw: st.DrawFn, leaf: st.SearchStrategy[Any], depth: int) -> Any:
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
