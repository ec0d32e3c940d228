"""Two traces have equal forms where they are one program, and never where they are two.

Each case of `UNLIKE` is one that a form which drops too much would call equal. Each case of
`COARSE` plants the omission, and a case of `UNLIKE` catches it.
"""

import functools
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from scutch import catalogue
from scutch.engine import agreement, forms
from scutch.engine.agreement import compare_routes, comparing
from scutch.engine.traces import form, traced
from scutch.judging import suite
from scutch.judging.attempt import Setting
from scutch.judging.trying import try_law
from scutch.judging.verdicts import rule
from scutch.lawkit.domain import THE_JUDGE, JudgeAtFault
from scutch.lawkit.equality import assert_close
from scutch.loading import load

X = np.arange(4, dtype="float32")
N = np.arange(4, dtype="int32")


@functools.cache
def sharding(*spec: Any, **options: Any) -> NamedSharding:
    mesh = Mesh(np.asarray(jax.devices()[:2]), ("data",))
    return NamedSharding(mesh, PartitionSpec(*spec), **options)


def seen(value: Any) -> None:
    """A callback on the host; forms tell it from `seen_elsewhere`."""


def seen_elsewhere(value: Any) -> None:
    """Another callback on the host."""


@jax.custom_jvp
def with_a_slope(x):
    return jnp.sin(x)


with_a_slope.defjvps(lambda t, y, x: 2 * t)


@jax.custom_jvp
def with_another(x):
    return jnp.sin(x)


with_another.defjvps(lambda t, y, x: 3 * t)


def looped(step, **options):
    return lambda x: lax.scan(step, jnp.zeros(()), x, **options)


CUT, WHOLE = PartitionSpec("data"), PartitionSpec()


def mapped(function, out=CUT, spec=CUT):
    mesh = sharding("data").mesh
    return lambda x: jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=out)(x)


def twice(callback):
    return lambda x: (callback(x), callback(x))


def called(callback):
    return lambda x: io_callback(callback, None, x)


def with_effect(x):
    io_callback(seen, None, x)
    return x + 1


def in_order(*functions):
    def ordered(x):
        for function in functions:
            io_callback(function, None, x, ordered=True)
        return x

    return ordered


ALIKE = {
    "a call of jit": (lambda x: jax.jit(jnp.sin)(x) * 2, lambda x: jnp.sin(x) * 2, X),
    "a call in a call": (lambda x: jax.jit(jax.jit(jnp.sin))(x), jnp.sin, X),
    "a function with its own slope": (with_a_slope, jnp.sin, X),
    "an expression written twice": (
        lambda x: jnp.sin(x) + jnp.sin(x),
        lambda x: (lambda y: y + y)(jnp.sin(x)),
        X,
    ),
    "an unused expression": (lambda x: (jnp.cos(x), x + 1)[1], lambda x: x + 1, X),
    "the order of two expressions": (
        lambda x: (jnp.sin(x), jnp.cos(x)),
        lambda x: (jnp.cos(x), jnp.sin(x))[::-1],
        X,
    ),
    "a call in a loop": (
        looped(lambda c, y: (c + y, c * 2)),
        looped(jax.jit(lambda c, y: (c + y, c * 2))),
        X,
    ),
    "what a loop carries for nothing": (
        lambda x: lax.scan(lambda c, y: ((c[0] + y, c[1] + 1), y), (0.0, 0), x)[0][0],
        lambda x: lax.scan(lambda c, y: (c + y, y), 0.0, x)[0],
        X,
    ),
    "a call in a mapped function": (
        mapped(lambda x: lax.psum(x, "data"), WHOLE),
        mapped(jax.jit(lambda x: lax.psum(x, "data")), WHOLE),
        X,
    ),
    "one constant in two arrays": (
        lambda x: x + np.ones(4, "float32"),
        lambda x: x + np.ones(4, "float32"),
        X,
    ),
    "one sharding of two calls": (
        lambda x: jax.jit(jnp.sin, in_shardings=sharding("data"))(x),
        lambda x: jax.jit(jnp.sin, in_shardings=sharding("data"))(x),
        X,
    ),
    "draws of one key": (
        lambda x: x + jax.random.normal(jax.random.key(0), (4,)),
        lambda x: x + jax.jit(lambda: jax.random.normal(jax.random.key(0), (4,)))(),
        X,
    ),
    "gradients of one function": (
        jax.grad(lambda x: jnp.tanh(x).sum()),
        jax.jit(jax.grad(lambda x: jnp.tanh(x).sum())),
        X,
    ),
}
"""Two functions that are one program, and their argument."""


def step(number):
    return lambda c, y: (c + y * number, c)


