"""The overhead of one lifted call of a function that does next to nothing.

The floor, `jax`, is the plain JAX transformation on the list of arrays that the object holds.
`time_*` are seconds, for people. `track_*` are counts, which do not jitter, for the gate. An
implementation that is not installed, or lacks the feature at the commit that is measured, is
skipped.
"""

import functools
import statistics
import time
import types

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from .calls import COMPILED, Calls, events
from .libraries import NNX, loaded

IMPLEMENTATIONS = ["jax", *NNX, "flax cached", "equinox"]
ARRAYS = [4, 32, 256, 2048]
KINDS = ["forward", "update", "sharded", "shard_map", "shard_map in jit"]
NEEDED = {"sharded": ["StateSharding"], "shard_map": ["shard_map"]}
LAYER = 4


def one_device():
    """A mesh of one device."""
    return Mesh(np.array(jax.devices()[:1]), ("data",))


def plain_call(kind, arrays):
    """The floor, which is a plain transformed function of a flat list of arrays.

    Raises:
      NotImplementedError: This JAX lacks the transformation.
    """
    leaves = [jnp.ones(3) * i for i in range(arrays)]
    mesh = one_device()

    def forward(leaves, x):
        return leaves[0] + x

    if kind == "update":
        cell, increment = [leaves], jnp.ones(3)
        update = jax.jit(lambda leaves, x: [leaf + x for leaf in leaves])

        def call():
            cell[0] = update(cell[0], increment)
            return cell[0]

        return call
    options = {}
    if kind == "sharded":
        replicated = NamedSharding(mesh, P())
        leaves = jax.device_put(leaves, replicated)
        options["in_shardings"] = (replicated, None)
    if kind.startswith("shard_map"):
        if not hasattr(jax, "shard_map"):
            raise NotImplementedError("this JAX has no jax.shard_map")
        leaves = jax.device_put(leaves, NamedSharding(mesh, P()))
        forward = jax.shard_map(forward, mesh=mesh, in_specs=(P(), P()), out_specs=P())
    function = jax.jit(forward, **options)
    return functools.partial(function, leaves, jnp.ones(3))


def nnx_call(implementation, kind, arrays):
    """A lifted function of an object that holds the arrays in layers of four.

    Raises:
      NotImplementedError: The library is not installed, or lacks a feature.
    """
    nnx = loaded(NNX[implementation.split()[0]], "jit", *NEEDED.get(kind.split()[0], ()))
    mesh = one_device()

    class Layer(nnx.Module):
        def __init__(self, start):
            for i in range(LAYER):
                setattr(self, f"p{i}", nnx.Param(jnp.ones(3) * (start + i)))

    # Every release that has `nnx.List` accepts one; older releases get a list as an attribute.
    layers = [Layer(start) for start in range(0, arrays, LAYER)]
    model = nnx.List(layers) if hasattr(nnx, "List") else types.SimpleNamespace(layers=layers)
    x = jnp.ones(3)

    def forward(model, x):
        return model[0].p0[...] + x

    def update(model, x):
        for layer in model:
            for i in range(LAYER):
                variable = getattr(layer, f"p{i}")
                variable[...] = variable[...] + x

    function = update if kind == "update" else forward
    if kind == "sharded":
        spec = nnx.StateSharding({...: NamedSharding(mesh, P())})
        lifted = nnx.jit(function, in_shardings=(spec, None))
    elif kind.startswith("shard_map"):
        lifted = nnx.shard_map(function, mesh=mesh, in_specs=(P(), P()), out_specs=P())
        lifted = nnx.jit(lambda m, x, f=lifted: f(m, x)) if kind.endswith("jit") else lifted
    else:
        lifted = nnx.jit(function)
    call = functools.partial(lifted, model)
    if implementation == "flax cached":
        if kind.startswith("shard_map") or not hasattr(nnx, "cached_partial"):
            raise NotImplementedError("nnx.cached_partial takes compiled functions only")
        call = nnx.cached_partial(lifted, model)

    def and_wait_for(x):
        out = call(x)
        return layers[-1].p0.get_value() if out is None else out

    return functools.partial(and_wait_for, x)


