"""Strategies for boxes and for trees of variables, which laws send across the bridge.

A *collection* is Linen's dictionary of variables of one kind, such as `params`. `collections()`
draws Linen's side, nested dictionaries in collections; `variable_trees()` draws NNX's side, nested
dictionaries of variables.
"""

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from scutch.inputs.boxes import CROSSING
from scutch.inputs.descriptions import Foreign
from scutch.inputs.graphs import KNOWN_VARIABLES
from scutch.inputs.model_variables import Path, tree
from scutch.strategies.boxes import boxes, foreign_boxes
from scutch.strategies.objects import variables
from scutch.strategies.values import arrays

COLLECTIONS = ("params", "batch_stats", "cache", "intermediates", "ours")
LAYERS = ("a", "b", "c")
_VALUES = arrays(max_rank=2)


def collection_names() -> st.SearchStrategy[str]:
    """The collections whose types every implementation knows, and one that is new."""
    return st.sampled_from(COLLECTIONS)


def crossing_boxes(wraps: st.SearchStrategy[Any] | None = None) -> st.SearchStrategy[Foreign]:
    """Boxes of the classes in `scutch.inputs.boxes` that can cross the bridge.

    Args:
      wraps: A strategy for the values of the boxes; any value if `None`.
    """
    return foreign_boxes(wraps, kinds=CROSSING)


@st.composite
def attributes(draw: st.DrawFn, leaf: st.SearchStrategy[Any], depth: int = 2) -> dict[str, Any]:
    """Nested dictionaries of attributes, none of them empty.

    Args:
      draw: Passed by Hypothesis.
      leaf: A strategy for the leaves.
      depth: How many levels there are at most below the first, at least 0.
    """
    chosen = draw(st.lists(st.sampled_from(LAYERS), min_size=1, max_size=3, unique=True))
    deeper = [depth > 0 and draw(st.booleans()) for _ in chosen]
    return {
        name: draw(attributes(leaf, depth - 1)) if deep else draw(leaf)
        for name, deep in zip(chosen, deeper, strict=True)
    }


def variable_trees() -> st.SearchStrategy[dict[str, Any]]:
    """Nested dictionaries of variables of the four known types, whose values are arrays."""
    return attributes(variables(_VALUES, kinds=KNOWN_VARIABLES))


@st.composite
def collections(draw: st.DrawFn, leaf: st.SearchStrategy[Any] | None = None) -> dict[str, Any]:
    """Linen's variables: arrays and boxes in collections; no path is in two of them.

    Args:
      draw: Passed by Hypothesis.
      leaf: A strategy for each variable; arrays and boxes if `None`.
    """
    leaf = st.one_of(_VALUES, boxes(_VALUES), crossing_boxes(_VALUES)) if leaf is None else leaf
    return tree(dict(_dealt(draw(attributes(st.tuples(collection_names(), leaf))), ())))


def _dealt(drawn: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[Path, Any]]:
    """The value of each leaf, with the leaf's collection in front of its path."""
    for name, node in drawn.items():
        if isinstance(node, dict):
            yield from _dealt(node, (*path, name))
        else:
            yield (node[0], *path, name), node[1]
