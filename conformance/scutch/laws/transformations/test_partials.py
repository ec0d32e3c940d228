"""`jit_partial` and `cached_partial`, which bind first arguments of a function: JIT-1, JIT-12.

The oracles are JAX's own `jit` of a partial function, and the eager call on a copy of the objects.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from scutch.engine.agreement import attempted, difference
from scutch.inputs import graphs
from scutch.inputs.programs import METADATA, STRUCTURE, VARIABLE_CHANGES, inputs
from scutch.lawkit.domain import assume, not_available
from scutch.lawkit.equality import alike, assert_close, holds
from scutch.lawkit.marks import at_least, costly, options, raised, reached, requirement
from scutch.lawkit.tolerances import CALLS
from scutch.strategies import arrays, copies, programs, variables
from scutch.strategies import graphs as drawn_graphs
from scutch.strategies.moded_calls import FLAGS

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
@at_least(15)
@given(
    mode=st.sampled_from(FLAGS),
    bound=st.integers(0, 3),
    tree=st.booleans(),
    chosen=named,
    scales=st.lists(st.integers(1, 2), min_size=1, max_size=3),
)
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
        "static": "static_argnames" in chosen,
        "donated": any(theirs.deleted),
        "laid out": "out_shardings" in chosen,
        "bound" if bound else "nothing bound": True,
    }
    reached(*[name for name, is_so in said.items() if is_so])


TWICE = ("object", "variable", "inner behind outer")


@requirement("transformations/keeps-identity/cached-partial-of-objects", must_reach=TWICE)
@given(way=st.sampled_from(TWICE), steps=st.lists(st.integers(-2, 2), min_size=1, max_size=2))
def test_what_is_bound_twice_is_one(transforms, nnx, way, steps):
    """Where `cached_partial` binds one object or variable twice, or an object and one inside of it,
    it is one inside, and changes as in the eager call.
    """

    def made():
        outer, inner = graphs.classes(nnx)["Node"](), graphs.classes(nnx)["Branch"]()
        inner.a, outer.c = nnx.Param(jnp.ones(2)), inner
        return {
            "object": (inner, inner),
            "variable": (inner.a, inner.a),
            "inner behind outer": (outer, inner),
        }[way]

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


bound_objects = copies(
    drawn_graphs(marks=False, bare=False, variable=variables(arrays(dtypes=("float32",))))
)


def _variables(nnx, objects):
    """The variables in some objects, each once."""
    return [node for node in graphs.nodes(nnx, objects) if isinstance(node, nnx.Variable)]


@requirement(
    "transformations/nothing-lost/cached-partial-of-objects",
    must_reach=("once", "again", "set in between", "shared", "by name"),
)
@costly
@given(
    pair=bound_objects,
    others=bound_objects,
    shared=st.booleans(),
    steps=st.lists(st.integers(-2, 2), min_size=1, max_size=3),
    between=st.booleans(),
    by_name=st.sampled_from([True, False]),
)
def test_a_cached_partial_does_what_the_call_with_the_objects_does(
    transforms, nnx, pair, others, shared, steps, between, by_name
):
    """`cached_partial` of a jitted function and its objects acts as the eager call.

    It changes the variables and returns the sums in the same way, also if both objects hold one
    variable, or if a variable is set between two calls. The further argument can be passed by name.
    """
    reached("again" if len(steps) > 1 else "once")
    reached("by name" if by_name else "by position")
    eager, lifted = zip(pair, others, strict=True)
    for one, other in (eager, lifted):
        if shared and (held := _variables(nnx, one)):
            reached("shared")
            setattr(other, next(n for n in graphs.ATTRIBUTES if not hasattr(other, n)), held[-1])

    def step(one, other, x):
        sums = []
        for variable in _variables(nnx, [one, other]):
            variable.set_value(2 * variable.get_value() + x)
            sums.append(variable.get_value().sum())
        return sums

    bound = transforms.cached_partial(transforms.jit(step), *lifted)
    for x in map(np.float32, steps):
        expected, result = step(*eager, x), bound(x=x) if by_name else bound(x)
        assert_close(result, expected, **CALLS)
        different = graphs.differences(nnx, eager, lifted)
        assert not different, f"eager and cached: {different}"
        if between:
            reached("set in between")
            for each in _variables(nnx, [eager, lifted]):
                each.set_value(np.asarray(each.get_value()) - np.float32(1))


BOUND = st.integers(1, 3)
"""How many arguments are bound: of the objects, or all of them and the arrays behind them."""


def _bound(transforms, program, count, function):
    """A function of a call's number that passes the unbound arguments to a cached partial."""
    given = [*program.arguments, inputs(0)]
    partial = transforms.cached_partial(transforms.jit(function), *given[:count])

    def call(number):
        rest = [*program.arguments, inputs(number)][count:]
        return partial(*rest)

    return call


