"""How far two float results of the same computation may be apart, by what was computed.

Two routes to one result round differently: a compiler fuses operations, devices sum in another
order. A *tolerance* is the pair of options `rtol` and `atol` of `numpy.allclose`, for arrays of
`float32`:

    assert_close(module.apply(variables, x), expected, **CALLS)
"""

from typing import TypedDict


class Tolerance(TypedDict):
    """How far `found` may be from `expected`: `atol + rtol * abs(expected)`."""

    rtol: float
    atol: float


CALLS = Tolerance(rtol=1e-5, atol=1e-6)
"""One call of a small module, by two routes."""

MODELS = Tolerance(rtol=1e-4, atol=1e-4)
"""The outputs of a stack of layers, compiled in two ways."""

GRADIENTS = Tolerance(rtol=1e-3, atol=1e-3)
"""Gradients and statistics of a stack of layers, where large numbers cancel."""

TRAINING = Tolerance(rtol=1e-3, atol=1e-4)
"""Several training steps on several devices and on one, which sum in another order."""
