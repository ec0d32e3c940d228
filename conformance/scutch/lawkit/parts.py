"""Parts are modules that another Linen module makes and calls.

A law lifts the call of a part inside a module, and compares it with JAX's own transformation of the
part's `apply`:

    lifted = outer(linen, part, lambda part, x: linen.cond(x.sum() > 0, one, other, part, x))
    mutable = mutable_collections(variables, train=True)
    output, updates = lifted.apply(within(variables), x, mutable=mutable)
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from scutch.lawkit.equality import alike


def outer(linen: Any, part: Any, call: Callable[[Any, Any], Any], *, held: bool = False) -> Any:
    """A module whose part, named `part`, is a module like the given one.

    Args:
      linen: The namespace of modules, of the implementation under judgment.
      part: A module with the fields `layers`, `width` and `train`.
      call: Called with the part and the input.
      held: Whether `call` gets another module instead, which has no variables of its own and calls
        the part, its field `inner`.

    Returns:
      A module that returns the result of `call`.
    """

    class Holder(linen.Module):  # type: ignore[misc]
        inner: Any

        def __call__(self, x: Any) -> Any:
            return self.inner(x)

    class Outer(linen.Module):  # type: ignore[misc]
        @linen.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            made = type(part)(part.layers, part.width, part.train, name="part")
            return call(Holder(made) if held else made, x)

    return Outer()


def within(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of a module around a part named `part`, from the variables of the part."""
    return {collection: {"part": tree} for collection, tree in variables.items()}


def mutable_collections(variables: Mapping[str, Any], *, train: bool) -> list[str]:
    """The collections that a call changes: in training all but `params`, else none.

    Args:
      variables: Trees of arrays, by the names of their collections.
      train: Whether the module is trained.
    """
    return [c for c in variables if not alike(c, "params")] if train else []


def weighted_gradients(function: Callable[[Any, Any], tuple[Any, Any]], tree: Any, x: Any) -> Any:
    """The gradients of a function's output, in which each entry counts with another weight.

    Args:
      function: Called with `tree` and `x`; returns a pair of an output array and auxiliary data.
      tree: A tree of arrays.
      x: An array.

    Returns:
      The sum of the weighted entries, the pair that `function` returned, and the gradients in both
      arguments, in the form of `jax.value_and_grad` with `has_aux=True`.
    """

    def loss(tree: Any, x: Any) -> tuple[Any, Any]:
        output, beside = function(tree, x)
        weights = np.arange(1.0, 1 + output.size, dtype="float32").reshape(output.shape)
        return (output * weights).sum(), (output, beside)

    return jax.value_and_grad(loss, (0, 1), has_aux=True)(tree, x)
