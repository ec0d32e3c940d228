"""Arrays of the shapes and dtypes that a model's inputs and states are described by.

    drawn(numpy.random.default_rng(0), False, jax.ShapeDtypeStruct((8, 2), "float32"))

is an array of NumPy with random numbers.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

EXTREMES = (0.0, -0.0, 100.0, -100.0, 1e-30)
INTEGERS = 8
"""Random inputs of an integer dtype are below this: tokens that every vocabulary has."""


def abstract_of(tree: Any) -> Any:
    """A tree with the shape and dtype of each array in its place."""
    struct: Any = jax.ShapeDtypeStruct
    return jax.tree_util.tree_map(lambda a: struct(a.shape, a.dtype), tree)


def zeros(value: Any) -> Any:
    """A tree with zeros in the place of each array."""
    return jax.tree_util.tree_map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), value)


def longer(axis: int, times: int, value: Any) -> Any:
    """An abstract array that is longer along an axis; a concrete input stays as it is.

    Args:
      axis: The axis.
      times: How many times as long.
      value: The array.

    Returns:
      The abstract array, or the concrete one.
    """
    if not isinstance(value, jax.ShapeDtypeStruct):
        return value
    shape = [n * (times if at == axis else 1) for at, n in enumerate(value.shape)]
    struct: Any = jax.ShapeDtypeStruct
    return struct(tuple(shape), value.dtype)


def drawn(random: Any, extreme: bool, value: Any) -> Any:
    """A random array of a described shape; a concrete input stays as it is.

    Args:
      random: A generator of NumPy.
      extreme: Whether some numbers are very large or very small.
      value: The described array, or the concrete one.

    Returns:
      The array of NumPy, or the concrete one.
    """
    if not isinstance(value, jax.ShapeDtypeStruct):
        return value
    if jnp.issubdtype(value.dtype, jnp.integer):
        return random.integers(0, INTEGERS, value.shape).astype(value.dtype)
    if value.dtype == bool:
        return random.integers(0, 2, value.shape).astype(bool)
    drawn = random.normal(size=value.shape)
    if extreme:
        drawn = np.where(
            random.random(value.shape) < 0.1, random.choice(EXTREMES, value.shape), drawn
        )
    return drawn.astype(value.dtype)
