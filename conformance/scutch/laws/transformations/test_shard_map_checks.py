"""Refusals of lifted `shard_map`, and its composition with other transformations: SHM-4 and SHM-5.

A refused call has one fault in generated objects and arrays. Composed calls are compared with
`jax.shard_map` of the pure function of the objects' leaves (see `scutch.engine.carriers.objects`),
or with the function itself, called on whole arrays on one device. A *mapped* function is the result
of `shard_map`.
"""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import PartitionSpec as P

from scutch.engine.lifts.shard_map import as_named_by
from scutch.engine.relations import agreement
from scutch.inputs import graphs
from scutch.inputs.descriptions import Mesh
from scutch.inputs.filters import FAILING
from scutch.inputs.programs import KINDS
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, assert_close, holds
from scutch.lawkit.marks import costly, dear, raised, reached, refused, requirement
from scutch.lawkit.tolerances import CALLS, MODELS, near
from scutch.strategies import meshes, programs
from scutch.strategies.object_calls import object_calls, rewritten
from scutch.strategies.tensor_parallel import blocks

lines = meshes(axes=(("data",), ("data", "model")))
several = st.sampled_from(
    [Mesh((n,), ("data",)) for n in (2, 4, 8)] + [Mesh((n, 2), ("data", "model")) for n in (2, 4)]
)

FAULTS = {"axis": ("nope",), "size": (3, 5, 7)}
"""The texts of which a refusal must show one: the unknown mesh axis, or an indivisible size."""

PLACES = ("object", "type", "batch", "part")
"""Where a call is wrong: in the spec of an object, in that of one type of its variables, in that of
an array, or in that of a part of a container of arrays."""

IN_ORDER = {
    (0, 1, 2): lambda module, x, parts: None,
    (0, 2, 1): lambda module, parts, x: None,
    (1, 0, 2): lambda x, module, parts: None,
    (1, 2, 0): lambda x, parts, module: None,
    (2, 0, 1): lambda parts, module, x: None,
    (2, 1, 0): lambda parts, x, module: None,
}
"""Functions of an object, an array and a container of arrays, by the order in which they take
them."""

refusals = {
    "program": programs(()).map(
        lambda program: dataclasses.replace(program, graph=rewritten(program.graph, None, (8, 8)))
    ),
    "place": st.sampled_from(PLACES),
    "axis": st.sampled_from((0, 1)),
    "kind": st.sampled_from(KINDS),
    "order": st.permutations((0, 1, 2)),
    "traced": st.booleans(),
}


def _bad_call(transforms, nnx, mesh, fault, program, place, axis, kind, order, traced):
    """A call that is wrong in one argument, ready to be made.

    Args:
      transforms: The namespace with the `shard_map` under judgment.
      nnx: The namespace of objects.
      mesh: The mesh.
      fault: A key of `FAULTS`.
      program: Its first argument is passed; all variables have shape `(8, 8)`.
      place: One of `PLACES`.
      axis: Which axis of the array is wrong.
      kind: The type of variables that are wrong, for the place `type`.
      order: In which the function takes the object, the array and the container.
      traced: Whether the call is made inside of a jitted function.

    Returns:
      The call, and a pattern that matches any name of the wrong argument in an error message.
    """
    wrong = P(*(None,) * axis, "nope" if fault == "axis" else "data")
    size = {0: (3, 8), 1: (8, 5)}[axis] if fault == "size" else (8, 8)
    first, leaves = program.arguments[0], graphs.leaves(nnx, program.arguments[0])
    chosen = {
        path: leaf
        for path, leaf in leaves.items()
        if place == "object" or (place == "type" and alike(type(leaf).__name__, kind))
    }
    assume(chosen or place in ("batch", "part"))
    for leaf in chosen.values():
        leaf.set_value(np.ones(size, "int32"))
    specs = [P(), P(), {"u": P(), "v": P()}]
    x, parts = np.ones((8, 8), "int32"), {"u": np.ones(()), "v": np.ones((8, 8), "int32")}
    match place:
        case "object":
            specs[0] = wrong
        case "type":
            specs[0] = transforms.StateSharding({graphs.classes(nnx)[kind]: wrong, ...: P()})
            assume(graphs.is_node(nnx, first))
        case "batch":
            specs[1], x = wrong, np.ones(size, "int32")
        case _:
            specs[2], parts["v"] = {"u": P(), "v": wrong}, np.ones(size, "int32")
    arguments, function = [first, x, parts], IN_ORDER[tuple(order)]
    mapped = transforms.shard_map(
        function, mesh=mesh, in_specs=tuple(specs[i] for i in order), out_specs=P()
    )
    call = transforms.jit(lambda *given: mapped(*given)) if traced else mapped
    at_fault = {"batch": 1, "part": 2}.get(place, 0)
    number, name = order.index(at_fault), ("module", "x", "parts")[at_fault]
    keys = {key for path in chosen for key in path} | ({"v"} if place == "part" else set())
    shown = [rf"\[{number}\]", rf"argument {number}\b", f"'{name}'"]
    shown += [rf"['\[.]{re.escape(str(key))}\b" for key in keys]
    return lambda: call(*(arguments[i] for i in order)), "|".join(shown)


