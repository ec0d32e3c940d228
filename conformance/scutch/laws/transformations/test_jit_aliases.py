"""An object that is passed twice is one object inside a jitted call: JIT-2, JIT-12k and JIT-12p.

The oracle is the eager call, and JAX's own gradient. An object is *aliased* when two arguments, or
two places within one, hold it. When shardings are given, an aliased object gets one from each of
its places.
"""

import contextlib

import jax.numpy as jnp
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from scutch.inputs import graphs
from scutch.inputs.described_objects import Graph, Object, Ref, Step, Variable
from scutch.inputs.descriptions import Array, Mesh
from scutch.inputs.programs import Interpreter, inputs
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, holds, plain_text
from scutch.lawkit.marks import costly, few, options, raised, reached, refused, requirement
from scutch.lawkit.modes import under_other_modes
from scutch.strategies import cells, copies, programs
from scutch.strategies.moded_calls import FLAGS

small = st.integers(0, 3)


@requirement(
    "transformations/keeps-identity/jit-of-objects[reached-twice]",
    must_reach=("one argument", "two arguments"),
)
@costly
@given(
    program_copies=copies(programs((), results=())),
    at=st.tuples(small, small, small),
    done=st.lists(
        st.tuples(st.sampled_from(("bump", "assign", "copy", "call")), small),
        min_size=1,
        max_size=3,
    ),
)
def test_one_object_is_one_object(transforms, nnx, program_copies, at, done):
    """An object that is passed several times is one object inside: a jitted call leaves the objects
    and returns the values that the eager call does.
    """

    def work(first, box, *, third, arrays):
        interpreter = Interpreter(nnx, (first, box, third), arrays)
        for kind, number in done:
            interpreter.apply(Step(kind, number, number + 1))
        return [n.get_value() for n in interpreter.variables()]

    jitted = transforms.jit(work)
    ends = []
    for function, program in zip((work, jitted), program_copies, strict=True):
        found = program.nodes()
        first, second, third = (found[n % len(found)] for n in at)
        reached("two arguments" if first is second or second is third else "one argument")
        result = function(first, {"in": second}, third=third, arrays=inputs(0))
        ends.append((found, program.arguments, result))
    difference = graphs.differences(nnx, *ends)
    assert not difference, f"eager and jitted: {difference}"


def _pair(cell):
    """A module whose attributes `a` and `b` are two variables of one description."""
    return Graph((Object("Node", {"a": Ref(1), "b": Ref(2)}), cell, cell))


@requirement("transformations/keeps-identity/jit-of-objects[equal]")
@costly
@given(root=cells().map(_pair), call=small)
def test_equal_objects_stay_apart(transforms, root, call):
    """Two variables that hold the same array stay two: changing one inside does not change the
    other.
    """
    one, other = root.a, root.b
    other.set_value(one.get_value())
    before = np.asarray(other.get_value())

    @transforms.jit
    def work(root, arrays):
        root.a.set_value(root.a.get_value() + 1)
        return root.b.get_value()

    result = work(root, inputs(call))
    assert root.a is one
    assert root.b is other
    assert np.array_equal(one.get_value(), before + 1)
    assert np.array_equal(other.get_value(), before)
    assert np.array_equal(result, before)


SHARDED = (("data",), ())
TWICE = Graph(
    (
        Object("Node", {"a": Ref(1), "b": Ref(2)}),
        Variable("Param", Array((2,), "int32")),
        Object("Node", {"a": Ref(1)}),
    )
)


def _aliased(root, how):
    """Two arguments that hold one variable: the variable itself twice, or an object that
    holds it.
    """
    return {"itself": (root.a, root.a), "child": (root.b, root.a), "twice": (root.b, root.b)}[how]


hows = st.sampled_from(["child", "itself", "twice"])
specs = st.tuples(st.sampled_from(SHARDED), st.sampled_from(SHARDED))
specs_or_none = st.tuples(*[st.sampled_from([*SHARDED, None])] * 2)


def _call(transforms, mesh, root, how, specs):
    """A call that gives the two arguments one sharding each, or None, and sets the variable."""

    def work(one, other):
        variable = other.a if how == "twice" else other
        variable.set_value(variable.get_value() + 1)

    shardings = tuple(None if s is None else NamedSharding(mesh, PartitionSpec(*s)) for s in specs)
    jitted = transforms.jit(work, in_shardings=shardings)
    return lambda: jitted(*_aliased(root, how))