def equinox_call(kind, arrays):
    """`equinox.filter_jit` of a module that holds a list of arrays.

    Raises:
      NotImplementedError: Equinox is not installed, or has no function of this kind.
    """
    eqx = loaded("equinox")
    if kind not in ("forward", "update"):
        raise NotImplementedError(f"equinox has no {kind}")

    class Model(eqx.Module):
        leaves: list

    model = [Model([jnp.ones(3) * i for i in range(arrays)])]
    x = jnp.ones(3)
    if kind == "forward":
        return functools.partial(eqx.filter_jit(lambda m, x: m.leaves[0] + x), model[0], x)
    step = eqx.filter_jit(lambda m, x: Model([leaf + x for leaf in m.leaves]))

    def update():
        model[0] = step(model[0], x)
        return model[0].leaves

    return update


@functools.cache
def call_of(implementation, kind, arrays):
    """The compiled call without arguments of one implementation; made once in a process."""
    if implementation == "jax":
        call = plain_call(kind, arrays)
    elif implementation == "equinox":
        call = equinox_call(kind, arrays)
    else:
        call = nnx_call(implementation, kind, arrays)
    for _ in range(3):
        jax.block_until_ready(call())
    return call


def is_too_slow(implementation, kind, arrays):
    """Whether a call takes minutes, as Flax traces a shard_map without `jit` on every call."""
    return implementation.startswith("flax") and kind == "shard_map" and arrays > 32


class Dispatch(Calls):
    """One call of a lifted function, on an object that holds so many arrays."""

    params = (IMPLEMENTATIONS, KINDS, ARRAYS)
    param_names = ("implementation", "kind", "arrays")

    def setup(self, implementation, kind, arrays):
        """Compile the call, once in a process."""
        if is_too_slow(implementation, kind, arrays):
            raise NotImplementedError("too slow to be worth the wait")
        self.call = call_of(implementation, kind, arrays)


class Traces:
    """How often a function is traced and compiled in ten calls.

    Between the calls values change, and a list grows by a variable and shrinks again.
    """

    params = (["reference", "flax"],)
    param_names = ("implementation",)

    def setup(self, implementation):
        """Import the library."""
        self.nnx = loaded(NNX[implementation], "jit", "List")

    def _traces(self):
        """Make the ten calls; returns how often the function was traced."""
        nnx, traces = self.nnx, []
        model = nnx.List([nnx.Param(jnp.ones(3)) for _ in range(3)])

        @nnx.jit
        def function(model):
            traces.append(1)
            return model[0][...] * 2

        for i in range(10):
            if i == 3:
                model.append(nnx.Param(jnp.ones(3)))
            if i == 5:
                del model[len(model) - 1]
            model[0][...] = jnp.ones(3) * i
            function(model)
        return len(traces)

    def track_traces(self, implementation):
        """How often the function is traced in the ten calls."""
        return self._traces()

    def track_compilations(self, implementation):
        """How often XLA compiles a program in the ten calls.

        They are made once before, so that JAX's own small programs are already compiled.
        """
        self._traces()
        return events(COMPILED, self._traces)

    track_traces.unit = "traces"
    track_compilations.unit = "compilations"


def paired(left, right, rounds):
    """The time of `right` over the time of `left`, from calls that alternate.

    Returns:
      The median ratio, then the median seconds of `left` and of `right`.
    """
    times = ([], [])
    for _ in range(rounds):
        for call, seconds in zip((left, right), times, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(call())
            seconds.append(time.perf_counter() - start)
    ratio = statistics.median(b / a for a, b in zip(*times, strict=True))
    return ratio, *map(statistics.median, times)


class Ratio:
    """The reference against plain JAX, called alternately so that a busy machine slows both."""

    params = (KINDS, ARRAYS)
    param_names = ("kind", "arrays")
    unit = "times plain JAX"

    def track_ratio(self, kind, arrays):
        """The median ratio of times; aims are 1.3 from 32 arrays on, 2 for 4, 1.5 for shard_map."""
        calls = [call_of(name, kind, arrays) for name in ("jax", "reference")]
        return paired(*calls, max(40, 20_000 // (arrays + 20)))[0]

    track_ratio.jitters = True
