"""What can be jitted, and which transformations `jit` nests with: JIT-7.

The oracle is the function itself, called eagerly or under the other transformation alone. `jit` is
nested *inside* the other transformation, *outside* of it, or on *both* sides.
"""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs import graphs
from scutch.inputs.programs import inputs
from scutch.lawkit.equality import assert_close
from scutch.lawkit.marks import costly, few, requirement
from scutch.lawkit.tolerances import CALLS, near
from scutch.strategies import copies, programs

ORDERS = ("inside", "outside", "both")
orders = st.sampled_from(ORDERS)


def _nested(transforms, transform, function, order):
    """The function under another transformation, with `jit` inside of it, outside of it, or
    both.
    """
    inner = function if order == "outside" else transforms.jit(function)
    lifted = transform(inner)
    return lifted if order == "inside" else transforms.jit(lifted)


def _module(nnx, shape=(2,)):
    """A module with a parameter of the given shape, and a counter without its last axis."""
    module = graphs.classes(nnx)["Node"]()
    module.a = nnx.Param(np.arange(1, 1 + np.prod(shape), dtype="float32").reshape(shape))
    module.b = nnx.BatchStat(np.zeros(shape[:-1], "float32"))
    return module


def _loss(module, x):
    """A scalar function of the parameter, which counts its calls in the other variable."""
    module.b.set_value(module.b.get_value() + 1)
    return jnp.sum(module.a.get_value() ** 2 * x)


