"""`vmap`: a map over an axis of what it is given.

    Transformation('vmap', (ByType({'Param': 0}, None),), x=(0, None), out=-1)

gives each lane its own parameters and its own first array, and stacks the results behind.
"""

from typing import Any

import jax
from hypothesis import strategies as st

from scutch.engine.carriers.arrays import LANES
from scutch.engine.carriers.linen import COLLECTIONS, SPELLINGS, BuiltLinenCall, LinenLift
from scutch.engine.carriers.objects import BuiltObjectCall, Transformation
from scutch.engine.lifts.cells import OnArrays, OnLinen, OnObjects
from scutch.engine.lifts.prefixes import MAPPED, PAIRS, prefixes


def _objects_by_jax(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    axes = call.given(each)
    return jax.vmap(function, (axes, each.x), (axes, each.out))


def _lifted_objects(
    call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any
) -> Any:
    in_axes = (*call.prefixes(transforms, each, "StateAxes"), each.x)
    return transforms.vmap(function, in_axes=in_axes, out_axes=each.out, **each.modes)


@st.composite
def _of_objects(
    draw: st.DrawFn, arguments: tuple[Any, ...], *, whole: bool = False, automatic: bool = False
) -> Transformation:
    given = draw(prefixes(arguments, MAPPED, whole=whole))
    pair, out = draw(st.sampled_from(PAIRS)), draw(st.sampled_from((0, 0, -1, 1)))
    return Transformation("vmap", given, pair, out)


def _linen_by_jax(call: BuiltLinenCall, lift: LinenLift, function: Any) -> Any:
    axes = call.axes(lift)
    return jax.vmap(function, (axes, lift.x), (axes, lift.out), axis_size=LANES)


def _lifted_linen(call: BuiltLinenCall, lift: LinenLift, kind: Any) -> Any:
    axes = call.spelled(lift, dict(lift.axes))
    options = {"in_axes": lift.x, "out_axes": lift.out, "axis_size": LANES}
    return call.linen.vmap(kind, variable_axes=axes, **options, **call.along(lift))


@st.composite
def _of_linen(draw: st.DrawFn, *, trains: bool) -> LinenLift:
    axes = st.sampled_from((0, -1, None, 0, 1, -2))
    given = {collection: draw(axes) for collection in COLLECTIONS}
    x, out = draw(st.sampled_from((0, None, -1, 1))), draw(st.sampled_from((0, 0, -1, 1)))
    options: Any = draw(
        st.sampled_from(({}, {}, {"axis_name": "lanes"}, {"spmd_axis_name": "data"}))
    )
    return LinenLift("vmap", given, x, out, draw(st.sampled_from(SPELLINGS)), options)


ARRAYS = OnArrays(jax.vmap, lambda transforms: transforms.vmap)
OBJECTS = OnObjects(_objects_by_jax, _lifted_objects, _of_objects)
LINEN = OnLinen(_linen_by_jax, _lifted_linen, _of_linen)
