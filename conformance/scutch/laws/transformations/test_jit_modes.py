"""Modes of lifted `jit` and of other lifts: JIT-12f to JIT-12j, JIT-12l, JIT-12m and JIT-12n.

The oracle is JAX's own transformation with the same options, or the eager call.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
from hypothesis import example, given
from hypothesis import strategies as st
from jax.sharding import PartitionSpec

from scutch.engine.relations import agreement
from scutch.inputs import graphs
from scutch.inputs.programs import METADATA, inputs
from scutch.lawkit.domain import not_available
from scutch.lawkit.equality import alike, holds, plain_text
from scutch.lawkit.marks import at_least, costly, dear, few, options, raised, reached, requirement
from scutch.strategies import copies
from scutch.strategies.moded_calls import FLAGS, LIFTS, moded_lifts, unkept_calls, unshared_programs

MODED = (*FLAGS, None)
"""Options of `jit` that are modes of it; `None` stands for `jit_partial`."""


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
@at_least(30)
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
        "scan": {"in_axes": 0, "out_axes": 0},
        "grad": {"has_aux": True},
        "value_and_grad": {"has_aux": True},
        "shard_map": {"mesh": mesh, "in_specs": spec, "out_specs": spec},
    }.get(lift, {})

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
@_with_each_capturing
@at_least(30)
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
    kind=st.sampled_from(TRACKED),
    lift=st.sampled_from(SIMPLE),
    mode=st.sampled_from(FLAGS),
    count=st.one_of(st.integers(1, 4), st.integers(11, 12)),
    objects=st.booleans(),
    again=st.booleans(),
)
def test_tracked_containers_are_trees_in_every_mode(
    transforms, nnx, kind, lift, mode, count, objects, again
):
    """`jit`, `vmap` and `remat` take tracked lists and dicts in every mode.

    The modes are `graph=False` and `graph_updates=False`. The containers hold up to 12 variables or
    objects, and each element changes as in the eager call. With `graph_updates=False`, one element
    may occur twice.
    """
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
                program.function,
                mesh=mesh,
                in_specs=(spec,) * (len(arguments) + 1),
                out_specs=spec,
                **mode,
            )
        case _:
            made = getattr(transforms, lift)(program.function, **mode)
    return made(*arguments, arrays)


@requirement(
    "transformations/nothing-lost/lifts-of-objects[metadata]",
    must_reach=(*CHANGING, "by default", "changed"),
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@costly
@at_least(20)
@given(
    lift=st.sampled_from(CHANGING),
    mode=st.sampled_from(FLAGS),
    default=st.booleans(),
    program_copies=copies(unshared_programs((*METADATA, *METADATA, "bump"))),
)
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


@requirement(
    "transformations/options/jit-of-objects[methods]", must_reach=("graph", "graph_updates")
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@costly
@given(
    mode=st.sampled_from(MODED),
    scale=st.integers(1, 3),
    steps=st.tuples(*[st.integers(1, 9)] * 3),
)
def test_a_method_jitted_in_a_mode_is_a_method(transforms, nnx, mode, scale, steps):
    """A method that its class has jitted in a mode, or as a partial application, gets the object
    that it is read from, as with `jax.jit`, or that it is given. The call changes the variable of
    this object, or that of the partial application, alone.
    """
    if mode is None and not hasattr(transforms, "jit_partial"):
        not_available("there is no jit_partial")
    reached("partial" if mode is None else next(iter(mode)))
    shared = nnx.Param(jnp.asarray(0))

    def add(total, owner, by):
        total.set_value(total.get_value() + by)
        return total.get_value() * owner.scale

    class Owner(nnx.Module):
        if mode is None:
            step = transforms.jit_partial(add, shared, graph_updates=False)
        else:

            @functools.partial(transforms.jit, **mode)
            def step(self, by):
                return add(self.total, self, by)

        def __init__(self, scale):
            self.scale = scale
            if mode is not None:  # variables of a partial application are in its first arguments
                self.total = nnx.Param(jnp.asarray(0))

    owner, other = Owner(scale), Owner(scale)
    changed = shared if mode is None else owner.total
    ways = (owner.step, functools.partial(Owner.step, owner), lambda by: owner.step(by=by))
    for number, way in enumerate(ways):
        found, total = way(jnp.asarray(steps[number])), sum(steps[: number + 1])
        assert alike((int(found), int(changed.get_value())), (total * scale, total))
    left_alone = [] if mode is None else [int(each.get_value()) for each in (shared, other.total)]
    assert not any(left_alone), f"another variable is changed: {left_alone}"
