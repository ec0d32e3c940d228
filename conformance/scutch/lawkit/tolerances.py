"""How far two float results of the same computation may be apart, by what was computed.

Two routes to one result round differently: a compiler fuses operations, devices sum in another
order. A *tolerance* holds the options `rtol` and `atol` of `numpy.allclose`, for arrays of
`float32`. `found` is close to `expected` where it is no more than
`atol + rtol * abs(expected)` away:

    assert_close(module.apply(variables, x), expected, **CALLS)
"""

CALLS = {"rtol": 1e-5, "atol": 1e-6}
"""One call of a small module, by two routes."""

MODELS = {"rtol": 1e-4, "atol": 1e-4}
"""The outputs of a stack of layers, compiled in two ways."""

GRADIENTS = {"rtol": 1e-3, "atol": 1e-3}
"""Gradients and statistics of a stack of layers, where large numbers cancel."""

TRAINING = {"rtol": 1e-3, "atol": 1e-4}
"""Several training steps on several devices and on one, which sum in another order."""
