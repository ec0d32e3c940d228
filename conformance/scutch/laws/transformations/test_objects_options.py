"""Options of a lifted transformation reach JAX's own: OBJ-8o, OBJ-8r, OBJ-8u and LIN-9f.

Some options change how a program runs, and none of its numbers: how far a loop is unrolled, which
values are kept for the backward pass, whether a function is inlined, which axis of a mesh lanes lie
along. They can be seen in the traced program, so nothing is compiled.

The oracle is the program that JAX's own transformation is traced to, with equal options; or the
program of the same lift, when it is given the function and the options together.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from scutch.engine.lifts.shard_map import as_named_by
from scutch.inputs.graphs import classes
from scutch.lawkit.equality import alike, holds
from scutch.lawkit.equations import equations
from scutch.lawkit.mapped import shard_map
from scutch.lawkit.marks import reached, requirement
from scutch.laws.transformations.lift_options import (
    POLICIES,
    as_jax_takes,
    may_take_modes,
    one_device_mesh,
)
from scutch.strategies.moded_calls import FLAGS

SEEN = {
    "scan": (("scan",), ("reverse", "unroll", "length")),
    "remat": (("checkpoint", "remat", "remat2"), ("prevent_cse", "policy")),
    "jit": (("jit", "pjit"), ("inline", "keep_unused")),
    "shard_map": (
        ("shard_map",),
        ("check_vma", "check_rep", "auto", "manual_axes", "newly_manual_axes"),
    ),
    "remat_scan": (("checkpoint", "remat", "remat2"), ("policy",)),
    "vmap": (("sharding_constraint",), ("sharding",)),
}
"""For each transformation, its primitive in a program, and the options that are kept with it; the
names of both differ between releases of JAX."""

BY_HAND = (("data",), ("data", "model"))
"""Axes of the mesh of `shard_map` along which the function is written by hand."""


def _options(kind):
    """Options of one transformation; each may be left out."""
    some = {
        "scan": {"reverse": st.booleans(), "unroll": st.integers(1, 4)},
        "remat": {"prevent_cse": st.booleans(), "policy": st.sampled_from(POLICIES)},
        "jit": {"inline": st.booleans(), "keep_unused": st.booleans()},
        "shard_map": {
            "check_vma": st.booleans(),
            "axis_names": st.sampled_from(BY_HAND),
        },
        "remat_scan": {"policy": st.sampled_from(POLICIES)},
        "vmap": {"spmd_axis_name": st.just("data"), "axis_name": st.just("lanes")},
    }[kind]
    return st.tuples(st.just(kind), st.fixed_dictionaries({}, optional=some))


KINDS = ("scan", "remat", "jit", "vmap", "shard_map")
chosen = st.sampled_from(KINDS).flatmap(_options)


def _in_program(kind, function, *arguments):
    """The options that the first equation of a transformation has, in a traced function."""
    names, options = SEEN[kind]
    program = jax.make_jaxpr(function)(*arguments).jaxpr
    for equation in equations(program):
        if holds(names, equation.primitive.name):
            return {name: equation.params.get(name) for name in options}
    return "no such equation"


def _body(kind, scale, options=()):
    """A function of an array that `jax.lax.scan` takes, or one that all others take."""
    if kind == "scan":
        return lambda carry, x: (carry + scale() * x, carry * x)
    if kind == "vmap":
        return lambda carry, x: _placed(carry * scale() * x, int(holds(options, "axis_name")))
    if kind == "remat_scan":
        return lambda carry, x: jnp.sin(carry) * scale() * x
    return lambda carry, x: jnp.sum(jnp.sin(carry) * scale() * x)


def _placed(x, lanes):
    """An array, summed over the lanes if they have a name, and laid out on a mesh."""
    mesh = one_device_mesh()
    total = x + jax.lax.psum(x, ("lanes",) * lanes)
    return jax.lax.with_sharding_constraint(total, NamedSharding(mesh, PartitionSpec("model")))


def _by_jax(kind, options, *, by_name=False):
    """JAX's own transformation of the body, whose last argument may be passed by name."""
    body = _body(kind, lambda: 2.0, options)
    if kind == "scan":
        return lambda carry, xs: jax.lax.scan(body, carry, xs, **options)
    if kind == "vmap":
        return jax.vmap(body, (None,) if by_name else (None, 0), **options)
    if kind == "shard_map":
        return shard_map(body, **_specs(2), **options)
    if kind == "remat_scan":
        return lambda carry, _: jax.checkpoint(lambda x: body(x, x), **options)(carry)
    return {"remat": jax.checkpoint, "jit": jax.jit}[kind](body, **options)


