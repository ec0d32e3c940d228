"""`custom_vjp`: a function with a gradient of the user's own.

    under=(Transformation('grad', options={'wrt': 'Param'}), Transformation('custom_vjp'))

calls the program forward, and in the gradient made-up cotangents stand for its own.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from hypothesis import strategies as st

from scutch.engine.carriers.objects import BuiltObjectCall, Transformation, World
from scutch.engine.lifts.cells import OnObjects, with_options


def _gradients(values: Sequence[Any], pair: Any, of_output: Any) -> tuple[list[Any], Any]:
    """Made-up cotangents of values and of a pair, for the cotangents of an output."""
    weight = sum(map(jnp.sum, jax.tree.leaves(of_output)), jnp.zeros(()))
    of_values = [(n + 1) * jnp.sin(value) * weight for n, value in enumerate(values)]
    return of_values, tuple(jnp.cos(value) * weight for value in pair)


def _by_jax(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    """`jax.custom_vjp`: in a mode of values that the program changes, else of all values."""
    changed: list[int] = []

    def run(values: list[Any], pair: Any) -> Any:
        after, results = function(values, pair)
        pairs = enumerate(zip(values, after, strict=True))
        changed[:] = [n for n, (old, new) in pairs if not each.modes or new is not old]
        return ([after[n] for n in changed], results), (after, pair)

    def backward(residuals: Any, cotangents: Any) -> Any:
        values, pair = residuals
        return _gradients(values, pair, cotangents[1] if each.modes else cotangents)

    custom: Any = jax.custom_vjp(lambda values, pair: run(values, pair)[0])
    custom.defvjp(run, backward)

    def called(values: list[Any], pair: Any) -> Any:
        new, results = custom(values, pair)
        now = dict(enumerate(values)) | dict(zip(changed, new, strict=True))
        return list(now.values()), results

    return called


def _lifted(call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any) -> Any:
    custom = transforms.custom_vjp(function, **each.modes)

    def backward(residuals: Any, cotangents: Any) -> Any:
        *objects, pair = residuals
        values, of_pair = _gradients(World(call.nnx, tuple(objects)).values(), pair, cotangents)
        found = call.inside()
        found.fill(values)
        if each.modes:
            return (*found.arguments, of_pair)
        return (*map(call.nnx.state, found.arguments), of_pair)

    custom.defvjp(lambda *given: (function(*given), given), backward)
    return custom


OBJECTS = OnObjects(_by_jax, _lifted, with_options("custom_vjp", st.just({})))
