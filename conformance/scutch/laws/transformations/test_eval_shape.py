"""`eval_shape` of functions of objects: JIT-9.

The oracle is the eager call.
"""

import itertools

import jax
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.inputs import graphs
from scutch.inputs.programs import METADATA, MODULE_CHANGES, UNSHARED, VALUES, fingerprint, inputs
from scutch.lawkit.domain import not_available
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import at_least, options, raised, reached, requirement
from scutch.lawkit.states import raw_value
from scutch.strategies import copies, programs
from scutch.strategies.moded_calls import FLAGS, unshared_programs


@requirement("transformations/stages/jit-of-objects[shapes]")
@given(program_copies=copies(programs(max_steps=3)))
def test_eval_shape_foresees_the_result(transforms, nnx, program_copies):
    """`eval_shape` gives the structure, shapes and dtypes of the call's result, without any array.

    It leaves every argument unchanged.
    """
    untouched, lifted = program_copies
    pairs = list(zip(untouched.nodes(), lifted.nodes(), strict=True))
    jitted = transforms.jit(lifted.function)
    foreseen = jitted.eval_shape(*lifted.arguments, inputs(0))
    difference = graphs.differences(nnx, untouched.arguments, lifted.arguments, pairs)
    assert not difference, f"before and after: {difference}"
    expected = untouched.function(*untouched.arguments, inputs(0))
    assert alike(_shapes(nnx, foreseen), _shapes(nnx, expected))
    assert not [leaf for leaf in _leaves(nnx, foreseen) if isinstance(leaf, jax.Array)]


ROUTES = ("function", "jit", "jit_partial")
CHANGES = (*VALUES, *METADATA, *MODULE_CHANGES, "retype", "new list", "new dict")


def _reach(transforms, route):
    """Note a route; the law ends here where the implementation has no such function."""
    needed = {"function": "eval_shape"}.get(route, route)
    if not hasattr(transforms, needed):
        not_available(f"there is no {needed}")
    reached(route)


def _foreseen(transforms, route, mode, function, bound, others, by_name):
    """The result of `eval_shape` for a function and its arguments; `jit_partial` binds `bound`."""
    if route == "function":
        return transforms.eval_shape(function, *bound, *others, **by_name, **mode)
    if route == "jit":
        return transforms.jit(function, **mode).eval_shape(*bound, *others, **by_name)
    mode = mode or {"graph_updates": False}
    return transforms.jit_partial(function, *bound, **mode).eval_shape(*others, **by_name)


@requirement(
    "transformations/stages/jit-of-objects[shapes,graph=False]",
    must_reach=(*ROUTES, "by default", "abstract", "metadata"),
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@at_least(30)
@given(
    route=st.sampled_from(("function", *ROUTES)),
    mode=st.sampled_from(({}, *FLAGS)),
    abstract=st.booleans(),
    program_copies=copies(unshared_programs(CHANGES, UNSHARED)),
)
def test_eval_shape_foresees_the_result_in_every_mode(
    transforms, nnx, route, mode, abstract, program_copies
):
    """In every mode, `eval_shape` foresees the result of the call.

    It has the result's types, metadata, shapes and dtypes. It is taken of a function, of its jitted
    form and of a `jit_partial`. The arguments hold arrays or abstract values, and stay unchanged.
    """
    _reach(transforms, route)
    reached("in a mode" if mode else "by default")
    eager, lifted = program_copies
    variables = [each for each in lifted.nodes() if isinstance(each, nnx.Variable)]
    if abstract:
        reached("abstract")
        for each in variables:
            value = each.get_raw_value()
            each.set_raw_value(jax.ShapeDtypeStruct(value.shape, value.dtype))
    values = [each.get_raw_value() for each in variables]
    before = fingerprint(nnx, lifted.arguments)
    noted = [graphs.metadata(each) for each in eager.nodes() if isinstance(each, nnx.Variable)]
    held = [each for each in eager.nodes() if isinstance(each, nnx.Variable)]
    expected = eager.function(*eager.arguments, inputs(0))
    foreseen = []
    function, bound = lifted.function, lifted.arguments
    given = (inputs(0),)
    error = raised(
        lambda: foreseen.append(_foreseen(transforms, route, mode, function, bound, given, {}))
    )
    if not alike([graphs.metadata(each) for each in held], noted):
        reached("metadata")
        if route == "jit_partial" and error is not None:
            return
    if error is not None:
        raise error
    assert alike(fingerprint(nnx, lifted.arguments), before)
    changed = [n for n, each in enumerate(variables) if each.get_raw_value() is not values[n]]
    assert not changed, f"other values than before are in the variables {changed}"
    assert alike(fingerprint(nnx, foreseen[0]), fingerprint(nnx, expected))
    assert not [leaf for leaf in _leaves(nnx, foreseen[0]) if isinstance(leaf, jax.Array)]


SHARED = ("by position", "by name", "given twice", "new twice")


def _with_each_sharing(law):
    """A law that is tried first on each of `SHARED` where a mode keeps no sharing."""
    for route, shared in itertools.product(ROUTES[:2], SHARED):
        law = example(route=route, mode=FLAGS[0], shared=shared, size=2)(law)
    return law


@requirement(
    "transformations/stages/jit-of-objects[shapes,graph=False]",
    must_reach=(*ROUTES, *SHARED, "foreseen"),
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@_with_each_sharing
@given(
    route=st.sampled_from(ROUTES),
    mode=st.sampled_from(({}, *FLAGS)),
    shared=st.sampled_from(SHARED),
    size=st.integers(1, 3),
)
def test_eval_shape_foresees_what_is_shared_or_refuses(transforms, nnx, route, mode, shared, size):
    """`eval_shape` foresees the result of the eager call also for shared objects.

    One object is passed twice and changed through one of the two arguments; or the result holds a
    passed object, or a new one, twice. The abstract result has the changed shapes, and shares
    objects as the eager result does. In a mode the call may be refused.
    """
    _reach(transforms, route)

    def object_of(value):
        made = graphs.classes(nnx)["Branch"]()
        made.a = nnx.Param(value)
        return made

    def work(one, x, other):
        if shared in ("by position", "by name"):
            other.a.set_value(jax.numpy.concatenate([x, x]))
            return [one.a.get_value()]
        held = one if shared == "given twice" else object_of(x)
        return [held, held]

    def foreseen(one, *others, **by_name):
        return _foreseen(transforms, route, mode, work, (one,), others, by_name)

    def called(function):
        one, x = object_of(jax.numpy.ones(size)), jax.numpy.ones(size)
        other = one if shared in ("by position", "by name") else object_of(x)
        return function(one, x, other=other) if shared == "by name" else function(one, x, other)

    results = []
    error = raised(lambda: results.append(called(foreseen)))
    if error is not None and (mode or route == "jit_partial"):  # which has a mode of its own
        return
    if error is not None:
        raise error
    reached("foreseen")
    assert alike(fingerprint(nnx, results[0]), fingerprint(nnx, called(work)))


def _leaves(nnx, value):
    """The values in a graph: of its variables, and arrays outside of variables."""
    found = graphs.leaves(nnx, value).values()
    return [raw_value(nnx, leaf) for leaf in found]


def _shapes(nnx, value):
    """The dtype and shape of each value in a graph."""
    return [(str(leaf.dtype), leaf.shape) for leaf in _leaves(nnx, value)]
