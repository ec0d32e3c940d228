"""Static, donated, keyword and default arguments, and the further options of `jax.jit`: JIT-4.

The oracles are the eager call, for values, and `jax.jit` on a flat list of the same arrays, for the
effect of an option. An argument is *static* when it is compiled in as a Python value; it is
*donated* when the call may reuse its buffers, which are deleted afterwards.
"""

import warnings

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs import graphs
from scutch.inputs.programs import inputs
from scutch.lawkit.domain import assume, not_available
from scutch.lawkit.equality import alike, holds, plain_text
from scutch.lawkit.marks import costly, few, raised, reached, refused, requirement
from scutch.strategies import copies, programs

KEY = {
    "by number": {"static_argnums": 1},
    "by a negative number": {"static_argnums": -1},
    "by numbers": {"static_argnums": (1,)},
    "by name": {"static_argnames": "scale"},
    "by names": {"static_argnames": ("scale",)},
}
"""Ways to say which of two arguments is static."""

PASSED = ("by position", "by name")


class Scale:
    """A hashable value that is no array: scales are equal when their factors are."""

    def __init__(self, factor):
        self.factor = factor

    def __eq__(self, other):
        return isinstance(other, Scale) and self.factor == other.factor

    def __hash__(self):
        return hash(self.factor)


def _module(nnx, value=None):
    """A module with one parameter."""
    module = graphs.classes(nnx)["Node"]()
    module.a = nnx.Param(inputs(0)[0] if value is None else value)
    return module


def _scaling(transforms, how):
    """A jitted function whose second argument is static, and the list of values that its traces
    were given.
    """
    seen = []

    def work(module, scale):
        seen.append(scale)
        module.a.set_value(module.a.get_value() * scale.factor)
        return module.a.get_value() + 1

    return transforms.jit(work, **KEY[how]), seen


def _apply(function, passed, first, second, name):
    """Call a function of two arguments, passing the second by position or by name."""
    return function(first, second) if passed == "by position" else function(first, **{name: second})


@requirement("transformations/options/jit-of-objects[static]")
@few("every way to say which argument is static, or donated; JIT-10 draws them in combination")
@given(how=st.sampled_from(list(KEY)), factors=st.sampled_from([(2, 3, 2), (2, 2, 3)]))
def test_static_arguments_are_compiled_in(transforms, nnx, how, factors):
    """The very object that is passed as a static argument arrives inside; each unequal value is
    traced once and equal ones are not traced again.
    """
    jitted, seen = _scaling(transforms, how)
    passed = "by name" if "name" in how else "by position"
    for factor in factors:
        module, scale = _module(nnx), Scale(factor)
        before = module.a.get_value()
        traced = len([*seen])
        result = _apply(jitted, passed, module, scale, "scale")
        assert len([*seen]) == traced or seen[-1] is scale
        assert np.array_equal(module.a.get_value(), before * factor)
        assert np.array_equal(result, before * factor + 1)
    assert alike([scale.factor for scale in seen], list(dict.fromkeys(factors)))


@requirement("transformations/options/jit-of-objects[static-by-name]", must_reach=("other way",))
@few("every way to say which argument is static, or donated; JIT-10 draws them in combination")
@given(how=st.sampled_from(list(KEY)), passed=st.sampled_from(PASSED))
def test_static_numbers_and_names_imply_each_other(transforms, nnx, how, passed):
    """An argument that is declared static by its number is static when passed by name, and one that
    is declared by name is static when passed by position.
    """
    assume(not (how == "by a negative number" and passed == "by name"))
    if ("name" in how) != (passed == "by name"):
        reached("other way")
    jitted, seen = _scaling(transforms, how)
    module, scale = _module(nnx), Scale(3)
    before = module.a.get_value()
    _apply(jitted, passed, module, scale, "scale")
    assert alike(seen, [scale])
    assert np.array_equal(module.a.get_value(), before * 3)


@requirement("transformations/refuses/jit-of-objects[unhashable]")
@few("every way to say which argument is static, or donated; JIT-10 draws them in combination")
@given(how=st.sampled_from(list(KEY)), value=st.sampled_from(["list", "dict", "set"]))
def test_an_unhashable_static_argument_is_refused(transforms, nnx, how, value):
    """An unhashable value for a static argument is refused with an error that shows its type, and
    the object beside it is not changed.
    """
    jitted = transforms.jit(lambda module, scale: None, **KEY[how])
    module = _module(nnx)
    before = module.a.get_raw_value()
    passed = "by name" if "name" in how else "by position"
    unhashable = {"list": [2], "dict": {2: 2}, "set": {2}}[value]
    refused(lambda: _apply(jitted, passed, module, unhashable, "scale"), naming=(value,))
    assert module.a.get_raw_value() is before


