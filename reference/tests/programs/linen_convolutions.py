"""A small convolutional network with batch statistics and dropout, trained by `mutable=`."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn, struct
from flax.training import train_state


class TrainState(train_state.TrainState):
    """A train state that has the running statistics, and the key for dropout, too."""

    batch_stats: Any
    key: jax.Array


@struct.dataclass
class Metrics:
    """Sums over the batches so far."""

    loss: jax.Array
    batches: int


class Net(nn.Module):
    """Two convolutions, and one layer of logits."""

    classes: int = 3

    @nn.compact
    def __call__(self, x, train: bool):
        for features in (4, 8):
            x = nn.Conv(features=features, kernel_size=(3, 3), use_bias=False)(x)
            x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
            x = nn.avg_pool(nn.relu(x), window_shape=(2, 2), strides=(2, 2))
        x = x.reshape((x.shape[0], -1))
        x = nn.Dropout(rate=0.25, deterministic=not train)(x)
        return nn.Dense(features=self.classes)(x)


def init():
    """Return the state before training."""
    model = Net()
    params_key, dropout_key = jax.random.split(jax.random.key(0))
    variables = model.init(params_key, jnp.ones((1, 8, 8, 1)), train=False)
    return TrainState.create(
        apply_fn=model.apply,
        params=variables["params"],
        tx=optax.sgd(0.05),
        batch_stats=variables["batch_stats"],
        key=dropout_key,
    )


@jax.jit
def train_step(state, metrics, images, labels):
    """Take one step, and keep the new statistics."""
    key = jax.random.fold_in(state.key, state.step)

    def loss_fn(params):
        logits, updates = state.apply_fn(
            {"params": params, "batch_stats": state.batch_stats},
            images,
            train=True,
            mutable=["batch_stats"],
            rngs={"dropout": key},
        )
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
        return loss, updates

    (loss, updates), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    state = state.apply_gradients(grads=grads, batch_stats=updates["batch_stats"])
    return state, metrics.replace(loss=metrics.loss + loss, batches=metrics.batches + 1)


def train(state):
    """Train for five steps, then evaluate."""
    images = jax.random.normal(jax.random.key(1), (6, 8, 8, 1))
    labels = jnp.arange(6) % 3
    metrics, losses = Metrics(loss=jnp.zeros(()), batches=0), []
    for _ in range(5):
        state, metrics = train_step(state, metrics, images, labels)
        losses.append(metrics.loss)
    variables = {"params": state.params, "batch_stats": state.batch_stats}
    losses.append(state.apply_fn(variables, images, train=False))
    return losses, variables
