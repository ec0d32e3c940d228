"""A perceptron with an optimizer and metrics, in the style of the basics of NNX."""

import itertools

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class Perceptron(nnx.Module):
    """A list of layers, and a count of the calls."""

    def __init__(self, sizes, *, rngs: nnx.Rngs):
        layers = [nnx.Linear(n, m, rngs=rngs) for n, m in itertools.pairwise(sizes)]
        self.layers = nnx.List(layers)
        self.calls = nnx.Variable(jnp.array(0))

    def __call__(self, x):
        self.calls[...] += 1
        for layer in self.layers[:-1]:
            x = nnx.relu(layer(x))
        return self.layers[-1](x)


def init():
    """Return the model before training."""
    return Perceptron((5, 16, 16, 3), rngs=nnx.Rngs(0))


def loss_fn(model, x, labels):
    """Return the loss, and the logits for the metrics."""
    logits = model(x)
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
    return loss, logits


@nnx.jit
def train_step(model, optimizer, metrics, x, labels):
    """Take one step; model, optimizer and metrics change in place."""
    grad_fn = nnx.value_and_grad(loss_fn, has_aux=True)
    (loss, logits), grads = grad_fn(model, x, labels)
    metrics.update(loss=loss, logits=logits, labels=labels)
    optimizer.update(model, grads)


def train(model):
    """Train for two epochs."""
    optimizer = nnx.Optimizer(model, optax.sgd(0.1, momentum=0.9), wrt=nnx.Param)
    metrics = nnx.MultiMetric(accuracy=nnx.metrics.Accuracy(), loss=nnx.metrics.Average("loss"))
    x = jax.random.normal(jax.random.key(1), (12, 5))
    labels = jnp.arange(12) % 3
    history = []
    for _ in range(2):
        for start in range(0, 12, 4):
            batch = slice(start, start + 4)
            train_step(model, optimizer, metrics, x[batch], labels[batch])
        history.append(metrics.compute())
        metrics.reset()
    return history, nnx.to_pure_dict(nnx.state(model))