def _specs(count):
    """The options that `shard_map` needs for a function of `count` unsharded arguments."""
    return {
        "mesh": one_device_mesh(),
        "in_specs": (PartitionSpec(),) * count,
        "out_specs": PartitionSpec(),
    }


X, XS = np.ones(2, "float32"), np.ones((4, 2), "float32")
AXES = ("left out", "given", "last", "carry alone")
"""How a loop has its axes; the ones that are left out are `(Carry, 0)`, in and out. The last axis,
along which it may slice and stack, is another one than the first."""
EACH: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("scan", {"unroll": 3}, "left out"),
    ("scan", {"reverse": True}, "last"),
    ("scan", {"reverse": True}, "carry alone"),
    ("remat", {"prevent_cse": False, "policy": POLICIES[2]}, "given"),
    ("jit", {}, "given"),
    ("vmap", {"spmd_axis_name": "data", "axis_name": "lanes"}, "given"),
    ("shard_map", {"check_vma": False}, "given"),
    ("shard_map", {"axis_names": BY_HAND[0]}, "given"),
)
"""Options of each transformation, with other values than those that they have if left out, and the
axes of a loop."""


def _with_each(law):
    """A law that is tried on `EACH` first, in each mode."""
    for mode in ({}, *FLAGS):
        for kind, given_options, axes in EACH:
            drawn = {"chosen": (kind, given_options), "axes": axes, "mode": mode}
            law = example(**drawn, with_object=False, by_name=True)(law)
    return law


def _by_carry(function):
    """A step that carries alone, as `jax.lax.scan` takes it."""
    return lambda carry, _: (function(carry, X)[0], None)


def _loop_axes(carry, axes, with_object):
    """The options of lifted `scan` for its axes, and that of an object which all steps share."""
    if alike(axes, "carry alone"):
        return {"in_axes": carry, "out_axes": carry, "length": 4}
    if alike(axes, "left out"):
        return {}
    along = -1 if alike(axes, "last") else 0
    return {"in_axes": (None,) * with_object + (carry, along), "out_axes": (carry, along)}


def _of_arrays(kind, options, axes, step, *, by_name):
    """JAX's own transformation with options, along the axes of a loop; `step` carries alone."""
    made = _by_jax(kind, options, by_name=by_name)
    if kind == "scan" and alike(axes, "carry alone"):
        looped = {"length": 4, **options}
        return lambda carry, _: jax.lax.scan(step, carry, None, **looped)[0]
    if kind == "scan" and alike(axes, "last"):

        def along_last(carry, x):
            carry, stacked = made(carry, jnp.moveaxis(x, -1, 0))
            return carry, jnp.moveaxis(stacked, 0, -1)

        return along_last
    return lambda carry, x: made(carry, x=x) if by_name else made(carry, x)


