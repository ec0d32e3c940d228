"""Training on meshes that span processes: DST-1.

The oracle is the same training on one device of each process. The laws are tried in a job, as those
of `test_shardings`.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from scutch.lawkit.marks import across_processes, reached, requirement
from scutch.lawkit.spanning import assert_parts, spread
from scutch.strategies.spanning import spanning_meshes

SIZE = 8
"""The batch and the width of every matrix: each mesh axis divides it."""

STEPS = 2
"""Train steps."""


def matrix(seed, rows=SIZE, columns=SIZE):
    """A float32 host array of this shape, the same for the same seed on every process."""
    return np.random.default_rng(seed).uniform(-1, 1, (rows, columns)).astype("float32")


def network(linen, kind, names):
    """A network of two kernels of eight by eight, whose axes have these names, and a
    nonlinearity."""
    wrap = linen.with_partitioning if kind == "direct" else linen.with_logical_partitioning
    start = linen.initializers.normal(0.5)

    class Network(linen.Module):
        """Two layers."""

        @linen.compact
        def __call__(self, x):
            """The output for a batch."""
            for number, kernel_names in enumerate(names):
                kernel = self.param(f"kernel_{number}", wrap(start, kernel_names), (SIZE, SIZE))
                x = jnp.tanh(x @ kernel)
            return x

    return Network()


@functools.lru_cache(maxsize=64)
def trained(linen, kind, names, mesh=None):
    """The states before and after each train step, and the losses, as lists.

    Args:
      linen: The namespace of Linen modules.
      kind: `direct` for names of mesh axes, `logical` for names that rules map.
      names: The names of the axes of each kernel.
      mesh: Where the state is sharded; None computes all on one device of this process.
    """
    model = network(linen, kind, names)
    momentum = optimizer()

    def create(key, x):
        params = model.init(key, x)["params"]
        return linen.TrainState.create(apply_fn=model.apply, params=params, tx=momentum)

    def train_step(state, x):
        def loss(params):
            return ((state.apply_fn({"params": params}, x) - 1) ** 2).mean()

        value, grads = jax.value_and_grad(loss)(state.params)
        return state.apply_gradients(grads=grads), value

    key, host = jax.random.key(0), matrix(9)
    options = [{}, {}]
    x = jnp.asarray(host)
    if mesh is not None:
        abstract = jax.eval_shape(create, key, host)
        specs = linen.get_partition_spec(abstract)
        shardings = (
            linen.get_sharding(abstract, mesh)
            if kind == "direct"
            else linen.logical_to_mesh_sharding(specs, mesh, RULES)
        )
        batch = NamedSharding(mesh, P(mesh.axis_names[0]))
        whole = NamedSharding(mesh, P())
        x = spread(host, mesh, batch.spec)
        options = [
            {"in_shardings": (whole, batch), "out_shardings": shardings},
            {"in_shardings": (shardings, batch), "out_shardings": (shardings, whole)},
        ]
    with jax.threefry_partitionable(True):  # Before JAX 0.5, shardings change random numbers.
        states, losses = [jax.jit(create, **options[0])(key, x)], []
    step = jax.jit(train_step, **options[1])
    for _ in range(STEPS):
        state, loss = jax.block_until_ready(step(states[-1], x))
        states.append(state)
        losses.append(loss)
    return states, losses


RULES = (("rows", "data"), ("columns", "model"))


def optimizer():
    """Gradient descent with momentum, in the form of an optax transformation."""

    class Transformation:
        """Its `init` and `update` are optax's."""

        @staticmethod
        def init(params):
            """A moment of zeros for each parameter."""
            return jax.tree.map(jnp.zeros_like, params)

        @staticmethod
        def update(grads, state, params=None):
            """The updates, and the moments that they are made of."""
            moments = jax.tree.map(lambda moment, grad: 0.9 * moment + grad, state, grads)
            return jax.tree.map(lambda moment: -0.1 * moment, moments), moments

    return Transformation()


kernel_names = {
    "direct": st.sampled_from([(None, "model"), ("model", None), ("data", "model"), (None, None)]),
    "logical": st.sampled_from([("rows", "columns"), (None, "columns"), ("columns", None)]),
}
networks = st.sampled_from(["direct", "logical"]).flatmap(
    lambda kind: st.tuples(st.just(kind), st.tuples(kernel_names[kind], kernel_names[kind]))
)


@requirement("processes/shardings/training-equals-one-device", must_reach=("direct", "logical"))
@across_processes
@given(mesh=spanning_meshes("data", "model"), drawn=networks)
def test_training_across_processes_computes_what_one_device_does(linen, mesh, drawn):
    """A model that is sharded over several processes trains as the same model on one device.

    Losses, parameters and moments agree after init and after each train step.
    """
    kind, names = drawn
    reached(kind)
    states, losses = trained(linen, kind, names, mesh)
    expected, expected_losses = trained(linen, kind, names)
    for state, alone in zip(states, expected, strict=True):
        pairs = zip(jax.tree.leaves(state), jax.tree.leaves(alone), strict=True)
        for array, whole in pairs:
            assert_parts(array, mesh, array.sharding.spec, whole)
    for loss, alone in zip(losses, expected_losses, strict=True):
        assert_parts(loss, mesh, P(), alone)


@requirement("processes/shardings/layout-does-not-drift", must_reach=("direct", "logical"))
@across_processes
@given(mesh=spanning_meshes("data", "model"), drawn=networks)
def test_shardings_do_not_drift_across_processes(linen, mesh, drawn):
    """After init and after each train step every kernel, and every moment of it, has the sharding
    that its names ask for, and the step counter is replicated."""
    kind, names = drawn
    reached(kind)
    states, _ = trained(linen, kind, names, mesh)
    mapped = {**dict(RULES), "data": "data", "model": "model", None: None}
    for state in states:
        for tree in (state.params, state.opt_state):
            for number, axes in enumerate(names):
                array = linen.meta.unbox(tree)[f"kernel_{number}"]
                asked = NamedSharding(mesh, P(*(mapped[axis] for axis in axes)))
                assert array.sharding.is_equivalent_to(asked, 2), (array.sharding, asked)
        assert jnp.asarray(state.step).sharding.is_fully_replicated