class Callable:
    """An object with `__call__`, which calls a function."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *arguments):
        """Return what the function returns."""
        return self.function(*arguments)


FORMS = ("function", "decorator", "decorator with options", "partial of jit", "lambda", "callable",
         "partial")  # fmt: skip


@requirement("JIT-7a")
@few("every form of function that `jit` takes")
@given(form=st.sampled_from(FORMS))
def test_functions_partials_and_callables_can_be_jitted(transforms, nnx, form):
    """However `jit` is applied, to a function, a lambda, a partial or an object with `__call__`,
    the result computes and changes what the function does eagerly.
    """
    jit = transforms.jit

    def work(module, x):
        return _loss(module, x)

    jitted = {
        "function": lambda: jit(work),
        "decorator": lambda: jit()(work),
        "decorator with options": lambda: jit(keep_unused=True)(work),
        "partial of jit": lambda: functools.partial(jit, inline=True)(work),
        "lambda": lambda: jit(lambda module, x: work(module, x)),
        "callable": lambda: jit(Callable(work)),
        "partial": lambda: functools.partial(jit(functools.partial(lambda x, m: work(m, x), 2.0))),
    }[form]()
    eager, lifted = _module(nnx), _module(nnx)
    expected = work(eager, 2.0)
    result = jitted(lifted) if form == "partial" else jitted(lifted, 2.0)
    assert near(result, expected, **CALLS)
    assert_close(graphs.values(nnx, lifted), graphs.values(nnx, eager))


@requirement("JIT-7b")
@few("every form of function that `jit` takes")
@given(values=st.lists(st.sampled_from([1.0, 2.0]), min_size=1, max_size=2))
def test_a_jitted_method_is_a_method(transforms, nnx, values):
    """A method decorated with `jit` in its class is called on instances, or by its class, and
    changes the instance that it was called on and no other.
    """
    traces = []

    class Counter(nnx.Module):
        def __init__(self):
            self.total = nnx.BatchStat(np.float32(0))

        @transforms.jit
        def add(self, x, *, twice=False):
            """Add."""
            traces.append(x)
            self.total.set_value(self.total.get_value() + x)
            return self.total.get_value() * 2

    one, other = Counter(), Counter()
    for n, value in enumerate(values, 1):
        assert near(one.add(np.float32(value)), 2 * sum(values[:n]), **CALLS)
    assert near(one.total.get_value(), sum(values), **CALLS)
    assert near(other.total.get_value(), 0, **CALLS)
    Counter.add(other, np.float32(5))
    assert near(other.total.get_value(), 5, **CALLS)
    assert Counter.add.__doc__ == "Add."


@requirement("JIT-7c")
@few("every form of function that `jit` takes")
@given(form=st.sampled_from(["plain", "with options"]))
def test_name_docstring_and_signature_are_kept(transforms, form):
    """A jitted function has the name, qualified name, docstring, module and signature of its
    function, which is its `__wrapped__`.
    """

    def work(module, x: int = 3, *rest, flag=False, **more) -> None:
        """What it says."""

    jitted = transforms.jit(work) if form == "plain" else transforms.jit(inline=True)(work)
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        assert getattr(jitted, name) == getattr(work, name)
    assert jitted.__wrapped__ is work
    assert inspect.signature(jitted) == inspect.signature(work)


@requirement("JIT-7d")
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


@requirement("JIT-7e")
@few("every order of two transformations; OBJ-8k and OBJ-8l draw programs under pairs of them")
@given(order=orders, x=st.sampled_from([1.0, 3.0]))
def test_jit_nests_with_grad(transforms, nnx, order, x):
    """`jit(grad(f))`, `grad(jit(f))` and both at once give the gradient that `grad(f)` gives, and
    the same updates of variables.
    """
    eager, lifted = _module(nnx), _module(nnx)
    expected = transforms.grad(_loss)(eager, x)
    found = _nested(transforms, transforms.grad, _loss, order)(lifted, x)
    assert_close(nnx.to_pure_dict(found), nnx.to_pure_dict(expected))
    assert_close(nnx.to_pure_dict(found), {"a": 2 * lifted.a.get_value() * x})
    assert_close(graphs.values(nnx, lifted), graphs.values(nnx, eager))


@requirement("JIT-7f")
@few("every order of two transformations; OBJ-8k and OBJ-8l draw programs under pairs of them")
@given(order=orders, size=st.sampled_from([1, 3]))
def test_jit_nests_with_vmap(transforms, nnx, order, size):
    """`jit(vmap(f))`, `vmap(jit(f))` and both at once give the results and updates of `vmap(f)`."""
    eager, lifted = _module(nnx, (size, 2)), _module(nnx, (size, 2))
    x = np.arange(size, dtype="float32")
    expected = transforms.vmap(_loss)(eager, x)
    found = _nested(transforms, transforms.vmap, _loss, order)(lifted, x)
    assert near(found, expected, **CALLS)
    assert_close(graphs.values(nnx, lifted), graphs.values(nnx, eager))


@requirement("JIT-7g")
@few("every order of two transformations; OBJ-8k and OBJ-8l draw programs under pairs of them")
@given(order=orders, size=st.sampled_from([1, 3]))
def test_jit_nests_with_scan(transforms, nnx, order, size):
    """`jit(scan(f))`, `scan(jit(f))` and both at once give the results and updates of `scan(f)`."""

    def step(module, carry):
        return carry * 2 + _loss(module, 1.0)

    def scan(function):
        options = {"in_axes": (0, nnx.Carry), "out_axes": nnx.Carry}
        return transforms.scan(function, **options)

    start = np.float32(1)
    eager, lifted = _module(nnx, (size, 2)), _module(nnx, (size, 2))
    expected = scan(step)(eager, start)
    found = _nested(transforms, scan, step, order)(lifted, start)
    assert near(found, expected, **CALLS)
    assert_close(graphs.values(nnx, lifted), graphs.values(nnx, eager))


@jax.custom_vjp
def _tripled(x):
    """The identity, with a custom gradient that is three times the true one."""
    return x


_tripled.defvjp(lambda x: (x, None), lambda _, g: (3 * g,))


@requirement("JIT-7h")
@few("every order of two transformations; OBJ-8k and OBJ-8l draw programs under pairs of them")
@given(outer=st.sampled_from(["jit", "grad", "vmap", "value"]), size=st.sampled_from([2, 3]))
def test_jit_nests_with_plain_jax(transforms, nnx, outer, size):
    """A jitted function that makes its objects inside works under `jax.jit`, `jax.grad` and
    `jax.vmap`, and the custom gradient of what it calls is used.
    """

    @transforms.jit
    def inner(x):
        module = _module(nnx)
        module.a.set_value(_tripled(x) + module.a.get_value())
        return jnp.sum(module.a.get_value())

    x = np.arange(2, dtype="float32")
    batch = np.stack([x] * size)
    start = float(np.sum(x + np.asarray([1, 2])))
    match outer:
        case "jit":
            assert near(jax.jit(inner)(x), start, **CALLS)
        case "grad":
            assert near(jax.grad(inner)(x), [3, 3], **CALLS)
        case "vmap":
            assert near(jax.vmap(inner)(batch), [start] * size, **CALLS)
        case "value":
            value, gradient = jax.value_and_grad(jax.jit(inner))(x)
            assert near(value, start, **CALLS)
            assert near(gradient, [3, 3], **CALLS)
