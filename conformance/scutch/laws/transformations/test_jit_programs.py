"""A jitted call changes the objects and returns results as the eager call does: JIT-1.

The oracle is the eager call of the same function on another copy of the objects. Each law draws
programs with steps of one group (see `scutch.inputs.programs`), so that it judges one kind of
change.
"""

import jax
import jax.numpy as jnp
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs import graphs
from scutch.inputs.programs import (
    ATTRIBUTES,
    DICTS,
    LISTS,
    METADATA,
    PLACES,
    STEPS,
    STRUCTURE,
    VALUES,
    VARIABLE_CHANGES,
    inputs,
)
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, assert_close, holds
from scutch.lawkit.marks import at_least, costly, raised, reached, refused, requirement
from scutch.lawkit.tolerances import CALLS
from scutch.strategies import arrays, copies, programs, small_graphs, variables
from scutch.strategies import graphs as drawn_graphs


def _run(transforms, nnx, program_copies, *, calls=1, kept=False, alone=False, close=False):
    """Call the function of one copy eagerly and of the other jitted, and compare after each
    call.

    Args:
      transforms: The namespace with the `jit` under judgment.
      nnx: The namespace of objects.
      program_copies: One program, built twice.
      calls: How often the function is called.
      kept: Whether objects that were there must be the same Python objects afterwards.
      close: Whether floats may differ by rounding.
      alone: Whether inputs are discarded on which more than identities differs: other laws judge
        it.
    """
    eager, lifted = program_copies
    jitted = transforms.jit(lifted.function)
    for call in range(calls):
        pairs = list(zip(eager.nodes(), lifted.nodes(), strict=True)) if kept else ()
        expected = eager.function(*eager.arguments, inputs(call))
        result = jitted(*lifted.arguments, inputs(call))
        one, other = (eager.arguments, expected), (lifted.arguments, result)
        if alone:
            assume(not graphs.differences(nnx, one, other))
        difference = graphs.differences(nnx, one, other, pairs, close=close)
        assert not difference, f"after call {call + 1}, eager and jitted: {difference}"
        if call + 1 < calls:
            eager.after(call)
            lifted.after(call)


@requirement("transformations/nothing-lost/jit-of-objects")
@costly
@given(program_copies=copies(programs(VALUES, results=("value",), max_steps=4)))
def test_values_are_the_eager_ones(transforms, nnx, program_copies):
    """Returned arrays and variables have the values of the eager call, floats up to rounding."""
    _run(transforms, nnx, program_copies, close=True)


@requirement("transformations/nothing-lost/jit-of-objects[metadata]")
@costly
@given(program_copies=copies(programs((*METADATA, "bump"), results=())))
def test_metadata_is_the_eager_one(transforms, nnx, program_copies):
    """Metadata that the function sets or deletes is set or deleted after the jitted call, which
    may be refused, but not lose it.
    """
    eager, lifted = program_copies
    before = _metadata(nnx, eager)
    expected = eager.function(*eager.arguments, inputs(0))
    found = []
    error = raised(
        lambda: found.append(transforms.jit(lifted.function)(*lifted.arguments, inputs(0)))
    )
    if error is not None and not alike(_metadata(nnx, eager), before):
        return
    if error is not None:
        raise error
    difference = graphs.differences(nnx, (eager.arguments, expected), (lifted.arguments, found[0]))
    assert not difference, f"eager and jitted: {difference}"


def _metadata(nnx, program):
    """The metadata of each variable that can be reached from the arguments of a program."""
    return [graphs.metadata(each) for each in program.nodes() if isinstance(each, nnx.Variable)]


@requirement("transformations/nothing-lost/jit-of-objects[attributes]")
@costly
@given(program_copies=copies(programs((*ATTRIBUTES, "call"), results=())))
def test_attributes_are_the_eager_ones(transforms, nnx, program_copies):
    """Attributes that the function adds, replaces or deletes, static data included, are as after
    the eager call.
    """
    _run(transforms, nnx, program_copies)


@requirement("transformations/nothing-lost/jit-of-objects[sharing]")
@costly
@given(program_copies=copies(programs((*PLACES, "bump"), results=())))
def test_sharing_is_the_eager_one(transforms, nnx, program_copies):
    """Objects that the function puts in a second place, swaps, copies apart, or closes to a cycle
    sit in the places where the eager call leaves them.
    """
    _run(transforms, nnx, program_copies)


containers = small_graphs(kinds=("List", "Dict", "Param"), plain=("list", "dict"), size=3)


@requirement("transformations/nothing-lost/jit-of-objects[containers]")
@costly
@given(program_copies=copies(programs((*LISTS, *DICTS), results=(), graphs=containers)))
def test_containers_are_the_eager_ones(transforms, nnx, program_copies):
    """Lists and dicts of objects, tracked or plain, that the function changes in place have the
    content that the eager call leaves.
    """
    _run(transforms, nnx, program_copies)


@requirement("transformations/keeps-identity/jit-of-objects")
@costly
@given(program_copies=copies(programs()))
def test_survivors_keep_their_identity(transforms, nnx, program_copies):
    """Where the eager call leaves an object or variable that was there before, the jitted call
    leaves that very object, and not a copy.
    """
    _run(transforms, nnx, program_copies, kept=True, alone=True)


@requirement("transformations/keeps-identity/jit-of-objects[returned]")
@costly
@given(program_copies=copies(programs((), results=("node", "fresh", "value"))))
def test_results_hold_what_the_eager_ones_hold(transforms, nnx, program_copies):
    """An argument that the function returns comes back as itself, and a new object that it returns
    is new.
    """
    _run(transforms, nnx, program_copies, kept=True)


