"""The scaling guide's model (document 002): its train and its inference step.

The model is eight matrices or more, each divided over the axis `model`, and the batch is divided
over `data`. The floor, `jax`, is the same arithmetic on a list of arrays, without a library.
"""

import functools
import math
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from .dispatch import loaded

LINEN = {"reference": "scutch_reference.linen", "flax": "flax.linen"}
STATES = {"reference": "scutch_reference.linen", "flax": "flax.training.train_state"}
IMPLEMENTATIONS = ["jax", *LINEN]
PROGRAMS = ["train", "inference"]
LAYOUTS = ["unrolled", "scanned"]
MESHES = ["1x1", "1x8", "2x4", "8x1"]
LAYERS, WIDTH, ROWS = 4, 1024, 4


def ask_for_devices(count):
    """Have so many fake devices, unless JAX has begun in this process with fewer."""
    option = "--xla_force_host_platform_device_count"
    flags = os.environ.get("XLA_FLAGS", "")
    if option not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {option}={count}".strip()
    if len(jax.devices()) < count:
        raise NotImplementedError(f"{count} devices, and there are {len(jax.devices())}")


def mesh_of(shape, devices=None):
    """A mesh `data` by `model` of the first devices, such as 2x4."""
    lengths = tuple(map(int, shape.split("x")))
    devices = jax.devices() if devices is None else devices
    return Mesh(np.array(devices[: math.prod(lengths)]).reshape(lengths), ("data", "model"))


def linen_model(nn, mesh, layout, width):
    """The guide's model for any library that has Linen's names."""

    def constrained(value, *axes):
        return jax.lax.with_sharding_constraint(value, NamedSharding(mesh, P(*axes)))

    class DotReluDot(nn.Module):
        depth: int

        @nn.compact
        def __call__(self, x):
            start = nn.initializers.xavier_normal()
            divided = nn.with_partitioning(start, (None, "model"))
            y = jax.nn.relu(nn.Dense(self.depth, kernel_init=divided, use_bias=False)(x))
            y = constrained(y, "data", "model")
            gathered = nn.with_partitioning(start, ("model", None))
            z = jnp.dot(y, self.param("W2", gathered, (self.depth, x.shape[-1])))
            return constrained(z, "data", None), None

    class MLP(nn.Module):
        depth: int

        @nn.compact
        def __call__(self, x):
            if layout == "scanned":
                layers = nn.scan(
                    DotReluDot,
                    length=LAYERS,
                    variable_axes={"params": 0},
                    split_rngs={"params": True},
                    metadata_params={nn.PARTITION_NAME: None},
                )
                return layers(self.depth)(x)[0]
            for _ in range(LAYERS):
                x, _ = DotReluDot(self.depth)(x)
            return x

    return MLP(width)


def library(implementation, mesh, layout, width):
    """Start, train, infer and the shardings of the state, by a library."""
    optax = loaded("optax")
    nn = loaded(LINEN[implementation])
    state_type = getattr(loaded(STATES[implementation]), "TrainState", None)
    if state_type is None:
        raise NotImplementedError(f"{implementation} has no TrainState")
    model, optimizer = linen_model(nn, mesh, layout, width), optax.adam(1e-3)

    def start(key, x):
        params = model.init(key, x)["params"]
        return state_type.create(apply_fn=model.apply, params=params, tx=optimizer)

    def train(state, x):
        def loss(params):
            return jnp.square(model.apply({"params": params}, x)).mean()

        return state.apply_gradients(grads=jax.grad(loss)(state.params))

    def infer(state, x):
        return model.apply({"params": state.params}, x)

    return start, train, infer, lambda state: nn.get_sharding(state, mesh)


def plain(mesh, layout, width):
    """The same without a library: a list of arrays, or two arrays when scanned."""
    optax = loaded("optax")
    optimizer, stacked = optax.adam(1e-3), layout == "scanned"

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

    def start(key, x):
        normal = jax.nn.initializers.xavier_normal()
        keys = jax.random.split(key, (LAYERS, 2))
        layers = [[normal(k, (width, width), jnp.float32) for k in pair] for pair in keys]
        params = jax.tree.map(lambda *x: jnp.stack(x), *layers) if stacked else layers
        return {"step": jnp.zeros((), jnp.int32), "params": params, "opt": optimizer.init(params)}

    def train(state, x):
        def loss(params):
            return jnp.square(infer({"params": params}, x)).mean()

        grads = jax.grad(loss)(state["params"])
        updates, opt = optimizer.update(grads, state["opt"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"step": state["step"] + 1, "params": params, "opt": opt}

    def shardings(state):
        leading = (None,) if stacked else ()

        def of(path, leaf):
            axes = [(None, "model"), ("model", None)][path[-1].idx] if leaf.ndim else ()
            return NamedSharding(mesh, P(*leading, *axes) if leaf.ndim else P())

        return jax.tree_util.tree_map_with_path(of, state)

    return start, train, infer, shardings


class Step:
    """One program of the guide on one mesh: compiled on demand, and run on a state of its own.

    Args:
      implementation, program, layout: Of `IMPLEMENTATIONS`, `PROGRAMS` and `LAYOUTS`.
      mesh: Of the axes `data` and `model`; its devices need not exist to compile.
    """

    def __init__(self, implementation, program, layout, mesh, width=WIDTH):
        arguments = (mesh, layout, width)
        parts = (
            plain(*arguments) if implementation == "jax" else library(implementation, *arguments)
        )
        self._start, train, infer, shardings = parts
        self._x = jax.ShapeDtypeStruct((ROWS * mesh.shape["data"], width), jnp.float32)
        self._state = jax.eval_shape(self._start, jax.random.key(0), self._x)
        self._placed = shardings(self._state)
        self._rows = NamedSharding(mesh, P("data", None))
        self._program = train if program == "train" else infer
        self._out = self._placed if program == "train" else self._rows

    def compile(self):
        """Trace and compile, each time anew."""

        def program(state, x):
            return self._program(state, x)

        places = {"in_shardings": (self._placed, self._rows), "out_shardings": self._out}
        return jax.jit(program, **places).lower(self._state, self._x).compile()

    def arguments(self):
        """A state and a batch, in place."""
        start = jax.jit(self._start, out_shardings=self._placed)
        batch = jax.jit(lambda key: jax.random.normal(key, self._x.shape), out_shardings=self._rows)
        x = batch(jax.random.key(1))
        return start(jax.random.key(0), x), x


@functools.cache
def runnable(*choice):
    """A compiled step with its arguments, and those it was run on last."""
    implementation, program, layout, shape = choice
    ask_for_devices(8)
    step = Step(implementation, program, layout, mesh_of(shape))
    return step, functools.partial(step.compile(), *step.arguments())


class Guide:
    """A step of the guide: four layers, 1024 wide, four rows of input for each part of `data`."""

    params = (IMPLEMENTATIONS, PROGRAMS, LAYOUTS, MESHES)
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

    time_compile.number = 1