def _apart(nnx, arguments, count):
    """Whether the bound arguments are apart from each other and from the further ones.

    No bound object may lie in one that was bound before it. Bound and further arguments may share
    variables, and no other nodes.
    """
    bound, rest = (graphs.nodes(nnx, part) for part in (arguments[:count], arguments[count:]))
    met = set()
    for root in jax.tree.leaves(arguments[:count], is_leaf=lambda x: graphs.is_node(nnx, x)):
        if id(root) in met:
            return False
        met |= {id(node) for node in graphs.nodes(nnx, root)}
    kept = {id(node) for node in bound if not isinstance(node, nnx.Variable)}
    return not kept & {id(node) for node in rest}


@requirement(
    "transformations/nothing-lost/cached-partial-of-objects[further]",
    must_reach=("some", "all", "arrays too"),
)
@costly
@given(
    program_copies=copies(
        programs(VARIABLE_CHANGES, results=("value",), between=VARIABLE_CHANGES, calls=2)
    ),
    count=BOUND,
)
def test_a_cached_partial_takes_further_objects(transforms, nnx, program_copies, count):
    """`cached_partial` binds any number of first arguments, also arrays and containers of objects.

    Further objects that are passed later change as in the eager call. A new object that is returned
    twice, and beside its variable, is one object with that variable; a returned argument is the
    same object that was passed.
    """
    eager, lifted = program_copies
    assume(_apart(nnx, lifted.arguments, count))
    objects = len(eager.arguments)
    reached("some" if count < objects else "arrays too" if count > objects else "all")

    def function(*arguments):
        new = graphs.classes(nnx)["Branch"]()
        new.a = nnx.Param(arguments[-1][0] + 1)
        again = [new, new.a]
        return eager.function(*arguments), new, again, arguments[count:objects]

    call, before = _bound(transforms, lifted, count, function), lifted.nodes()
    for number in range(2):
        arrays = inputs(0 if count > objects else number)
        expected = function(*eager.arguments, arrays)
        result = call(number)
        pairs = list(zip(before, lifted.nodes(), strict=True))
        difference = graphs.differences(
            nnx, (eager.arguments, expected), (lifted.arguments, result)
        )
        assert not difference, f"after call {number + 1}, eager and cached: {difference}"
        assert all(one is other for one, other in pairs), "other objects than before are there"
        if number == 0:
            eager.after(0)
            lifted.after(0)


@requirement(
    "transformations/nothing-lost/cached-partial-of-objects[structure]", must_reach=("some", "all")
)
@costly
@given(
    program_copies=copies(programs((*STRUCTURE, *METADATA), results=("value",), max_steps=1)),
    count=BOUND,
)
def test_a_cached_partial_loses_no_change_of_structure(transforms, nnx, program_copies, count):
    """A cached partial makes a change of structure as the eager call does, or refuses it.

    The same holds for changes of metadata if all objects are bound; for further objects see `jit`
    (JIT-1b).
    """
    eager, lifted = program_copies
    changes_metadata = any(holds(METADATA, step.kind) for step in eager.steps)
    assume(count >= len(eager.arguments) or not changes_metadata)
    assume(_apart(nnx, lifted.arguments, count))
    reached("some" if count < len(eager.arguments) else "all")
    expected = eager.function(*eager.arguments, inputs(0))
    results = []
    error = raised(lambda: results.append(_bound(transforms, lifted, count, lifted.function)(0)))
    if error is None:
        one, other = (eager.arguments, expected), (lifted.arguments, *results)
        difference = graphs.differences(nnx, one, other)
        assert not difference, f"eager and cached: {difference}"