NEWCOMERS = ("add", "adopt", "append", "set item")
"""Steps that put new variables and objects in."""


@requirement("transformations/nothing-lost/jit-of-objects[several-calls]")
@costly
@at_least(60)
@given(
    program_copies=copies(
        programs((*STEPS, *VALUES * 3), between=(*STEPS, *NEWCOMERS * 4), calls=2, max_steps=2)
    )
)
def test_several_calls_leave_the_eager_world(transforms, nnx, program_copies):
    """A second jitted call leaves the objects as the second eager call does.

    In between, the objects are changed in any way.
    """
    _run(transforms, nnx, program_copies, calls=2)


IN_PLACES = {
    "attribute": lambda one, two: one,
    "list": lambda one, two: [one, two],
    "dict": lambda one, two: {"x": one, "y": two},
    "tuple": lambda one, two: (one, two),
    "tree": lambda one, two: {"x": (one,), "y": [two]},
}
"""Where two arrays stand in an attribute of an object, outside of variables."""


@requirement(
    "transformations/nothing-lost/jit-of-objects[arrays]",
    must_reach=(*IN_PLACES, "one of them", "other changes", "again"),
)
@costly
@given(
    places=st.lists(st.sampled_from(list(IN_PLACES)), min_size=1, max_size=3),
    changed=st.lists(st.integers(0, 5), min_size=1, max_size=3), others=st.booleans(),
    calls=st.integers(1, 2),
)  # fmt: skip
def test_arrays_without_a_variable_are_the_eager_ones(
    transforms, nnx, places, changed, others, calls
):
    """Arrays that are no variables, as attributes of an object and in its plain containers, are
    after the jitted call those that the eager call leaves, also where the function changes static
    data and adds a variable beside.
    """

    def made():
        root = graphs.classes(nnx)["Node"]()
        for n, (name, place) in enumerate(zip("abc", places, strict=False)):
            reached(place)
            held = IN_PLACES[place](*(jnp.full(2, 10.0 * n + i) for i in range(2)))
            setattr(root, name, nnx.data(held))
        return root

    def work(root, x):
        parts = {name: getattr(root, name) for name in "abc"[: len(places)]}
        leaves, structure = jax.tree.flatten(parts)
        chosen = {each % len(leaves) for each in changed}
        if len(chosen) < len(leaves):
            reached("one of them")
        new = [leaf + x if holds(chosen, n) else leaf for n, leaf in enumerate(leaves)]
        for name, part in jax.tree.unflatten(structure, new).items():
            setattr(root, name, nnx.data(part))
        if others:
            reached("other changes")
            root.d, root.e = getattr(root, "d", 0) + 1, nnx.Param(x)
        return leaves

    if calls > 1:
        reached("again")
    eager, lifted, jitted = made(), made(), transforms.jit(work)
    for call in range(calls):
        expected, result = work(eager, jnp.float32(call + 1)), jitted(lifted, jnp.float32(call + 1))
        difference = graphs.differences(nnx, (eager, expected), (lifted, result))
        assert not difference, f"after call {call + 1}, eager and jitted: {difference}"


def _assigning(transforms, program):
    """A jitted function that assigns to a variable which it is not passed, and the variable."""
    captured = [n for n in program.nodes() if isinstance(n, program.nnx.Variable)]
    assume(captured)
    reached("variable")
    variable = captured[-1]

    @transforms.jit
    def assign(x):
        variable.set_value(x)
        return x

    return assign, variable


@requirement("transformations/refuses/jit-of-objects[captured]", must_reach=("variable",))
@given(program=programs((), results=()))
def test_a_captured_variable_is_not_changed(transforms, program):
    """Assigning inside a jitted function to a variable that was not passed to it is refused, and
    leaves the variable as it was.
    """
    assign, variable = _assigning(transforms, program)
    before = variable.get_raw_value()
    refused(lambda: assign(inputs(0)[0]))
    assert variable.get_raw_value() is before


@requirement("transformations/refuses/jit-of-objects[captured,message]", must_reach=("variable",))
@given(program=programs((), results=()))
def test_the_refusal_names_the_captured_variable(transforms, program):
    """The error for a variable that was not passed shows the variable's type."""
    assign, variable = _assigning(transforms, program)
    refused(lambda: assign(inputs(0)[0]), naming=(type(variable).__name__,))


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
    pair=bound_objects, others=bound_objects, shared=st.booleans(),
    steps=st.lists(st.integers(-2, 2), min_size=1, max_size=3), between=st.booleans(),
    by_name=st.sampled_from([True, False]),
)  # fmt: skip
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
    for x in map(jnp.float32, steps):
        expected, result = step(*eager, x), bound(x=x) if by_name else bound(x)
        assert_close(result, expected, **CALLS)
        different = graphs.differences(nnx, eager, lifted)
        assert not different, f"eager and cached: {different}"
        if between:
            reached("set in between")
            for each in _variables(nnx, [eager, lifted]):
                each.set_value(each.get_value() - 1)


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

    Further objects that are passed later change as in the eager call. A new object is returned, and
    a returned argument is the same object that was passed.
    """
    eager, lifted = program_copies
    assume(_apart(nnx, lifted.arguments, count))
    objects = len(eager.arguments)
    reached("some" if count < objects else "arrays too" if count > objects else "all")

    def function(*arguments):
        new = graphs.classes(nnx)["Branch"]()
        new.a = nnx.Param(arguments[-1][0] + 1)
        return eager.function(*arguments), new, arguments[count:objects]

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