DONATED = {
    "by number": {"donate_argnums": 0},
    "by a negative number": {"donate_argnums": -2},
    "by numbers": {"donate_argnums": (0,)},
    "by name": {"donate_argnames": "module"},
    "with an array": {"donate_argnums": (0, 1)},
    "not at all": {},
}
"""Ways to say that the first of two arguments, a module, is donated, and one in which the second
is, an array, too."""


def _donating(transforms, nnx, how, changes, passed):
    """Call a function that donates a module with two variables.

    Returns:
      The two arrays that the variables held before the call, the second argument, and the module.
    """
    held = [jax.device_put(np.arange(n, dtype="float32")) for n in (4, 2, 3)]
    module = _module(nnx, held[0])
    module.b = nnx.BatchStat(held[1])

    def work(module, other):
        if changes:
            module.a.set_value(module.a.get_value() * 2)
            module.b.set_value(module.b.get_value() + 1)
        return other + 1

    jitted = transforms.jit(work, **DONATED[how])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of donated buffers that it cannot use
        if passed == "by position":
            jitted(module, held[2])
        else:
            jitted(other=held[2], module=module)
    return held, module


def _donates(how):
    """Whether `jax.jit` deletes an array that is donated in the given way."""
    array = jax.device_put(np.arange(4.0))
    jax.jit(lambda module, other: (module * 2, other), **DONATED[how])(array, 1.0)
    return array.is_deleted()


ways = {"how": st.sampled_from(list(DONATED)), "passed": st.sampled_from(PASSED)}


@requirement("transformations/donation/jit-of-objects", must_reach=("donated", "kept"))
@few("every way to say which argument is static, or donated; JIT-10 draws them in combination")
@given(**ways)
def test_donated_objects_give_up_their_arrays(transforms, nnx, how, passed):
    """The arrays that a donated object held, and an array that is donated with it, are deleted
    after the call, and those that were not donated are kept.
    """
    if not _donates("by number"):
        not_available("this backend does not donate")
    assume(how in ("by name", "not at all") or (passed == "by position" and _donates(how)))
    held, _ = _donating(transforms, nnx, how, True, passed)
    donated = how != "not at all"
    reached("donated" if donated else "kept")
    expected = [donated, donated, how == "with an array"]
    assert alike([array.is_deleted() for array in held], expected)


@requirement(
    "transformations/donation/jit-of-objects[after]", must_reach=("changes", "not changes")
)
@given(changes=st.booleans(), **ways)
def test_no_variable_holds_a_deleted_buffer(transforms, nnx, how, passed, changes):
    """After a call that donated an object, its variables can be read and have the eager values,
    whether or not the function changed them.
    """
    _, module = _donating(transforms, nnx, how, changes, passed)
    factor = 2 if changes else 1
    assert np.array_equal(np.asarray(module.a.get_value()), np.arange(4.0) * factor)
    assert np.array_equal(np.asarray(module.b.get_value()), np.arange(2.0) + factor - 1)


