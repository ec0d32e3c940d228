"""`grad` and `value_and_grad`: gradients with respect to variables of one type.

    Transformation('grad', options={'wrt': 'BatchStat'})

differentiates a scalar of all values by the statistics of the first argument, as `DiffState` asks.
"""

from typing import Any

import jax
import numpy as np
from hypothesis import strategies as st

from scutch.engine.carriers.arrays import scalar_of
from scutch.engine.carriers.objects import BuiltObjectCall, Transformation, World
from scutch.engine.lifts.cells import OnArrays, OnObjects, with_options
from scutch.inputs import graphs
from scutch.inputs.programs import KINDS

_WRT = st.fixed_dictionaries({"wrt": st.sampled_from(KINDS)})


def _wanted(call: BuiltObjectCall, each: Transformation, world: World) -> list[int]:
    """The numbers of the variables that a gradient is for, in the order of their paths' texts."""
    numbers = {id(leaf): n for n, leaf in enumerate(world.leaves().values())}
    kind = graphs.classes(call.nnx)[each.options["wrt"]]
    found = {
        str(path): numbers[id(leaf)]
        for path, leaf in graphs.leaves(call.nnx, world.arguments[0]).items()
        if isinstance(leaf, kind)
    }
    return [found[path] for path in sorted(found)]


def _by_jax(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    world = call.inside()
    first, others = [
        {id(leaf) for leaf in graphs.leaves(call.nnx, part).values()}
        for part in (world.arguments[0], world.arguments[1:])
    ]
    # No law applies where a variable of the first argument also stands in another argument.
    call.assume(not first & others)
    numbers = _wanted(call, each, world)

    def differentiated(values: list[Any], pair: Any) -> Any:
        def loss(parts: list[Any]) -> Any:
            now = list(values)
            for number, part in zip(numbers, parts, strict=True):
                now[number] = part
            after, results = function(now, pair)
            further = scalar_of(results) if each.options.get("of_results") else 0
            return scalar_of(after) + further, (after, results)

        (value, (after, results)), slopes = jax.value_and_grad(loss, has_aux=True)(
            [values[number] for number in numbers]
        )
        return after, call.ranked([value, *results, *slopes])

    return differentiated


def _results(
    call: BuiltObjectCall, each: Transformation, world: World, results: list[Any]
) -> list[Any]:
    slopes = [np.zeros(())] * len(_wanted(call, each, world))
    return [np.zeros(()), *results, *slopes]


def _lifted(call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any) -> Any:
    kind = graphs.classes(call.nnx)[each.options["wrt"]]

    def loss(*arguments: Any) -> Any:
        results = function(*arguments)
        further = scalar_of(jax.tree.leaves(results)) if each.options.get("of_results") else 0
        return scalar_of(World(call.nnx, arguments[:-1]).values()) + further, results

    wanted = 0 if each.options["wrt"] == "Param" else transforms.DiffState(0, kind)
    lifted = transforms.value_and_grad(loss, argnums=wanted, has_aux=True, **each.modes)

    def differentiated(*arguments: Any) -> Any:
        (value, results), slopes = lifted(*arguments)
        if each.modes:  # they may come as an object
            return call.ranked([value, *results, *jax.tree.leaves(slopes)])
        flat = {str(path): leaf for path, leaf in call.nnx.to_flat_state(slopes)}
        leaves = [flat[path] for path in sorted(flat)]
        raw = [v.get_raw_value() if isinstance(v, call.nnx.Variable) else v for v in leaves]
        return call.ranked([value, *results, *raw])

    return differentiated


ARRAYS = OnArrays(jax.grad, lambda transforms: transforms.grad)
VALUES_OF_ARRAYS = OnArrays(jax.value_and_grad, lambda transforms: transforms.value_and_grad)
OBJECTS = OnObjects(_by_jax, _lifted, with_options("grad", _WRT), _results)
