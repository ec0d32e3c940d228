"""On functions of plain arrays the other lifts agree with JAX's transformations, too: OBJ-8.

The oracle is JAX's own transformation, called with equal arguments.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import PartitionSpec

from scutch.engine.agreement import attempted, difference
from scutch.engine.lifts import ARRAYS
from scutch.inputs.callables import FIELDS, FORMS, callable_with
from scutch.inputs.descriptions import Array
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import at_least, costly, dear, options, reached, refused, requirement
from scutch.strategies.array_calls import (
    plain_grad_calls,
    plain_listed_calls,
    plain_missing_calls,
    plain_named_calls,
    plain_remat_calls,
    plain_scan_calls,
    plain_vmap_calls,
)
from scutch.strategies.moded_calls import FLAGS

OWN = ("vmap", "grad", "value_and_grad", "remat", "scan")
"""The transformations that are compared with JAX's own."""


def _agrees(transforms, call):
    """Make a described call with JAX and with the lift, and fail unless their outcomes agree."""
    cell = ARRAYS[call.described.kind]
    theirs = call.made(cell.by_jax)
    reached("returned" if theirs.error is None else "refused")
    different = difference(call.made(cell.lifted(transforms)), theirs)
    assert not different, different


@requirement("transformations/equals-jax/vmap-of-arrays", must_reach=("returned", "refused"))
@costly
@given(call=plain_vmap_calls())
def test_on_plain_arrays_lifted_vmap_is_the_one_of_jax(transforms, call):
    """On arrays alone, lifted `vmap` gives the values and the refusals of `jax.vmap`."""
    _agrees(transforms, call)


@requirement("transformations/equals-jax/grad-of-arrays", must_reach=("returned", "refused"))
@costly
@given(call=plain_grad_calls())
def test_on_plain_arrays_lifted_grad_is_the_one_of_jax(transforms, call):
    """On arrays alone, lifted `grad` gives the values and the refusals of `jax.grad`."""
    _agrees(transforms, call)


@requirement("transformations/equals-jax/remat-of-arrays", must_reach=("returned", "refused"))
@costly
@at_least(17)
@given(call=plain_remat_calls())
def test_on_plain_arrays_lifted_remat_is_the_one_of_jax(transforms, call):
    """On arrays alone, lifted `remat` gives the values and the refusals of `jax.checkpoint`."""
    _agrees(transforms, call)


@requirement("transformations/equals-jax/scan-of-arrays", must_reach=("returned", "refused"))
@dear
@given(call=plain_scan_calls())
def test_on_plain_arrays_lifted_scan_is_the_one_of_jax(transforms, call):
    """On plain arrays, lifted `scan` has the values and refusals of `jax.lax.scan`.

    The argument that `Carry` marks is the carry of `jax.lax.scan`.
    """
    _agrees(transforms, call)


@requirement("transformations/equals-jax/scan-of-arrays", must_reach=("by default", "in a mode"))
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@costly
@given(
    carried=st.sampled_from([Array((2,), "float32"), {"a": Array((2,)), "b": [Array(())]}, ()]),
    mode=st.sampled_from([{}, *FLAGS]),
    length=st.integers(1, 3),
)
def test_a_loop_may_carry_all_that_it_has(transforms, carried, mode, length):
    """`scan` with `in_axes=Carry` and `out_axes=Carry` is the loop over one argument, in each mode
    that there is.
    """
    reached("in a mode" if mode else "by default")

    def step(carry):
        return jax.tree.map(lambda x: 2 * x + 1, carry)

    carry = transforms.Carry
    loop = transforms.scan(step, in_axes=carry, out_axes=carry, length=length, **mode)
    expected = functools.reduce(lambda value, _: step(value), range(length), carried)
    assert alike(jax.tree.map(np.asarray, loop(carried)), jax.tree.map(np.asarray, expected))


@requirement("transformations/options/lifts-of-arrays[names]", must_reach=("returned",))
@costly
@given(call=plain_named_calls())
def test_names_defaults_and_partials_are_lifted_as_jax_does_it(transforms, call):
    """An argument that is left to its default, or bound by a `functools.partial`, is not mapped,
    and does not count among the numbered arguments.
    """
    _agrees(transforms, call)


@requirement("transformations/options/lifts-of-arrays[lists]", must_reach=("returned",))
@costly
@at_least(15)
@given(call=plain_listed_calls())
def test_lists_serve_where_tuples_do(transforms, call):
    """Axes, and numbers of arguments, may be given as a list in the place of a tuple."""
    _agrees(transforms, call)


