"""Options of a lifted transformation reach JAX's own: OBJ-8o, OBJ-8r, OBJ-8u and LIN-9f.

Some options change how a program runs, and none of its numbers: how far a loop is unrolled, which
values are kept for the backward pass, whether a function is inlined, which axis of a mesh lanes lie
along. They can be seen in the traced program, so nothing is compiled.

The oracle is the program that JAX's own transformation is traced to, with equal options; or the
program of the same lift, when it is given the function and the options together.
"""

import functools
import inspect
import operator
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from scutch.inputs.graphs import classes
from scutch.inputs.object_calls import as_named_by
from scutch.lawkit.agreement import attempted
from scutch.lawkit.equality import alike, holds
from scutch.lawkit.mapped import shard_map
from scutch.lawkit.marks import at_least, options, raised, reached, refused, requirement
from scutch.strategies.object_calls import FLAGS

POLICIES = ("everything_saveable", "nothing_saveable", "dots_saveable")
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

BY_HAND = (frozenset({"data"}), frozenset({"data", "model"}))
"""Axes of the mesh of `shard_map` along which the function is written by hand."""


def _options(kind):
    """Options of one transformation; each may be left out."""
    some = {
        "scan": {"reverse": st.booleans(), "unroll": st.integers(1, 4)},
        "remat": {"prevent_cse": st.booleans(), "policy": st.sampled_from(POLICIES)},
        "jit": {"inline": st.booleans(), "keep_unused": st.booleans()},
        "shard_map": {
            "check_vma": st.booleans(), "axis_names": st.sampled_from(BY_HAND),
        },
        "remat_scan": {"policy": st.sampled_from(POLICIES)},
        "vmap": {"spmd_axis_name": st.just("data"), "axis_name": st.just("lanes")},
    }[kind]  # fmt: skip
    return st.tuples(st.just(kind), st.fixed_dictionaries({}, optional=some))


KINDS = ("scan", "remat", "jit", "vmap", "shard_map")
chosen = st.sampled_from(KINDS).flatmap(_options)


def _with_policy(options):
    """The options, with the policy that a name in them stands for."""
    policies = {"policy": getattr(jax.checkpoint_policies, options.get("policy", POLICIES[0]))}
    return {name: policies.get(name, value) for name, value in options.items()}


