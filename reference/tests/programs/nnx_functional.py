"""A model with statistics and dropout, split for `jax.jit` and merged, as in the guides."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class Net(nnx.Module):
    """A perceptron with normalization and dropout."""

    def __init__(self, rngs: nnx.Rngs):
        self.hidden = nnx.Linear(4, 12, rngs=rngs)
        self.norm = nnx.BatchNorm(12, momentum=0.9, rngs=rngs)
        self.dropout = nnx.Dropout(0.3, rngs=rngs)
        self.out = nnx.Linear(12, 2, rngs=rngs)

    def __call__(self, x):
        return self.out(self.dropout(nnx.relu(self.norm(self.hidden(x)))))


class TrainState(nnx.TrainState):
    """A train state with the states that are no parameters, too."""

    counts: nnx.State
    batch_stats: nnx.State


def init():
    """Return the state before training."""
    model = Net(rngs=nnx.Rngs(0))
    model.train()
    graphdef, params, batch_stats, counts = nnx.split(model, nnx.Param, nnx.BatchStat, ...)
    return TrainState.create(
        graphdef, params=params, tx=optax.sgd(0.1), batch_stats=batch_stats, counts=counts
    )


@jax.jit
def train_step(state, x, y):
    """Take one step in functional form."""

    def loss_fn(params):
        model = nnx.merge(state.graphdef, params, state.batch_stats, state.counts, copy=True)
        loss = ((model(x) - y) ** 2).mean()
        _, _, batch_stats, counts = nnx.split(model, nnx.Param, nnx.BatchStat, ...)
        return loss, (batch_stats, counts)

    (loss, (batch_stats, counts)), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    return state.apply_gradients(grads, batch_stats=batch_stats, counts=counts), loss


def train(state):
    """Train for six steps, then write the result into a new model and evaluate it."""
    x = jax.random.normal(jax.random.key(1), (8, 4))
    y = jnp.stack([x.sum(axis=-1), x[:, 0] * x[:, 1]], axis=-1)
    losses = []
    for _ in range(6):
        state, loss = train_step(state, x, y)
        losses.append(loss)
    model = Net(rngs=nnx.Rngs(7))
    nnx.update(model, state.params, state.batch_stats)
    with nnx.set_graph_mode(True), nnx.set_graph_updates(True):
        model.eval()
    losses.append(model(x))
    return losses, nnx.to_pure_dict(nnx.merge_state(state.params, state.batch_stats))
