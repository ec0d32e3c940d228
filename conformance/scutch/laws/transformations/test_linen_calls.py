"""Arguments, traces and gradients of lifted Linen modules are JAX's: LIN-9g to LIN-9i (`002_`).

The oracle is JAX's own transformation of a plain function: of a function with the arguments of the
method, or of `apply` of the part that is transformed.
"""

import dataclasses
import functools
import warnings
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.inputs.descriptions import Layer, Model
from scutch.lawkit.agreement import compare_routes
from scutch.lawkit.equality import alike, assert_close, holds
from scutch.lawkit.marks import costly, raised, reached, refused, requirement
from scutch.lawkit.parts import mutable_collections, outer, weighted_gradients, within
from scutch.lawkit.tolerances import GRADIENTS
from scutch.strategies import parts

PARAMETERS = ("a", "b", "c", "d")
HOW = ("static", "traced", "donated", "left out")
"""The roles of an argument.

Only the last two arguments have a default, so that they can be left out.
"""
FORMS = ("class", "method", "function")
"""The targets of a lift: a class, a method in its class, or a function that a method calls."""
PLACES = ("device", "backend", "no backend")
"""How `jit` is told where to run; `remat` is not."""
placed = st.sampled_from([[], *([place] for place in PLACES)])
ELSEWHERE = ("jit", ["traced", "traced", "left out", "left out"], [False] * 4, 2, False, ["device"])
"""A call that JAX accepts, on another device than the one of its arguments."""
BY_NAME: tuple[Any, ...] = (
    "jit", ["traced", "traced", "traced", "left out"], [False] * 4, 1, False, [],
)  # fmt: skip
"""A call that JAX accepts, of which arguments are passed by name."""


@st.composite
def calls(draw, forms=FORMS, numbered=False):
    """Calls of lifted functions, as a tuple of the choices below, and the target of the lift.

    The choices are the lift, the role of each argument, whether it is declared, how many are passed
    by position, whether one number stands for a list of one, and the device or backend of `jit`.

    Args:
      draw: Hypothesis's.
      forms: The targets to choose from, of `FORMS`.
      numbered: Whether it is `jit`, with any numbers. Otherwise `jit` of a method or a function is
        told by name alone which arguments are static, and none is donated.
    """
    kind = "jit" if numbered else draw(st.sampled_from(["jit", "jit", "remat"]))
    hows = [draw(st.sampled_from(HOW[: 3 if n < 2 else 4])) for n in range(4)]
    declared = [draw(st.booleans()) for _ in PARAMETERS]
    positions, single = draw(st.integers(1, 4)), draw(st.booleans())
    places = draw(placed) if kind == "jit" else []
    form = draw(st.sampled_from(forms))
    if kind == "jit" and form != "class" and not numbered:
        kept = ("traced", "left out")
        hows[:positions] = [how if how in kept else "traced" for how in hows[:positions]]
        declared[:positions] = [False] * positions
    return (kind, hows, declared, positions, single, places), form


def _options(kind, hows, declared, positions, single, places):
    """Options of `jax.jit` or `jax.checkpoint` for a method of a module, which is at 0.

    An argument by position is named by its number, one by name by its name, as `jax.jit` asks for.
    One that is left out may be declared static, too.
    """
    numbers = {"static": [], "donated": []}
    names = []
    for n, (name, how) in enumerate(zip(PARAMETERS, hows, strict=True)):
        by_position = n < positions
        if how == "static" or (how == "left out" and declared[n]):
            (numbers["static"] if by_position else names).append(n + 1 if by_position else name)
        elif how == "donated" and by_position:
            numbers["donated"].append(n + 1)

    def written(each):
        return each[0] if single and len([*each]) == 1 else tuple(each)

    options = {"static_argnums": written(numbers["static"])}
    if kind == "jit":
        donated = written(numbers["donated"])
        options |= {"static_argnames": written(names), "donate_argnums": donated}
    told = {"backend": ("backend", "cpu"), "no backend": ("backend", "nope")}
    return options | dict(told.get(place, ("device", jax.devices()[-1])) for place in places)


