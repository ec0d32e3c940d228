"""The state of training as one pytree of step, parameters and optimizer state (document 002).

An *optimizer* here is a gradient transformation as optax has them: an object with `init(params)`,
which returns the state of the optimizer, and `update(grads, state, params)`, which returns the
updates to add to the parameters, and the next state. It maps over the parameters with
`jax.tree.map`, so that its state has boxes where the parameters have them.

>>> from types import SimpleNamespace
>>> import jax.numpy as jnp
>>> descent = SimpleNamespace(
...     init=lambda params: (),
...     update=lambda grads, state, params: (jax.tree.map(lambda g: -0.5 * g, grads), state))
>>> params = {"w": jnp.ones(2)}
>>> state = TrainState.create(apply_fn=lambda params: params["w"], params=params, tx=descent)
>>> state = state.apply_gradients(grads={"w": jnp.ones(2)})
>>> state.step, state.params["w"].tolist()
(1, [0.5, 0.5])
"""

from collections.abc import Callable
from typing import Any, Self

import jax

from ..struct import Node, field
from ..types import Tree


class TrainState(Node):
    """Parameters and the state of an optimizer for them; a subclass may add fields (LIN-7).

    Args:
      step: How many updates there were: an integer, or an integer array without axes.
      apply_fn: The function that computes the model, usually `model.apply`; static.
      params: A tree of parameters.
      tx: The optimizer; static.
      opt_state: The state of the optimizer.
    """

    step: Any
    apply_fn: Callable[..., Any] = field(pytree_node=False)
    params: Any
    tx: Any = field(pytree_node=False)
    opt_state: Any

    @classmethod
    def create(cls, *, apply_fn: Callable[..., Any], params: Tree, tx: Any, **fields: Any) -> Self:
        """Return the state before the first step.

        Args:
          apply_fn, params, tx: The fields of these names.
          fields: The fields that a subclass adds.

        Returns:
          A state whose `step` is 0 and whose `opt_state` is `tx.init(params)`.
        """
        return cls(
            step=0, apply_fn=apply_fn, params=params, tx=tx, opt_state=tx.init(params), **fields
        )

    def apply_gradients(self, *, grads: Tree, **changes: Any) -> Self:
        """Return the state after one update; boxes and dtypes stay (LIN-7c).

        Args:
          grads: Gradients, a tree with the structure of `params`.
          changes: New values for the fields that a subclass adds.
        """
        updates, state = self.tx.update(grads, self.opt_state, self.params)
        params = jax.tree.map(lambda p, update: (p + update).astype(p.dtype), self.params, updates)
        return self.replace(step=self.step + 1, params=params, opt_state=state, **changes)
