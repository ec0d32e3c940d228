"""`scan`: a loop that hands values from step to step, and slices or shares others.

`scanned` is the loop that all carriers compare with, by `jax.lax.scan`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from hypothesis import strategies as st

from scutch.engine.carriers.arrays import CARRIED, LANES, is_axis, moved
from scutch.engine.carriers.linen import COLLECTIONS, SPELLINGS, BuiltLinenCall, LinenLift
from scutch.engine.carriers.objects import BuiltObjectCall, ByType, Transformation, World
from scutch.engine.lifts.cells import OnArrays, OnLinen, OnObjects
from scutch.engine.lifts.prefixes import PAIRS, prefixes
from scutch.inputs.descriptions import CONTAINERS, mapped
from scutch.lawkit.equality import alike

_OPTIONS: tuple[dict[str, Any], ...] = ({}, {}, {"reverse": True}, {"unroll": 2})


def scanned(
    function: Callable[..., Any],
    axes: Sequence[Any],
    *,
    pair_axes: Sequence[Any] = (),
    out: int = 0,
    shared: Callable[[Any, Any], None] = lambda old, new: None,
    **options: Any,
) -> Callable[..., Any]:
    """A loop by `jax.lax.scan`.

    Args:
      function: A step `(values, pair) -> (values, results)`.
      axes: For each value the axis along which it is sliced, `CARRIED`, or `None` where all steps
        share it.
      pair_axes: The same for each of the pair, which has no values afterwards.
      out: The axis along which the results are stacked.
      shared: Called with a shared value before and after a step, which must leave it.
      options: Of `jax.lax.scan`.

    Returns:
      A function of the same arguments. Carried values come out of the last step, sliced ones are
      stacked again.
    """

    def loop(values: list[Any], pair: Sequence[Any]) -> Any:
        places = [(values, n, axis) for n, axis in enumerate(axes)]
        places += [(list(pair), n, axis) for n, axis in enumerate(pair_axes)]
        slices = [moved(held[n], axis, 0) for held, n, axis in places if is_axis(axis)]

        def step(carry: list[Any], sliced: list[Any]) -> Any:
            carried, parts = iter(carry), iter(sliced)
            seen = [
                next(carried) if axis == CARRIED else next(parts) if is_axis(axis) else held[n]
                for held, n, axis in places
            ]
            after, results = function(seen[: len(values)], tuple(seen[len(values) :]))
            for old, new, axis in zip(seen, after, axes, strict=False):
                if axis is None:
                    shared(old, new)
            new = [value for value, axis in zip(after, axes, strict=True) if axis == CARRIED]
            kept = [value for value, axis in zip(after, axes, strict=True) if is_axis(axis)]
            return new, (kept, results)

        start = [held[n] for held, n, axis in places if axis == CARRIED]
        last, (kept, results) = jax.lax.scan(step, start, slices, **options)
        carried, stacked = iter(last), iter(kept)
        after = [
            next(carried)
            if axis == CARRIED
            else moved(next(stacked), 0, axis)
            if is_axis(axis)
            else value
            for value, axis in zip(values, axes, strict=True)
        ]
        return after, moved(results, 0, out)

    return loop


# ---------------------------------------------------------------- arrays


def _looped(
    function: Callable[..., Any], in_axes: Any, out_axes: Any, **options: Any
) -> Callable[..., Any]:
    """`jax.lax.scan` with the interface of the lifted `scan`; `CARRIED` marks the carried argument.

    Args:
      function: One step. It takes each argument's slice, the carried value, or a shared argument.
      in_axes: For all arguments, or a tuple with one for each: an axis, `CARRIED`, or `None` for
        an argument that all steps share.
      out_axes: The axis, or `CARRIED`, for each part of a step's result; there is no `None`.
      options: The options of `jax.lax.scan`.

    Returns:
      A function of the loop's arguments. For the carried part of a step's result it returns the
      last value; for any other part, the slices of all steps, stacked along the part's axis.

    Raises:
      ValueError: Only one side of the step carries, or there are more arguments than axes.
    """

    def loop(*arguments: Any) -> Any:
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(arguments)
        ends = out_axes if isinstance(out_axes, tuple) else (out_axes,)
        if len(axes) != len(arguments) or axes.count(CARRIED) != ends.count(CARRIED):
            raise ValueError(f"in_axes={in_axes} and out_axes={out_axes} for {arguments}")

        def step(values: list[Any], _: Any) -> Any:
            returned = function(*values)
            parts = list(returned) if isinstance(out_axes, tuple) else [returned]
            if len(parts) != len(ends):
                raise ValueError(f"out_axes={out_axes} for {parts}")
            carried = [parts.pop(ends.index(CARRIED))] if CARRIED in ends else []
            pairs = zip(values, axes, strict=True)
            return [carried[0] if axis == CARRIED else v for v, axis in pairs], parts

        last, stacked = scanned(step, axes, **options)(list(arguments), ())
        found = iter(stacked)
        parts = tuple(
            last[axes.index(CARRIED)] if end == CARRIED else moved(next(found), 0, end)
            for end in ends
        )
        return parts if isinstance(out_axes, tuple) else parts[0]

    return loop


def _lifted_arrays(transforms: Any) -> Callable[..., Any]:
    def marked(axes: Any) -> Any:
        return jax.tree.map(
            lambda axis: transforms.Carry if alike(axis, CARRIED) else axis,
            axes,
            is_leaf=lambda axis: axis is None,
        )

    def lifted(function: Any, *, in_axes: Any, out_axes: Any, **options: Any) -> Any:
        axes = {"in_axes": marked(in_axes), "out_axes": marked(out_axes)}
        return transforms.scan(function, **axes, **options)

    return lifted


# ---------------------------------------------------------------- objects


def _objects_by_jax(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    """A loop; no law applies if a step changes a value that all steps share."""
    loop = scanned(
        function,
        call.given(each),
        pair_axes=each.pair_axes,
        out=each.out,
        length=LANES,
        shared=lambda old, new: call.assume(new is old),
        **each.plain,
    )

    def looped(values: list[Any], pair: Any) -> Any:
        after, results = loop(values, pair)
        return after, [*_counts(each, LANES), *results]

    return looped


def _counts(each: Transformation, steps: int) -> list[Any]:
    """What a loop that carries no argument carries beside them: twice the number of steps so far.

    A loop that carries a whole argument hands it on alone.
    """
    return [] if CARRIED in each.prefixes else [jnp.full(2, steps, "int32")]


def _results(
    call: BuiltObjectCall, each: Transformation, world: World, results: list[Any]
) -> list[Any]:
    return [*_counts(each, 0), *results]


def _lifted_objects(
    call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any
) -> Any:
    """The lifted loop, whose step returns the argument that it carries, or a count of steps."""
    prefixes, carry = call.prefixes(transforms, each, "StateAxes"), transforms.Carry
    options = {"out_axes": (carry, each.out), "length": LANES, **each.plain, **each.modes}
    if CARRIED in each.prefixes:
        place, in_axes = each.prefixes.index(CARRIED), (*prefixes, each.x)
        carrying = transforms.scan(
            lambda *given: (given[place], function(*given)), in_axes=in_axes, **options
        )
        return lambda *given: carrying(*given)[1]

    def step(*given: Any) -> Any:
        *objects, count, pair = given
        return count + 1, function(*objects, pair)

    loop = transforms.scan(step, in_axes=(*prefixes, carry, each.x), **options)

    def looped(*given: Any) -> Any:
        count, results = loop(*given[:-1], *_counts(each, 0), given[-1])
        return [count, *results]

    return looped


@st.composite
def _of_objects(
    draw: st.DrawFn, arguments: tuple[Any, ...], *, whole: bool = False, automatic: bool = False
) -> Transformation:
    given = _by_type(draw(prefixes(arguments, (0, CARRIED, -1, None, CARRIED), whole=whole)))
    if len(arguments) == 1 and not whole and draw(st.booleans()):
        given = (CARRIED,)
    pair, out = draw(st.sampled_from(PAIRS)), draw(st.sampled_from((0, 0, -1)))
    return Transformation("scan", given, pair, out, None, draw(st.sampled_from(_OPTIONS)))


def _by_type(prefix: Any) -> Any:
    """A prefix in which every `CARRIED` is wrapped in a `ByType`.

    A loop that carries more than one argument needs this form.
    """
    if type(prefix) in CONTAINERS:
        return mapped(_by_type, prefix)
    return ByType({}, CARRIED) if prefix == CARRIED else prefix


# ---------------------------------------------------------------- Linen


def _linen_by_jax(call: BuiltLinenCall, lift: LinenLift, function: Any) -> Any:
    """A loop that carries the input: the output of each step is the input of the next."""

    def step(values: list[Any], _: Any) -> Any:
        after, output = function(values[:-1], values[-1])
        return [*after, output], []

    options = {"length": LANES, "reverse": lift.options.get("reverse", False)}
    loop = scanned(step, [*call.axes(lift), CARRIED], **options)

    def looped(values: list[Any], x: Any) -> Any:
        (*after, output), _ = loop([*values, x], ())
        return after, output

    return looped


def _lifted_linen(call: BuiltLinenCall, lift: LinenLift, kind: Any) -> Any:
    sliced = {name: axis for name, axis in lift.axes.items() if is_axis(axis)}
    options = {"variable_axes": call.spelled(lift, sliced), "length": LANES, **call.along(lift)}
    for option, how in (("variable_broadcast", None), ("variable_carry", CARRIED)):
        if names := [name for name, axis in lift.axes.items() if axis == how]:
            options[option] = names
    return call.linen.scan(kind, **options)


@st.composite
def _of_linen(draw: st.DrawFn, *, trains: bool) -> LinenLift:
    """All steps cannot share what changes in training; what does not change is not carried."""
    changing: tuple[Any, ...] = (0, CARRIED, -1) if trains else (0, -1, None)
    given: dict[str, Any] = {"params": draw(st.sampled_from((0, -1, None, 0)))}
    given |= {name: draw(st.sampled_from(changing)) for name in COLLECTIONS[1:]}
    options = draw(st.sampled_from(_OPTIONS))
    return LinenLift("scan", given, spelled=draw(st.sampled_from(SPELLINGS)), options=options)


ARRAYS = OnArrays(_looped, _lifted_arrays)
OBJECTS = OnObjects(_objects_by_jax, _lifted_objects, _of_objects, _results)
LINEN = OnLinen(_linen_by_jax, _lifted_linen, _of_linen)
