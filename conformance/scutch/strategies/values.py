"""Strategies for the values of boxes and for other leaves of trees.

A shape is one draw from a list that is ordered by rank: that is quick, and it shrinks to a vector
of two entries, the smallest array on which most laws mean something.

    arrays(max_rank=2).example()  # such as Array((2, 1), 'int32')
"""

import itertools
from typing import Any

from hypothesis import strategies as st

from scutch.inputs.descriptions import Abstract, Array, Key

SIZES = (2, 1, 0, 3)
"""The sizes of an axis, simplest first."""

SHAPES = tuple(shape for rank in (1, 0, 2, 3, 4) for shape in itertools.product(SIZES, repeat=rank))
"""All shapes of rank 0 to 4, simplest first."""

DTYPES = ("float32", "int32", "bool", "bfloat16", "float16", "uint8", "complex64")
"""The dtypes of arrays, simplest first."""


def shapes(*, min_rank: int = 0, max_rank: int = 4) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes whose sizes are from 0 to 3.

    Args:
      min_rank: The smallest number of axes, at least 0.
      max_rank: The largest number of axes, up to 4.
    """
    return st.sampled_from([s for s in SHAPES if min_rank <= len(s) <= max_rank])


def arrays(
    *,
    dtypes: tuple[str, ...] = DTYPES,
    min_rank: int = 0,
    max_rank: int = 4,
) -> st.SearchStrategy[Array]:
    """NumPy arrays.

    Args:
      dtypes: The dtypes to choose from.
      min_rank: The smallest number of axes.
      max_rank: The largest number of axes, up to 4.

    Returns:
      A strategy for descriptions of arrays, simplest first; contents follow from a seed.
    """
    return st.builds(
        Array,
        shapes(min_rank=min_rank, max_rank=max_rank),
        st.sampled_from(dtypes),
        st.integers(0, 3),
    )


def abstract_values() -> st.SearchStrategy[Abstract]:
    """Abstract values, `jax.ShapeDtypeStruct`, of every rank and dtype."""
    return st.builds(Abstract, shapes(), st.sampled_from(DTYPES))


def numbers() -> st.SearchStrategy[Any]:
    """Python's scalars: integers, floats, a boolean, a complex number."""
    return st.sampled_from([1, 0, -1, 2.5, True, 3j])


def keys() -> st.SearchStrategy[Key]:
    """Typed keys, as `jax.random.key` makes them."""
    return st.builds(Key, st.integers(0, 3))


def values() -> st.SearchStrategy[Any]:
    """Everything array-like that a box may wrap: arrays, abstract values, numbers, keys."""
    return st.one_of(arrays(), abstract_values(), numbers(), keys())


def leaves() -> st.SearchStrategy[Any]:
    """Leaves of a tree that are no boxes; numbers and texts among them have no shape."""
    return st.one_of(arrays(max_rank=2), numbers(), abstract_values(), keys(), st.just("text"))