@requirement(
    "transformations/donation/jit-of-objects[after]", must_reach=("first", "second", "both")
)
@given(which=st.sampled_from(["first", "second", "both"]), changes=st.booleans(), own=st.booleans())
def test_donated_objects_may_share_a_variable(transforms, nnx, which, changes, own):
    """Where two arguments hold one variable, and one of them or both are donated, each variable can
    be read after the call, and has the eager value.
    """

    def made():
        one, other = _module(nnx, jax.device_put(np.arange(4.0))), _module(nnx)
        other.a = one.a
        if own:
            other.b = nnx.Param(jax.device_put(np.arange(3.0)))
        return one, other

    def work(one, other, x):
        for variable in graphs.nodes(nnx, [one, other]) if changes else ():
            if isinstance(variable, nnx.Variable):
                variable.set_value(variable.get_value() * 2)
        return x + 1

    numbers = {"first": 0, "second": 1, "both": (0, 1)}[which]
    eager, lifted = made(), made()
    work(*eager, np.float32(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of donated buffers that it cannot use
        transforms.jit(work, donate_argnums=numbers)(*lifted, np.float32(1))
    difference = graphs.differences(nnx, eager, lifted)
    assert not difference, f"eager and jitted: {difference}"


def _weighed(*more, scale):
    return [array * scale for array in more]


def _weighed_from(first, *more, scale=2):
    return [first + scale, *(array * scale for array in more)]


BEHIND_MORE = {"more": _weighed, "first and more": _weighed_from}


@requirement(
    "transformations/options/jit-of-objects[name-only]", must_reach=("static", "not static")
)
@given(
    takes=st.sampled_from(list(BEHIND_MORE)),
    count=st.integers(1, 4),
    static=st.booleans(),
    numbered=st.booleans(),
)
def test_a_name_that_is_passed_by_name_alone_has_no_number(
    transforms, takes, count, static, numbered
):
    """`static_argnames` and `donate_argnames` with a parameter behind `*more` are about that
    parameter alone, however many arguments are passed by position, as with `jax.jit`.
    """
    options = {"static_argnames" if static else "donate_argnames": "scale"}
    if numbered:
        options["donate_argnums" if static else "static_argnums"] = ()

    def results(jit):
        given = [jax.device_put(np.arange(2 + n, dtype="float32")) for n in range(count)]
        scale = 3 if static else jax.device_put(np.float32(3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # JAX warns of donated buffers that it cannot use
            found = jit(BEHIND_MORE[takes], **options)(*given, scale=scale)
        donated = [each.is_deleted() for each in (*given, scale) if isinstance(each, jax.Array)]
        return [np.asarray(each) for each in found], donated

    assert alike(results(transforms.jit), results(jax.jit))


CALLS = {
    "all by position": (("first", "second", "scale"), ()),
    "all by name": ((), ("first", "second", "scale")),
    "in another order": ((), ("scale", "second", "first")),
    "some by name": (("first",), ("scale", "second")),
    "a default": (("first", "second"), ()),
    "a default, by name": (("first",), ("second",)),
}


@requirement("transformations/options/jit-of-objects[keywords]")
@costly
@given(program_copies=copies(programs((), results=())), how=st.sampled_from(list(CALLS)))
def test_keywords_and_defaults_mean_what_they_mean_eagerly(transforms, nnx, program_copies, how):
    """A jitted call takes arguments by name and defaults as the eager call does.

    Arguments by name come in any order, and some are left to their defaults. Variables change and
    results are returned as in the eager call.
    """

    def work(first, second, scale=np.int32(3), *, offset=1):  # noqa: B008 - an immutable default
        for variable in graphs.nodes(nnx, [first, second]):
            if isinstance(variable, nnx.Variable):
                variable.set_value(variable.get_value() * scale + offset)
        return [second, scale * 2]

    positional, named = CALLS[how]
    ends = []
    for function, program in zip((work, transforms.jit(work)), program_copies, strict=True):
        nodes = program.nodes()
        given = {"first": nodes[0], "second": nodes[-1], "scale": np.int32(5)}
        result = function(*(given[n] for n in positional), **{n: given[n] for n in named})
        ends.append((nodes, result[0], np.asarray(result[1])))
    difference = graphs.differences(nnx, *ends)
    assert not difference, f"eager and jitted: {difference}"


def _operations(function, x):
    """Whether the program that tracing a function gives has an addition, and a multiplication, at
    its top.
    """
    names = {equation.primitive.name for equation in jax.make_jaxpr(function)(x).eqns}
    return holds(names, "add"), holds(names, "mul")


@requirement("transformations/options/jit-of-objects[further]")
@few("these are the options; JIT-10 draws them in combination")
@given(option=st.sampled_from(["inline", "keep_unused", "device", "backend"]))
def test_further_options_are_those_of_jax(transforms, nnx, option):
    """`inline`, `keep_unused`, `device` and `backend` of lifted `jit` act as those of `jax.jit`.

    JAX's options are tried on the flat list of the objects' arrays.
    """

    def work(module, unused):
        module.a.set_value(module.a.get_value() + 1)
        return module.a.get_value() * 2

    def flat(a, unused):
        return (a + 1) * 2, a + 1

    def lifted(**options):
        return transforms.jit(work, **options)

    device = jax.devices()[-1]
    module, unused = _module(nnx), np.zeros(3, "float32")
    match option:
        case "inline":
            for inline in (True, False):
                ours, theirs = lifted(inline=inline), jax.jit(flat, inline=inline)
                expected = _operations(lambda x, f=theirs: f(x, unused), unused)
                assert alike(
                    _operations(lambda x, f=ours: f(_module(nnx, x), unused), unused), expected
                )
        case "keep_unused":
            for keep in (True, False):
                theirs = jax.jit(flat, keep_unused=keep).lower(unused, unused).as_text()
                ours = lifted(keep_unused=keep).lower(_module(nnx, unused), unused).as_text()
                assert ("%arg1" in plain_text(ours)) is ("%arg1" in plain_text(theirs))
        case "device" | "backend":
            chosen = {"device": device} if option == "device" else {"backend": "cpu"}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # both are deprecated in JAX
                error = raised(lambda: jax.jit(flat, **chosen)(unused, unused))
                if error is not None:
                    not_available(f"jax.jit at hand does not take {option}: {error}")
                result = lifted(**chosen)(module, unused)
            there = {device} if option == "device" else jax.devices("cpu")
            assert set(result.devices()) <= set(there)
            assert set(module.a.get_value().devices()) <= set(there)
