"""Loops in the modes that keep less of a graph: JIT-12h.

The oracle is a loop in Python over arrays of NumPy.
"""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.inputs.loops import CARRIED, HELD, STEPS, Looped
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import costly, options, raised, reached, requirement
from scutch.strategies.moded_calls import FLAGS


def _stepped(arguments, values):
    """One step on arrays, as a pair of the new values and of two results."""
    total = sum((n + 2) * value for n, value in enumerate(values))
    after = [
        value + total + n if argument.changed else value
        for n, (argument, value) in enumerate(zip(arguments, values, strict=True))
    ]
    return after, [total, after[0] - total]


def _by_a_loop(arguments, order):
    """The values that a loop in Python leaves, and both results of each step."""
    ends = [argument.start(n) for n, argument in enumerate(arguments)]
    results = {}
    for i in order:
        parts = [
            np.moveaxis(whole, argument.axis, 0)[i] if argument.sliced else whole
            for argument, whole in zip(arguments, ends, strict=True)
        ]
        after, results[i] = _stepped(arguments, parts)
        for n, argument in enumerate(arguments):
            if argument.sliced:
                np.moveaxis(ends[n], argument.axis, 0)[i] = after[n]
            else:
                ends[n] = after[n]
    return ends, [np.stack([results[i][k] for i in sorted(results)]) for k in range(2)]


def _by_scan(transforms, arguments, outs, last, options):
    """The lifted loop, which returns its carry, if any, and one result for each entry of `outs`.

    With `last`, the carry comes after the results, otherwise before them.
    """
    numbers = [n for n, argument in enumerate(arguments) if alike(argument.axis, CARRIED)]

    def ends(carried, results):
        found = [*results, carried] if last else [carried, *results]
        found = found if numbers else results
        return tuple(found) if len(found) > 1 else found[0]

    def step(*given_ones):
        after, results = _stepped(
            arguments, [each.read(one) for each, one in zip(arguments, given_ones, strict=True)]
        )
        for argument, one, value in zip(arguments, given_ones, after, strict=True):
            if argument.changed and not argument.is_array:
                argument.variable(one).set_value(value)
        carried = None
        for n in numbers:
            carried = after[n] if arguments[n].is_array else given_ones[n]
        return ends(carried, results[: len(outs)])

    axes = [transforms.Carry if alike(each.axis, CARRIED) else each.axis for each in arguments]
    out_axes = ends(transforms.Carry, list(outs))
    return transforms.scan(step, in_axes=tuple(axes), out_axes=out_axes, **options)


@st.composite
def looped(draw):
    """Arguments of a loop: one that is sliced or shared, and up to two others."""
    axes = [draw(st.sampled_from([0, 1, -1, None]))]
    axes += draw(st.sampled_from([[CARRIED], [CARRIED], [CARRIED, None], [None], [None, 1], []]))
    found = []
    for axis in draw(st.permutations(axes)):
        form, changed = draw(st.sampled_from(HELD)), draw(st.booleans())
        found.append(Looped(form, axis, changed and (form != "array" or alike(axis, CARRIED))))
    return tuple(found)


def _with_each_loop(law):
    """A law that is tried first, in each mode, on a loop over an object that is sliced beside one
    that is carried, and beside one that all steps share and change, and without a slice.
    """
    sliced, carried = Looped("object", 1, True), Looped("object", CARRIED, True)
    shared = Looped("container", None, True), Looped("object", None, False)
    for mode in FLAGS:
        for pair in ((carried, sliced), (shared[0], sliced), (carried, shared[1])):
            drawn = {"arguments": pair, "outs": (1, 0), "last": pair[1] is sliced}
            law = example(mode=mode, **drawn, reverse=True, lengthy=False)(law)
    return law


@requirement(
    "transformations/equals-jax/lifts-of-objects[graph=False]",
    must_reach=(*HELD, CARRIED, "sliced", "shared", "shared and changed"),
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@costly
@_with_each_loop
@given(
    mode=st.sampled_from(FLAGS), arguments=looped(), last=st.booleans(), reverse=st.booleans(),
    outs=st.lists(st.sampled_from([0, 1, -1]), min_size=1, max_size=2).map(tuple),
    lengthy=st.booleans(),
)  # fmt: skip
def test_a_loop_in_a_mode_equals_the_loop_in_python(
    transforms, nnx, mode, arguments, outs, last, reverse, lengthy
):
    """In every mode, `scan` gives the values and results of a Python loop.

    The modes are `graph=False` and `graph_updates=False`. The loop runs forward or in reverse,
    along any axis. If a step changes an argument that all steps share, `scan` makes the change or
    refuses the call.
    """
    for argument in arguments:
        reached(argument.form)
        reached({None: "shared", CARRIED: CARRIED}.get(argument.axis, "sliced"))
    lengthy = lengthy or not any(each.sliced for each in arguments)
    order = range(STEPS)[:: -1 if reverse else 1]
    ends, results = _by_a_loop(arguments, order)
    made = [each.built(nnx, each.start(n)) for n, each in enumerate(arguments)]
    given_options = {"reverse": reverse, **mode} | ({"length": STEPS} if lengthy else {})
    calls = []
    loop = _by_scan(transforms, arguments, outs, last, given_options)
    error = raised(lambda: calls.append(loop(*made)))
    if any(each.axis is None and each.changed for each in arguments):
        reached("shared and changed")
        if error is not None:
            return
    if error is not None:
        raise error
    found = list(calls[0]) if isinstance(calls[0], tuple) else [calls[0]]
    for number, argument in enumerate(arguments):
        if alike(argument.axis, CARRIED):
            returned = found.pop(-1 if last else 0)
            assert np.array_equal(argument.read(returned), ends[number])
        if not argument.is_array:
            assert np.array_equal(argument.read(made[number]), ends[number])
    assert len(found) == len(outs)
    for each, stacked, out in zip(found, results, outs, strict=False):
        assert np.array_equal(each, np.moveaxis(stacked, 0, out))
