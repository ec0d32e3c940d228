"""Arguments and traces of lifted Linen modules are JAX's: LIN-9g and LIN-9h (`002_`).

The oracle is JAX's own transformation of a plain function with the arguments of the method.
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

from scutch.lawkit.equality import alike
from scutch.lawkit.marks import costly, raised, reached, requirement

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
    "jit",
    ["traced", "traced", "traced", "left out"],
    [False] * 4,
    1,
    False,
    [],
)
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

    reached(kind, form, *places)
    if expected is None:
        reached("refused")
        assert found is None, "it was accepted; JAX refuses"
        return
    reached(*hows)
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
    steps=st.lists(steps, min_size=2, max_size=5),
    form=st.sampled_from(["class", "instance"]),
    kind=st.sampled_from(list(FIELDS)),
    other=st.sampled_from(OTHERS),
    method=st.sampled_from([None, "scaled"]),
)
def test_a_lifted_module_is_traced_as_often_as_a_jitted_function(
    linen, steps, form, kind, other, method
):
    """A module under lifted `jit` is traced once for each field, shape and static argument that it
    is called with, as a function of them is under `jax.jit`, whether it is made anew for each call
    or not, and whether it has a field that its constructor does not take or not; so is a method
    that is lifted by its name.
    """
    traced = []
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
