"""The train step and the inference step of the scaling guide's model (document 002).

`reference/examples/scaling_guide.py` holds the model, and takes the library as an argument. This
tree's copy of it is used for every implementation, and for old commits that had no example yet. The
floor, `jax`, is the same arithmetic on a list of arrays, without a library.

A *program* is the train step or the inference step. A *loop* says how its layers are repeated: one
after the other (`unrolled`), or by `jax.lax.scan` (`scanned`).
"""

import functools
import importlib.util
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from .calls import python_calls
from .libraries import LINEN, STATES, loaded
from .meshes import ACCELERATORS, HOST, ask_for_devices, mesh_of

IMPLEMENTATIONS = ["jax", *LINEN]
PROGRAMS = ["train", "inference"]
LOOPS = ["unrolled", "scanned"]
LAYERS, WIDTH, ROWS = 4, 1024, 4
EXAMPLE = Path(__file__).parents[1] / "reference" / "examples" / "scaling_guide.py"


@functools.cache
def example():
    """The guide's example, imported as a module."""
    loaded("optax")
    spec = importlib.util.spec_from_file_location("scaling_guide", EXAMPLE)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def library(implementation, mesh, loop, sizes):
    """The guide's model and steps on a mesh, written with the library of an implementation."""
    guide = example()
    nn, states = loaded(LINEN[implementation]), loaded(STATES[implementation], "TrainState")
    return guide.program(nn, states, mesh, scanned=loop == "scanned", **sizes)


def plain(mesh, loop, sizes):
    """The guide's model and steps on a mesh, without a library.

    The parameters are a list of pairs of arrays; for the scanned loop, one pair of stacked arrays.
    """
    guide, optax = example(), loaded("optax")
    optimizer, stacked, width = optax.adam(1e-3), loop == "scanned", sizes["width"]
    rows, replicated = NamedSharding(mesh, P("data", None)), NamedSharding(mesh, P())

    def constrained(value, *axes):
        return jax.lax.with_sharding_constraint(value, NamedSharding(mesh, P(*axes)))

    def layer(x, weights):
        y = constrained(jax.nn.relu(x @ weights[0]), "data", "model")
        return constrained(y @ weights[1], "data", None), None

    def infer(state, x):
        if stacked:
            return jax.lax.scan(layer, x, state["params"])[0]
        for weights in state["params"]:
            x, _ = layer(x, weights)
        return x

    def init(key, x):
        normal = jax.nn.initializers.xavier_normal()
        keys = jax.random.split(key, (sizes["layers"], 2))
        layers = [[normal(k, (width, width), jnp.float32) for k in pair] for pair in keys]
        params = jax.tree.map(lambda *x: jnp.stack(x), *layers) if stacked else layers
        return {"step": jnp.zeros((), jnp.int32), "params": params, "opt": optimizer.init(params)}

    def train(state, x):
        def loss(params):
            return jnp.square(infer({"params": params}, x) - x).mean()

        value, grads = jax.value_and_grad(loss)(state["params"])
        updates, opt = optimizer.update(grads, state["opt"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"step": state["step"] + 1, "params": params, "opt": opt}, value

    def sharding(path, leaf):
        axes = [(None, "model"), ("model", None)][path[-1].idx] if leaf.ndim else ()
        return NamedSharding(mesh, P(None, *axes) if stacked and leaf.ndim else P(*axes))

    x = jax.ShapeDtypeStruct((sizes["batch"], width), jnp.float32)
    state = jax.eval_shape(init, jax.random.key(0), x)
    placed = jax.tree_util.tree_map_with_path(sharding, state)
    return guide.Program(
        None,
        x,
        state,
        placed,
        rows,
        jax.jit(init, in_shardings=(replicated, rows), out_shardings=placed),
        jax.jit(train, in_shardings=(placed, rows), out_shardings=(placed, replicated)),
        jax.jit(infer, in_shardings=(placed, rows), out_shardings=rows),
    )


class Step:
    """One program of the guide on one mesh: it can be compiled, and run on arguments of its own.

    Args:
      implementation: One of `IMPLEMENTATIONS`.
      program: One of `PROGRAMS`.
      loop: One of `LOOPS`.
      mesh: Has the axes `data` and `model`. To compile, its devices need not exist.
      width: The size of the model's layers.
    """

    def __init__(self, implementation, program, loop, mesh, width=WIDTH):
        sizes = {"layers": LAYERS, "width": width, "batch": ROWS * mesh.shape["data"]}
        if implementation == "jax":
            self._ready = plain(mesh, loop, sizes)
        else:
            self._ready = library(implementation, mesh, loop, sizes)
        placed, rows = self._ready.state_sharding, self._ready.batch_sharding
        replicated = NamedSharding(mesh, P())
        self._out = (placed, replicated) if program == "train" else rows
        self.run = self._ready.train_step if program == "train" else self._ready.infer

    def compile(self):
        """Trace and compile the step, anew in each call; returns the `jax.stages.Compiled`."""
        ready, function = self._ready, self.run.__wrapped__

        def program(state, x):  # a new function, because JAX keeps the traces of one it has seen
            return function(state, x)

        places = {"in_shardings": (ready.state_sharding, ready.batch_sharding)}
        lowered = jax.jit(program, **places, out_shardings=self._out).lower(
            ready.abstract_state, ready.batch
        )
        return lowered.compile()

    def arguments(self):
        """A state and a batch of inputs, placed on the mesh as the step takes them."""
        ready = self._ready
        shape, place = ready.batch.shape, ready.batch_sharding
        x = jax.jit(lambda key: jax.random.normal(key, shape), out_shardings=place)(
            jax.random.key(1)
        )
        return ready.init(jax.random.key(0), x), x


@functools.cache
def _latest():
    """Holds the latest result of `runnable`, and no other: its arrays may fill a gigabyte."""
    return {}


def runnable(*parameters):
    """The step of these parameters, and a compiled call of it; the latest is kept.

    A process may run all configurations one after the other, and may not keep the arrays of each.
    """
    latest = _latest()
    if parameters not in latest:
        latest.clear()
        latest[parameters] = _made(*parameters)
    return latest[parameters]


def _made(*parameters):
    """The step of these parameters, and a compiled call of it."""
    *program, mesh = parameters
    ask_for_devices(8)
    step = Step(*program, mesh_of(mesh))
    call = functools.partial(step.run, *step.arguments())
    jax.block_until_ready(call())
    return step, call


class Guide:
    """One step of the guide: four layers, 1024 wide, four rows of input for each part of `data`."""

    params = (IMPLEMENTATIONS, PROGRAMS, LOOPS, [*HOST, *ACCELERATORS])
    param_names = ("implementation", "program", "loop", "mesh")
    timeout = 300

    def setup(self, *parameters):
        """Compile the step and place its arguments, once in a process."""
        self.step, self.call = runnable(*parameters)

    def time_step(self, *parameters):
        """Seconds of one step, until its output is ready."""
        jax.block_until_ready(self.call())

    def time_compile(self, *parameters):
        """Seconds to trace and compile the step."""
        self.step.compile()

    def peakmem_step(self, *parameters):
        """The peak memory of a process that compiles the step and runs it."""
        jax.block_until_ready(self.call())

    def track_python_calls(self, *parameters):
        """Python functions called in one step."""
        return python_calls(self.call)

    time_compile.number = 1
    track_python_calls.unit = "Python calls"