def _passed(hows, positions):
    """New arguments by position, then by name: numbers where they are static, else arrays."""
    given = {
        name: n if how == "static" else jnp.full(3, n, "float32")
        for n, (name, how) in enumerate(zip(PARAMETERS, hows, strict=True))
        if how != "left out"
    }
    first = PARAMETERS[:positions]
    return [given[n] for n in first if n in given], {n: given[n] for n in given if n not in first}


def _seen(a, b, c, d):
    """How a function sees its arguments."""
    return [each if isinstance(each, int) else type(each).__name__ for each in (a, b, c, d)]


def _outcome(call, hows, positions):
    """The result of a call with its devices, and whether each argument is deleted.

    `None` if the call raised.
    """
    args, kwargs = _passed(hows, positions)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a donated buffer that nothing can use
        warnings.simplefilter("ignore", DeprecationWarning)  # to say where it runs
        error = raised(lambda: found.extend(jax.tree.leaves(call(*args, **kwargs))))
    if error is not None:
        return None
    arrays = [each for each in (*args, *kwargs.values()) if isinstance(each, jax.Array)]
    given = [(np.asarray(each).tolist(), sorted(map(str, each.devices()))) for each in found]
    return given, [each.is_deleted() for each in arrays]


def _assert_passed_as_jax_does(linen, call, form):
    """Fail unless the arguments of a lifted class, method or function arrive as with JAX."""
    kind, hows, _, positions, _, places = call
    ours, theirs = [], []

    def method(noted):
        def noting(self, a, b, c=7, d=8):
            noted.append(_seen(a, b, c, d))
            return [each + jnp.ones(3) for each in (a, b, c, d)]

        return noting

    lifting = functools.partial(getattr(linen, kind), **_options(*call))
    called = method(ours) if form == "class" else lifting(method(ours))
    held = called if form != "function" else lambda *args, **kwargs: called(*args, **kwargs)
    lies = {"__module__": __name__, "__call__": held}
    body = type("Body", (linen.Module,), lies)
    module = (lifting(body) if form == "class" else body)()
    found = _outcome(lambda *a, **k: module.apply({}, *a, **k), hows, positions)

    options = _options(*call)
    static = options.pop("static_argnums")
    options["static_argnums"] = (0, *([static] if isinstance(static, int) else static))
    by_jax = functools.partial({"jit": jax.jit, "remat": jax.checkpoint}[kind], **options)
    expected = _outcome(lambda *a, **k: by_jax(method(theirs))(None, *a, **k), hows, positions)

    for name in (kind, form, *places):
        reached(name)
    if expected is None:
        reached("refused")
        assert found is None, "it was accepted; JAX refuses"
        return
    for how in hows:
        reached(how)
    assert found is not None, "it was refused; JAX accepts"
    assert _untraced(ours[-1]) == _untraced(theirs[-1]), f"seen: {ours[-1]}; with JAX {theirs[-1]}"
    assert alike(found, expected), "outputs, their devices, and whether each array is deleted"


@requirement(
    "transformations/options/jit-of-linen[numbers]",
    must_reach=("remat", "jit", "refused", *HOW, *PLACES, *FORMS),
)
@costly
@given(call=calls())
@example(call=(ELSEWHERE, "class"))
@example(call=(ELSEWHERE, "function"))
@example(call=(BY_NAME, "method"))
def test_arguments_of_lifted_modules_are_passed_as_jax_does_it(linen, call):
    """Lifted `jit` and `remat` treat static and donated arguments as JAX does.

    `static_argnums` and `donate_argnums` count the module itself as 0; `static_argnames` gives
    names. The lift is of a module, a method or a function. Results lie on the device or backend
    that `jit` is given, and calls that JAX refuses are refused.
    """
    call, form = call
    _assert_passed_as_jax_does(linen, call, form)


@requirement(
    "transformations/options/jit-of-linen[numbers]",
    must_reach=("refused", "static", "donated", *FORMS[1:]),
)
@costly
@given(call=calls(FORMS[1:], numbered=True))
def test_numbers_of_arguments_of_lifted_methods_count_from_the_module(linen, call):
    """`static_argnums` and `donate_argnums` of a lifted method or function count the module as 0.

    The numbered arguments reach the method as static values, or are donated, as with `jax.jit`.
    """
    call, form = call
    _assert_passed_as_jax_does(linen, call, form)