def counted_from(start):
    return lambda x: lax.while_loop(lambda c: c < 3, lambda c: c + 1, start) + 1


@functools.cache
def on_device(number):
    with jax.ensure_compile_time_eval():
        return jax.device_put(X, jax.devices()[number])


def drawing(*, partitionable):
    def drawn(x):
        with jax.threefry_partitionable(partitionable):
            return x + jax.random.normal(jax.random.key(0), (4,))

    return drawn


UNLIKE = {
    "constants": (
        lambda x: x + np.arange(4.0, dtype="float32"),
        lambda x: x + np.arange(4.0, dtype="float32")[::-1].copy(),
        X,
    ),
    "literals": (lambda x: x * 2, lambda x: x * 3, X),
    "a literal and another constant": (
        lambda x: x * np.float32(2),
        lambda x: x * np.asarray(3, "float32"),
        X,
    ),
    "the sign of zero": (lambda x: x * 0.0, lambda x: x * -0.0, X),
    "dtypes of a constant": (
        lambda x: (x, np.ones(2, "int32")),
        lambda x: (x, np.ones(2, "int8")),
        X,
    ),
    "dtypes of the input": (lambda x: x[:2], lambda x: x[:2], (X, N)),
    "shapes of the input": (lambda x: x[:2], lambda x: x[:2], (X, X[:3])),
    "weak types": (lambda x: (x, jnp.asarray(1.0)), lambda x: (x, jnp.asarray(1.0, "float32")), X),
    "weak types of the input": (lambda x: x, lambda x: x, (1.0, jnp.float32(1.0))),
    "weak types in a loop": (counted_from(0), counted_from(np.int32(0)), X),
    "devices of a constant": (lambda x: x + on_device(0), lambda x: x + on_device(1), X),
    "how keys are drawn from": (drawing(partitionable=True), drawing(partitionable=False), X),
    "draws without a key": (
        twice(lambda x: lax.rng_uniform(0.0, 1.0, (2,))),
        lambda x: (lambda y: (y, y))(lax.rng_uniform(0.0, 1.0, (2,))),
        X,
    ),
    "keys": (
        lambda x: x + jax.random.normal(jax.random.key(0), (4,)),
        lambda x: x + jax.random.normal(jax.random.key(1), (4,)),
        X,
    ),
    "another algorithm of keys": (
        lambda x: x + jax.random.normal(jax.random.key(0), (4,)),
        lambda x: x + jax.random.normal(jax.random.key(0, impl="rbg"), (4,)),
        X,
    ),
    "a sharding constraint": (
        lambda x: lax.with_sharding_constraint(x, sharding("data")),
        lambda x: x,
        X,
    ),
    "two sharding constraints": (
        lambda x: lax.with_sharding_constraint(x, sharding("data")),
        lambda x: lax.with_sharding_constraint(x, sharding()),
        X,
    ),
    "shardings of arguments": (
        lambda x: jax.jit(jnp.sin, in_shardings=sharding("data"))(x),
        jax.jit(jnp.sin),
        X,
    ),
    "shardings of results": (
        lambda x: jax.jit(jnp.sin, out_shardings=sharding("data"))(x),
        lambda x: jax.jit(jnp.sin, out_shardings=sharding())(x),
        X,
    ),
    "memory": (
        lambda x: jax.device_put(x, sharding("data", memory_kind="pinned_host")),
        lambda x: jax.device_put(x, sharding("data", memory_kind="device")),
        X,
    ),
    "donation": (lambda x: jax.jit(jnp.sin, donate_argnums=0)(x), jax.jit(jnp.sin), X),
    "keeping what is unused": (
        lambda x: jax.jit(jnp.sin, keep_unused=True)(x),
        jax.jit(jnp.sin),
        X,
    ),
    "precision": (lambda x: jnp.dot(x, x, precision="highest"), lambda x: jnp.dot(x, x), X),
    "the dtype of sums": (
        lambda x: jnp.dot(x, x, preferred_element_type="float32"),
        lambda x: jnp.dot(x, x, preferred_element_type="bfloat16").astype("float32"),
        X,
    ),
    "operands of a difference": (lambda x: x - jnp.sin(x), lambda x: jnp.sin(x) - x, X),
    "operands of a sum": (lambda x: x + jnp.sin(x), lambda x: jnp.sin(x) + x, X),
    "an effect": (with_effect, lambda x: x + 1, X),
    "an effect in a call": (jax.jit(with_effect), jax.jit(lambda x: x + 1), X),
    "an effect in a loop": (
        looped(lambda c, y: (c + y, with_effect(y))),
        looped(lambda c, y: (c + y, y + 1)),
        X,
    ),
    "an effect twice": (
        lambda x: (called(seen)(x), called(seen)(x), x)[2],
        lambda x: (called(seen)(x), x)[1],
        X,
    ),
    "the order of effects": (in_order(seen, seen_elsewhere), in_order(seen_elsewhere, seen), X),
    "which function the host calls": (called(seen), called(seen_elsewhere), X),
    "a call to the host twice": (
        twice(lambda x: jax.pure_callback(np.sin, x, x)),
        lambda x: (lambda y: (y, y))(jax.pure_callback(np.sin, x, x)),
        X,
    ),
    "the body of a loop": (looped(step(2)), looped(step(3)), X),
    "the direction of a loop": (looped(step(2)), looped(step(2), reverse=True), X),
    "the body of a branch": (
        lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
        lambda x: lax.cond(x[0] > 0, jnp.cos, jnp.sin, x),
        X,
    ),
    "the end of a loop": (
        lambda x: lax.while_loop(lambda c: c < 3, lambda c: c + 1, 0),
        lambda x: lax.while_loop(lambda c: c < 4, lambda c: c + 1, 0),
        X,
    ),
    "specs of a mapped function": (mapped(lambda x: x), mapped(lambda x: x, WHOLE, WHOLE), X),
    "a collective": (
        mapped(lambda x: lax.psum(x, "data"), WHOLE),
        mapped(lambda x: lax.pmax(x, "data"), WHOLE),
        X,
    ),
    "slopes": (jax.grad(lambda x: with_a_slope(x[0])), jax.grad(lambda x: with_another(x[0])), X),
    "what is stored for the slope": (
        jax.grad(lambda x: jax.checkpoint(jnp.sin)(x).sum()),
        jax.grad(lambda x: jnp.sin(x).sum()),
        X,
    ),
    "outputs": (lambda x: (x, x + 1), lambda x: (x + 1, x), X),
    "the structure of the results": (lambda x: (x, x), lambda x: [x, x], X),
    "names of results": (lambda x: {"a": x}, lambda x: {"b": x}, X),
}
"""Two functions that are two programs, and their argument; or a tuple of one for each."""