@requirement(
    "transformations/aliasing/jit-of-objects", must_reach=("same", "different", "one None")
)
@given(root=st.just(TWICE), how=hows, specs=specs_or_none, mesh=st.just(Mesh((2,), ("data",))))
@example(root=TWICE, how="child", specs=(None, ("data",)), mesh=Mesh((2,), ("data",)))
def test_an_object_has_one_sharding(transforms, root, how, specs, mesh):
    """A call with different shardings for the places of one object is refused and leaves the object
    as it was; with equal shardings it is accepted. Where one of them is None, an accepted call
    leaves the variable that it has set as the other says.
    """
    before = root.a.get_raw_value()
    error = raised(_call(transforms, mesh, root, how, specs))
    if specs[0] == specs[1]:
        reached("same")
        assert error is None
    elif error is None and holds(specs, None):
        (spec,) = (each for each in specs if each is not None)
        expected = NamedSharding(mesh, PartitionSpec(*spec))
        assert root.a.get_raw_value().sharding.is_equivalent_to(expected, 1)
    else:
        reached("different")
        assert error is not None
        assert root.a.get_raw_value() is before
    if holds(specs, None):
        reached("one None")


@requirement("transformations/aliasing/jit-of-objects[message]")
@few("every place of two specs for an object that is reached twice; JIT-11b draws programs")
@given(root=st.just(TWICE), how=hows, specs=specs, mesh=st.just(Mesh((2,), ("data",))))
def test_the_refusal_names_both_places(transforms, root, how, specs, mesh):
    """The refusal of inconsistent shardings shows the type of the variable, its path, and both
    shardings.
    """
    assume(specs[0] != specs[1])
    shardings = [NamedSharding(mesh, PartitionSpec(*spec)).spec for spec in specs]
    refused(_call(transforms, mesh, root, how, specs), naming=("Param", "a", *shardings))


AXES = {"vmap": (0, 1, None), "shard_map": (("data",), ())}
SQUARE = Graph(
    (
        Object("Node", {"a": Ref(1), "b": Ref(2)}),
        Variable("Param", Array((2, 2), "float32")),
        Object("Node", {"a": Ref(1)}),
    )
)


@requirement("transformations/aliasing/lifts-of-objects", must_reach=("same", "different", *AXES))
@given(
    root=st.just(SQUARE),
    how=hows,
    lift=st.sampled_from(list(AXES)),
    places=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    mesh=st.just(Mesh((2,), ("data",))),
)
def test_an_object_has_one_axis_and_one_spec(transforms, root, how, lift, places, mesh):
    """`vmap` with different axes, and `shard_map` with different specs, for the places of one
    object is refused and leaves the object as it was; with equal ones it is accepted.
    """
    one, other = (AXES[lift][place % len(AXES[lift])] for place in places)
    before, x = root.a.get_raw_value(), jnp.ones((2, 2))

    def work(one, other, x):
        return x

    if lift == "vmap":
        lifted = transforms.vmap(work, in_axes=(one, other, 0))
    else:
        specs = [PartitionSpec(*spec) for spec in (one, other, ("data",))]
        lifted = transforms.shard_map(
            work, mesh=mesh, in_specs=tuple(specs), out_specs=PartitionSpec("data")
        )
    error = raised(lambda: lifted(*_aliased(root, how), x))
    if one == other:
        reached("same")
        assert error is None
    else:
        reached("different")
        assert error is not None
        assert np.array_equal(root.a.get_raw_value(), before)


def _lifted(transforms, nnx, lift, axes, mesh, mode, returned=False):
    """A lifted function in a mode, and both axes or specs: of two objects and an array, or of an
    array, which returns a new object in two places.
    """
    last = ("data",) if holds(("jit", "shard_map"), lift) else 0
    given_to, out = ((last,), axes) if returned else ((*axes, last), last)

    def work(*given_ones):
        if not returned:
            return given_ones[-1]
        module = graphs.classes(nnx)["Node"]()
        module.a = nnx.Param(jnp.ones((2, 2)) + given_ones[-1].sum())
        return module, module

    if holds(axes, CARRIED):  # it is returned, too
        given_to = tuple(transforms.Carry if alike(axis, CARRIED) else axis for axis in given_to)
        return transforms.scan(
            lambda *given_ones: (given_ones[axes.index(CARRIED)], given_ones[-1]),
            in_axes=given_to,
            out_axes=(transforms.Carry, last),
            **mode,
        )
    if holds(("vmap", "scan"), lift):
        return getattr(transforms, lift)(work, in_axes=given_to, out_axes=out, **mode)
    specs = tuple(PartitionSpec(*spec) for spec in given_to)
    outs = tuple(PartitionSpec(*spec) for spec in axes) if returned else specs[-1]
    if alike(lift, "jit"):
        specs = tuple(NamedSharding(mesh, spec) for spec in specs)
        laid = {"out_shardings": tuple(NamedSharding(mesh, s) for s in outs)} if returned else {}
        return transforms.jit(work, in_shardings=specs, **laid, **mode)
    return transforms.shard_map(
        work, mesh=mesh, in_specs=specs, out_specs=outs, check_vma=not returned, **mode
    )


