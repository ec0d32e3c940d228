"""The bridge between Linen and NNX: converting trees of variables, and calling wrapped modules.

The floor, `jax`, does the least that any implementation must: one `jax.tree.map` over the values
for a conversion, and the same arithmetic on a list of arrays for a call.
"""

import contextlib
import functools
import gc

import jax
import jax.numpy as jnp
import numpy as np

from .calls import Calls, python_calls
from .libraries import BRIDGE, LINEN, NNX, loaded

IMPLEMENTATIONS = [*BRIDGE, "jax"]
CONVERSIONS = ["linen_vars_to_nnx_attrs", "nnx_attrs_to_linen_vars"]
VARIABLES = [4, 64, 1024]
WRAPPERS = ["ToNNX", "ToNNX in jit", "ToLinen", "ToLinen in jit"]
LAYERS = [1, 4, 16]
WIDTH = 8


@functools.cache
def conversions(implementation, variables):
    """Each conversion as a call without arguments, by its name in `CONVERSIONS`.

    A layer has four variables: a boxed kernel, a bare bias and two batch statistics.
    """
    value, layers = np.ones((4, 2), np.float32), range(variables // 4)
    plain = {
        "params": {f"layer_{i}": {"kernel": value, "bias": value} for i in layers},
        "batch_stats": {f"layer_{i}": {"mean": value, "var": value} for i in layers},
    }
    if implementation == "jax":
        return dict.fromkeys(CONVERSIONS, lambda: jax.tree.map(lambda x: x, plain))
    bridge = loaded(BRIDGE[implementation])
    bridge = getattr(bridge, "variables", bridge)  # Flax defines the conversions in this submodule
    there, back = (getattr(loaded(bridge.__name__, name), name) for name in CONVERSIONS)
    nn = loaded(LINEN[implementation], "Partitioned")
    for layer in plain["params"].values():
        layer["kernel"] = nn.Partitioned(value, ("data", None))
    attributes = there(plain)
    return dict(zip(CONVERSIONS, (lambda: there(plain), lambda: back(attributes)), strict=True))


class Conversion:
    """One conversion of a whole tree of variables, Linen to NNX or back."""

    params = (IMPLEMENTATIONS, CONVERSIONS, VARIABLES)
    param_names = ("implementation", "conversion", "variables")

    def setup(self, implementation, conversion, variables):
        """Build the tree once in a process, and keep Flax from placing values while it converts."""
        self.stack = contextlib.ExitStack()
        nnx = loaded(NNX[implementation]) if implementation in NNX else None
        if hasattr(nnx, "use_eager_sharding"):
            self.stack.enter_context(nnx.use_eager_sharding(False))
        self.call = conversions(implementation, variables)[conversion]
        gc.disable()

    def teardown(self, *parameters):
        """Turn the garbage collector and Flax's eager sharding on again."""
        gc.enable()
        self.stack.close()

    def time_conversion(self, *parameters):
        """Seconds of one conversion."""
        self.call()

    def track_calls(self, implementation, conversion, variables):
        """Python function calls in one conversion, divided by the number of variables."""
        return python_calls(self.call) / variables

    track_calls.unit = "Python calls per variable"


def plain_call(layers, jitted):
    """The floor: a matrix product and a sum for each layer, on a list of arrays."""
    x = jnp.ones((2, WIDTH))
    weights = [(jnp.eye(WIDTH), jnp.zeros(WIDTH)) for _ in range(layers)]

    def call(weights, x):
        for kernel, bias in weights:
            x = x @ kernel + bias
        return x

    return functools.partial(jax.jit(call) if jitted else call, weights, x)


def wrapped_linen(implementation, layers, jitted):
    """A call of a Linen module of `layers` dense layers, wrapped by `ToNNX`."""
    bridge, nnx = loaded(BRIDGE[implementation], "ToNNX"), loaded(NNX[implementation])
    nn, x = loaded(LINEN[implementation], "Dense"), jnp.ones((2, WIDTH))

    class Stack(nn.Module):
        @nn.compact
        def __call__(self, x):
            for _ in range(layers):
                x = nn.Dense(WIDTH)(x)
            return x

    model = bridge.ToNNX(Stack(), rngs=nnx.Rngs(0)).lazy_init(x)
    call = nnx.jit(lambda model, x: model(x)) if jitted else bridge.ToNNX.__call__
    return functools.partial(call, model, x)


def wrapped_nnx(implementation, layers, jitted):
    """A call of an NNX module of `layers` linear layers, wrapped by `to_linen`."""
    bridge, nnx = loaded(BRIDGE[implementation], "to_linen"), loaded(NNX[implementation], "List")
    x = jnp.ones((2, WIDTH))

    class Stack(nnx.Module):
        def __init__(self, rngs):
            self.layers = nnx.List([nnx.Linear(WIDTH, WIDTH, rngs=rngs) for _ in range(layers)])

        def __call__(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    model = bridge.to_linen(Stack)
    variables = model.init(jax.random.key(0), x)
    return functools.partial(jax.jit(model.apply) if jitted else model.apply, variables, x)


@functools.cache
def wrapped_call(implementation, wrapper, layers):
    """A call without arguments of a wrapped module; under `jit` it is already compiled."""
    jitted = wrapper.endswith("jit")
    if implementation == "jax":
        call = plain_call(layers, jitted)
    else:
        wrapped = wrapped_linen if wrapper.startswith("ToNNX") else wrapped_nnx
        call = wrapped(implementation, layers, jitted)
    for _ in range(3):
        jax.block_until_ready(call())
    return call


class Wrapped(Calls):
    """One call of a small Linen module wrapped as NNX, or of an NNX module wrapped as Linen."""

    params = (IMPLEMENTATIONS, WRAPPERS, LAYERS)
    param_names = ("implementation", "wrapper", "layers")

    def setup(self, *parameters):
        """Make the module and its variables, once in a process."""
        self.call = wrapped_call(*parameters)
