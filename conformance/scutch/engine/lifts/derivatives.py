"""`vjp` and `jvp`: derivatives backward from an output, and forward along directions.

    Transformation('vjp', options={'has_aux': True})

differentiates a scalar of all values and results of the program, and hands its results on, too.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from scutch.engine.carriers.arrays import scalar_of
from scutch.engine.carriers.objects import BuiltObjectCall, Transformation, World
from scutch.engine.lifts.cells import OnObjects, with_options


def _by_jax(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    def differentiated(values: list[Any], pair: Any) -> Any:
        def scalar(values: list[Any], pair: Any) -> Any:
            after, results = function(values, pair)
            return scalar_of(after) + scalar_of(results), (after, results)

        if each.kind == "vjp":
            value, back, (after, results) = jax.vjp(scalar, values, pair, has_aux=True)
            slopes = jax.tree.leaves(back(jnp.ones_like(value)))
        else:
            along = _directions(values), tuple(_directions(pair))
            value, slope, (after, results) = jax.jvp(scalar, (values, pair), along, has_aux=True)
            slopes = [slope]
        further = results if each.options["has_aux"] else []
        return after, [value, *slopes, *further]

    return differentiated


def _directions(values: Sequence[Any]) -> list[Any]:
    """Tangents of arrays, another one for each."""
    return [(n + 1) * jnp.ones_like(value) for n, value in enumerate(values)]


def _lifted(call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any) -> Any:
    has_aux = each.options["has_aux"]

    def scalar(*given: Any) -> Any:
        results = function(*given)
        value = scalar_of(World(call.nnx, given[:-1]).values()) + scalar_of(
            jax.tree.leaves(results)
        )
        return (value, results) if has_aux else value

    options = {"has_aux": has_aux, **each.modes}

    def differentiated(*given: Any) -> Any:
        if each.kind == "vjp":
            value, back, *further = transforms.vjp(scalar, *given, **options)
            *of_objects, of_pair = back(jnp.ones_like(value))
            slopes = [*World(call.nnx, tuple(of_objects)).values(), *of_pair]
        else:
            tangents = call.inside()
            tangents.fill(_directions(tangents.values()))
            along = (*tangents.arguments, tuple(_directions(given[-1])))
            value, slope, *further = transforms.jvp(scalar, given, along, **options)
            slopes = [slope]
        return [value, *slopes, *(further[0] if has_aux else [])]

    return differentiated


def _results(
    call: BuiltObjectCall, each: Transformation, world: World, results: list[Any]
) -> list[Any]:
    count = len(World(call.nnx, world.arguments).leaves()) + 2 if each.kind == "vjp" else 1
    return [np.zeros(())] * (1 + count) + (results if each.options["has_aux"] else [])


_AUX = st.fixed_dictionaries({"has_aux": st.booleans()})
VJP = OnObjects(_by_jax, _lifted, with_options("vjp", _AUX), _results)
JVP = OnObjects(_by_jax, _lifted, with_options("jvp", _AUX), _results)