def _shows(error, words):
    """Fail unless an error shows one of some words or numbers."""
    assert re.search("|".join(rf"\b{word}\b" for word in words), str(error)), (
        f"{str(error)!r} shows none of {words}"
    )


@requirement("transformations/refuses/shard-map-of-objects[specs]")
@costly
@given(mesh=lines, **refusals)
def test_an_unknown_mesh_axis_is_refused(
    transforms, nnx, mesh, program, place, axis, kind, order, traced
):
    """A spec that names an axis which the mesh does not have, of an object, of some variables, of
    an array or of a part of a container, in any order and also inside of a jitted function, is
    refused with an error that shows the axis.
    """
    call, _ = _bad_call(transforms, nnx, mesh, "axis", program, place, axis, kind, order, traced)
    _shows(refused(call), FAULTS["axis"])


@requirement("transformations/refuses/shard-map-of-objects[specs]")
@costly
@given(mesh=several, **refusals)
def test_an_indivisible_size_is_refused_by_shard_map(
    transforms, nnx, mesh, program, place, axis, kind, order, traced
):
    """A size that its mesh axis does not divide, of a variable, of an array or of a part of a
    container, is refused with an error that shows the size, also inside of a jitted function.
    """
    call, _ = _bad_call(transforms, nnx, mesh, "size", program, place, axis, kind, order, traced)
    _shows(refused(call), FAULTS["size"])


@requirement("transformations/refuses/shard-map-of-objects[specs,message]")
@given(mesh=several, fault=st.sampled_from([*FAULTS, "size"]), **refusals)
def test_the_refusal_says_which_argument(
    transforms, nnx, mesh, fault, program, place, axis, kind, order, traced
):
    """Both errors show which argument is wrong, in any order of the arguments: its number, the name
    of its parameter, or a key of a path in it.
    """
    call, shown = _bad_call(transforms, nnx, mesh, fault, program, place, axis, kind, order, traced)
    message = str(refused(call))
    assert re.search(shown, message), f"{message!r} does not match {shown!r}"


DIFFERING = {
    "sum": jnp.sum,
    "slice": lambda x: x[:1] * 2,
    "index": lambda x: jax.lax.axis_index("data") + jnp.ones(1),
    "summed over another axis": lambda x: jax.lax.pmean(x.sum(), "model"),
    "in a branch": lambda x: jax.lax.cond(x.sum() > 0, lambda: x.sum(), lambda: 0 * x.sum()),
    "in a loop": lambda x: jax.lax.scan(lambda c, row: (c + row, None), 0 * x[0], x)[0],
}
"""Values that differ between devices along the mesh axis `data`."""

SHAPES = {"slice": (1, 4), "index": (1,), "in a loop": (4,)}
"""Of such values, where they are not scalars."""

WHERE = ("output", "part of the output", "variable")

SHARDED = np.linspace(-1, 1, 8 * 4, dtype="float32").reshape(8, 4)
"""The array on which such a function is called, sharded along `data`."""


def _differing(transforms, nnx, mesh, how, where, **options):
    """A result of a mapped function that differs between devices, although its spec is replicated.

    Args:
      transforms: The namespace with the `shard_map` under judgment.
      nnx: The namespace of objects.
      mesh: The mesh.
      how: A key of `DIFFERING`.
      where: One of `WHERE`.
      options: Of `jax.shard_map`.

    Returns:
      The value that differs, after the call.
    """
    assume(holds(mesh.axis_names, "model") or "another axis" not in how)
    module = graphs.classes(nnx)["Node"]()
    module.a = nnx.BatchStat(np.zeros(SHAPES.get(how, ()), "float32"))

    def work(module, x):
        value = DIFFERING[how](x)
        if where == "variable":
            module.a.set_value(value)
            return None
        return value if where == "output" else {"alike": jnp.ones(2), "differing": value}

    mapped = transforms.shard_map(
        work,
        mesh=mesh,
        in_specs=(P(), P("data")),
        out_specs=P(),
        **as_named_by(transforms.shard_map, mesh, options),
    )
    result = mapped(module, SHARDED)
    if where == "variable":
        return module.a.get_value()
    return result if where == "output" else result["differing"]


differing = {"how": st.sampled_from(list(DIFFERING)), "where": st.sampled_from(WHERE)}


@requirement("transformations/refuses/shard-map-of-objects[replication]")
@costly
@given(mesh=several, **differing)
def test_an_output_that_differs_is_not_replicated(transforms, nnx, mesh, how, where):
    """With the check on, an output or a variable that differs between devices and whose spec
    promises that it does not is refused.
    """
    refused(lambda: _differing(transforms, nnx, mesh, how, where))


