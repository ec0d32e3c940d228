"""Modes of lifted `jit` and of other lifts: JIT-12f to JIT-12j, JIT-12l, JIT-12m and JIT-12n.

The oracle is JAX's own transformation with the same options, or the eager call.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
from hypothesis import example, given
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from scutch.inputs import graphs
from scutch.inputs.object_calls import agreement
from scutch.inputs.programs import METADATA, inputs
from scutch.lawkit.agreement import attempted, difference
from scutch.lawkit.domain import assume, not_available
from scutch.lawkit.equality import alike, holds, plain_text
from scutch.lawkit.marks import at_least, costly, dear, few, options, raised, reached, requirement
from scutch.strategies import copies
from scutch.strategies.object_calls import (
    FLAGS,
    LIFTS,
    moded_lifts,
    unkept_calls,
    unshared_programs,
)

MODED = (*FLAGS, None)
"""Options of `jit` that are modes of it; `None` stands for `jit_partial`."""


named = st.fixed_dictionaries(
    {},
    optional={
        "static_argnames": st.sampled_from(["scale", ["scale"]]),
        "donate_argnames": st.sampled_from(["more", ("more",)]),
        "keep_unused": st.booleans(),
        "inline": st.booleans(),
        "out_shardings": st.sampled_from([("data",), ()]),
    },
)
"""Options of `jit` that count no arguments."""


@requirement(
    "transformations/equals-jax/jit-of-arrays[jit_partial]",
    must_reach=("static", "donated", "laid out", "bound", "nothing bound"),
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@costly
@at_least(30)
@given(
    mode=st.sampled_from(FLAGS), bound=st.integers(0, 3), tree=st.booleans(), chosen=named,
    scales=st.lists(st.integers(1, 2), min_size=1, max_size=3),
)  # fmt: skip
def test_on_plain_arrays_jit_partial_is_the_jit_of_jax_of_a_partial(
    transforms, mode, bound, tree, chosen, scales
):
    """`jit_partial(f, *first, **options)` gives for arguments by name, static and donated ones
    among them, the values, layouts, deleted buffers and traces of `jax.jit` of the partial.
    """
    if not hasattr(transforms, "jit_partial"):
        not_available("there is no jit_partial")
    given_options = dict(chosen)
    if (spec := chosen.get("out_shardings")) is not None:
        mesh = jax.sharding.Mesh(jax.devices()[:2], ("data",))
        given_options["out_shardings"] = NamedSharding(mesh, PartitionSpec(*spec))

    def made(jit_partial):
        traces = []
        first = [jnp.arange(8.0) + n for n in range(bound)]
        first = [{"a": each} for each in first] if tree else first
        given_last = [
            (jnp.arange(8) * n, {"scale": scale, "more": jnp.full(8, n, "float32")})
            for n, scale in enumerate(scales)
        ]

        def work(*arrays, scale=3, more=1):
            traces.append(scale)
            return jax.tree.map(lambda x: x * scale + 1, arrays), more * 2

        def calls():
            jitted = jit_partial(work, first)
            return [jitted(x, **keywords) for x, keywords in given_last]

        return attempted(calls, watched=(first, given_last), traces=traces)

    theirs = made(lambda work, first: jax.jit(functools.partial(work, *first), **given_options))
    ours = made(lambda work, first: transforms.jit_partial(work, *first, **given_options, **mode))
    different = difference(ours, theirs, traces=True)
    assert not different, different
    said = {
        "static": "static_argnames" in chosen, "donated": any(theirs.deleted),
        "laid out": "out_shardings" in chosen, "bound" if bound else "nothing bound": True,
    }  # fmt: skip
    for name in [name for name, is_so in said.items() if is_so]:
        reached(name)


FURTHER = ("inline", "keep_unused")


@requirement("transformations/options/jit-of-objects[further,graph=False]", must_reach=FURTHER)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@few("these are the options, each in every mode")
@given(mode=st.sampled_from(MODED), on=st.sampled_from([True, False, None]))
def test_further_options_are_those_of_jax_in_every_mode(transforms, nnx, mode, on):
    """`inline` and `keep_unused` act as in `jax.jit` in every mode.

    The modes are `graph=False`, `graph_updates=False` and `jit_partial`. The options are given or
    left out. A function can be lowered for an argument by name as well.
    """
    if mode is None and not hasattr(transforms, "jit_partial"):
        not_available("there is no jit_partial")

    def work(module, unused):
        module.a.set_value(module.a.get_value() + 1)
        return module.a.get_value() * 2

    def flat(a, unused):
        return (a + 1) * 2, a + 1

    def lifted(chosen, way, a, unused):
        module = graphs.classes(nnx)["Node"]()
        module.a = nnx.Param(a)
        if mode is None:
            partial = {"graph_updates": False, **chosen}
            return way(transforms.jit_partial(work, module, **partial), unused)
        return way(transforms.jit(work, **mode, **chosen), module, unused)

    def plain(chosen, way, a, unused):
        return way(jax.jit(flat, **chosen), a, unused)

    def seen(option, made):
        """Whether the function is a part of the program around it, or an argument stays unused."""
        made = functools.partial(made, {} if on is None else {option: on})
        if alike(option, "inline"):
            program = jax.make_jaxpr(lambda a: made(lambda jitted, *given: jitted(*given), a, a))
            names = [equation.primitive.name for equation in program(jnp.ones(3)).eqns]
            return holds(names, "add"), holds(names, "mul")
        lowered = made(lambda jitted, *given: jitted.lower(*given[:-1], unused=given[-1]), *ones)
        return "%arg1" in plain_text(lowered.as_text())

    ones = (jnp.ones(3), jnp.ones(3))
    for option in FURTHER:
        reached(option)
        assert alike(seen(option, lifted), seen(option, plain)), f"{option} differs"


@requirement(
    "transformations/equals-jax/lifts-of-objects[graph=False]",
    must_reach=(*LIFTS, "returned", "refused"),
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@dear
@at_least(60)
@given(call=st.sampled_from(LIFTS).flatmap(moded_lifts))
def test_modes_of_lifts_change_values_as_jax_does(transforms, call):
    """With `graph=False` and `graph_updates=False`, `vmap`, `scan`, `value_and_grad`, `remat` and
    `shard_map` give the values, outputs and refusals of JAX's own over the leaves.
    """
    reached(call.described.under[0].kind)
    reached(agreement(call, transforms))


SIMPLE = ("jit", "vmap", "remat")
CAPTURING = (*SIMPLE, "scan", "grad", "value_and_grad", "shard_map")
capturing = st.tuples(
    st.sampled_from(CAPTURING), st.sampled_from(FLAGS), st.booleans(), st.booleans()
)


def _assert_no_copy(transforms, nnx, lift, mode, deep, passed):
    """Fail if a lifted function returns a copy of a variable that it captured or was passed."""
    variable, results, spec = nnx.Param(jnp.ones(2)), [], PartitionSpec()
    mesh = jax.sharding.Mesh(jax.devices()[:1], ("data",))
    needed = {
        "scan": {"in_axes": 0, "out_axes": 0}, "grad": {"has_aux": True},
        "value_and_grad": {"has_aux": True},
        "shard_map": {"mesh": mesh, "in_specs": spec, "out_specs": spec},
    }.get(lift, {})  # fmt: skip

    def work(x, *given):
        returned = given[0] if passed else variable
        result = [x, returned] if deep else returned
        return (x.sum(), result) if holds(needed, "has_aux") else result

    lifted = getattr(transforms, lift)(work, **needed, **mode)
    given = (variable,) if passed else ()
    if raised(lambda: results.append(lifted(jnp.ones(2), *given))) is None:
        # `grad` returns a pair of the gradient and the auxiliary result; `value_and_grad` adds
        # the loss.
        result = {"grad": lambda: results[0][1], "value_and_grad": lambda: results[0][0][1]}.get(
            lift, lambda: results[0]
        )()
        assert (result[1] if deep else result) is variable, "the variable is copied"


def _with_each_capturing(law):
    """A law that is tried on each of `CAPTURING` first, in each mode."""
    for mode, lift, passed in itertools.product(FLAGS, CAPTURING, (False, True)):
        law = example(call=(lift, mode, False, passed))(law)
    return law


@requirement(
    "transformations/keeps-identity/lifts-of-objects[graph=False]",
    must_reach=("jit", *LIFTS, "returned", "captured", "passed"),
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@dear
@at_least(60)
@_with_each_capturing
@given(call=st.one_of(unkept_calls(), capturing))
def test_what_a_mode_does_not_keep_is_refused(transforms, nnx, call):
    """Each mode of each lift keeps an object one object, or refuses the call.

    Objects are shared, or returned by a function that was passed them or captured them.
    """
    if isinstance(call, tuple):
        reached("passed" if call[-1] else "captured")
        _assert_no_copy(transforms, nnx, *call)
        return
    lift = call.described.under[0]
    if alike(lift.options.get("mode"), "partial") and not hasattr(transforms, "jit_partial"):
        not_available("there is no jit_partial")
    reached(lift.kind)
    reached(agreement(call, transforms, refusable=True))


TRACKED = ("List", "Dict")


@requirement(
    "transformations/nothing-lost/lifts-of-objects[containers]",
    must_reach=(*TRACKED, *SIMPLE, "many", "objects", "again"),
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@costly
@given(
    kind=st.sampled_from(TRACKED), lift=st.sampled_from(SIMPLE), mode=st.sampled_from(FLAGS),
    count=st.one_of(st.integers(1, 4), st.integers(11, 12)), objects=st.booleans(),
    again=st.booleans(),
)  # fmt: skip
def test_tracked_containers_are_trees_in_every_mode(
    transforms, nnx, kind, lift, mode, count, objects, again
):
    """`jit`, `vmap` and `remat` take tracked lists and dicts in every mode.

    The modes are `graph=False` and `graph_updates=False`. The containers hold up to 12 variables or
    objects, and each element changes as in the eager call. With `graph_updates=False`, one element
    may occur twice.
    """
    reached(kind)
    reached(lift)
    reached("many" if count > 10 else "few")
    reached("objects" if objects else "variables")
    again = again and "graph" not in mode
    if again:
        reached("again")

    def part(number):
        variable = nnx.Param(jnp.full(2, number, "float32"))
        if not objects:
            return variable
        branch = graphs.classes(nnx)["Branch"]()
        branch.a = variable
        return branch

    def made():
        parts = [part(n) for n in range(count - again)]
        parts += [parts[0] if parts else part(0)] * again
        names = [f"k{n}" for n in range(count)]
        return nnx.List(parts) if kind == "List" else nnx.Dict(zip(names, parts, strict=True))

    def work(held, x):
        parts = list(held) if kind == "List" else [held[f"k{n}"] for n in range(count)]
        found = 0 * x
        for n, each in enumerate(parts):
            variable = each.a if objects else each
            variable.set_value(2 * variable.get_value() + n * x)
            found = found + (n + 1) * variable.get_value()
        return found

    eager, lifted, x = made(), made(), jnp.ones(2)
    expected, found = work(eager, x), getattr(transforms, lift)(work, **mode)(lifted, x)
    assert alike(found, expected)
    different = graphs.differences(nnx, eager, lifted)
    assert not different, f"eager and lifted: {different}"


CHANGING = ("jit", "vmap", "remat", "shard_map", "jit_partial")


def _changing(transforms, lift, mode, program):
    """A call of the lifted function of a program on its objects."""
    arguments, arrays = program.arguments, inputs(0)
    match lift:
        case "jit_partial":
            return transforms.jit_partial(program.function, *arguments, **mode)(arrays)
        case "vmap":
            in_axes = (*(0 for _ in arguments), None)
            made = transforms.vmap(program.function, in_axes=in_axes, **mode)
        case "shard_map":
            mesh, spec = jax.sharding.Mesh(jax.devices()[:1], ("data",)), PartitionSpec()
            made = transforms.shard_map(
                program.function, mesh=mesh, in_specs=(spec,) * (len(arguments) + 1),
                out_specs=spec, **mode,
            )  # fmt: skip
        case _:
            made = getattr(transforms, lift)(program.function, **mode)
    return made(*arguments, arrays)


@requirement(
    "transformations/nothing-lost/lifts-of-objects[metadata]",
    must_reach=(*CHANGING, "by default", "changed"),
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@costly
@at_least(40)
@given(
    lift=st.sampled_from(CHANGING), mode=st.sampled_from(FLAGS), default=st.booleans(),
    program_copies=copies(unshared_programs((*METADATA, *METADATA, "bump"))),
)  # fmt: skip
def test_changed_metadata_arrives_in_every_mode(
    transforms, nnx, lift, mode, default, program_copies
):
    """Metadata that a function sets or deletes under `jit`, `vmap`, `remat` or `shard_map` with
    `graph=False` or `graph_updates=False` is set or deleted afterwards, as after the eager call,
    beside new values, or the call is refused. So it is for `vmap` and `remat` without a mode.
    """
    if lift == "jit_partial" and not hasattr(transforms, lift):
        not_available("there is no jit_partial")
    if default and holds(("vmap", "remat"), lift):
        reached("by default")
        mode = {}
    reached(lift)
    eager, lifted = program_copies
    before = [graphs.metadata(each) for each in _variables(nnx, lifted)]
    eager.function(*eager.arguments, inputs(0))
    error = raised(lambda: _changing(transforms, lift, mode, lifted))
    if not alike([graphs.metadata(each) for each in _variables(nnx, eager)], before):
        reached("changed")
        if error is not None:
            return
    if error is not None:
        raise error
    different = graphs.differences(nnx, eager.arguments, lifted.arguments)
    assert not different, f"eager and lifted: {different}"


def _variables(nnx, program):
    """The variables that can be reached from the arguments of a program."""
    return [each for each in program.nodes() if isinstance(each, nnx.Variable)]


LANES = 2
PARTITIONS = ("layers", None)
lane_axes = st.sampled_from([0, 1, 2, None])
axis_names = st.lists(st.sampled_from(["data", None, "model"]), min_size=1, max_size=2, unique=True)


def _longer(parts, axis, entry):
    """Names or sizes with one more at an axis; as they are without an axis."""
    return (*parts,) if axis is None else (*parts[:axis], entry, *parts[axis:])


@requirement(
    "transformations/fits-rank/lifts-of-objects[transform_metadata]",
    must_reach=("alone", "vmap", "jax.vmap", "named", "nameless", "shared", "nothing", "changed"),
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@at_least(40)
@given(
    how=st.sampled_from(["alone", "vmap", "jax.vmap"]), mode=st.sampled_from(FLAGS),
    partition=st.sampled_from(PARTITIONS), names=axis_names,
    axes=st.lists(lane_axes, min_size=1, max_size=3), out=st.sampled_from([0, 1, 2]),
    gap=st.booleans(), tree=st.booleans(), changing=st.booleans(),
)  # fmt: skip
def test_the_name_of_an_axis_is_taken_off_in_a_mode(
    transforms, nnx, how, mode, partition, names, axes, out, gap, tree, changing
):
    """Inside of `transform_metadata` a variable lacks the name at its axis, which it has again
    afterwards, as new ones of the output have; one without an axis keeps its names. It is so by
    itself, and under `vmap` of a mode and `jax.vmap` with the same axes, where sizes are as names.
    """
    if not hasattr(transforms, "transform_metadata"):
        not_available("there is no transform_metadata")
    assume(all(axis is None or axis <= len(names) for axis in (*axes, out)))
    said = {
        how: True, "named" if partition else "nameless": True, "shared": holds(axes, None),
        "nothing": gap, "changed": changing,
    }  # fmt: skip
    for name in [name for name, is_so in said.items() if is_so]:
        reached(name)
    sizes, seen = tuple(range(3, 3 + len(names))), []

    def variable(axis, lanes):
        value = jnp.zeros(_longer(sizes, axis, lanes))
        given_names = _longer(names, axis, partition)
        return nnx.Param(value, out_sharding=given_names, eager_sharding=False)

    def shape_and_names(each):
        return each.get_raw_value().shape, tuple(each.get_metadata("out_sharding"))

    def work(held, nothing, x):
        seen.append([shape_and_names(each) for each in held])
        for each, axis in zip(held, axes, strict=True):
            if changing and axis is not None:
                each.set_value(each.get_value() + 1)
        return nnx.Param(
            jnp.zeros(sizes) + x.sum(), out_sharding=tuple(names), eager_sharding=False
        )

    held = [variable(axis, LANES) for axis in axes]
    argument = {str(n): each for n, each in enumerate(held)} if tree else held
    prefix = {str(n): axis for n, axis in enumerate(axes)} if tree else axes
    in_axes = (prefix, None if gap else 0, 0)
    graph = {"graph": mode["graph"]} if "graph" in mode else {}
    function = transforms.transform_metadata(
        lambda held, nothing, x: work(held.values() if tree else held, nothing, x),
        in_axes=in_axes, out_axes=out, partition=partition, **graph,
    )  # fmt: skip
    arguments = (argument, None, jnp.zeros(LANES))
    match how:
        case "vmap":
            function = transforms.vmap(function, in_axes=in_axes, out_axes=out, **mode)
        case "jax.vmap":
            function = jax.vmap(function, in_axes, out)
    made = function(*arguments)
    (inside,) = seen
    is_mapped = how != "alone"
    expected = [
        (sizes if is_mapped else _longer(sizes, axis, LANES), tuple(names)) for axis in axes
    ]
    assert alike(inside, expected), f"inside: {inside}"
    outside = [(_longer(sizes, a, LANES), _longer(names, a, partition)) for a in axes]
    assert alike([shape_and_names(each) for each in held], outside)
    added = [float(changing and axis is not None) for axis in axes]
    if how != "jax.vmap":  # which changes copies
        assert alike([each.get_raw_value().max().item() for each in held], added)
    new = (_longer(sizes, out if is_mapped else None, LANES), _longer(names, out, partition))
    assert alike(shape_and_names(made), new), f"made: {made}"


NAMED = ("__name__", "__qualname__", "__doc__", "__module__")


@requirement(
    "transformations/options/jit-of-objects[signature,graph=False]",
    must_reach=("graph", "graph_updates"),
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@given(
    mode=st.sampled_from(FLAGS),
    texts=st.fixed_dictionaries(dict.fromkeys(NAMED, st.sampled_from(["work", "Model.step", "A"]))),
)
def test_name_and_docstring_are_kept_in_every_mode(transforms, mode, texts):
    """A function jitted in a mode keeps its name, qualified name, docstring and module.

    The modes are `graph=False` and `graph_updates=False`.
    """
    reached(next(iter(mode)))

    def work(*arrays):
        return arrays

    for attribute, text in texts.items():
        setattr(work, attribute, text)
    made = transforms.jit(work, **mode)
    assert alike({name: getattr(made, name) for name in NAMED}, texts)


TWICE = ("object", "variable", "inner behind outer")


@requirement("transformations/keeps-identity/cached-partial-of-objects", must_reach=TWICE)
@few("these are the ways to bind one thing twice")
@given(way=st.sampled_from(TWICE), steps=st.lists(st.integers(-2, 2), min_size=1, max_size=2))
def test_what_is_bound_twice_is_one(transforms, nnx, way, steps):
    """Where `cached_partial` binds one object or variable twice, or an object and one inside of it,
    it is one inside, and changes as in the eager call.
    """
    reached(way)

    def made():
        outer, inner = graphs.classes(nnx)["Node"](), graphs.classes(nnx)["Branch"]()
        inner.a, outer.c = nnx.Param(jnp.ones(2)), inner
        return {
            "object": (inner, inner), "variable": (inner.a, inner.a),
            "inner behind outer": (outer, inner),
        }[way]  # fmt: skip

    def step(first, second, x):
        held = [first, first.c] if hasattr(first, "c") else [first, second]
        one, other = (v if isinstance(v, nnx.Variable) else v.a for v in (held[1], second))
        one.set_value(2 * one.get_value() + x)
        return other.get_value()

    eager, bound = made(), made()
    partial = transforms.cached_partial(transforms.jit(step), *bound)
    for x in map(jnp.float32, steps):
        expected, result = step(*eager, x), partial(x)
        assert alike(result, expected)
        different = graphs.differences(nnx, eager, bound)
        assert not different, f"eager and cached: {different}"
