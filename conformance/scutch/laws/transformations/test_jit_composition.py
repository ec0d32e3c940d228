"""Functions, methods and callables under `jit`, and `jit` nested with other transformations: JIT-7.

Programs over generated objects are jitted, in every form that a function can have, and nested with
other transformations: `jit` stands *inside* the other one, *outside* of it, or on *both* sides. The
oracle is the eager call, or JAX's own transformations of the pure function of the objects' leaves
(see `scutch.engine.carriers.objects`).
"""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.engine.relations import agreement
from scutch.inputs import graphs
from scutch.inputs.callables import FIELDS, callable_with
from scutch.inputs.callables import FORMS as CALLABLES
from scutch.inputs.programs import VALUES, inputs
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, assert_close, holds
from scutch.lawkit.marks import costly, dear, raised, reached, requirement
from scutch.lawkit.tolerances import CALLS
from scutch.strategies import copies, programs
from scutch.strategies.object_calls import object_calls

ORDERS = ("inside", "outside", "both")


def ordered(kind):
    """Calls under `jit` and another transformation, with where `jit` stands: one of `ORDERS`."""
    nestings = {"inside": (kind, "jit"), "outside": ("jit", kind), "both": ("jit", kind, "jit")}
    return st.sampled_from(ORDERS).flatmap(
        lambda order: st.tuples(st.just(order), object_calls(*nestings[order]))
    )


def _agrees(transforms, ordered_call):
    """Make the call by both routes, and compare."""
    order, call = ordered_call
    if alike(agreement(call, transforms), "returned"):
        reached(order)


