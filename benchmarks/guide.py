"""The scaling guide's model (document 002): its train and its inference step.

The program is that of `reference/examples/scaling_guide.py`, which takes a library as an argument:
so every implementation is measured on the guide itself, and on commits that had no example yet.
The floor, `jax`, is the same arithmetic on a list of arrays, without a library.
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
LAYOUTS = ["unrolled", "scanned"]
LAYERS, WIDTH, ROWS = 4, 1024, 4
EXAMPLE = Path(__file__).parents[1] / "reference" / "examples" / "scaling_guide.py"


@functools.cache
def example():
    """The guide, as a module."""
    loaded("optax")
    spec = importlib.util.spec_from_file_location("scaling_guide", EXAMPLE)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def library(implementation, mesh, layout, sizes):
    """The guide's program, by a library."""
    guide = example()
    nn, states = loaded(LINEN[implementation]), loaded(STATES[implementation], "TrainState")
    return guide.program(nn, states, mesh, scanned=layout == "scanned", **sizes)


def plain(mesh, layout, sizes):
    """The same without a library: a list of pairs of arrays, or one such pair when scanned."""
    guide, optax = example(), loaded("optax")
    optimizer, stacked, width = optax.adam(1e-3), layout == "scanned", sizes["width"]
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
        None, x, state, placed, rows,
        jax.jit(init, in_shardings=(replicated, rows), out_shardings=placed),
        jax.jit(train, in_shardings=(placed, rows), out_shardings=(placed, replicated)),
        jax.jit(infer, in_shardings=(placed, rows), out_shardings=rows),
    )  # fmt: skip


class Step:
    """One program of the guide on one mesh: compiled on demand, and run on a state of its own.

    Args:
      implementation, program, layout: Of `IMPLEMENTATIONS`, `PROGRAMS` and `LAYOUTS`.
      mesh: Of the axes `data` and `model`; its devices need not exist to compile.
    """

    def __init__(self, implementation, program, layout, mesh, width=WIDTH):
        sizes = {"layers": LAYERS, "width": width, "batch": ROWS * mesh.shape["data"]}
        if implementation == "jax":
            self._ready = plain(mesh, layout, sizes)
        else:
            self._ready = library(implementation, mesh, layout, sizes)
        placed, rows = self._ready.state_sharding, self._ready.batch_sharding
        replicated = NamedSharding(mesh, P())
        self._out = (placed, replicated) if program == "train" else rows
        self.run = self._ready.train_step if program == "train" else self._ready.infer

    def compile(self):
        """Trace and compile, each time anew."""
        ready, function = self._ready, self.run.__wrapped__

        def program(state, x):  # JAX remembers the traces of a function that it knows
            return function(state, x)

        places = {"in_shardings": (ready.state_sharding, ready.batch_sharding)}
        lowered = jax.jit(program, **places, out_shardings=self._out).lower(
            ready.abstract_state, ready.batch
        )
        return lowered.compile()

    def arguments(self):
        """A state and a batch, in place."""
        ready = self._ready
        shape, place = ready.batch.shape, ready.batch_sharding
        x = jax.jit(lambda key: jax.random.normal(key, shape), out_shardings=place)(
            jax.random.key(1)
        )
        return ready.init(jax.random.key(0), x), x


@functools.cache
def runnable(*choice):
    """A step, and a call of it with its arguments, compiled."""
    *program, mesh = choice
    ask_for_devices(8)
    step = Step(*program, mesh_of(mesh))
    call = functools.partial(step.run, *step.arguments())
    jax.block_until_ready(call())
    return step, call


class Guide:
    """A step of the guide: four layers, 1024 wide, four rows of input for each part of `data`."""

    params = (IMPLEMENTATIONS, PROGRAMS, LAYOUTS, [*HOST, *ACCELERATORS])
    param_names = ("implementation", "program", "layout", "mesh")
    timeout = 300

    def setup(self, *choice):
        """Compile and place, once in a process."""
        self.step, self.call = runnable(*choice)

    def time_step(self, *choice):
        """One step, until its output is there."""
        jax.block_until_ready(self.call())

    def time_compile(self, *choice):
        """Tracing and compiling."""
        self.step.compile()

    def peakmem_step(self, *choice):
        """The most memory of a process that compiles a step and runs it."""
        jax.block_until_ready(self.call())

    def track_python_calls(self, *choice):
        """Calls of Python functions in one step."""
        return python_calls(self.call)

    time_compile.number = 1
    track_python_calls.unit = "Python calls"
