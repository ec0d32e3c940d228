"""What every lifted call must do: the same as JAX's transformation of the pure function.

    agreement(call, transforms)

makes a call of a function of objects by both routes, and compares objects, results and refusals.
`linen_routes(call)` gives both routes of a call of a module, for a law that compares them.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from scutch.engine.agreement import short
from scutch.engine.carriers.linen import BuiltLinenCall
from scutch.engine.carriers.objects import WORLDS, BuiltObjectCall, Conflict, World
from scutch.engine.lifts import LINEN, OBJECTS
from scutch.inputs import graphs
from scutch.lawkit.domain import OutOfDomain, assume

# ---------------------------------------------------------------- Linen


def linen_routes(call: BuiltLinenCall) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Both routes of a call of a module, as functions `(variables, x) -> (output, updates)`.

    Args:
      call: The call.

    Returns:
      `apply` of the lifted module, and JAX's transformations of `apply` of the module.
    """
    kind, function = call.stack, call.pure
    for lift in reversed(call.described.under):
        cell = LINEN[lift.kind]
        kind, function = cell.lifted(call, lift, kind), cell.by_jax(call, lift, function)

    def by_jax(variables: Any, x: Any) -> Any:
        after, output = function(jax.tree.leaves(variables), x)
        return output, call.changed(jax.tree.unflatten(jax.tree.structure(variables), after))

    return call.apply(call.made(kind)), by_jax


# ---------------------------------------------------------------- objects


def _by_jax(call: BuiltObjectCall) -> World:
    """Make the call by JAX's transformations; return the changed objects and the results."""
    function: Callable[..., Any] = call.pure
    for each in reversed(call.under):
        function = OBJECTS[each.kind].by_jax(call, each, function)
    before, pair = call.outside(), call.pair()
    kept, further = function(before.values(), pair)
    expected = call.inside()
    dtype = call.described.dtype
    pair = np.zeros(call.width(), dtype), np.zeros((), dtype)  # as the function sees it
    results = call.run(expected.arguments, pair)
    for each in reversed(call.under):
        results = OBJECTS[each.kind].results(call, each, expected, results)
    expected.results.extend(results)
    expected.fill([*kept, *further])
    return expected


def _by_lift(call: BuiltObjectCall, transforms: Any) -> World:
    """Make the call by lifted transformations; return the changed objects and the results."""

    def function(*given: Any) -> list[Any]:
        _check_given(call, given[:-1])
        return call.run(given[:-1], given[-1])

    for each in reversed(call.under):
        function = OBJECTS[each.kind].lifted(call, transforms, each, function)
    world = call.outside()
    world.results.extend(function(*world.arguments, call.pair()))
    return world


def _check_given(call: BuiltObjectCall, arguments: tuple[Any, ...]) -> None:
    """Refuse arguments of the function that are not of the classes that they are outside."""
    classes = [
        [
            type(leaf)
            for leaf in jax.tree.leaves(given, is_leaf=functools.partial(graphs.is_node, call.nnx))
        ]
        for given in (arguments, call.inside().arguments)
    ]
    if classes[0] != classes[1]:
        raise TypeError("the function is given {}, and not {}".format(*classes))


def agreement(
    call: BuiltObjectCall, transforms: Any, *, shardings: bool = False, refusable: bool = False
) -> str:
    """Make a call by both routes, and fail unless they agree.

    Args:
      call: The call.
      transforms: The namespace of lifted transformations.
      shardings: Whether arrays must lie where JAX lays them.
      refusable: Whether the lift may refuse a call that JAX accepts.

    Returns:
      `"returned"` if both routes return; `"refused"` if both refuse, or if `refusable` is true and
      the lift alone refuses.

    Raises:
      AssertionError: One route refuses a call that the other accepts, or the objects or results
        differ; the message says where.
      OutOfDomain: A route meets a call that is outside the domain of the law.
    """
    try:
        with WORLDS[call.described.where]():
            expected, refusal = _made(lambda: _by_jax(call), REFUSALS)
            found, error = _made(lambda: _by_lift(call, transforms), Exception)
    except OutOfDomain:
        assume(not call.left_open)
        raise
    if refusal is not None and error is None:
        raise AssertionError(f"it was accepted; JAX refuses: {short(refusal)}")
    if error is not None and (refusable or refusal is not None):
        return "refused"
    if error is not None:
        raise AssertionError(f"it raised {short(error)}; JAX accepts it") from error
    worlds = [[world.arguments, world.results] for world in (expected, found)]
    if different := graphs.differences(call.nnx, *worlds):
        raise AssertionError(f"with JAX and lifted: {different}")
    if shardings:
        _assert_laid_alike(expected, found)
    return "returned"


def _assert_laid_alike(expected: World, found: World) -> None:
    """Fail where an array of JAX lies on the devices in another way than JAX laid it."""
    paths = expected.leaves()
    for path, theirs, ours in zip(paths, expected.values(), found.values(), strict=True):
        if not isinstance(ours, jax.Array):  # it has the array of NumPy that it had before
            continue
        if not ours.sharding.is_equivalent_to(theirs.sharding, theirs.ndim):
            lies = f"{theirs.sharding} with JAX, as {ours.sharding} lifted"
            raise AssertionError(f"{path} lies as {lies}")


REFUSALS = (TypeError, ValueError, Conflict)
"""The errors by which JAX's route refuses a call. Any other error there is the judge's fault."""


def _made(
    call: Callable[[], World], errors: type[Exception] | tuple[type[Exception], ...]
) -> tuple[Any, Exception | None]:
    try:
        return call(), None
    except errors as error:
        return None, error