def _untraced(seen):
    """The arguments that a function saw, with every tracer replaced by the word `array`."""
    return [each if isinstance(each, int) else "array" for each in seen]


steps = st.tuples(st.integers(0, 1), st.integers(1, 2), st.integers(0, 1), st.integers(0, 1))
"""One call: the field of the module, the length of its input, a static argument, and a seed."""


@dataclasses.dataclass(frozen=True)
class Config:
    """A field of a module that is neither a number nor a module."""

    n: int


FIELDS = {
    "number": (lambda n, part: n, lambda field: field),
    "configuration": (lambda n, part: Config(n), lambda field: field.n),
    "mapping": (lambda n, part: MappingProxyType({"n": n}), lambda field: field["n"]),
    "set": (lambda n, part: frozenset({n}), min),
    "open set": (lambda n, part: {n}, min),
    "tuple": (lambda n, part: ("a", n), lambda field: field[1]),
    "dictionary": (lambda n, part: {"n": n}, lambda field: field["n"]),
    "nested": (lambda n, part: {"a": ({"n": n}, 0)}, lambda field: field["a"][0]["n"]),
    "part": (lambda n, part: part(n), lambda field: field()),
    "parts": (lambda n, part: [part(0), part(n)], lambda field: field[1]() + field[0]()),
}
"""Fields of a module, made of a number and a class of modules.

The module reads the number from the field; a module in the field is called to read it.
"""


OTHERS = ("none", "computed", "missing")
"""A field before it that the constructor does not take: none; one that `setup` makes, or not."""


@requirement(
    "transformations/traced-once/jit-of-linen",
    must_reach=("again", "anew", "a method", *OTHERS, *FIELDS),
)
@costly
@given(
    steps=st.lists(steps, min_size=2, max_size=5), form=st.sampled_from(["class", "instance"]),
    kind=st.sampled_from(list(FIELDS)), other=st.sampled_from(OTHERS),
    method=st.sampled_from([None, "scaled"]),
)  # fmt: skip
def test_a_lifted_module_is_traced_as_often_as_a_jitted_function(
    linen, steps, form, kind, other, method
):
    """A module under lifted `jit` is traced once for each field, shape and static argument that it
    is called with, as a function of them is under `jax.jit`, whether it is made anew for each call
    or not, and whether it has a field that its constructor does not take or not; so is a method
    that is lifted by its name.
    """
    traced = []
    reached(kind)
    reached(other)
    if method:
        reached("a method")
    made, read = FIELDS[kind]

    class Number(linen.Module):
        number: int

        def __call__(self):
            return self.number

    def call(self, x, static):
        traced.append(static)
        scale = self.param("scale", linen.initializers.ones, ())
        return scale * (x + 10 * read(self.field) + 100 * static)

    class Body(linen.Module):
        field: Any

        __call__ = scaled = linen.compact(call)

    class Computing(linen.Module):
        made: Any = dataclasses.field(init=False)
        field: Any

        def setup(self):
            if other == "computed":
                self.made = Number(1)

        __call__ = scaled = linen.compact(call)

    options = {"methods": [method]} if method else {}
    lifted = linen.jit(Body if other == "none" else Computing, static_argnums=(2,), **options)
    kept = {field: lifted(made(field, Number)) for field in (0, 1)}
    before = set()
    for field, length, static, seed in steps:
        module = lifted(made(field, Number)) if form == "class" else kept[field]
        x = np.full(length, seed, "float32")
        variables = {"params": {"scale": np.float32(2 + seed)}}
        found = module.apply(variables, x, static, **({"method": method} if method else {}))
        assert np.array_equal(found, (2 + seed) * (x + 10 * field + 100 * static))
        reached("again" if (field, length, static) in before else "anew")
        before.add((field, length, static))
        assert len(traced) == len(before), f"traced {len(traced)} times, for {before}"


GRADIENTS_OF = ("vjp", "jvp", "grad", "value_and_grad")
collections = st.sampled_from(["params", ["params", "batch_stats"], True])
"""Which collections are differentiated, as a filter."""