def both_forms(one, other, argument):
    pair = argument if isinstance(argument, tuple) else (argument, argument)
    return form(traced(one, pair[0])), form(traced(other, pair[1]))


@pytest.mark.parametrize("case", ALIKE)
def test_one_program_has_one_form(case):
    one, other = both_forms(*ALIKE[case])
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize("case", UNLIKE)
def test_two_programs_have_two_forms(case):
    one, other = both_forms(*UNLIKE[case])
    assert one != other


@pytest.mark.parametrize("case", sorted({*UNLIKE, *ALIKE} - {"a call to the host twice"}))
def test_a_function_has_one_form_however_often_it_is_traced(case):
    """Except parts that JAX makes anew in each trace: a `pure_callback` equals itself alone."""
    one, _, argument = {**UNLIKE, **ALIKE}[case]
    first = argument[0] if isinstance(argument, tuple) else argument
    assert form(traced(one, first)) == form(traced(one, first))


# ---------------------------------------------------------------- forms that drop too much

described, put, constant, parameter = (
    forms._described,
    forms._Graph._put,
    forms._constant,
    forms._parameter,
)
SAYS_NOTHING = forms._SAY_NOTHING


def without_sharding(value):
    return None if isinstance(value, NamedSharding) else parameter(value)


def without_bodies(value):
    return type(value) if isinstance(value, forms.ClosedJaxpr) else parameter(value)


def without_parameters(equation):
    first, _, *rest = described(equation)
    return first, *rest


def by_value(value):
    return "constant", np.asarray(value).tolist() if np.ndim(value) == 0 else constant(value)


def in_any_order(graph, equation, operands):
    return put(graph, equation, sorted(operands, key=repr))


def as_if_free(graph, outputs, written=forms._Graph.written):
    graph.kept = []
    return written(graph, outputs)


def ignoring(option):
    return {**SAYS_NOTHING, option: lambda given: True}