@requirement("transformations/refuses/grad-of-arrays[number]", must_reach=("refused",))
@given(call=plain_missing_calls())
def test_a_number_of_an_argument_that_is_not_passed_by_position_is_refused(transforms, call):
    """`grad` and `remat` never ignore the number of an argument that is not passed by position.

    They refuse such a call, or act as if the argument had been passed by position.
    """
    cell = ARRAYS[call.described.kind]
    theirs = call.made(cell.by_jax)
    reached("returned" if theirs.error is None else "refused")
    ours = call.made(cell.lifted(transforms))
    if ours.error is None and theirs.error is not None:
        described = dataclasses.replace(call.described, calls=_by_position(call))
        theirs = described.build(call.world).made(cell.by_jax)
    different = difference(ours, theirs)
    assert not different, different


def _by_position(call):
    """The calls with every argument by position, the defaults of the function among them."""
    defaults = 2.5, 2.0, 3
    return tuple(
        (
            ("position",) * len(ways),
            tuple(
                default if way == "default" else value
                for way, value, default in zip(ways, values, defaults, strict=True)
            ),
        )
        for ways, values in call.described.calls
    )


LIFTS = ("jit", "vmap", "scan", "grad", "value_and_grad", "remat", "shard_map")


@requirement("transformations/refuses/lifts-of-arrays[option]", must_reach=LIFTS)
@at_least(60)
@given(
    lift=st.sampled_from(LIFTS),
    name=st.sampled_from(["unknown", "in_axis", "static_argnum", "argnum", "mash"]),
)
def test_an_option_that_there_is_not_is_refused_before_any_call(transforms, lift, name):
    """Each lift refuses an option that JAX's transformation does not have, when it is given the
    function, and not first when that is called.
    """
    specs = {"mesh": None, "in_specs": None, "out_specs": None} if lift == "shard_map" else {}
    refused(lambda: getattr(transforms, lift)(abs, **specs, **{name: 1}))


def _assert_lifted_as_called(transforms, kind, form, fields, mode):
    """Fail unless a callable with such fields is lifted as JAX lifts it."""
    reached(kind)
    reached(form)
    x = jnp.arange(3.0) if kind in ("vmap", "scan", "shard_map") else jnp.float32(2)
    taken = {"in_axes": 0, "out_axes": 0} if kind == "scan" else {}
    if kind == "shard_map":
        specs = {"in_specs": PartitionSpec(), "out_specs": PartitionSpec()}
        taken = {"mesh": jax.sharding.Mesh(jax.devices()[:1], ("data",)), **specs}
    lifts = (
        functools.partial(getattr(transforms, kind), **mode),
        ARRAYS[kind].by_jax,
    )
    ours, theirs = (
        attempted(lambda lift=lift: lift(callable_with(fields, jnp.square, form), **taken)(x))
        for lift in lifts
    )
    different = difference(ours, theirs)
    assert not different, different


fields = st.lists(st.sampled_from(FIELDS), min_size=2, max_size=4, unique=True)


@requirement("transformations/options/lifts-of-arrays[fields]", must_reach=(*OWN, *FORMS))
@costly
@at_least(20)
@given(kind=st.sampled_from(OWN), form=st.sampled_from(FORMS), fields=fields)
def test_a_callable_is_lifted_as_it_is_called_whatever_its_fields_are_called(
    transforms, kind, form, fields
):
    """An object with `__call__`, or a function with attributes, is lifted as `jax.vmap` and its
    kind lift it, also where a field is called `f`, `has_aux` or `in_axes`.
    """
    _assert_lifted_as_called(transforms, kind, form, fields, {})


@requirement(
    "transformations/options/lifts-of-arrays[fields]", must_reach=(*OWN, "shard_map", *FORMS)
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@costly
@at_least(20)
@given(
    kind=st.sampled_from([*OWN, "shard_map"]),
    form=st.sampled_from(FORMS),
    fields=fields,
    mode=st.sampled_from(FLAGS),
)
def test_a_callable_is_lifted_as_it_is_called_in_every_mode(transforms, kind, form, fields, mode):
    """With `graph=False` and `graph_updates=False`, too, an object with `__call__`, or a function
    with attributes, is lifted as JAX lifts it, whatever its fields are called.
    """
    _assert_lifted_as_called(transforms, kind, form, fields, mode)
