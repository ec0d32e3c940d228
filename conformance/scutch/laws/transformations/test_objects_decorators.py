"""A lifted transformation without a function makes a decorator with its options: OBJ-8u.

The oracle is the program of the same lift, when it is given the function and the options together.
Nothing is compiled.
"""

import operator
import re

import jax
import jax.numpy as jnp
from hypothesis import example, given
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from scutch.engine.agreement import attempted
from scutch.engine.lifts.shard_map import as_named_by
from scutch.inputs.graphs import classes
from scutch.lawkit.equality import alike, holds
from scutch.lawkit.marks import options, reached, requirement
from scutch.laws.transformations.lift_options import (
    POLICIES,
    as_jax_takes,
    may_take_modes,
    one_device_mesh,
)
from scutch.strategies.moded_calls import FLAGS

NAMES = ("layers", None)
"""Of the axes of the variable of a lifted function; the first one is that of the lift."""


def _optional(**some):
    """Options, of which each may be left out."""
    return st.fixed_dictionaries({}, optional={n: st.sampled_from(v) for n, v in some.items()})


mapped = st.sampled_from(
    [
        {"in_axes": (0, 0)},
        {"in_axes": (0, 1)},
        {"in_axes": (0, -1)},
        {"in_axes": None, "axis_size": 3},
    ]
)
slopes = st.sampled_from(
    [{}, {"allow_int": True}, {"holomorphic": True}, {"holomorphic": True, "allow_int": True}]
)
FIRST = {
    "vmap": st.builds(
        operator.or_,
        mapped,
        _optional(
            out_axes=(0, 1),
            axis_name=("lane",),
            spmd_axis_name=("data",),
            transform_metadata=("layers",),
        ),
    ),
    "scan": _optional(
        in_axes=(0, 1, -1),
        out_axes=(1, -1),
        length=(3, 3, 2),
        reverse=(True, False),
        unroll=(1, 2, 3),
        transform_metadata=("layers",),
    ),
    "grad": st.builds(operator.or_, slopes, _optional(argnums=(1, (1,)), has_aux=(True,))),
    "remat": _optional(prevent_cse=(True, False), policy=POLICIES, static_argnums=(2, (2,))),
    "jit": st.builds(
        operator.or_,
        st.sampled_from(
            [{"static_argnums": 2}, {"static_argnames": "scale"}, {"in_shardings": ("x",)}, {}]
        ),
        _optional(
            inline=(True,),
            keep_unused=(True,),
            donate_argnums=(1,),
            donate_argnames=("x",),
            out_shardings=("all",),
        ),
    ),
    "shard_map": _optional(axis_names=("data",), check_vma=(True, False), out_specs=("data",)),
}
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
    options = as_jax_takes(options) if holds(options, "policy") else dict(options)
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
    mesh = one_device_mesh()
    function = _computing(kind, options, mesh)
    lift, dtype = getattr(transforms, kind), _dtype(options) if fitting else "int32"
    mode = mode if may_take_modes(lift, mode) else {}

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