@requirement(
    "transformations/options/lifts-of-objects", must_reach=(*KINDS, *AXES, "an object", "by name")
)
@_with_each
@given(
    chosen=chosen,
    with_object=st.booleans(),
    axes=st.sampled_from(AXES),
    by_name=st.booleans(),
    mode=st.sampled_from([{}, *FLAGS]),
)
def test_options_of_lifted_transformations_are_in_the_program(
    transforms, nnx, chosen, with_object, axes, by_name, mode
):
    """`unroll`, `reverse`, `prevent_cse`, `policy`, `inline`, `keep_unused`, `spmd_axis_name`,
    `check_vma` and `axis_names` are as with JAX, given or left out, with an object among the
    arguments or without, in every mode, and where one is passed by name (see OBJ-8e); so
    are the shapes. `scan` slices and stacks along the axis that is given, or else the first one,
    and may carry all that there is.
    """
    kind, options = chosen[0], as_jax_takes(chosen[1])
    reached(kind)
    lift, arguments = getattr(transforms, kind), (X, XS if kind in ("scan", "vmap") else X)
    if kind == "scan":
        reached(axes)
        arguments = (X, XS.T) if alike(axes, "last") else arguments
        with_object = with_object and holds(("given", "last"), axes)
    if with_object:
        reached("an object")
    alone = kind == "scan" and alike(axes, "carry alone")
    # Some releases have modes of `scan` for the axes that it has if none are given, and no others.
    unmoded = kind == "scan" and (with_object or alone)
    mode = mode if may_take_modes(lift, mode) and not unmoded else {}
    by_name = by_name and (kind == "jit" or (bool(mode) and kind in ("remat", "vmap")))
    if by_name:
        reached("by name")

    def function(*arguments, **named):
        *objects, carry, x = list(arguments) + list(named.values())
        scale = objects[0].a.get_value() if objects else 2.0
        return _body(kind, lambda: scale, options)(carry, x)

    def by_lift():
        given_options = dict(options)
        if kind == "scan":
            given_options |= _loop_axes(transforms.Carry, axes, with_object)
        if kind == "vmap":
            given_options["in_axes"] = (None,) * (1 + with_object) + (0,) * (not by_name)
        if kind == "shard_map":
            given_options = as_named_by(lift, one_device_mesh(), options) | _specs(2 + with_object)
        step = (lambda carry: function(carry, X)[0]) if alone else function
        return lift(step, **given_options, **mode)

    expected = _of_arrays(kind, options, axes, _by_carry(function), by_name=by_name)

    def whole(carry, x):
        module = classes(nnx)["Node"]()
        module.a = nnx.Param(jnp.array(2.0))
        first = (*([module] if with_object else []), carry)
        if by_name:
            return by_lift()(*first, x=x)
        return by_lift()(*first, *(() if alone else (x,)))

    ours, theirs = (_in_program(kind, made, *arguments) for made in (whole, expected))
    assert alike(ours, theirs)
    assert alike(jax.eval_shape(whole, *arguments), jax.eval_shape(expected, *arguments))


LINEN = ("scan", "remat", "remat_scan", "vmap")


@requirement("transformations/options/lifts-of-linen", must_reach=LINEN)
@given(chosen=st.sampled_from(LINEN).flatmap(_options))
def test_options_of_lifted_modules_are_in_the_program(linen, chosen):
    """`unroll`, `reverse`, `prevent_cse`, `policy`, `spmd_axis_name` and `axis_name` are in the
    program as they are with JAX.
    """
    kind, options = chosen[0], as_jax_takes(chosen[1])
    reached(kind)
    second = X if kind == "remat" else XS
    repeated = kind == "remat_scan"

    class Body(linen.Module):
        @linen.compact
        def __call__(self, carry, *x):
            scale = self.param("scale", lambda key: jnp.array(2.0))
            return _body(kind, lambda: scale, options)(carry, *(x or (carry,)))

    extra = {
        "scan": {"variable_broadcast": "params", "split_rngs": {"params": False}},
        "vmap": {"variable_axes": {"params": None}, "in_axes": (None, 0)},
        "remat_scan": {"variable_broadcast": "params", "variable_axes": {}, "lengths": (1, 1)},
    }.get(kind, {})
    lifted = getattr(linen, kind)(Body, **options, **extra)
    variables = {"params": {"scale": jnp.array(2.0)}}

    def applied(carry, x):
        return lifted().apply(variables, carry, *(() if repeated else (x,)))

    found = _in_program(kind, applied, X, second)
    assert alike(found, _in_program(kind, _by_jax(kind, options), X, second))
