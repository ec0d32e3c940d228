"""Lifted `jax.lax.while_loop` and `jax.lax.fori_loop`: loops over objects and arrays.

All leaves of the value that a loop begins with are carried from turn to turn; see `carries`. A turn
returns the very objects that it got, with the same attributes; values of variables may differ.

>>> import jax.numpy as jnp
>>> from scutch_reference import nnx
>>> def double(value):
...     model, count = value
...     model.w.value *= 2
...     return model, count + 1
>>> model = nnx.Dict(w=nnx.Param(jnp.array(1)))
>>> last, count = while_loop(lambda value: value[1] < 3, double, (model, 0))
>>> last is model, int(model.w.value), int(count)
(True, 8, 3)
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax

from ..errors import LiftingError
from ..types import Tree
from .carries import Carry, Output, carried_part, carried_sources, map_axes, sliced_part, step
from .effects import Effects, runner
from .frames import Frame, PrefixRules, Transformed
from .lifting import Lifted, P, R

T = TypeVar("T")


class Looped(Lifted[P, R]):
    """A loop that passes its last argument from turn to turn; see `while_loop`.

    Args:
      body: The function of a turn.
      in_axes: `Carry` for the last argument, None for the one before it.
      goes_on: The function that says whether there is a further turn; None for `fori_loop`.
      **options: Options of `Lifted` and of `jax.lax.fori_loop`.
    """

    lifts = staticmethod(jax.lax.fori_loop)
    rules = PrefixRules(what="axes")

    def __init__(
        self,
        body: Callable[P, R],
        in_axes: tuple[Any, ...],
        goes_on: Callable[[Any], Any] | None = None,
        **options: Any,
    ):
        super().__init__(body, in_axes, Carry, **options)
        self.goes_on = goes_on

    def transform(self, frame: Frame, run: Callable[..., Any]) -> Transformed:
        """Return the loop of JAX over a function of leaves, which are all carried.

        Args:
          frame: The frame of a call.
          run: The function.
        """
        output = Output(frame, self.out_prefix)
        run_step = step(frame, run, output)
        asked: Any = self.goes_on and runner(frame, self.goes_on, self.inside, structural=True)

        def goes_on(carry: Tree) -> Any:
            effects, _, out = asked(*carry)
            if not effects.are_none:
                raise LiftingError(
                    place="the condition of while_loop",
                    given="a function that changes objects",
                    expected="one that only reads them: its changes could not be kept",
                )
            return out

        def transformed(leaves: list[Any], *plain: Tree) -> Tree:
            slices = map_axes(sliced_part, frame.inside, (leaves, *plain))
            last: list[Any] = []

            def turn(*given: Tree) -> Tree:
                *number, carry = given
                arguments = (leaves, *number, *plain[len(number) :])
                carry, traced = run_step(arguments, carry, slices)
                _check_structure(frame, traced[0], output)
                last[:] = traced  # JAX may trace a turn more than once.
                return carry

            start = map_axes(carried_part, frame.inside, (leaves, *plain))
            if asked:
                carry = jax.lax.while_loop(goes_on, turn, start)
            else:
                carry = jax.lax.fori_loop(plain[0][0], plain[0][1], turn, start, **self.options)
            if not last:  # Without `jit`, a loop that takes no turn traces none.
                jax.eval_shape(turn, *(() if asked else plain[0][:1]), start)
            effects, groups, parts = last
            sources = carried_sources(frame, effects, output.carried)
            for number, (group, index) in sources.items():  # A turn outputs None there.
                groups[group][index] = carry[0][number]
            return effects, groups, output.joined(parts, carry)

        return Transformed(frame, transformed)


def _check_structure(frame: Frame, effects: Effects, output: Output) -> None:
    """Raise a `LiftingError` if a turn changed more of the objects than values of variables."""
    known = frame.definition
    places = [
        known.node_paths[each.number] if each.number < len(known.nodes) else (0,)
        for each in effects.rewrites
        if each.number >= len(known.nodes) or each.node != known.nodes[each.number]
    ] + [known.leaves[number][0] for number in effects.changed if number in output.carried]
    if places:
        raise LiftingError(
            place=frame.where(places[0]),
            given="a turn of a loop that adds, removes or replaces something there",
            expected="the attributes, containers and metadata that the turn got, with other values",
        )


def while_loop(
    cond_fun: Callable[[T], Any],
    body_fun: Callable[[T], T],
    init_val: T,
    *,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> T:
    """Call a function of objects while a condition holds, as `jax.lax.while_loop` does (OBJ-8).

    Args:
      cond_fun: Gets the value of a turn, and returns a boolean without axes; it changes no object.
      body_fun: Gets the value, and returns the one for the next turn: the very objects that it got,
        in their places, and arrays of the same shapes and dtypes.
      init_val: The first value: an object, or a tree of objects and arrays.
      graph, graph_updates: Accepted and not needed: sharing is kept, and no structure changes.

    Returns:
      The last value. Its objects are those of `init_val`, which the turns have changed.

    Raises:
      LiftingError: A turn changes the structure or the metadata of an object, or the condition
        changes an object.
      CarryError: A turn does not return an object that it got.
    """
    return Looped(body_fun, (Carry,), cond_fun)(init_val)


def fori_loop(
    lower: int | jax.Array,
    upper: int | jax.Array,
    body_fun: Callable[[Any, T], T],
    init_val: T,
    *,
    unroll: int | bool | None = None,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> T:
    """Call a function of objects for each number of a range, as `jax.lax.fori_loop` does (OBJ-8).

    Args:
      lower, upper: The first number, and the one after the last.
      body_fun: Gets a number and the value of a turn; else as for `while_loop`.
      init_val: The first value; see `while_loop`.
      unroll: As in `jax.lax.fori_loop`.
      graph, graph_updates: Accepted and not needed; see `while_loop`.

    Returns:
      The last value; see `while_loop`.

    Raises:
      LiftingError, CarryError: As `while_loop`.
    """
    return Looped(body_fun, (None, Carry), unroll=unroll)((lower, upper), init_val)
