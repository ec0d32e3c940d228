"""Optimizers in the form that `optax` uses, and a check of a model in training.

`optax` is not needed to run the laws. The laws are about the optimizer's *state*: it holds a
counter, and two trees like the parameters, which must be sharded as the parameters are.

    state = ADAM.init(params)
    updates, state = ADAM.update(grads, state, params)
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from scutch.lawkit.equality import assert_close
from scutch.lawkit.tolerances import GRADIENTS


class Moments(NamedTuple):
    """The state of the optimizer: how many updates there were, and two moments of each gradient."""

    count: Any
    mean: Any
    variance: Any


class Optimizer(NamedTuple):
    """An optimizer as `optax` has them: `init(params)` and `update(grads, state, params)`."""

    init: Any
    update: Any


def _init(params: Any) -> Moments:
    """No updates yet: the counter is 0, and the moments are zeros in the boxes of `params`."""
    return Moments(jnp.zeros((), "int32"), _start(params), _start(params))


def _update(grads: Any, state: Moments, params: Any = None) -> tuple[Any, Moments]:
    """The updates to add to the parameters, and the new state of the optimizer."""
    tree_map = jax.tree_util.tree_map
    count = state.count + 1
    mean = tree_map(lambda m, g: 0.9 * m + 0.1 * g, state.mean, grads)
    variance = tree_map(lambda v, g: 0.99 * v + 0.01 * g * g, state.variance, grads)
    one, two = 1 - 0.9**count, 1 - 0.99**count
    updates = tree_map(lambda m, v: -0.01 * (m / one) / (jnp.sqrt(v / two) + 1e-6), mean, variance)
    return updates, Moments(count, mean, variance)


ADAM = Optimizer(_init, _update)
"""The Adam family with a fixed learning rate of 0.01."""


def _start(params: Any) -> Any:
    """Zeros in the boxes of `params`."""
    return jax.tree_util.tree_map(jnp.zeros_like, params)


def _go_on(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
    """The updates to add to the parameters, and the new momentum."""
    momentum = jax.tree_util.tree_map(lambda m, g: 0.5 * m + g, state, grads)
    return jax.tree_util.tree_map(lambda m: -0.1 * m, momentum), momentum


MOMENTUM = Optimizer(_start, _go_on)
"""Gradient descent with momentum: unlike Adam's, its steps are as exact as the gradients."""


def assert_trains_as_evaluated(model: Any) -> None:
    """Fail unless a training call gives the output and the updates that plain JAX computes.

    Args:
      model: An `Instance` of `scutch.inputs.models`, without dropout.

    Raises:
      AssertionError: The output differs, or the collections `batch_stats` and `counts` afterwards.
    """
    variables = model.variables(boxed=False)
    applied = functools.partial(model.module(train=True).apply, mutable=["batch_stats", "counts"])
    evaluated = functools.partial(model.evaluated, train=True)
    both = jax.jit(lambda *given: (applied(*given), evaluated(*given)))
    (found, updates), (expected, changed) = both(variables, model.x)
    assert_close(found, expected, "the output", **GRADIENTS)
    assert_close(dict(updates), changed, "updates", **GRADIENTS)
