"""A convolutional classifier and its train state, as in Flax's MNIST example in Linen."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training import train_state


class CNN(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(features=8, kernel_size=(3, 3))(x))
        x = nn.avg_pool(x, window_shape=(2, 2), strides=(2, 2))
        x = x.reshape((x.shape[0], -1))
        return nn.Dense(features=10)(nn.relu(nn.Dense(features=16)(x)))


def create_train_state(key):
    model = CNN()
    params = model.init(key, jnp.ones((1, 8, 8, 1)))["params"]
    tx = optax.sgd(0.1, 0.9)
    return train_state.TrainState.create(apply_fn=model.apply, params=params, tx=tx)


@jax.jit
def train_step(state, images, labels):
    def loss_fn(params):
        logits = state.apply_fn({"params": params}, images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


state, loss = train_step(
    create_train_state(jax.random.key(0)), jnp.ones((2, 8, 8, 1)), jnp.array([1, 2])
)
print(int(state.step), bool(jnp.isfinite(loss)))
