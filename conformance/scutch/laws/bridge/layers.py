"""The layer of both worlds, as laws of the wrappers make and draw it."""

from hypothesis import strategies as st

from scutch.inputs.paired_layers import INITIALIZERS, INPUTS, in_linen, in_nnx

NAMES = (None, "model")
"""Of the axes of a boxed kernel."""

seeds = st.integers(0, 3)
features = st.integers(1, 3)


def linen_layer(linen, meta, boxed=False, initial="start", size=2):
    """The Linen layer, with its kernel boxed or bare."""
    kernel_init = INITIALIZERS[initial]
    if boxed:
        kernel_init = meta.with_partitioning(kernel_init, NAMES)
    return in_linen(linen)(kernel_init=kernel_init, features=size)


def wrapped_layer(bridge, nnx, initial="start", size=2):
    """The NNX layer wrapped by `ToLinen`."""
    return bridge.ToLinen(
        in_nnx(nnx), args=(INPUTS, INITIALIZERS[initial]), kwargs={"features": size}
    )