class Callable:
    """An object with `__call__` and a method, which call a function."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *arguments, **keywords):
        """Return the result of the function."""
        return self.function(*arguments, **keywords)

    method = __call__


FORMS = (
    "function",
    "decorator",
    "decorator with options",
    "partial of jit",
    "lambda",
    "callable",
    "method",
    "partial",
    "partial by name",
    "partial of jitted",
)


def _jitted(jit, form, work, pair):
    """A function `(*objects)` that calls `work(*objects, pair)`, jitted in some form."""
    last = {
        "function": lambda: jit(work),
        "decorator": lambda: jit()(work),
        "decorator with options": lambda: jit(keep_unused=True)(work),
        "partial of jit": lambda: functools.partial(jit, inline=True)(work),
        "lambda": lambda: jit(lambda *arguments: work(*arguments)),
        "callable": lambda: jit(Callable(work)),
        "method": lambda: jit(Callable(work).method),
    }
    if holds(last, form):
        jitted = last[form]()
        return lambda *objects: jitted(*objects, pair)

    def first(pair, *objects, bound=0):
        return work(*objects, tuple(array + bound for array in pair))

    match form:
        case "partial":
            return jit(functools.partial(first, pair))
        case "partial by name":
            jitted = jit(functools.partial(first, bound=2))
            return lambda *objects: jitted(tuple(array - 2 for array in pair), *objects)
    return functools.partial(jit(first), pair)


@requirement(
    "transformations/options/jit-of-objects[functions]",
    must_reach=("callable", "method", "partial", "partial by name"),
)
@costly
@given(form=st.sampled_from(FORMS), program_copies=copies(programs(max_steps=2)))
def test_functions_partials_and_callables_can_be_jitted(transforms, nnx, form, program_copies):
    """`jit` takes a function, lambda, partial, method or object with `__call__`.

    The jitted call acts as the eager call: it returns the same result and changes the objects in
    the same way.
    """
    eager, lifted = program_copies
    expected = eager.function(*eager.arguments, inputs(0))
    result = _jitted(transforms.jit, form, lifted.function, inputs(0))(*lifted.arguments)
    difference = graphs.differences(nnx, (eager.arguments, expected), (lifted.arguments, result))
    assert not difference, f"eager and jitted: {difference}"


def _owner(transforms, nnx, program):
    """An object that holds the arguments of a program, and whose class has a jitted method."""

    class Owner(nnx.Module):
        def __init__(self, held):
            self.held = nnx.data(list(held))

        def work(self, pair):
            return program.function(*self.held, pair)

        @transforms.jit
        def step(self, pair, *, more=0):
            """Step."""
            return program.function(*self.held, tuple(array + more for array in pair))

    return Owner(graphs.nodes(nnx, program.arguments)[:2])


WAYS = ("of the object", "of the class", "by name")


@requirement("transformations/options/jit-of-objects[methods]", must_reach=WAYS)
@costly
@given(
    program_copies=copies(programs(max_steps=2)),
    others=copies(programs(VALUES)),
    ways=st.lists(st.sampled_from(WAYS), min_size=1, max_size=2),
)
def test_a_jitted_method_is_a_method(transforms, nnx, program_copies, others, ways):
    """A method decorated with `jit` in its class can be called on an instance or through the class.

    Arguments go by position or by name. The call changes its own instance as the eager method does,
    and no other instance.
    """
    eager, lifted = (_owner(transforms, nnx, each) for each in program_copies)
    untouched, other = (_owner(transforms, nnx, each) for each in others)
    assert alike(type(lifted).step.__doc__, "Step.")
    for call, way in enumerate(ways):
        reached(way)
        pair = inputs(call)
        expected = eager.work(tuple(array + 2 for array in pair) if way == "by name" else pair)
        match way:
            case "of the object":
                result = lifted.step(pair)
            case "of the class":
                result = type(lifted).step(lifted, pair)
            case _:
                result = lifted.step(pair=pair, more=2)
        difference = graphs.differences(
            nnx, (eager.held, expected, untouched.held), (lifted.held, result, other.held)
        )
        assert not difference, f"eager and jitted, in call {call}: {difference}"


def _no_arguments() -> None: ...
def _with_a_default(module, x: int = 3): ...
def _of_every_sort(module, /, x: int = 3, *rest: float, flag: bool = False, **more) -> None: ...
def _by_name_alone(*, module: object, x=(1, 2)) -> "None": ...
def _by_position_alone(module, x, /): ...
def _of_any(*modules): ...


SIGNED = {
    each.__name__: each
    for each in (
        _no_arguments,
        _with_a_default,
        _of_every_sort,
        _by_name_alone,
        _by_position_alone,
        _of_any,
    )
}
NAMED = ("__name__", "__qualname__", "__doc__", "__module__")
texts = st.sampled_from(("work", "Model.__call__", "step_2", "été", "Two lines.\n\n  More."))
DECORATED = {
    "called": lambda jit, function: jit(function),
    "called with options": lambda jit, function: jit(function, keep_unused=True),
    "decorator": lambda jit, function: jit()(function),
    "decorator with options": lambda jit, function: jit(inline=True)(function),
}


@requirement("transformations/options/jit-of-objects[signature]")
@given(
    name=st.sampled_from(list(SIGNED)),
    decorated=st.sampled_from(list(DECORATED)),
    names=st.fixed_dictionaries(dict.fromkeys(NAMED, texts)),
)
def test_name_docstring_and_signature_are_kept(transforms, name, decorated, names):
    """A jitted function has the name, qualified name, docstring, module and signature of its
    function, to which `__wrapped__` leads, from wrapper to wrapper if there are several.
    """
    if decorated == "decorator":  # that `jit` may come without its function is not asked here
        assume(raised(transforms.jit) is None)
    signed = SIGNED[name]
    work = type(signed)(signed.__code__, signed.__globals__, "work", signed.__defaults__)
    work.__kwdefaults__, work.__annotations__ = signed.__kwdefaults__, signed.__annotations__
    for attribute, text in names.items():
        setattr(work, attribute, text)
    jitted = DECORATED[decorated](transforms.jit, work)
    for attribute in NAMED:
        assert alike(getattr(jitted, attribute), getattr(work, attribute))
    assert inspect.unwrap(jitted) is work
    assert alike(inspect.signature(jitted), inspect.signature(signed))


@requirement("transformations/nesting/jit-of-objects[jit]")
@costly
@given(program_copies=copies(programs(max_steps=2)), again=st.booleans())
def test_jit_nests_in_jit(transforms, nnx, program_copies, again):
    """A jitted function that is called once or twice inside another has the results and effects of
    the eager calls.
    """
    eager, lifted = program_copies

    def outside(function):
        def outer(*arguments):
            first = function(*arguments)
            return [first, function(*arguments) if again else None]

        return outer

    expected = outside(eager.function)(*eager.arguments, inputs(0))
    jitted = transforms.jit(outside(transforms.jit(lifted.function)))
    result = jitted(*lifted.arguments, inputs(0))
    difference = graphs.differences(nnx, (eager.arguments, expected), (lifted.arguments, result))
    assert not difference, f"eager and jitted twice: {difference}"


@requirement("transformations/nesting/jit-of-objects[lifts]", must_reach=ORDERS)
@dear
@given(ordered_call=ordered("grad"))
def test_jit_nests_with_grad(transforms, ordered_call):
    """`jit(grad(f))`, `grad(jit(f))` and both at once give the losses, gradients and updates that
    JAX's own transformations give of the pure function of the leaves.
    """
    _agrees(transforms, ordered_call)


@requirement("transformations/nesting/jit-of-objects[lifts]", must_reach=ORDERS)
@dear
@given(ordered_call=ordered("vmap"))
def test_jit_nests_with_vmap(transforms, ordered_call):
    """`jit(vmap(f))`, `vmap(jit(f))` and both at once give the results and updates that JAX's own
    transformations give of the pure function of the leaves.
    """
    _agrees(transforms, ordered_call)


@requirement("transformations/nesting/jit-of-objects[lifts]", must_reach=ORDERS)
@dear
@given(ordered_call=ordered("scan"))
def test_jit_nests_with_scan(transforms, ordered_call):
    """`jit(scan(f))`, `scan(jit(f))` and both at once give the results and updates that JAX's own
    transformations give of the pure function of the leaves.
    """
    _agrees(transforms, ordered_call)


@jax.custom_vjp
def _tripled(x):
    """The identity, with a custom gradient that is three times the true one."""
    return x


_tripled.defvjp(lambda x: (x, None), lambda _, g: (3 * g,))


@jax.custom_jvp
def _halved(x):
    """The identity, with a custom tangent that is half of the true one."""
    return x


_halved.defjvp(lambda primals, tangents: (primals[0], tangents[0] / 2))

CUSTOM = {"custom_vjp": _tripled, "custom_jvp": _halved, "none": lambda x: x}
OUTER = ("jit", "grad", "vmap", "vmap of grad", "rematerialized grad")


@requirement("transformations/nesting/jit-of-objects[jax]", must_reach=tuple(CUSTOM))
@costly
@given(
    outer=st.sampled_from(OUTER),
    custom=st.sampled_from(list(CUSTOM)),
    call=object_calls("grad"),
)
def test_jit_nests_with_plain_jax(transforms, outer, custom, call):
    """A lifted `jit` inside a function changes nothing for plain JAX around it.

    `jax.jit`, `jax.grad`, `jax.vmap` and `jax.checkpoint` of a function that makes objects and
    calls the jitted program on them equal the same transformations without the inner `jit`. Custom
    gradients of functions called before the program are used.
    """

    def changed(function):
        """A pure function of the objects' values and two arrays that returns values and results."""

        def pure(values, pair):
            world = call.inside()
            world.fill([CUSTOM[custom](value) for value in values])
            results = function(*world.arguments, tuple(map(CUSTOM[custom], pair)))
            return world.values(), results

        return pure

    def loss(function):
        def weighed(values, pair):
            leaves = map(jnp.float32, jax.tree.leaves(changed(function)(values, pair)))
            squares = ((n + 1) * jnp.sum(leaf**2) for n, leaf in enumerate(leaves))
            return sum(squares, jnp.float32(0))  # a program may leave no value

        return weighed

    def transformed(function):
        match outer:
            case "jit":
                return changed(function)
            case "grad":
                return jax.grad(loss(function), (0, 1))
            case "vmap":
                return jax.vmap(changed(function))
            case "vmap of grad":
                return jax.vmap(jax.grad(loss(function), (0, 1)))
        return jax.grad(jax.checkpoint(loss(function)), (0, 1))

    def work(*arguments):
        return call.run(arguments[:-1], arguments[-1])

    values, pair = call.inside().values(), tuple(np.asarray(a, "float32") for a in inputs(0))
    if outer.startswith("vmap"):
        values, pair = jax.tree.map(lambda a: np.stack([a, 2 * a]), (values, pair))
    found, expected = jax.jit(
        lambda *given: [transformed(each)(*given) for each in (transforms.jit(work), work)]
    )(values, pair)
    assert_close(found, expected)


@requirement("transformations/options/jit-of-objects[fields]", must_reach=CALLABLES)
@costly
@given(
    form=st.sampled_from(CALLABLES),
    values=st.lists(st.integers(-3, 3), min_size=1, max_size=3),
    fields=st.lists(st.sampled_from(FIELDS), min_size=2, max_size=4, unique=True),
)
def test_a_callable_may_have_fields_of_any_name(transforms, nnx, form, values, fields):
    """An object with `__call__`, or a function with attributes, may have fields of any name.

    Fields are called `f`, `graph` or `in_shardings`, for example. The jitted call returns the same
    results and makes the same changes as the eager one.
    """

    def added(variable, x):
        variable.set_value(variable.get_value() + x)
        return variable.get_value() * x

    def results(lift):
        counter = nnx.Param(jnp.zeros(2))
        function = lift(callable_with(fields, added, form))
        return [(function(counter, jnp.float32(n)), counter.get_value()) for n in values]

    assert_close(results(transforms.jit), results(lambda function: function), **CALLS)