@requirement("transformations/refuses/shard-map-of-objects[replication,message]")
@costly
@given(mesh=several, how=differing["how"])
def test_the_refusal_of_a_variable_that_differs_says_which(transforms, nnx, mesh, how):
    """The error for a variable that differs between devices shows the number of its argument, the
    name of the parameter, or its own name in the object.
    """
    message = str(refused(lambda: _differing(transforms, nnx, mesh, how, "variable")))
    shown = r"args\[0\]|argument 0\b|'module'|['\[.]a\b"
    assert re.search(shown, message), f"{message!r} does not match {shown!r}"


@requirement(
    "transformations/refuses/shard-map-of-objects[no-filter]", must_reach=("none", "failing")
)
@costly
@given(
    mesh=lines,
    program=programs(()),
    kinds=st.lists(st.sampled_from(KINDS), unique=True),
    error=st.sampled_from([None, None, "KeyError", "TypeError"]),
)
def test_shard_map_refuses_a_variable_that_no_filter_takes(
    transforms, nnx, mesh, program, kinds, error
):
    """A variable that no filter of a `StateSharding` takes is refused with an error that shows its
    path. An error that a filter itself raises comes out of the call.
    """
    node = graphs.nodes(nnx, program.arguments)[0]
    left = [p for p, v in graphs.leaves(nnx, node).items() if not holds(kinds, type(v).__name__)]
    assume(left)
    specs = {graphs.classes(nnx)[each]: P() for each in kinds}
    if error is not None:
        specs[FAILING[error]] = P()
    sharding = transforms.StateSharding(specs)
    mapped = transforms.shard_map(
        lambda node, x: x, mesh=mesh, in_specs=(sharding, P("data")), out_specs=P("data")
    )
    reached("failing" if error else "none")
    if error is not None:
        found = raised(lambda: mapped(node, np.ones(8)))
        assert alike(type(found).__name__, error), f"the {error} came out as {found!r}"
        return
    _shows(refused(lambda: mapped(node, np.ones(8))), {str(path[-1]) for path in left if path})


JITTED = (("jit", "shard_map"), ("shard_map", "jit"), ("jit", "shard_map", "jit"))


@requirement("transformations/nesting/shard-map-of-objects[jit]", must_reach=("returned",))
@dear
@given(call=st.sampled_from(JITTED).flatmap(lambda kinds: object_calls(*kinds)))
def test_a_mapped_function_runs_inside_jit(transforms, call):
    """`jit(shard_map(f))`, `shard_map(jit(f))` and both at once have the results, updates and
    shardings of JAX's own transformations of the pure function of the leaves.
    """
    reached(agreement(call, transforms, shardings=True))


@requirement("transformations/nesting/shard-map-of-objects[grad]")
@costly
@given(blocks=blocks(jitted=False))
def test_the_gradient_of_a_mapped_function_is_the_unsharded_one(transforms, nnx, blocks):
    """The gradient with respect to an object, through a mapped function whose kernels are cut, is
    the gradient through the function itself.
    """
    mapped = blocks.mapped(transforms)

    def loss(function):
        return lambda model, x: jnp.mean(function(model, x) ** 2)

    @transforms.jit
    def both(one, other, x):
        functions = (mapped, one), (blocks.forward, other)
        return [
            nnx.to_pure_dict(transforms.grad(loss(function))(model, x))
            for function, model in functions
        ]

    found, expected = both(blocks.model(), blocks.model(), blocks.x)
    assert_close(found, expected, **MODELS)


@requirement("transformations/options/shard-map-of-objects[check]")
@costly
@given(mesh=several, **differing)
def test_without_the_check_replication_is_not_checked(transforms, nnx, mesh, how, where):
    """With the check off, an output or a variable that differs between devices is accepted, and is
    the one of one of them.
    """
    value = _differing(transforms, nnx, mesh, how, where, check_vma=False)
    parts = SHARDED.reshape(mesh.shape["data"], -1, 4)
    each = [part[:1] * 2 if how == "slice" else part.sum(axis=0) for part in parts]
    if how == "index":
        each = [np.full(1, n + 1) for n in range(len(parts))]
    elif how not in ("slice", "in a loop"):
        each = [np.sum(part) for part in each]
    if how == "in a branch":
        each = [max(one, 0 * one) for one in each]
    assert any(near(value, one, **CALLS) for one in each), f"{value} is none of {each}"


@requirement("transformations/options/shard-map-of-objects[auto]", must_reach=("returned",))
@dear
@given(call=object_calls("jit", "shard_map", automatic=True))
def test_automatic_axes_are_left_to_the_compiler(transforms, call):
    """`shard_map` with automatic mesh axes equals JAX's `shard_map` with the same axes.

    Over automatic axes the function sees whole arrays, over the others its shard. JAX's is taken of
    the pure function of the objects' leaves.
    """
    reached(agreement(call, transforms))
