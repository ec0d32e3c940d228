"""An optimizer over objects: an optax transformation, and its state as variables.

The transformation's state of a parameter, such as its momentum, is a variable with the parameter's
metadata. So its axes have the names and the shardings of the parameter's axes.

>>> import jax.numpy as jnp, optax
>>> from scutch_reference import nnx
>>> model = nnx.Dict(w=nnx.Param(jnp.array(1.0)))
>>> optimizer = Optimizer(model, optax.sgd(0.5), wrt=nnx.Param)
>>> gradients = nnx.grad(lambda model: model.w.value ** 2)(model)
>>> updates = optimizer.update(model, gradients)
>>> float(model.w.value)
0.0
"""

from collections.abc import Mapping
from typing import Any, Protocol, Self

import jax

from ..placement import laid_out_as_before
from ..struct import Node, field
from ..types import Leaf, Tree
from .filters import Filter
from .graph import call, pure, state, update
from .graphdef import GraphDef
from .objects import Pytree, data
from .states import from_flat_state, to_flat_state
from .variables import Param, Variable, is_variable


class GradientTransformation(Protocol):
    """The interface of optax that an optimizer needs, a `GradientTransformation`."""

    @property
    def init(self) -> Any:
        """Makes the state of the transformation for parameters."""

    @property
    def update(self) -> Any:
        """Makes updates and a new state from gradients, state and parameters."""


class OptState(Variable[Any]):
    """A part of the state of an optimizer."""


class OptArray(OptState):
    """An array of the optimizer's own."""


class OptVariable(OptState):
    """The state of the optimizer for one parameter, with the metadata of the parameter."""


def _kept(value: Tree) -> OptState:
    if isinstance(value, Variable):
        return OptVariable.from_metadata(value.get_raw_value(), value.get_metadata())
    return OptArray(value)


def _stepped(parameter: Leaf, update: Leaf) -> Tree:
    """Return a parameter with an update added, in the dtype and the layout of the parameter."""
    return laid_out_as_before(parameter, (parameter + update).astype(parameter.dtype))


class Optimizer(Pytree):
    """An optax transformation for the variables of a model that a filter takes (OBJ-7).

    Args:
      model: The object that is optimized; the optimizer does not keep it.
      tx: The transformation.
      wrt: The filter.
      graph: Accepted and not needed: sharing is always kept.
    """

    def __init__(
        self, model: Tree, tx: GradientTransformation, *, wrt: Filter, graph: bool | None = None
    ):
        self.step = OptState(jax.numpy.array(0, dtype=jax.numpy.uint32))
        self.tx, self.wrt = tx, wrt
        self.opt_state = data(jax.tree.map(_kept, tx.init(state(model, wrt)), is_leaf=is_variable))

    def update(self, model: Tree, grads: Tree, /, **kwargs: Tree) -> Tree:
        """Change a model, and the state of this optimizer, by gradients (OBJ-7).

        Args:
          model: The object that the optimizer was made for.
          grads: The gradients: a state, as `grad` returns it, or an object like the model.
            Gradients of variables that the filter does not take are ignored.
          **kwargs: Further arguments of `tx.update`; variables are replaced by their values.

        Returns:
          The updates that were added to the parameters: a state of arrays. The parameters stay
          where they are on the devices, wherever the state of the transformation lies.
        """
        parameters = pure(state(model, self.wrt))
        own = set(to_flat_state(parameters).paths)
        given = to_flat_state(grads if isinstance(grads, Mapping) else state(grads, self.wrt))
        gradients = pure(from_flat_state(pair for pair in given if pair[0] in own))
        updates, new = self.tx.update(gradients, pure(self.opt_state), parameters, **pure(kwargs))
        # As `optax.apply_updates` does, without an import: not every user has optax.
        update(model, jax.tree.map(_stepped, parameters, updates))
        jax.tree.map(OptState.set_value, self.opt_state, new, is_leaf=is_variable)
        self.step.set_value(self.step.get_value() + 1)
        return updates


class ModelAndOptimizer(Optimizer):
    """An optimizer that holds its model (OBJ-7).

    Args:
      model: The object that is optimized.
      tx: The optax transformation.
      wrt: The filter of the variables that are optimized.
    """

    def __init__(self, model: Tree, tx: GradientTransformation, *, wrt: Filter = Param):
        super().__init__(model, tx, wrt=wrt)
        self.model = model

    def update(self, grads: Tree, /, **kwargs: Tree) -> Tree:  # type: ignore[override]
        """Change the model by gradients; see `Optimizer.update`.

        Args:
          grads: The gradients.
          **kwargs: Further arguments of `tx.update`.
        """
        return super().update(self.model, grads, **kwargs)


class TrainState(Node):
    """A model in functional form with the state of an optimizer; a subclass may add fields.

    Args:
      graphdef: The definition of the model, from `split`.
      params: The state of the parameters.
      opt_state: The state of the transformation.
      step: How many updates there were, an array without axes.
      tx: The optax transformation; static.
    """

    graphdef: GraphDef[Any]
    params: Any
    opt_state: Any
    step: Any
    tx: Any = field(pytree_node=False)

    @classmethod
    def create(
        cls,
        graphdef: GraphDef[Any],
        *,
        params: Tree,
        tx: GradientTransformation,
        step: int = 0,
        **kwargs: Tree,
    ) -> Self:
        """Return the state before the first update.

        Args:
          graphdef, params, tx: The fields of the state.
          step: The number of updates before.
          **kwargs: The fields that a subclass adds.

        Returns:
          A state whose `opt_state` is `tx.init(params)`.
        """
        return cls(graphdef, params, tx.init(params), jax.numpy.asarray(step), tx=tx, **kwargs)

    def apply(self, state: Tree, *states: Tree) -> Tree:
        """Return a stand-in for the model, which can be called as the model; see `nnx.call`.

        Args:
          state: A state, or the name of a field that holds one.
          *states: More of them; together they have all leaves of the model.
        """
        given = [getattr(self, s) if isinstance(s, str) else s for s in (state, *states)]
        return call((self.graphdef, *given))

    def apply_gradients(self, grads: Tree, **kwargs: Tree) -> Self:
        """Return the state after one update; dtypes and layouts of parameters stay.

        Args:
          grads: Gradients, a state like `params`.
          **kwargs: New values for the fields that a subclass adds.
        """
        updates, opt_state = self.tx.update(grads, self.opt_state, self.params)
        params = jax.tree.map(_stepped, self.params, updates)
        return self.replace(params=params, opt_state=opt_state, step=self.step + 1, **kwargs)
