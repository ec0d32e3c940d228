"""An optimizer over objects: an optax transformation, and its state as variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.numpy as jnp

from .graphs import pure, state, update
from .objects import Pytree, data
from .states import State
from .variables import Param, Variable

if TYPE_CHECKING:
    import optax  # type: ignore[import-untyped,unused-ignore]

M = TypeVar("M")


class OptState(Variable[Any]):
    """A part of the state of an optimizer."""


class OptArray(OptState):
    """An array of the optimizer's own."""


class OptVariable(OptState):
    """What the optimizer keeps for a parameter: with the parameter's metadata, so sharded alike."""


def _is_variable(value: Any) -> bool:
    return isinstance(value, Variable)


def _as_variable(value: Any) -> Any:
    if isinstance(value, Variable):
        return OptVariable.from_metadata(value.get_raw_value(), value.get_metadata())
    return OptArray(value)


class Optimizer(Pytree):
    """An optax transformation for the variables of a model that a filter takes.

    Args:
      model: The model.
      tx: The transformation.
      wrt: The filter; that of `grad`.
    """

    def __init__(
        self, model: Any, tx: optax.GradientTransformation, *, wrt: Any, graph: bool | None = None
    ):
        self.step = OptState(jnp.array(0, dtype=jnp.uint32))
        self.tx = tx
        self.wrt = wrt
        start = tx.init(state(model, wrt))
        self.opt_state = data(jax.tree.map(_as_variable, start, is_leaf=_is_variable))

    def update(self, model: Any, grads: Any, /, **kwargs: Any) -> Any:
        """Change the model by its gradients, and the state; return the updates.

        Args:
          model: The model.
          grads: A state of gradients, as `grad` returns it.
          **kwargs: For the transformation.
        """
        parameters = pure(state(model, self.wrt))
        gradients = pure(grads if isinstance(grads, Mapping) else state(grads, self.wrt))
        updates, new = self.tx.update(gradients, pure(self.opt_state), parameters, **pure(kwargs))
        # What optax.apply_updates does, so that optax is needed by those only who pass one of it.
        changed = jax.tree.map(
            lambda p, u: None if p is None else jnp.asarray(p + u).astype(jnp.asarray(p).dtype),
            parameters,
            updates,
            is_leaf=lambda x: x is None,
        )
        update(model, changed)
        variables = jax.tree.leaves(self.opt_state, is_leaf=_is_variable)
        for variable, value in zip(variables, jax.tree.leaves(new), strict=True):
            variable.set_value(value)
        self.step.set_value(self.step.get_value() + 1)
        return updates


class ModelAndOptimizer(Optimizer):
    """An optimizer that holds its model."""

    def __init__(self, model: Any, tx: optax.GradientTransformation, *, wrt: Any = Param):
        super().__init__(model, tx, wrt=wrt)
        self.model = model

    def update(self, grads: Any, /, **kwargs: Any) -> Any:  # type: ignore[override]
        """Change the model by its gradients."""
        return super().update(self.model, grads, **kwargs)


__all__ = ["ModelAndOptimizer", "OptArray", "OptState", "OptVariable", "Optimizer", "State"]
