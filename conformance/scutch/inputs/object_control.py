"""Branches, loops, and derivatives along directions: by JAX, and as they are lifted over objects.

The tables have the form of those in `object_lifts`, which holds them, too. The functions of JAX
that stand here take several functions or a state, so a law calls the program in more than one way:

    Transformation('switch', options={'branches': ('called', 'left out'), 'offset': 0})

is `switch(x, [f, g], node, pair)`, where `x` is the scalar of the pair, `f` is the program, and `g`
leaves its steps out. A loop calls the program once for each turn, and adds its results and the
number of the turn up.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scutch.inputs.object_calls import BuiltObjectCall, Transformation, World

BRANCHES = ("called", "left out", "shifted")
"""What a branch does: the program; the program without its steps, so that nothing changes; the
program on other arrays."""


def scalar_of(values: Sequence[Any]) -> Any:
    """A scalar that depends on every value, on each in another way.

    Args:
      values: Arrays.
    """
    floats = [value.astype("float32") for value in map(jnp.asarray, values)]
    weighted = [(n + 1) * jnp.sum(value * value) for n, value in enumerate(floats)]
    return sum(weighted, jnp.zeros(()))


def _shifted(pair: Any, by: Any) -> Any:
    """A pair of arrays, each with a number added."""
    return tuple(value + jnp.asarray(by, value.dtype) for value in pair)


# ---------------------------------------------------------------- branches


def _chosen(library: Any, each: Transformation, branches: Any, arguments: Any, **modes: Any) -> Any:
    """Choose a branch by the last array of the pair, with `cond` or `switch` of a library."""
    index = arguments[-1][1].astype("int32") + each.options["offset"]
    if each.kind == "cond":
        return library.cond(index % 2 > 0, *branches, *arguments, **modes)
    return library.switch(index, branches, *arguments, **modes)


def _functions(each: Transformation, function: Any, left_out: Any) -> list[Any]:
    """The branches, made of a function whose last argument is the pair."""
    made = {
        "called": function,
        "left out": left_out,
        "shifted": lambda *arguments: function(*arguments[:-1], _shifted(arguments[-1], 1)),
    }
    return [made[name] for name in each.options["branches"]]


def _idle(call: BuiltObjectCall) -> BuiltObjectCall:
    """The call without its steps."""
    return replace(call, described=replace(call.described, steps=()))


def _branch_oracle(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    branches = _functions(each, function, _idle(call).pure)
    return lambda values, pair: _chosen(jax.lax, each, branches, (values, pair))


def _branch_lift(
    call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any
) -> Any:
    idle = _idle(call)
    branches = _functions(each, function, lambda *given: idle.run(given[:-1], given[-1]))
    return lambda *given: _chosen(transforms, each, branches, given, **each.modes)


# ---------------------------------------------------------------- loops


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


def _loop_oracle(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    def loop(values: list[Any], pair: Any) -> Any:
        def turn(number: Any, state: Any) -> Any:
            after, results = function(state[0], _shifted(pair, number))
            return after, state[1] + scalar_of([*results, number])

        after, total = _repeated(jax.lax, each, turn, (values, jnp.zeros(())))
        return after, call.ranked([total])

    return loop


def _loop_lift(call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any) -> Any:
    def loop(*given: Any) -> Any:
        *objects, pair = given

        def turn(number: Any, state: Any) -> Any:
            *now, total = state
            results = function(*now, _shifted(pair, number))
            return *now, total + scalar_of([*jax.tree.leaves(results), number])

        start = (*objects, jnp.zeros(()))
        *last, total = _repeated(transforms, each, turn, start, **each.modes)
        return call.ranked([total, *last] if each.options["returned"] else [total])

    return loop


def _loop_results(
    call: BuiltObjectCall, each: Transformation, world: World, results: list[Any]
) -> list[Any]:
    return [np.zeros(()), *world.arguments] if each.options["returned"] else [np.zeros(())]


# ---------------------------------------------------------------- derivatives


def _derivative_oracle(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
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


def _derivative_lift(
    call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any
) -> Any:
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


def _derivative_results(
    call: BuiltObjectCall, each: Transformation, world: World, results: list[Any]
) -> list[Any]:
    count = len(World(call.nnx, world.arguments).leaves()) + 2 if each.kind == "vjp" else 1
    return [np.zeros(())] * (1 + count) + (results if each.options["has_aux"] else [])


# ---------------------------------------------------------------- gradients of the user's own


def _gradients(values: Sequence[Any], pair: Any, of_output: Any) -> tuple[list[Any], Any]:
    """Made-up cotangents of values and of a pair, for the cotangents of an output."""
    weight = sum(map(jnp.sum, jax.tree.leaves(of_output)), jnp.zeros(()))
    of_values = [(n + 1) * jnp.sin(value) * weight for n, value in enumerate(values)]
    return of_values, tuple(jnp.cos(value) * weight for value in pair)


def _custom_oracle(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
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


def _custom_lift(
    call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any
) -> Any:
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


_BRANCHES, _LOOPS, _DERIVATIVES = ("cond", "switch"), ("while_loop", "fori_loop"), ("vjp", "jvp")

ORACLES: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(_BRANCHES, _branch_oracle),
    **dict.fromkeys(_LOOPS, _loop_oracle),
    **dict.fromkeys(_DERIVATIVES, _derivative_oracle),
    "custom_vjp": _custom_oracle,
}
LIFTED: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(_BRANCHES, _branch_lift),
    **dict.fromkeys(_LOOPS, _loop_lift),
    **dict.fromkeys(_DERIVATIVES, _derivative_lift),
    "custom_vjp": _custom_lift,
}
RESULTS: Mapping[str, Callable[..., list[Any]]] = {
    **dict.fromkeys(_LOOPS, _loop_results),
    **dict.fromkeys(_DERIVATIVES, _derivative_results),
}
"""The results of a call, as objects that the values of JAX's route are written into."""
