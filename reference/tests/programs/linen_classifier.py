"""A perceptron with a train state and momentum, in the style of the MNIST example in Linen."""

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn, serialization, traverse_util
from flax.core import FrozenDict, freeze, unfreeze
from flax.training import train_state


class Classifier(nn.Module):
    """Two hidden layers of one width, and a layer of logits."""

    width: int
    classes: int

    @nn.compact
    def __call__(self, images):
        x = images.reshape((images.shape[0], -1))
        for _ in range(2):
            x = nn.relu(nn.Dense(self.width, kernel_init=nn.linear.default_kernel_init)(x))
        return nn.Dense(self.classes, name="logits")(x)


def without_decay(params):
    """Label the biases, which the optimizer trains more slowly."""
    return traverse_util.path_aware_map(
        lambda path, _: "bias" if path[-1] == "bias" else "kernel", params
    )


def init():
    """Return the state before training."""
    model = Classifier(width=16, classes=4)
    params = freeze(model.init(jax.random.key(0), jnp.ones((1, 4, 4)))["params"])
    assert isinstance(params, FrozenDict)
    tx = optax.multi_transform(
        {"kernel": optax.sgd(0.1, momentum=0.9), "bias": optax.sgd(0.01)}, without_decay
    )
    return train_state.TrainState.create(apply_fn=model.apply, params=unfreeze(params), tx=tx)


@jax.jit
def train_step(state, images, labels):
    """Take one step of gradient descent."""

    def loss_fn(params):
        logits = state.apply_fn({"params": params}, images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


def train(state):
    """Train for ten steps, with a checkpoint in the middle."""
    images = jax.random.normal(jax.random.key(1), (8, 4, 4))
    labels = jnp.arange(8) % 4
    losses = []
    for step in range(10):
        if step == 5:
            saved = serialization.to_state_dict(state)
            state = serialization.from_state_dict(state, saved)
        state, loss = train_step(state, images, labels)
        losses.append(loss)
    return losses, traverse_util.flatten_dict(state.params, sep="/")
