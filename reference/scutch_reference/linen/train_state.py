"""What training changes, in one pytree: step, parameters and the optimizer's state (LIN-7)."""

from collections.abc import Callable
from typing import Any, Self

import jax

from ..struct import Node, field


class TrainState(Node):
    """Parameters, and the state of an optimizer for them. Subclasses add fields of their own.

    The optimizer `tx` is a gradient transformation, as optax has them: `init` and `update`; its
    state is boxed where the parameters are. `tx` is static, and so is `apply_fn`: `model.apply`.
    """

    step: Any
    apply_fn: Callable[..., Any] = field(pytree_node=False)
    params: Any
    tx: Any = field(pytree_node=False)
    opt_state: Any

    @classmethod
    def create(cls, *, apply_fn: Callable[..., Any], params: Any, tx: Any, **fields: Any) -> Self:
        """The state before the first step."""
        state = tx.init(params)
        return cls(step=0, apply_fn=apply_fn, params=params, tx=tx, opt_state=state, **fields)

    def apply_gradients(self, *, grads: Any, **changes: Any) -> Self:
        """The state after one update; `grads` has the structure of `params` (LIN-7)."""
        updates, state = self.tx.update(grads, self.opt_state, self.params)
        params = jax.tree.map(lambda p, update: (p + update).astype(p.dtype), self.params, updates)
        return self.replace(step=self.step + 1, params=params, opt_state=state, **changes)
