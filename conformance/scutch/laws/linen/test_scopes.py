"""Operations of a bound module, and when they are allowed: LIN-1l, LIN-1m, LIN-1r, LIN-1s (`002_`).

A module is *bound* while `init` or `apply` runs it, and `bind` returns a bound module. Any
attribute that is set during a run would be lost at its end, so a bound module refuses it.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.keys import small_key
from scutch.lawkit.equality import alike, assert_close
from scutch.lawkit.marks import at_least, costly, raised, refused, requirement
from scutch.lawkit.tolerances import MODELS
from scutch.strategies.names import numbered_names

X = np.ones((2, 3), "float32")
RUNS = ("init", "apply", "mutable", "as init", "bind")


@requirement("linen/methods/parts-know-init", must_reach=RUNS)
@costly
@given(
    lifts=st.lists(st.sampled_from(["none", "jit", "remat", "vmap"]), min_size=1, max_size=3),
    run=st.sampled_from(RUNS),
    form=st.sampled_from(["compact", "setup"]),
    bare=st.booleans(),
)
def test_every_part_knows_whether_init_runs(linen, lifts, run, form, bare):
    """`is_initializing` is true in every part of a module, lifted or not, with variables or without
    any, while `init` runs, and false in `apply`, with collections that may change, all that `init`
    makes among them, or without, and in a bound module.
    """
    seen = []

    def lifted(how, cls):
        if alike(how, "none"):
            return cls
        shared = {"variable_axes": {"params": None}, "split_rngs": {"params": False}}
        return getattr(linen, how)(cls, **(shared if alike(how, "vmap") else {}))

    def noted(self, x):
        seen.append(self.is_initializing())
        return x if bare else x + self.param("shift", linen.initializers.zeros, ())

    class Leaf(linen.Module):
        @linen.compact
        def __call__(self, x):
            return noted(self, x)

    def around(part):
        class Compact(linen.Module):
            @linen.compact
            def __call__(self, x):
                return part(name="inner")(noted(self, x))

        class SetUp(linen.Module):
            def setup(self):
                self.inner = part()

            def __call__(self, x):
                seen.append(self.is_initializing())
                return self.inner(x)

        return Compact if form == "compact" else SetUp

    cls = Leaf
    for how in lifts:
        cls = around(lifted(how, cls))
    module, x = cls(), np.ones((2,) * len(lifts), "float32")
    variables = module.init(small_key(0), x)
    if run != "init":
        seen.clear()
        if run == "bind":
            module.bind(variables)(x)
        else:
            mutable = {"mutable": ["counts"], "as init": linen.DenyList("intermediates")}
            module.apply(variables, x, mutable=mutable.get(run, False))
    assert len(seen) > len(lifts)
    assert all(each is (run == "init") for each in seen), f"seen in {run}: {seen}"


WAYS = (
    "attribute",
    "attribute of a bound one",
    "part",
    "part of a bound one",
    "variable",
    "special",
    "condition",
    "field",
)


def _losing(linen, way, name, setup, called):
    """A class of modules that make a change which would be lost, in the given way."""

    class Part(linen.Module):
        own: Any = None

        def setup(self):
            if way == "field":
                self.own = linen.Dense(3) if setup else X
            elif setup:
                self.inner = linen.Dense(3)

        def __call__(self, x):
            if way == "attribute":
                setattr(self, name, x)
            if way == "part":
                return linen.Dense(3, name=name)(x)
            return x

        def writing(self, x):
            self.put_variable("counts", name, jnp.float32(1))
            return x

        def adding(self, x):
            return linen.Dense(3, name=name)(x)

        def looping(self, x):
            def more(self, turn):
                self.writing(turn)
                return turn < 1

            carried = {"carry_variables": "counts" if called else ["counts", "others"]}
            return linen.while_loop(more, lambda self, turn: turn + 1, self, 0, **carried)

        @linen.compact
        def compacted(self, x):
            return x + self.param("other", linen.initializers.zeros, ())

    return Part


@requirement("linen/collections/lost-changes-are-refused", must_reach=WAYS)
@given(
    way=st.sampled_from([*WAYS, "part of a bound one"]),
    name=numbered_names("seen", "part"),
    setup=st.booleans(),
    called=st.sampled_from([True, True, False]),
)
def test_what_would_be_lost_with_a_run_is_refused(linen, way, name, setup, called):
    """A bound module cannot be changed outside `setup`.

    Errors are raised by setting an attribute outside `setup`, setting a field in `setup`, making a
    part outside of `setup` and of compact methods, and writing a variable of a module that was
    bound without `mutable`, or in the condition of a loop. An attribute with two underscores on
    either side of its name is either refused or set.
    """

    Part = _losing(linen, way, name, setup, called)
    layer = {"kernel": np.zeros((3, 3), "float32"), "bias": np.zeros(3, "float32")}
    variables = {"counts": {name: np.zeros(())}}
    # The part that must not be made has variables, so that missing parameters are not the error.
    variables["params"] = {"other": np.zeros(()), **({} if way == "field" else {name: layer})}
    if way == "field":
        held = Part(linen.Dense(2) if called else 2)
        refused(lambda: held.init(small_key(0), X))
        refused(lambda: held.bind(variables)(X))
        return
    bound = Part().bind(variables)
    if called:  # after a compact method has returned, its module may make no part
        bound.compacted(X)
    if way == "special":
        if raised(lambda: setattr(bound, f"__{name}__", X)) is None:
            found = getattr(bound, f"__{name}__", None)
            assert alike(found, X), "it was accepted, and is not there"
        return
    refused(
        {
            "attribute": lambda: Part().apply(variables, X),
            "attribute of a bound one": lambda: setattr(bound, name, X),
            "part": lambda: Part().init(small_key(0), X),
            "part of a bound one": lambda: bound.adding(X),
            "variable": lambda: bound.writing(X),
            "condition": lambda: Part().apply(
                variables, X, mutable="counts" if setup else True, method=Part.looping
            ),
        }[way]
    )


@requirement(
    "linen/methods/setup-runs-first",
    must_reach=("param", "variable", "compact", "not compact", "part", "jit", "remat"),
)
@given(
    made=st.sampled_from([("param",), ("variable",), ("param", "variable")]),
    compact=st.booleans(),
    how=st.sampled_from(["whole", "part", "jit", "remat"]),
)
def test_setup_has_run_before_any_method(linen, made, compact, how):
    """`setup` runs before the first method of a bound module: `init` makes the variables that it
    asks for, and `apply` refuses to go on without them, whether or not the method reads them.
    """
    events = []

    def call(self, x):
        events.append("call")
        return x + self.param("own", linen.initializers.ones, ()) if compact else x

    class Part(linen.Module):
        def setup(self):
            events.append("setup")
            if "param" in made:
                self.weight = self.param("weight", linen.initializers.ones, (2,))
            if "variable" in made:
                self.kept = self.variable("counts", "kept", jnp.zeros, (2,))

        __call__ = linen.compact(call) if compact else call

    class Around(linen.Module):
        @linen.compact
        def __call__(self, x):
            part = Part if how == "part" else getattr(linen, how)(Part)
            return part(name="inner")(x)

    def at(variables):
        return {
            col: held if how == "whole" else {"inner": held}
            for col, held in variables.items()
            if held
        }

    params = {**({"weight": (2,)} if "param" in made else {}), **({"own": ()} if compact else {})}
    counts = {"kept": (2,)} if "variable" in made else {}
    module, filled = Part() if how == "whole" else Around(), functools.partial(np.ones, dtype="f4")
    shapes = jax.tree.map(jnp.shape, module.init(small_key(0), X))
    assert alike(shapes, at({"params": params, "counts": counts})), f"init makes {shapes}"
    assert alike(events[0], "setup")
    events.clear()
    variables = jax.tree.map(filled, shapes, is_leaf=lambda each: isinstance(each, tuple))
    assert alike(np.asarray(module.apply(variables, X)), X + compact)
    assert alike(events[0], "setup")
    if "param" in made:
        less = at({"params": {name: filled(()) for name in ("own", "other")}})
        refused(lambda: module.apply({**variables, **less}, X))


READERS = ("of a bound one", "of a part", "of a part of setup", "of a part that is passed")
"""The reader of an attribute made in `setup`, before any method of the module is called."""


def _read(module, name, what, x):
    """The output of the part, the parameter or the variable that `setup` has made under a name."""
    assert hasattr(module, name)
    assert not hasattr(module, "missing")
    held = getattr(module, name)
    return held(x) if what == "part" else x @ (held.value if what == "variable" else held)


@requirement(
    "linen/methods/setup-runs-first", must_reach=("parameter", "variable", "part", *READERS)
)
@given(
    what=st.sampled_from(["parameter", "variable", "part"]),
    reader=st.sampled_from(READERS),
    name=numbered_names("kept", "inner"),
    called=st.booleans(),
)
def test_setup_has_run_before_what_it_makes_is_read(linen, what, reader, name, called):
    """Attributes made in `setup` can be read before any method of a bound module or part is called.

    `hasattr` is False for an attribute that `setup` does not make.
    """

    class Inner(linen.Module):
        def setup(self):
            if what == "part":
                setattr(self, name, linen.Dense(2, use_bias=False))
            elif what == "parameter":
                setattr(self, name, self.param(name, linen.initializers.zeros, (3, 2)))
            else:
                setattr(self, name, self.variable("params", name, jnp.zeros, (3, 2)))

        def __call__(self, x):
            return self.read(x)

        def read(self, x):
            return _read(self, name, what, x)

    def call(self, x):
        inner = Inner(name="inner") if reader == "of a part" else self.inner
        first = _read(inner, name, what, x)
        return first + inner(x) if called else 2 * first

    body = {"__module__": __name__, "__call__": call}
    if reader == "of a part":
        body["__call__"] = linen.compact(call)
    if reader == "of a part of setup":
        body["setup"] = lambda self: setattr(self, "inner", Inner())
    if reader == "of a part that is passed":
        body["__annotations__"] = {"inner": linen.Module}
    whole = type("Whole", (linen.Module,), body)
    module = whole(Inner()) if reader == "of a part that is passed" else whole()
    kernel = np.arange(6, dtype="float32").reshape(3, 2)
    variables = {"params": {name: {"kernel": kernel} if what == "part" else kernel}}
    if reader == "of a bound one":
        bound = Inner().bind(variables)
        found = _read(bound, name, what, X)
        found = found + (bound(X) if called else _read(bound, name, what, X))
    else:
        variables = {"params": {"inner": variables["params"]}}
        found = module.apply(variables, X)
        made = jax.eval_shape(module.init, small_key(0), X)
        assert alike(jax.tree.map(jnp.shape, made), jax.tree.map(jnp.shape, variables))
    assert_close(found, 2 * X @ kernel, **MODELS)


def _idle(module, x):
    """A function of a module that leaves its variables as they are."""
    return x


IDLE = {
    "while_loop": lambda linen, module, name: linen.while_loop(
        lambda module, turn: turn < 1,
        lambda module, turn: turn + 1,
        module,
        0,
        carry_variables=name,
    ),
    "scan": lambda linen, module, name: linen.scan(
        lambda module, carry, x: (carry, x), variable_carry=name
    )(module, 0, jnp.ones(2)),
    "cond": lambda linen, module, name: linen.cond(True, _idle, _idle, module, X),
    "jit": lambda linen, module, name: linen.jit(_idle)(module, X),
    "remat": lambda linen, module, name: linen.remat(_idle)(module, X),
}
"""Lifts of a function of a module that changes nothing."""


@requirement(
    "linen/collections/mutable-collections-come-back", must_reach=("written", "deep", *IDLE)
)
@costly
@at_least(30)
@given(
    between=st.lists(st.sampled_from(["written", "written", *IDLE]), min_size=1, max_size=3),
    deep=st.booleans(),
    name=numbered_names("counts", "cache"),
    start=st.integers(0, 9),
    initialized=st.booleans(),
)
def test_a_part_and_its_module_have_the_same_variables(
    linen, between, deep, name, start, initialized
):
    """A part that was called before reads what its module wrote in its place since, and its own
    writes come back, also after a function of the module ran under a lift.
    """

    class Part(linen.Module):
        @linen.compact
        def __call__(self):
            count = self.variable(name, "n", jnp.zeros, ())
            count.value = count.value + 1
            return count.value

    class Around(linen.Module):
        @linen.compact
        def __call__(self):
            return Part(name="inner")()

    class Whole(linen.Module):
        @linen.compact
        def __call__(self):
            part = (Around if deep else Part)(name="part")
            found = [part()]
            for each in between:
                if each in IDLE:
                    IDLE[each](linen, self, name)
                else:
                    new = jax.tree.map(lambda n: 10 * n, self.get_variable(name, "part"))
                    self.put_variable(name, "part", new)
                found.append(part())
            return found

    def placed(count):
        return {name: {"part": {"inner": {"n": count}} if deep else {"n": count}}}

    given_in = placed(np.float32(start))
    if initialized:
        found, updates = Whole().init_with_output(small_key(0))
    else:
        found, updates = Whole().apply(given_in, mutable=[name])
        assert alike(given_in, placed(np.float32(start)))
    expected = [np.float32(1 if initialized else start + 1)]
    for each in between:
        expected.append(expected[-1] * (1 if each in IDLE else 10) + 1)
    assert alike([np.float32(each) for each in found], expected)
    assert alike(jax.tree.map(np.float32, updates), placed(expected[-1]))
