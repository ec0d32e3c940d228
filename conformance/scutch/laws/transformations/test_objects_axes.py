"""Axes of `scan` and `vmap` over objects that make no loop, or would lose something: OBJ-8r.

The last law is about axes that are a tree like the objects, as the modes of lifts take them.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.inputs.graphs import classes
from scutch.lawkit.domain import not_available
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import dear, options, raised, reached, refused, requirement
from scutch.laws.transformations.lift_options import may_take_modes
from scutch.strategies.moded_calls import FLAGS

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
    "text beside a slice": ((CARRY, "text", 0), (CARRY, 0), lambda c, one, x: (c, x), "cxx"),
    "stacked along a text": ((CARRY, 0), (CARRY, "text"), _pair, "cx"),
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
    case=st.sampled_from([*NO_LOOP, *OF_OBJECTS]),
    size=st.integers(1, 4),
    tree=st.booleans(),
    lift=st.sampled_from(["vmap", "scan"]),
    mode=st.sampled_from([{}, {}, *FLAGS]),
)
def test_axes_that_make_no_loop_are_refused(transforms, nnx, case, size, tree, lift, mode):
    """`scan` and `vmap` refuse axes that do not fit their arguments and results.

    `scan` refuses two carries, a carry that is not returned, a returned carry that was not passed,
    too few axes, a text for an axis, and `None` as the axis of a stacked result. Both refuse a
    `StateAxes` for an array argument or result, and one without an axis for some variable.
    """
    carry, xs = jnp.zeros(2), jnp.ones((size, 2))
    mark = transforms.Carry
    if case in NO_LOOP:
        in_axes, out_axes, step, kinds = NO_LOOP[case]
        axes = {"in_axes": in_axes, "out_axes": out_axes}
        is_mark = functools.partial(jax.tree.map, lambda axis: mark if alike(axis, CARRY) else axis)
        arguments = [{"c": carry, "x": xs}[kind] for kind in kinds]
        arguments = [{"a": each} for each in arguments] if tree else arguments
        mode = mode if may_take_modes(transforms.scan, mode) else {}
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
    lift=st.sampled_from(["scan", "vmap"]),
    mode=st.sampled_from([{}, *FLAGS]),
    axis=st.integers(0, 1),
    size=st.integers(1, 3),
)
def test_a_variable_in_the_place_of_an_axis_loses_nothing(transforms, nnx, lift, mode, axis, size):
    """`scan` and `vmap` refuse axes in which a variable holds the axis for a variable, or change
    the variable that they are given as with that axis.
    """
    variable, carry = nnx.Param(jnp.ones((size, size))), jnp.zeros(())

    def step(carry, one):
        one.set_value(one.get_value() + 1)
        return carry, carry

    first, last = (transforms.Carry, 0) if lift == "scan" else (None, None)
    axes = {"in_axes": (first, nnx.Param(axis)), "out_axes": (first, last)}
    made = getattr(transforms, lift)
    mode = mode if may_take_modes(made, mode) else {}
    if raised(lambda: made(step, **axes, **mode)(carry, variable)) is None:
        assert alike(np.asarray(variable.get_value()), np.full((size, size), 2, "float32"))


@requirement(
    "transformations/equals-jax/lifts-of-objects[graph=False]",
    must_reach=("graph", "graph_updates", "not by_path", "by_path"),
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@dear
@given(
    mode=st.sampled_from(FLAGS),
    axis=st.sampled_from([0, 1, -1]),
    by_path=st.booleans(),
    nested=st.booleans(),
    size=st.integers(1, 3),
)
def test_a_prefix_of_objects_says_how_they_are_mapped(
    transforms, nnx, mode, axis, by_path, nested, size
):
    """The prefix that `nnx.prefix` makes of two objects, by filters or by a function of each path,
    maps the variables of these objects along the axes that it chooses.
    """
    if not hasattr(transforms, "prefix"):
        not_available("there is no prefix")
    reached(next(iter(mode)))
    columns = jnp.arange(2 * size, dtype="float32").reshape(2, size)

    def made(number):
        module = classes(nnx)["Node"]()
        module.a = nnx.Param(columns + number if axis else (columns + number).T)
        module.b = nnx.BatchStat(jnp.asarray([2.0, 3.0]))
        return nnx.Dict(inner=module) if nested else module

    def parts(module):
        node = module.inner if nested else module
        return node.a, node.b

    def work(first, second, x):
        results = []
        for moving, still in map(parts, (first, second)):
            moving.set_value(moving.get_value() + x)
            results.append(moving.get_value() * still.get_value())
        return results

    def chosen(path, leaf):
        """The axis of a variable by its path, which begins with the number of its object."""
        return axis if alike([*path[1:]], ["inner", "a"] if nested else ["a"]) else None

    objects = (made(0), made(10))
    axes = chosen if by_path else {nnx.Param: axis, ...: None}
    prefixes = transforms.prefix(objects, axes, graph="graph" not in mode)
    mapped = transforms.vmap(work, in_axes=(*prefixes, None), out_axes=1, **mode)
    found = mapped(*objects, jnp.asarray(1.0))
    wanted = [columns + 1, columns + 11]
    assert alike(found, [each * jnp.asarray([[2.0], [3.0]]) for each in wanted])
    for module, each in zip(objects, wanted, strict=True):
        assert alike(parts(module)[0].get_value(), each if axis else each.T)