def _of_part(kind, aux, weights):
    """A function of the output of a part: a scalar for gradients, and aux beside it or not."""

    def function(output):
        first = (output * weights).sum() if "grad" in kind else 2 * output
        return (first, output) if aux else first

    return function


def _taken(variables, wanted):
    """The collections that a filter takes, and the others."""
    names = [wanted] if isinstance(wanted, str) else wanted
    taken = {c: t for c, t in variables.items() if wanted is True or holds(names, c)}
    return taken, {c: t for c, t in variables.items() if not holds(taken, c)}


def _by_lift(linen, kind, function, weights, ahead, aux, wanted):
    """A function from a part and its input to the result of a lifted gradient."""
    options = {"has_aux": True} if aux else {}

    def call(part, x):
        each = lambda part, x: function(part(x))  # noqa: E731
        if kind == "vjp":
            taken = {} if alike(wanted, "params") else {"vjp_variables": wanted}
            output, back, *beside = linen.vjp(each, part, x, **taken, **options)
            return output, back(weights), beside
        if kind == "jvp":
            return linen.jvp(each, part, (x,), (weights,), ahead)
        return getattr(linen, kind)(each, part, x, **options)

    return call


def _by_jax(kind, function, applied, weights, ahead, aux, wanted):
    """A function that returns JAX's gradient of `apply` of a part, and the changed collections."""

    def call(variables, x):
        taken, rest = _taken(variables, [*ahead] if kind == "jvp" else wanted)

        def pure(taken, x):
            output, updates = applied({**rest, **taken}, x)
            found = function(output)
            first, beside = found if aux else (found, None)
            return first, (beside, updates)

        if kind == "jvp":
            output, tangent, (_, updates) = jax.jvp(
                pure, (taken, x), (ahead, weights), has_aux=True
            )
            return (output, tangent), updates
        if kind == "vjp":
            output, back, (beside, updates) = jax.vjp(pure, taken, x, has_aux=True)
            return (output, back(weights), [beside] if aux else []), updates
        slope = jax.value_and_grad(pure, 1, has_aux=True)
        (value, (beside, updates)), gradient = slope(taken, x)
        if kind == "grad":
            return (((gradient,), beside) if aux else (gradient,)), updates
        return ((value, beside) if aux else value, (gradient,)), updates

    return call


def _with_each_left_out(law):
    """A law that is tried on each gradient first, by the options that it has if none are given."""
    fixed = {"model": Model((Layer("Scale"),)), "train": False, "held": False}
    for kind in GRADIENTS_OF:
        law = example(**fixed, kind=kind, aux=False, wanted="params")(law)
    return law


@requirement(
    "transformations/equals-jax/gradients-of-linen",
    must_reach=(*GRADIENTS_OF, "aux", "changed", "held"),
)
@costly
@_with_each_left_out
@given(
    model=parts(), kind=st.sampled_from(GRADIENTS_OF), aux=st.booleans(), train=st.booleans(),
    wanted=collections, held=st.booleans(),
)  # fmt: skip
def test_gradients_inside_a_module_are_those_of_its_part(
    linen, model, kind, aux, train, wanted, held
):
    """Lifted `vjp`, `jvp`, `grad` and `value_and_grad` of a part equal JAX's own.

    JAX's functions are taken of the part's `apply`.

    Outputs, cotangents or tangents of variables and inputs, and changed collections agree. `grad`
    and `value_and_grad` also take a module that has the part as a field, and refuse a function
    whose output is no scalar.
    """
    reached(kind)
    held = held and "grad" in kind
    if held:
        reached("held")
    aux = aux and kind != "jvp"
    part, variables = model.module(train=train), model.variables(boxed=False)
    ahead = {c: t for c, t in model.variables(1, boxed=False).items() if alike(c, "params")}
    changing = mutable_collections(variables, train=train)
    weights = np.arange(1.0, 1 + model.x.size, dtype="float32").reshape(model.x.shape)
    function = _of_part(kind, aux, weights)
    by_lift = _by_lift(linen, kind, function, weights, ahead, aux, wanted)
    lifted = outer(linen, part, by_lift, held=held)

    def applied(variables, x):
        return part.apply(variables, x, mutable=changing)

    by_jax = _by_jax(kind, function, applied, weights, ahead, aux, wanted)

    def ours(variables, x):
        found, updates = lifted.apply(within(variables), x, mutable=changing)
        return {"gradients": found, "changed collections": dict(updates)}

    def theirs(variables, x):
        expected, changed = by_jax(variables, x)
        for name, told in (("aux", aux), ("changed", changed)):
            if told:
                reached(name)
        return {"gradients": expected, "changed collections": within(changed)}

    def check(found, expected):
        for what, each in found.items():
            assert_close(each, expected[what], what, **GRADIENTS)

    compare_routes(ours, theirs, (variables, model.x), check)
    if "grad" in kind and weights.ndim:  # JAX differentiates nothing but scalars

        def of_array(part, x):
            output = (lambda part, x: (part(x), x)) if aux else (lambda part, x: part(x))
            return getattr(linen, kind)(output, part, x, has_aux=aux)

        refused(
            lambda: jax.eval_shape(outer(linen, part, of_array).apply, within(variables), model.x)
        )