COARSE = {
    "constants ignored": ("_constant", lambda value: ("constant",), "constants"),
    "literals ignored": ("_literal", lambda literal: ("constant",), "literals"),
    "constants by value": ("_constant", by_value, "the sign of zero"),
    "devices ignored": (
        "_constant",
        lambda v: ("constant", np.asarray(v).tobytes()),
        "devices of a constant",
    ),
    "an effect merged": ("_is_free", lambda equation: True, "an effect twice"),
    "an effect dropped": ("_Graph.written", as_if_free, "which function the host calls"),
    "effects in any order": ("_Graph.written", as_if_free, "the order of effects"),
    "draws without a key merged": ("NOT_FREE", (), "draws without a key"),
    "a sharding ignored": ("_parameter", without_sharding, "two sharding constraints"),
    "shardings of jit ignored": (
        "_SAY_NOTHING",
        ignoring("in_shardings"),
        "shardings of arguments",
    ),
    "weak types ignored": ("_type", lambda aval: aval.strip_weak_type(), "weak types of the input"),
    "donation ignored": ("_SAY_NOTHING", ignoring("donated_invars"), "donation"),
    "unused arguments ignored": ("_SAY_NOTHING", ignoring("keep_unused"), "keeping what is unused"),
    "parameters ignored": ("_described", without_parameters, "precision"),
    "precision ignored": ("_NAMES", {"dot_general": ("precision",)}, "precision"),
    "the context ignored": ("_CONTEXT", (), "how keys are drawn from"),
    "bodies ignored": ("_parameter", without_bodies, "the body of a loop"),
    "bodies of branches ignored": ("_parameter", without_bodies, "the body of a branch"),
    "operands in any order": ("_Graph._put", in_any_order, "operands of a difference"),
    "functions of the host ignored": (
        "_Itself.__eq__",
        lambda one, other: type(one.value) is type(other.value),
        "which function the host calls",
    ),
}
"""An omission, planted where the form is made, and the case of `UNLIKE` that it makes equal."""


def is_called_equal(case):
    one, other = both_forms(*UNLIKE[case])
    return one == other


@pytest.mark.parametrize("omission", COARSE)
def test_a_form_that_drops_too_much_is_caught(monkeypatch, omission):
    name, planted, case = COARSE[omission]
    assert not is_called_equal(case)
    if name == "_Itself.__eq__":
        monkeypatch.setattr(forms._Itself, "__hash__", lambda value: 0)
    monkeypatch.setattr(f"scutch.engine.forms.{name}", planted)
    assert is_called_equal(case), "the trial would not notice: plant it elsewhere"


# ---------------------------------------------------------------- laws


def test_equal_traces_are_not_run_and_others_are():
    checked = []
    with comparing(by_traces=True, seed=0) as made:
        for _ in range(64):
            compare_routes(jax.jit(jnp.sin), jnp.sin, (X,), lambda *both: checked.append(both))
        assert made.equal == 64
        assert len(checked) == made.sampled == 5
        compare_routes(jnp.sin, jnp.cos, (X,), lambda *both: checked.append(both))
    assert made.different == 1
    assert_close(checked[-1], (np.sin(X), np.cos(X)))


def test_without_traces_every_input_is_run():
    checked = []
    with comparing(by_traces=False, seed=0) as made:
        for _ in range(3):
            compare_routes(jnp.sin, jnp.sin, (X,), lambda *both: checked.append(both))
    assert (made.equal, made.different, len(checked)) == (0, 3, 3)


def test_routes_that_differ_fail_the_law():
    with pytest.raises(AssertionError, match="expected"):
        compare_routes(jnp.sin, jnp.cos, (X,), assert_close)


def test_a_form_that_drops_too_much_is_a_fault_of_the_judge(monkeypatch):
    monkeypatch.setattr(forms, "_literal", lambda literal: ("constant",))
    monkeypatch.setattr(agreement, "RUN_OF_EQUAL", 1)
    with pytest.raises(JudgeAtFault, match=THE_JUDGE):
        compare_routes(lambda x: x * 2, lambda x: x * 3, (X,), assert_close)


def tried_where_nothing_is_near(monkeypatch, *, by_traces):
    name = "test_a_compiled_or_rematerialized_module_is_the_module"
    law = next(each for each in suite.laws() if each.name == name)
    monkeypatch.setattr(sys.modules[law.function.__module__], "near", lambda *a, **k: False)
    monkeypatch.setattr(agreement, "RUN_OF_EQUAL", 1)
    return try_law(
        law, load("reference"), examples=5, setting=Setting(by_traces=by_traces), shrink=False
    )


def test_a_fault_of_the_judge_leaves_the_requirement_untested(monkeypatch):
    trial = tried_where_nothing_is_near(monkeypatch, by_traces=True)
    assert trial.outcome == "untried"
    (ruling,) = rule(
        [catalogue.by_id()["transformations/equals-jax/jit-of-linen"]],
        [trial],
        claims=load("reference").claims,
    )
    assert ruling.verdict == "untested"
    assert THE_JUDGE in ruling.reason


def test_without_traces_results_that_differ_fail_the_requirement(monkeypatch):
    assert tried_where_nothing_is_near(monkeypatch, by_traces=False).outcome == "failed"