CARRIED = "carried"
MODED = {"jit": SHARDED, "scan": (*AXES["vmap"], CARRIED), **AXES}
mostly = st.sampled_from([True, True, False])


def _shared_inside(law):
    """Give a law examples of one variable twice in one argument, which few inputs would draw."""
    for lift in MODED:
        law = example(
            root=SQUARE,
            how="whole",
            lift=lift,
            mode=FLAGS[1],
            around=True,
            places=(0, 0),
            mesh=Mesh((2,), ("data",)),
        )(law)
    for mode in FLAGS:
        for places in ((3, 0), (2, 3)):
            drawn = {"root": SQUARE, "lift": "scan", "mode": mode, "places": places}
            law = example(**drawn, how="twice", around=False, mesh=Mesh((2,), ("data",)))(law)
    return law


@requirement(
    "transformations/aliasing/lifts-of-objects[graph=False]",
    must_reach=("same", "different", "other modes", *MODED),
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@given(
    root=st.just(SQUARE),
    how=st.sampled_from(["whole", "child", "whole", "itself", "twice"]),
    lift=st.sampled_from(list(MODED)),
    mode=st.sampled_from(FLAGS),
    around=mostly,
    places=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    mesh=st.just(Mesh((2,), ("data",))),
)
@_shared_inside
def test_an_object_has_one_axis_and_one_spec_in_every_mode(
    transforms, nnx, root, how, lift, mode, around, places, mesh
):
    """With `graph=False` and `graph_updates=False`, too, a call with different shardings, axes or
    specs for the places of one object is refused, and leaves the object as it was. With equal ones
    it is accepted where the graph is kept, whichever modes are set around a call that is given
    both.
    """
    axes = [MODED[lift][place % len(MODED[lift])] for place in places]
    before, x = root.a.get_raw_value(), jnp.ones((2, 2))
    arguments = (root, root.b) if how == "whole" else _aliased(root, how)
    if around:
        reached("other modes")
        mode = {"graph": True, "graph_updates": True, **mode}
    with under_other_modes(nnx, **mode) if around else contextlib.nullcontext():
        error = raised(
            lambda: _lifted(transforms, nnx, lift, tuple(axes), mesh, mode)(*arguments, x)
        )
    reached("same" if axes[0] == axes[1] else "different")
    if axes[0] != axes[1] or holds(axes, CARRIED):  # two cannot be carried
        assert error is not None, "it was accepted; expected an error"
    elif mode.get("graph", True) and error is not None:
        raise error
    assert np.array_equal(root.a.get_raw_value(), before)


@requirement("transformations/aliasing/lifts-of-objects[graph=False]", must_reach=tuple(MODED))
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@given(
    lift=st.sampled_from(list(MODED)),
    mode=st.sampled_from([{}, {"graph_updates": False}]),
    places=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    mesh=st.just(Mesh((2,), ("data",))),
)
def test_a_new_object_has_one_axis_and_one_spec(transforms, nnx, lift, mode, places, mesh):
    """A call that returns a new object in two places with different shardings, axes or specs is
    refused, with `graph_updates=False` and without a mode.
    """
    axes = tuple(MODED[lift][place % len(MODED[lift])] for place in places)
    assume(axes[0] != axes[1])
    refused(
        lambda: _lifted(transforms, nnx, lift, axes, mesh, mode, returned=True)(jnp.ones((2, 2)))
    )


@requirement(
    "transformations/aliasing/jit-of-objects[message]", must_reach=("child", "twice", *MODED)
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@given(
    root=st.just(SQUARE),
    how=hows,
    lift=st.sampled_from(list(MODED)),
    mode=st.sampled_from([{}, *FLAGS]),
    places=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    name=st.sampled_from(["kernel", "other_scale"]),
    mesh=st.just(Mesh((2,), ("data",))),
)
def test_the_refusal_names_both_places_in_every_mode(
    transforms, nnx, root, how, lift, mode, places, name, mesh
):
    """The refusal of different shardings, axes or specs for the places of one variable shows, in
    every mode, its type, and the name of the attribute that it is as often as it is one.
    """
    axes = [MODED[lift][place % len(MODED[lift])] for place in places]
    assume(axes[0] != axes[1])
    del root.b.a
    setattr(root.b, name, root.a)
    lifted = _lifted(transforms, nnx, lift, tuple(axes), mesh, mode)
    error = refused(lambda: lifted(*_aliased(root, how), jnp.ones((2, 2))), naming=("Param",))
    named = plain_text(error).count(name)
    assert named >= {"itself": 0, "child": 1, "twice": 2}[how], f"{named} times {name}: {error}"
