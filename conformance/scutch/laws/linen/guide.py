"""The scaling guide of `002_` at a small size, as a program for an implementation: LIN-5 to LIN-7.

The guide trains a stack of layers of two matrices on a mesh of 2 by 4 devices. It does so in four
*forms*: annotated directly or logically, with its layers unrolled or scanned. `guide` runs every
step of one form, once for each implementation; the laws check the results in a `Run`.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from scutch.inputs.keys import small_key
from scutch.lawkit.domain import need_devices
from scutch.lawkit.placement import in_context
from scutch.lawkit.training import ADAM

BATCH, WIDTH, LAYERS, STEPS = 8, 8, 2, 3
RULES = (("batch", "data"), ("hidden", "model"))
FORMS = ("direct unrolled", "direct scanned", "logical unrolled", "logical scanned")
NAMES = {"direct": {"kernel": (None, "model"), "W2": ("model", None)}}
NAMES["logical"] = {"kernel": ("embed", "hidden"), "W2": ("hidden", "embed")}


@functools.lru_cache(maxsize=16)
def model_of(nn, form, mesh):
    """The guide's model over an implementation: layers of two matrices, the first cut by columns
    and the second by rows.

    Args:
      nn: The namespace of modules.
      form: One of `FORMS`.
      mesh: Has the axes `data` and `model`.
    """
    naming, how = form.split()
    wrap = nn.with_partitioning if naming == "direct" else nn.with_logical_partitioning
    start = nn.initializers.xavier_normal()

    class DotReluDot(nn.Module):
        depth: int

        @nn.compact
        def __call__(self, x, _=None):
            kernel_init = wrap(start, NAMES[naming]["kernel"])
            y = nn.Dense(self.depth, kernel_init=kernel_init, use_bias=False)(x)
            y = jax.nn.relu(y)
            y = jax.lax.with_sharding_constraint(y, NamedSharding(mesh, P("data", "model")))
            shape = (self.depth, x.shape[-1])
            z = jnp.dot(y, self.param("W2", wrap(start, NAMES[naming]["W2"]), shape))
            if naming == "logical":
                return nn.with_logical_constraint(z, ("batch", "embed")), None
            return jax.lax.with_sharding_constraint(z, NamedSharding(mesh, P("data", None))), None

    class MLP(nn.Module):
        @nn.compact
        def __call__(self, x):
            if how == "scanned":
                stack = nn.scan(
                    DotReluDot,
                    length=LAYERS,
                    variable_axes={"params": 0},
                    split_rngs={"params": True},
                    metadata_params={nn.PARTITION_NAME: None},
                )
                return stack(WIDTH, name="stack")(x, None)[0]
            for n in range(LAYERS):
                x, _ = DotReluDot(WIDTH, name=f"layer_{n}")(x)
            return x

    return MLP()


class Run(NamedTuple):
    """The results of the guide's steps on one mesh.

    Args:
      abstract: The training state, abstract, from `eval_shape` of init.
      specs: The partition specs of that state, logical ones where it is annotated logically.
      shardings: The shardings of that state on the mesh.
      states: The state of jitted init, and the state after each train step.
      losses: The loss of each train step.
      grads: The gradients of the first train step.
      output: The output of the model for the batch, in the inference step.
      x: The batch.
      traces: How often the train step was traced.
    """

    abstract: Any
    specs: Any
    shardings: Any
    states: list[Any]
    losses: list[float]
    grads: Any
    output: Any
    x: Any
    traces: int


@functools.lru_cache(maxsize=16)
def guide(nn, form, devices=8):
    """Run every step of the guide: abstract init, shardings, jitted init, train steps, inference.

    Args:
      nn: The namespace of modules.
      form: One of `FORMS`.
      devices: 8, for a mesh of 2 by 4, or 1.
    """
    need_devices(devices)
    shape = (2, 4) if devices == 8 else (1, 1)
    mesh = Mesh(np.array(jax.devices()[:devices]).reshape(shape), ("data", "model"))
    model = model_of(nn, form, mesh)
    x_sharding = NamedSharding(mesh, P("data", None))
    x = jax.device_put(
        np.linspace(-1, 1, BATCH * WIDTH, dtype="float32").reshape(BATCH, -1), x_sharding
    )
    key = small_key(0)

    def init_fn(k, x, model, optimizer):
        variables = model.init(k, x)
        return nn.TrainState.create(apply_fn=model.apply, params=variables["params"], tx=optimizer)

    abstract = jax.eval_shape(functools.partial(init_fn, model=model, optimizer=ADAM), key, x)
    specs = nn.get_partition_spec(abstract)
    if form.startswith("logical"):
        shardings = nn.logical_to_mesh_sharding(specs, mesh, RULES)
    else:
        shardings = nn.get_sharding(abstract, mesh)
    jit_init = jax.jit(
        init_fn,
        static_argnums=(2, 3),
        in_shardings=(NamedSharding(mesh, P()), x_sharding),
        out_shardings=shardings,
    )
    with jax.threefry_partitionable(True):  # Before JAX 0.5, shardings change random numbers.
        states, losses, traces = [jit_init(key, x, model, ADAM)], [], []

    @functools.partial(
        jax.jit,
        in_shardings=(shardings, x_sharding),
        out_shardings=(shardings, NamedSharding(mesh, P()), shardings.params),
    )
    def train_step(state, x):
        traces.append(1)

        def loss(params):
            return ((model.apply({"params": params}, x) - 1) ** 2).sum()

        value, grads = jax.value_and_grad(loss)(state.params)
        return state.apply_gradients(grads=grads), value, grads

    @functools.partial(jax.jit, in_shardings=(shardings, x_sharding), out_shardings=x_sharding)
    def apply_fn(state, x):
        return state.apply_fn({"params": state.params}, x)

    first = None
    with in_context(mesh):
        for _ in range(STEPS):
            state, value, grads = train_step(states[-1], x)
            first = grads if first is None else first
            states.append(state)
            losses.append(float(value))
        output = apply_fn(states[0], x)
    return Run(abstract, specs, shardings, states, losses, first, output, x, len(traces))
