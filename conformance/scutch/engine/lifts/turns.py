"""`while_loop` and `fori_loop`: a function called again and again.

A loop calls the program once for each turn, and adds its results and the number of the turn up.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from scutch.engine.carriers.arrays import scalar_of, shifted
from scutch.engine.carriers.objects import BuiltObjectCall, Transformation, World
from scutch.engine.lifts.cells import OnObjects


def _repeated(library: Any, each: Transformation, turn: Any, start: Any, **modes: Any) -> Any:
    """Take turns with `while_loop` or `fori_loop` of a library; return the last state.

    A turn gets its number and the state.
    """
    first, turns = each.options["first"], each.options["turns"]
    if each.kind == "fori_loop":
        return library.fori_loop(first, first + turns, turn, start, **modes)
    last = library.while_loop(
        lambda state: state[0] < first + turns,
        lambda state: (state[0] + 1, turn(*state)),
        (first, start),
        **modes,
    )
    return last[1]


def _by_jax(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    def loop(values: list[Any], pair: Any) -> Any:
        def turn(number: Any, state: Any) -> Any:
            after, results = function(state[0], shifted(pair, number))
            return after, state[1] + scalar_of([*results, number])

        after, total = _repeated(jax.lax, each, turn, (values, jnp.zeros(())))
        return after, call.ranked([total])

    return loop


def _lifted(call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any) -> Any:
    def loop(*given: Any) -> Any:
        *objects, pair = given

        def turn(number: Any, state: Any) -> Any:
            *now, total = state
            results = function(*now, shifted(pair, number))
            return *now, total + scalar_of([*jax.tree.leaves(results), number])

        start = (*objects, jnp.zeros(()))
        *last, total = _repeated(transforms, each, turn, start, **each.modes)
        return call.ranked([total, *last] if each.options["returned"] else [total])

    return loop


def _results(
    call: BuiltObjectCall, each: Transformation, world: World, results: list[Any]
) -> list[Any]:
    return [np.zeros(()), *world.arguments] if each.options["returned"] else [np.zeros(())]


def _drawn(
    kind: str, arguments: Any, *, keeps: bool = False, **_: Any
) -> st.SearchStrategy[Transformation]:
    """A loop may return its objects where it keeps them."""
    returned = st.sampled_from((True, True, False)) if keeps else st.just(False)
    first, turns = st.sampled_from((0, 2)), st.sampled_from((0, 2, 3, 1))
    options = st.fixed_dictionaries({"first": first, "turns": turns, "returned": returned})
    return options.map(lambda given: Transformation(kind, options=given))


WHILE_LOOP = OnObjects(_by_jax, _lifted, partial(_drawn, "while_loop"), _results)
FORI_LOOP = OnObjects(_by_jax, _lifted, partial(_drawn, "fori_loop"), _results)
