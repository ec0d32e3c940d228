"""How far two float results of the same computation may be apart: the one place that says so.

Two routes to one result round differently: a compiler fuses operations, devices sum in another
order. A *tolerance* holds the options `rtol` and `atol` of `numpy.allclose`; each computation has
its own, such as `CALLS` or `GRADIENTS`. `found` is near to `expected` where it is no more than
`atol + rtol * abs(expected)` away; a coarser dtype than `float32`, and an accelerator, widen that:

    assert near(jitted(x), function(x), **CALLS)
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

CALLS = {"rtol": 1e-5, "atol": 1e-6}
"""One call of a small module, by two routes."""

MODELS = {"rtol": 1e-4, "atol": 1e-4}
"""The outputs of a stack of layers, compiled in two ways."""

GRADIENTS = {"rtol": 1e-3, "atol": 1e-3}
"""Gradients and statistics of a stack of layers, where large numbers cancel."""

TRAINING = {"rtol": 1e-3, "atol": 1e-4}
"""Several training steps on several devices and on one, which sum in another order."""

ROUNDINGS = 4
"""How many roundings of their own dtype two results may always be apart."""

ACCELERATORS = 4
"""How many times farther apart they may be on an accelerator, which has its own approximations of
`exp` and `tanh`. (Matrices of `float32` are multiplied as such: see `profiles.prepare_devices`.)"""


def near(found: Any, expected: Any, *, rtol: float, atol: float) -> bool:
    """Whether two arrays have one shape, and numbers that differ by no more than rounding.

    Args:
      found: An array, or a number; a list of numbers stands for an array.
      expected: Another; dtypes may differ.
      rtol: How far two numbers may be apart, as a part of the expected one.
      atol: How far beside that.

    Returns:
      Whether they are near, by these or by `ROUNDINGS` of the coarser dtype, whichever is more; on
      another platform than the CPU by `ACCELERATORS` times as much. NaN is near to NaN alone.
    """
    pair = [np.asarray(found), np.asarray(expected)]
    rounds = [each for each in pair if jnp.issubdtype(each.dtype, jnp.inexact)]
    least = max((ROUNDINGS * float(jnp.finfo(each.dtype).eps) for each in rounds), default=0.0)  # type: ignore[no-untyped-call]
    times = 1 if jax.default_backend() == "cpu" else ACCELERATORS
    one, other = (e.astype("float64") if jnp.issubdtype(e.dtype, jnp.floating) else e for e in pair)
    return one.shape == other.shape and np.allclose(
        one, other, rtol=times * max(rtol, least), atol=times * max(atol, least), equal_nan=True
    )