def _equations(jaxpr):
    """Every equation of a program, and of the programs inside it, outer ones first."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_program):
            if _is_program(inner):
                yield from _equations(getattr(inner, "jaxpr", inner))


def _is_program(value):
    return hasattr(value, "eqns") or hasattr(value, "jaxpr")


def _in_program(kind, function, *arguments):
    """The options that the first equation of a transformation has, in a traced function."""
    names, options = SEEN[kind]
    program = jax.make_jaxpr(function)(*arguments).jaxpr
    for equation in _equations(program):
        if equation.primitive.name in names:
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


def _mesh():
    """A mesh of two axes and one device."""
    return Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("data", "model"))


def _placed(x, lanes):
    """An array, summed over the lanes if they have a name, and laid out on a mesh."""
    mesh = _mesh()
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
    return {"mesh": _mesh(), "in_specs": (PartitionSpec(),) * count, "out_specs": PartitionSpec()}


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


@requirement(
    "transformations/options/lifts-of-objects", must_reach=(*KINDS, *AXES, "an object", "by name")
)
@at_least(30)
@_with_each
@given(
    chosen=chosen, with_object=st.booleans(), axes=st.sampled_from(AXES),
    by_name=st.booleans(), mode=st.sampled_from([{}, *FLAGS]),
)  # fmt: skip
def test_options_of_lifted_transformations_are_in_the_program(
    transforms, nnx, chosen, with_object, axes, by_name, mode
):
    """`unroll`, `reverse`, `prevent_cse`, `policy`, `inline`, `keep_unused`, `spmd_axis_name`,
    `check_vma` and `axis_names` are as with JAX, given or left out, with an object among the
    arguments or without, in every mode, and where one is passed by name (see OBJ-8e); so
    are the shapes. `scan` slices and stacks along the axis that is given, or else the first one,
    and may carry all that there is.
    """
    kind, options = chosen[0], _with_policy(chosen[1])
    reached(kind)
    lift, arguments = getattr(transforms, kind), (X, XS if kind in ("scan", "vmap") else X)
    if kind == "scan":
        reached(axes)
        arguments = (X, XS.T) if alike(axes, "last") else arguments
        with_object = with_object and holds(("given", "last"), axes)
    if with_object:
        reached("an object")
    alone, last = (kind == "scan" and alike(axes, each) for each in ("carry alone", "last"))
    # Some releases have modes of `scan` for the axes that it has if none are given, and no others.
    unmoded = kind == "scan" and (with_object or alone)
    mode = mode if _takes(lift, mode) and not unmoded else {}
    by_name = by_name and (kind == "jit" or (bool(mode) and kind in ("remat", "vmap")))
    if by_name:
        reached("by name")

    def function(*arguments, **named):
        *objects, carry, x = list(arguments) + list(named.values())
        scale = objects[0].a.get_value() if objects else 2.0
        return _body(kind, lambda: scale, options)(carry, x)

    def by_lift():
        carry, given_options = transforms.Carry, dict(options)
        if alone:
            named = {"in_axes": carry, "out_axes": carry, "length": 4}
            return lift(lambda c: function(c, X)[0], **named, **options, **mode)
        if kind == "scan" and not alike(axes, "left out"):
            along = -1 if last else 0
            named = {"in_axes": (None,) * with_object + (carry, along), "out_axes": (carry, along)}
            return lift(function, **named, **options, **mode)
        if kind == "vmap":
            given_options["in_axes"] = (None,) * (1 + with_object) + (0,) * (not by_name)
        if kind == "shard_map":
            given_options = as_named_by(lift, _mesh(), options) | _specs(2 + with_object)
        return lift(function, **given_options, **mode)

    def expected(carry, x):
        if alone:
            body = _by_carry(function)
            return jax.lax.scan(body, carry, None, **{"length": 4, **options})[0]
        made = _by_jax(kind, options, by_name=by_name)
        if last:
            carry, stacked = made(carry, jnp.moveaxis(x, -1, 0))
            return carry, jnp.moveaxis(stacked, 0, -1)
        return made(carry, x=x) if by_name else made(carry, x)

    def whole(carry, x):
        module = classes(nnx)["Node"]()
        module.a = nnx.Param(jnp.array(2.0))
        first = (*([module] if with_object else []), carry)
        if by_name:
            return by_lift()(*first, x=x)
        return by_lift()(*first, *(() if alone else (x,)))

    ours, theirs = (_in_program(kind, made, *arguments) for made in (whole, expected))
    assert ours == theirs
    assert alike(jax.eval_shape(whole, *arguments), jax.eval_shape(expected, *arguments))


def _by_carry(function):
    """A step that carries alone, as `jax.lax.scan` takes it."""
    return lambda carry, _: (function(carry, X)[0], None)


LINEN = ("scan", "remat", "remat_scan", "vmap")


@requirement("transformations/options/lifts-of-linen", must_reach=LINEN)
@given(chosen=st.sampled_from(LINEN).flatmap(_options))
def test_options_of_lifted_modules_are_in_the_program(linen, chosen):
    """`unroll`, `reverse`, `prevent_cse`, `policy`, `spmd_axis_name` and `axis_name` are in the
    program as they are with JAX.
    """
    kind, options = chosen[0], _with_policy(chosen[1])
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
    assert found == _in_program(kind, _by_jax(kind, options), X, second)


NAMES = ("layers", None)
"""Of the axes of the variable of a lifted function; the first one is that of the lift."""


def _optional(**some):
    """Options, of which each may be left out."""
    return st.fixed_dictionaries({}, optional={n: st.sampled_from(v) for n, v in some.items()})


mapped = st.sampled_from(
    [{"in_axes": (0, 0)}, {"in_axes": (0, 1)}, {"in_axes": (0, -1)},
     {"in_axes": None, "axis_size": 3}]
)  # fmt: skip
slopes = st.sampled_from(
    [{}, {"allow_int": True}, {"holomorphic": True}, {"holomorphic": True, "allow_int": True}]
)
FIRST = {
    "vmap": st.builds(
        operator.or_, mapped,
        _optional(
            out_axes=(0, 1), axis_name=("lane",), spmd_axis_name=("data",),
            transform_metadata=("layers",),
        ),
    ),
    "scan": _optional(
        in_axes=(0, 1, -1), out_axes=(1, -1), length=(3, 3, 2), reverse=(True, False),
        unroll=(1, 2, 3), transform_metadata=("layers",),
    ),
    "grad": st.builds(operator.or_, slopes, _optional(argnums=(1, (1,)), has_aux=(True,))),
    "remat": _optional(prevent_cse=(True, False), policy=POLICIES, static_argnums=(2, (2,))),
    "jit": st.builds(
        operator.or_,
        st.sampled_from(
            [{"static_argnums": 2}, {"static_argnames": "scale"}, {"in_shardings": ("x",)}, {}]
        ),
        _optional(
            inline=(True,), keep_unused=(True,), donate_argnums=(1,), donate_argnames=("x",),
            out_shardings=("all",),
        ),
    ),
    "shard_map": _optional(axis_names=("data",), check_vma=(True, False), out_specs=("data",)),
}  # fmt: skip
"""Options of each transformation; `scan` has axes of its sliced input and of its stacked output.
"""
FIRST["value_and_grad"] = FIRST["grad"]
MORE = ("vmap", "vmap", "scan", "jit", "jit")
"""Those that have the most options are drawn more often."""

_MAPPED = {"in_axes": (0, 1), "out_axes": 1, "axis_name": "lane", "spmd_axis_name": "data"}
_LOOPED = {"in_axes": 1, "out_axes": -1, "length": 3, "reverse": True, "unroll": 2}
WHOLE = (
    ("vmap", _MAPPED | {"transform_metadata": "layers"}),
    ("vmap", {"in_axes": None, "axis_size": 3}),
    ("scan", _LOOPED | {"transform_metadata": "layers"}),
    ("scan", {"length": 2}),
    ("grad", {"argnums": (1,), "has_aux": True, "holomorphic": True}),
    ("grad", {"argnums": 1, "allow_int": True}),
    ("value_and_grad", {"argnums": (1,), "has_aux": True, "holomorphic": True}),
    ("value_and_grad", {"argnums": 1, "allow_int": True}),
    ("remat", {"prevent_cse": False, "policy": POLICIES[0], "static_argnums": 2}),
    ("jit", {"static_argnums": 2, "donate_argnums": 1, "keep_unused": True}),
    ("jit", {"static_argnames": "scale", "donate_argnames": "x", "out_shardings": "all"}),
    ("jit", {"in_shardings": "x"}),
    ("jit", {"inline": True}),
    ("shard_map", {"axis_names": "data", "check_vma": False, "out_specs": "data"}),
)
"""Options of each transformation, each with another value than the one that it has if left out, as
many at once as can be seen in one program; a `length` that the arrays do not have is refused."""


def _with_whole(law):
    """A law that is tried on `WHOLE` first, in each mode."""
    for mode in ({}, *FLAGS):
        for drawn in WHOLE:
            law = example(drawn=drawn, fitting=True, mode=mode, shared=False)(law)
    return law


def _dtype(options):
    """The dtype that the arrays have for which JAX asks for an option of `grad`."""
    if "holomorphic" in options:
        return "complex64"
    return "int32" if "allow_int" in options else "float32"


def _built(transforms, nnx, kind, options, mesh):
    """The options, with each text replaced by the sharding, policy or mark that it names."""
    if kind == "shard_map":
        spec = PartitionSpec(*[options["out_specs"]] if holds(options, "out_specs") else [])
        given_specs = {"in_specs": (PartitionSpec(), PartitionSpec("data")), "out_specs": spec}
        named = {"axis_names": frozenset({"data"}), "check_vma": options.get("check_vma")}
        chosen = {name: named[name] for name in named if holds(options, name)}
        return {"mesh": mesh, **given_specs, **as_named_by(transforms.shard_map, mesh, chosen)}
    on_mesh = NamedSharding(mesh, PartitionSpec())
    options = _with_policy(options) if holds(options, "policy") else dict(options)
    if holds(options, "transform_metadata"):
        options["transform_metadata"] = {nnx.PARTITION_NAME: options["transform_metadata"]}
    if holds(options, "in_shardings"):
        options["in_shardings"] = (None, on_mesh, None)
    if holds(options, "out_shardings"):
        options["out_shardings"] = on_mesh
    if kind == "scan":
        carry = transforms.Carry
        options["in_axes"] = (0, carry, options.get("in_axes", 0))
        options["out_axes"] = (carry, options.get("out_axes", 0))
    return options


def _computing(kind, options, mesh):
    """A function of a module and further arguments, whose program shows the options of a lift."""

    def mapped(module, x):
        y = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, PartitionSpec()))
        y = jax.lax.psum(y, "lane") if "axis_name" in options else y
        return module.a.get_value() * jnp.sum(y)

    def looped(module, carry, x):
        return carry + jnp.sum(x), module.a.get_value() * jnp.sum(x)

    def loss(module, x):
        total = jnp.sum(module.a.get_value()) * jnp.sum(x * x)
        return (total, x) if "has_aux" in options else total

    def kept(module, x, scale):
        return jnp.sin(module.a.get_value()) * jnp.sum(x) * scale

    def sharded(module, x):
        return x * jnp.sum(module.a.get_value())

    functions = {"vmap": mapped, "scan": looped, "remat": kept, "jit": kept, "shard_map": sharded}
    return functions.get(kind, loss)


def _takes(lift, mode):
    """Whether a lift has the options of a mode, which releases of Flax before 0.12.6 have not."""
    parameters = inspect.signature(lift).parameters
    return {*mode} <= {*parameters} or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


@requirement("transformations/options/lifts-of-objects[decorator]", must_reach=(*FIRST, "refused"))
@options("nnx.Variable.out_sharding")
@_with_whole
@given(
    drawn=st.sampled_from([*FIRST, *MORE]).flatmap(
        lambda kind: st.tuples(st.just(kind), FIRST[kind])
    ),
    fitting=st.sampled_from([True, True, True, False]),
    mode=st.sampled_from([{}, {}, *FLAGS]),
    shared=st.booleans(),
)
def test_options_without_a_function_make_a_decorator(transforms, nnx, drawn, fitting, mode, shared):
    """`lift(**options)(function)` is traced to the program of `lift(function, **options)`, with
    the same names of axes inside, and changes the object as that does, or both are refused. So it
    is in each mode, where the implementation has it.
    """
    kind, options = drawn
    mesh = _mesh()
    function = _computing(kind, options, mesh)
    lift, dtype = getattr(transforms, kind), _dtype(options) if fitting else "int32"
    mode = mode if _takes(lift, mode) else {}

    def seen(lifted_from):
        """The program, the names of the axes of the variable inside, and whether the object has an
        attribute outside that it gets inside.
        """
        found = []

        def noting(module, *rest):
            found.append(tuple(module.a.get_metadata("out_sharding")))
            module.e = 3
            return function(module, *rest)

        def with_names(module, x, scale):
            return noting(module, x, scale)

        def whole(x):
            module = classes(nnx)["Node"]()
            value = jnp.ones((3, 2), "complex64" if dtype == "complex64" else "float32")
            module.a = nnx.Param(value, out_sharding=NAMES, eager_sharding=False)
            if shared:
                module.b = module.a
            of_kind = {"scan": (jnp.zeros(()), x), "remat": (x, 2), "jit": (x, 2)}
            given_options = {**_built(transforms, nnx, kind, options, mesh), **mode}
            lifted = lifted_from(with_names if kind == "jit" else noting, given_options)
            returned = jax.tree.leaves(lifted(module, *of_kind.get(kind, (x,))))
            found.append(hasattr(module, "e"))
            return returned

        program = jax.make_jaxpr(whole)(jnp.ones((3, 3), dtype))
        return re.sub("0x[0-9a-f]+", "", str(program)), found

    together, first = (
        attempted(lambda given=given: seen(given))
        for given in (lambda f, given: lift(f, **given), lambda f, given: lift(**given)(f))
    )
    reached(kind if together.error is None else "refused")
    assert (together.error is None) == (first.error is None), f"{together.error}, {first.error}"
    assert alike(first.results, together.results)


CARRY = "carry"
"""Stands for `transforms.Carry`, the mark of a carried argument, in the cases below."""


def _pair(carry, x):
    """One step of a loop, which returns its carry as the new carry and as a slice to stack."""
    return carry, carry


# Illegal axes of a loop: the axes of its arguments, the axes of its results, one step, and a letter
# for each argument: `c` for a carry, `x` for a sliced array.
NO_LOOP = {
    "two carried": ((CARRY, CARRY), (CARRY, 0), _pair, "cc"),
    "two returned": ((CARRY, 0), (CARRY, CARRY), _pair, "cx"),
    "not returned": ((CARRY, 0), 0, lambda carry, x: carry, "cx"),
    "returned as a slice": ((CARRY, 0), (0, 0), _pair, "cx"),
    "not carried": ((0, 0), (CARRY, 0), _pair, "xx"),
    "nothing carried": ((0, 0), (CARRY, 0), lambda one, x: (None, x), "xx"),
    "two for one carry": (CARRY, CARRY, lambda carry, x: carry, "cx"),
    "two for one carry and a slice": (CARRY, (CARRY, 0), _pair, "cc"),
    "too few": ((CARRY,), (CARRY, 0), _pair, "cx"),
    "nowhere stacked": ((CARRY, 0), (CARRY, None), _pair, "cx"),
    "text": ((CARRY, "text"), (CARRY, 0), _pair, "cx"),
}
OF_OBJECTS = ("of an array", "of a returned array", "of a part")
"""Axes by filter that are given for an array, or that leave out a variable."""


def _with_no_loops(law):
    """A law that is tried on each of `NO_LOOP` first, in each mode, and on each of `OF_OBJECTS`."""
    drawn = {"size": 2, "tree": False}
    for mode in ({}, *FLAGS):
        for case in NO_LOOP:
            law = example(case=case, lift="scan", mode=mode, **drawn)(law)
    for case in OF_OBJECTS:
        for lift in ("vmap", "scan"):
            law = example(case=case, lift=lift, mode={}, **drawn)(law)
    return law


@requirement("transformations/refuses/scan-of-objects[axes]", must_reach=(*NO_LOOP, *OF_OBJECTS))
@_with_no_loops
@given(
    case=st.sampled_from([*NO_LOOP, *OF_OBJECTS]), size=st.integers(1, 4), tree=st.booleans(),
    lift=st.sampled_from(["vmap", "scan"]),
    mode=st.sampled_from([{}, {}, *FLAGS]),
)  # fmt: skip
def test_axes_that_make_no_loop_are_refused(transforms, nnx, case, size, tree, lift, mode):
    """`scan` and `vmap` refuse axes that do not fit their arguments and results.

    `scan` refuses two carries, a carry that is not returned, a returned carry that was not passed,
    too few axes, and `None` as the axis of a stacked result. Both refuse a `StateAxes` for an array
    argument or result, and one without an axis for some variable.
    """
    reached(case)
    carry, xs = jnp.zeros(2), jnp.ones((size, 2))
    mark = transforms.Carry
    if case in NO_LOOP:
        in_axes, out_axes, step, kinds = NO_LOOP[case]
        axes = {"in_axes": in_axes, "out_axes": out_axes}
        is_mark = functools.partial(jax.tree.map, lambda axis: mark if alike(axis, CARRY) else axis)
        arguments = [{"c": carry, "x": xs}[kind] for kind in kinds]
        arguments = [{"a": each} for each in arguments] if tree else arguments
        mode = mode if _takes(transforms.scan, mode) else {}
        refused(lambda: transforms.scan(step, **is_mark(axes), **mode)(*arguments))
        return
    module = classes(nnx)["Node"]()
    module.a, module.b = nnx.Param(xs), nnx.BatchStat(xs)
    prefix = transforms.StateAxes({nnx.Param: 0} if case == "of a part" else {...: 0})
    given_one = module if case == "of a part" else {"a": xs} if tree else xs
    before, after = (0, prefix) if case == "of a returned array" else (prefix, 0)

    def step(carry, one):
        return carry, carry if case == "of a part" else one

    if lift == "vmap":
        axes = {"in_axes": (None, before), "out_axes": (None, after)}
    else:
        axes = {"in_axes": (mark, before), "out_axes": (mark, after)}
    refused(lambda: getattr(transforms, lift)(step, **axes)(carry, given_one))


def _with_each_mode(law):
    """A law that is tried with each lift in each mode first."""
    for mode in ({}, *FLAGS):
        for lift in ("scan", "vmap"):
            law = example(lift=lift, mode=mode, axis=0, size=2)(law)
    return law


@requirement("transformations/refuses/scan-of-objects[axes]", must_reach=("scan", "vmap"))
@_with_each_mode
@given(
    lift=st.sampled_from(["scan", "vmap"]), mode=st.sampled_from([{}, *FLAGS]),
    axis=st.integers(0, 1), size=st.integers(1, 3),
)  # fmt: skip
def test_a_variable_in_the_place_of_an_axis_loses_nothing(transforms, nnx, lift, mode, axis, size):
    """`scan` and `vmap` refuse axes in which a variable holds the axis for a variable, or change
    the variable that they are given as with that axis.
    """
    reached(lift)
    variable, carry = nnx.Param(jnp.ones((size, size))), jnp.zeros(())

    def step(carry, one):
        one.set_value(one.get_value() + 1)
        return carry, carry

    first, last = (transforms.Carry, 0) if lift == "scan" else (None, None)
    axes = {"in_axes": (first, nnx.Param(axis)), "out_axes": (first, last)}
    made = getattr(transforms, lift)
    mode = mode if _takes(made, mode) else {}
    if raised(lambda: made(step, **axes, **mode)(carry, variable)) is None:
        assert alike(np.asarray(variable.get_value()), np.full((size, size), 2, "float32"))