@requirement(
    "transformations/equals-jax/gradients-of-linen[custom]",
    must_reach=("changed", "not differentiated", "by default"),
)
@costly
@given(
    model=parts(), train=st.booleans(), wanted=st.one_of(st.none(), collections),
    factor=st.sampled_from([2.0, -1.0]), beside=st.lists(st.integers(1, 3), max_size=2),
)  # fmt: skip
def test_a_module_may_have_a_gradient_of_its_own(linen, model, train, wanted, factor, beside):
    """A function under `custom_vjp` has the cotangents that its backward function returns.

    Its output is unchanged. The cotangents are those of the variables and of the input. The
    backward function receives the arguments that are not differentiated.
    """
    part, variables = model.module(train=train), model.variables(boxed=False)
    changing = mutable_collections(variables, train=train)
    vjp_options, options = {}, {}
    if wanted is None:
        reached("by default")
    else:
        vjp_options, options = {"vjp_variables": wanted}, {"grad_vars": wanted}
    if beside:
        reached("not differentiated")
        options["nondiff_argnums"] = tuple(range(2, 2 + len(beside)))

    def function(part, x, *numbers):
        return sum([1, *numbers]) * part(x)

    def forward(part, x, *numbers):
        return linen.vjp(lambda part, x: function(part, x, *numbers), part, x, **vjp_options)

    def backward(*given):
        *numbers, back, cotangent = given
        of_variables, of_x = back(cotangent)
        return jax.tree.map(lambda leaf: factor * leaf, of_variables), sum([3, *numbers]) * of_x

    own = linen.custom_vjp(function, forward_fn=forward, backward_fn=backward, **options)
    lifted = outer(linen, part, lambda part, x: own(part, x, *beside))
    plain = outer(linen, part, lambda part, x: function(part, x, *beside))
    taken, rest = _taken(variables, wanted or "params")

    def slope(module):
        def called(taken, x):
            output, updates = module.apply(within({**rest, **taken}), x, mutable=changing)
            return output, dict(updates)

        return jax.jit(lambda taken, x: weighted_gradients(called, taken, x))(taken, model.x)

    def computed(x):
        found, changed = lifted.apply(within(variables), x, mutable=changing)
        return found, dict(changed)

    (_, (output, updates)), (of_variables, of_x) = slope(lifted)
    (_, (expected, changed)), (plain_variables, plain_x) = slope(plain)
    if changed:
        reached("changed")
    gradients = (
        jax.tree.map(lambda leaf: factor * leaf, plain_variables),
        sum([3, *beside]) * plain_x,
    )
    assert_close((of_variables, of_x), gradients, "gradients", **GRADIENTS)
    assert_close(output, expected, "outputs", **GRADIENTS)
    assert_close(updates, changed, "changed collections", **GRADIENTS)
    alone = jax.jit(computed)(model.x)
    assert_close(alone, (expected, changed), "without gradients", **GRADIENTS)
