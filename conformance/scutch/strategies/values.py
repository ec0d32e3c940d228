"""Arrays, abstract values, numbers and keys.

Shapes are chosen from a list in order of size, by one draw: that is quick, and shrinks well.
"""

import itertools
from typing import Any

from hypothesis import strategies as st

from scutch.inputs.descriptions import Abstract, Array, Key

SIZES = (2, 1, 0, 3)
SHAPES = tuple(shape for rank in (1, 0, 2, 3, 4) for shape in itertools.product(SIZES, repeat=rank))
DTYPES = ("float32", "int32", "bool", "bfloat16", "float16", "uint8", "complex64")


def shapes(*, min_rank: int = 0, max_rank: int = 4) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes with sizes 0 and 1 among them."""
    return st.sampled_from([s for s in SHAPES if min_rank <= len(s) <= max_rank])


def arrays(
    *,
    dtypes: tuple[str, ...] = DTYPES,
    min_rank: int = 0,
    max_rank: int = 4,
) -> st.SearchStrategy[Array]:
    """Arrays of every dtype."""
    return st.builds(
        Array,
        shapes(min_rank=min_rank, max_rank=max_rank),
        st.sampled_from(dtypes),
        st.integers(0, 3),
    )


def abstract_values() -> st.SearchStrategy[Abstract]:
    """Shapes and dtypes without contents."""
    return st.builds(Abstract, shapes(), st.sampled_from(DTYPES))


def numbers() -> st.SearchStrategy[Any]:
    """Python's own scalars."""
    return st.sampled_from([1, 0, -1, 2.5, True, 3j])


def keys() -> st.SearchStrategy[Key]:
    """Typed PRNG keys."""
    return st.builds(Key, st.integers(0, 3))


def values() -> st.SearchStrategy[Any]:
    """Everything array-like that a box may wrap."""
    return st.one_of(arrays(), abstract_values(), numbers(), keys())


def leaves() -> st.SearchStrategy[Any]:
    """Everything that may be a leaf beside boxes, with objects that have no shape among it."""
    return st.one_of(arrays(max_rank=2), numbers(), abstract_values(), keys(), st.just("text"))
