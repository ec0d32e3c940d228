"""Options of a lifted transformation reach JAX's own: OBJ-8o, OBJ-8r, OBJ-8u and LIN-9f.

Some options change how a program runs, and none of its numbers: how far a loop is unrolled, what is
kept for the backward pass, whether a function is inlined, which axis of a mesh lanes lie along.
They can be seen in the traced program, so nothing is compiled.

The oracle is the program that JAX's own transformation is traced to, with equal options; or the
program of the same lift, when it is given the function and the options together.
"""

import functools
import inspect
import operator
import re

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
from scutch.lawkit.marks import options, reached, refused, requirement
from scutch.strategies.object_calls import FLAGS

POLICIES = ("everything_saveable", "nothing_saveable", "dots_saveable")
SEEN = {
    "scan": (("scan",), ("reverse", "unroll", "length")),
    "remat": (("checkpoint", "remat", "remat2"), ("prevent_cse", "policy")),
    "jit": (("jit", "pjit"), ("inline", "keep_unused")),
    "remat_scan": (("checkpoint", "remat", "remat2"), ("policy",)),
    "vmap": (("sharding_constraint",), ("sharding",)),
}
"""For each transformation, its primitive in a program (the names differ between releases of JAX),
and the options that are kept with it."""


def _options(kind):
    """Options of one transformation; each may be left out."""
    some = {
        "scan": {"reverse": st.booleans(), "unroll": st.integers(1, 4)},
        "remat": {"prevent_cse": st.booleans(), "policy": st.sampled_from(POLICIES)},
        "jit": {"inline": st.booleans(), "keep_unused": st.booleans()},
        "remat_scan": {"policy": st.sampled_from(POLICIES)},
        "vmap": {"spmd_axis_name": st.just("data"), "axis_name": st.just("lanes")},
    }[kind]
    return st.tuples(st.just(kind), st.fixed_dictionaries({}, optional=some))


chosen = st.sampled_from(["scan", "remat", "jit"]).flatmap(_options)


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
            return {name: equation.params[name] for name in options}
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
    mesh = Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("data", "model"))
    total = x + jax.lax.psum(x, ("lanes",) * lanes)
    return jax.lax.with_sharding_constraint(total, NamedSharding(mesh, PartitionSpec("model")))


def _by_jax(kind, options):
    """JAX's own transformation of the body."""
    body = _body(kind, lambda: 2.0, options)
    if kind == "scan":
        return lambda carry, xs: jax.lax.scan(body, carry, xs, **options)
    if kind == "vmap":
        return jax.vmap(body, (None, 0), **options)
    if kind == "remat_scan":
        return lambda carry, _: jax.checkpoint(lambda x: body(x, x), **options)(carry)
    return {"remat": jax.checkpoint, "jit": jax.jit}[kind](body, **options)


X, XS = np.ones(2, "float32"), np.ones((4, 2), "float32")


@requirement("OBJ-8o", must_reach=("scan", "remat", "jit", "an object"))
@given(chosen=chosen, with_object=st.booleans())
def test_options_of_lifted_transformations_are_in_the_program(transforms, nnx, chosen, with_object):
    """`unroll`, `reverse`, `prevent_cse`, `policy`, `inline` and `keep_unused` are as with JAX,
    given or left out, with an object among the arguments or without.
    """
    kind, options = chosen[0], _with_policy(chosen[1])
    reached(kind)
    second = XS if kind == "scan" else X
    expected = _in_program(kind, _by_jax(kind, options), X, second)
    axes = {"in_axes": (transforms.Carry, 0), "out_axes": (transforms.Carry, 0)}
    if with_object:
        reached("an object")
        axes["in_axes"] = (None, *axes["in_axes"])

    def function(*arguments):
        *objects, carry, x = arguments
        scale = objects[0].a.get_value() if objects else 2.0
        return _body(kind, lambda: scale)(carry, x)

    lift = getattr(transforms, kind)
    lifted = lift(function, **options, **(axes if kind == "scan" else {}))

    def whole(carry, x):
        module = classes(nnx)["Node"]()
        module.a = nnx.Param(jnp.array(2.0))
        return lifted(*([module] if with_object else []), carry, x)

    assert _in_program(kind, whole, X, second) == expected


LINEN = ("scan", "remat", "remat_scan", "vmap")


@requirement("LIN-9f", must_reach=LINEN)
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
"""Options of each transformation; the axes of `scan` are those of what it slices and stacks."""
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
    """The options, with what the texts in them stand for."""
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
    """A function of a module and what else a lift hands to it, in whose program options show."""

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


@requirement("OBJ-8r", must_reach=(*FIRST, "refused"))
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
    mesh = Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("data", "model"))
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
"""What stands for the mark of what a loop carries, in the cases below."""


def _pair(carry, x):
    """One step of a loop, which returns what it carries and what is stacked."""
    return carry, carry


# Axes of a loop that no loop has: those of its arguments, those of what it returns, one step, and
# of which kind the arguments are: what is carried, or what is sliced.
NO_LOOP = {
    "two carried": ((CARRY, CARRY), (CARRY, 0), _pair, "cc"),
    "two returned": ((CARRY, 0), (CARRY, CARRY), _pair, "cx"),
    "not returned": ((CARRY, 0), 0, lambda carry, x: carry, "cx"),
    "returned as a slice": ((CARRY, 0), (0, 0), _pair, "cx"),
    "not carried": ((0, 0), (CARRY, 0), _pair, "xx"),
    "two for one carry": (CARRY, CARRY, lambda carry, x: carry, "cx"),
    "two for one carry and a slice": (CARRY, (CARRY, 0), _pair, "cc"),
    "too few": ((CARRY,), (CARRY, 0), _pair, "cx"),
    "text": ((CARRY, "text"), (CARRY, 0), _pair, "cx"),
}
OF_OBJECTS = ("of an array", "of a part")
"""Axes by filter that are given for an array, or that leave out a variable."""


def _with_no_loops(law):
    """A law that is tried on each of `NO_LOOP` first, in each mode."""
    for mode in ({}, *FLAGS):
        for case in NO_LOOP:
            law = example(case=case, size=2, tree=False, lift="scan", mode=mode)(law)
    return law


@requirement("OBJ-8u", must_reach=(*NO_LOOP, *OF_OBJECTS))
@_with_no_loops
@given(
    case=st.sampled_from([*NO_LOOP, *OF_OBJECTS]), size=st.integers(1, 4), tree=st.booleans(),
    lift=st.sampled_from(["vmap", "scan"]),
    mode=st.sampled_from([{}, {}, *FLAGS]),
)  # fmt: skip
def test_axes_that_make_no_loop_are_refused(transforms, nnx, case, size, tree, lift, mode):
    """`scan` refuses axes that carry two arguments, or one that is not returned, or return one that
    is not carried, or that are too few. `scan` and `vmap` refuse a `StateAxes` for an array, and
    one that has no axis for a variable.
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
    if lift == "vmap":
        refused(lambda: transforms.vmap(lambda one: 0.0, in_axes=(prefix,))(given_one))
    else:
        options = {"in_axes": (mark, prefix), "out_axes": (mark, 0)}
        refused(lambda: transforms.scan(_pair, **options)(carry, given_one))
