"""The cells of the tables of lifts: a transformation on one carrier.

A cell has JAX's own transformation and the implementation's, and draws descriptions of both:

    OBJECTS["vmap"].by_jax(call, described, pure)
    OBJECTS["vmap"].lifted(call, transforms, described, function)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from scutch.engine.carriers.linen import COLLECTIONS, BuiltLinenCall, LinenLift
from scutch.engine.carriers.objects import Transformation


@dataclass(frozen=True)
class OnArrays:
    """A transformation of functions of plain arrays.

    Args:
      by_jax: JAX's own, which takes a function and options.
      lifted: The same, by a namespace of lifted transformations.
    """

    by_jax: Callable[..., Any]
    lifted: Callable[[Any], Callable[..., Any]]


@dataclass(frozen=True)
class OnObjects:
    """A transformation of functions of objects; see `carriers.objects`.

    Args:
      by_jax: Makes of `(call, transformation, function)` JAX's own transformation of a pure
        function `(values, pair) -> (values, further values)`.
      lifted: Makes of `(call, transforms, transformation, function)` the lifted transformation of a
        function `(*objects, pair) -> results`.
      drawn: Makes a strategy of descriptions, of the arguments of a function and of the options
        `whole` (one prefix by type for each argument), `automatic` (a mesh axis of `shard_map` is
        left to the compiler) and `keeps` (a loop may return its objects).
      results: Makes of `(call, transformation, objects, results)` the results of the transformed
        function, in which the values of JAX's route find their places; by default those of the
        function.
    """

    by_jax: Callable[..., Any]
    lifted: Callable[..., Any]
    drawn: Callable[..., Any]
    results: Callable[..., list[Any]] = lambda call, each, world, results: results


@dataclass(frozen=True)
class OnLinen:
    """A transformation of modules; see `carriers.linen`.

    Args:
      by_jax: Makes of `(call, lift, function)` JAX's own transformation of a pure function
        `(values, x) -> (values, output)`.
      lifted: The class that the namespace makes of `(call, lift, class)`.
      drawn: Makes a strategy of descriptions; with `trains`, statistics and counts change.
    """

    by_jax: Callable[..., Any]
    lifted: Callable[..., Any]
    drawn: Callable[..., Any]


def with_options(kind: str, options: st.SearchStrategy[Any]) -> Callable[..., Any]:
    """Draw a transformation of objects without prefixes.

    Args:
      kind: Its name.
      options: A strategy of its options.

    Returns:
      The function `drawn` of a cell.
    """
    return lambda arguments, **_: options.map(lambda given: Transformation(kind, options=given))


FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"variables": True},
    {"variables": COLLECTIONS},
    {"variables": list(COLLECTIONS)},
    {"rngs": True},
    {"rngs": ["dropout", "params"]},
)
"""Filters of collections and streams, which let a module use all that it has."""


def filtered(kind: str, by_jax: Callable[..., Any]) -> OnLinen:
    """A lift of modules by filters, which computes what the module computes.

    Args:
      kind: Its name in the namespace of modules.
      by_jax: JAX's own, which takes a function.
    """

    def lifted(call: BuiltLinenCall, lift: LinenLift, module: Any) -> Any:
        return getattr(call.linen, kind)(module, **lift.options, **call.methods)

    lifts = st.sampled_from(FILTERS).map(lambda given: LinenLift(kind, options=given))
    return OnLinen(lambda call, lift, function: by_jax(function), lifted, lambda *, trains: lifts)
