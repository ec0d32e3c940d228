"""An optimizer over objects: an optax transformation, and its state as variables."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from .graph import pure, state, update
from .objects import Pytree, data
from .variables import Param, Variable, is_variable

if TYPE_CHECKING:
    import optax  # type: ignore[import-untyped,unused-ignore]


class OptState(Variable[Any]):
    """A part of the state of an optimizer."""


class OptArray(OptState):
    """An array of the optimizer's own."""


class OptVariable(OptState):
    """What the optimizer keeps for a parameter: with the parameter's metadata, so sharded alike."""


def _kept(value: Any) -> OptState:
    if isinstance(value, Variable):
        return OptVariable.from_metadata(value.get_raw_value(), value.get_metadata())
    return OptArray(value)


class Optimizer(Pytree):
    """An optax transformation for the variables of a model that the filter `wrt` takes."""

    def __init__(
        self, model: Any, tx: "optax.GradientTransformation", *, wrt: Any, graph: bool | None = None
    ):
        self.step = OptState(jnp.array(0, dtype=jnp.uint32))
        self.tx, self.wrt = tx, wrt
        start = tx.init(state(model, wrt))
        self.opt_state = data(jax.tree.map(_kept, start, is_leaf=is_variable))

    def update(self, model: Any, grads: Any, /, **kwargs: Any) -> Any:
        """Change model and state by gradients, as `grad` returns them; return the updates."""
        parameters = pure(state(model, self.wrt))
        gradients = pure(grads if isinstance(grads, Mapping) else state(grads, self.wrt))
        updates, new = self.tx.update(gradients, pure(self.opt_state), parameters, **pure(kwargs))
        # What optax.apply_updates does, so that optax is needed by those only who pass one of it.
        update(model, jax.tree.map(lambda p, u: (p + u).astype(p.dtype), parameters, updates))
        jax.tree.map(OptState.set_value, self.opt_state, new, is_leaf=is_variable)
        self.step.set_value(self.step.get_value() + 1)
        return updates


class ModelAndOptimizer(Optimizer):
    """An optimizer that holds its model."""

    def __init__(self, model: Any, tx: "optax.GradientTransformation", *, wrt: Any = Param):
        super().__init__(model, tx, wrt=wrt)
        self.model = model

    def update(self, grads: Any, /, **kwargs: Any) -> Any:  # type: ignore[override]
        """Change the model by its gradients."""
        return super().update(self.model, grads, **kwargs)
