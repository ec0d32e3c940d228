"""Bound modules, as opposed to descriptions of modules: LIN-1e, 1h, 1r, 1s, 1x, 1y (`002_`).

A bound module has been set up, has the parts that were passed to it, and has variables. These lie
under its *path*: the names of the modules around it, the outermost first, and its own. A lift does
not change the path of a module. Two bound modules with equal fields differ if their variables do.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.descriptions import Array
from scutch.inputs.keys import small_key
from scutch.lawkit.equality import alike, alike_in_any_order, holds
from scutch.lawkit.inside import KINDS, inside
from scutch.lawkit.interruptions import Interruption
from scutch.lawkit.lifts import stacked
from scutch.lawkit.marks import costly, raised, reached, refused, requirement
from scutch.strategies.names import numbered_names

X = np.arange(1, 7, dtype="float32")
part_names = st.lists(numbered_names("inner", "block"), max_size=2)


@requirement("linen/names/path-leads-to-variables", must_reach=("plain", *KINDS, "deep"))
@given(
    kind=st.sampled_from(["plain", *KINDS]),
    around=part_names,
    within=part_names,
    run=st.sampled_from(["init", "apply", "bind"]),
)
def test_every_part_knows_its_path(linen, kind, around, within, run):
    """The `path` of a bound module, inside of any lift or of none, has the names of the keys that
    lead from a collection to its variables.
    """
    lifted = kind != "plain"
    if around and within:
        reached("deep")
    seen = []

    class Leaf(linen.Module):
        @linen.compact
        def __call__(self, x):
            seen.append(self.path)
            return x + self.param("w", linen.initializers.zeros, ())

    def holding(name, part):
        """The class of a module that has a part of this name; `part` makes it of a name."""

        class Holds(linen.Module):
            @linen.compact
            def __call__(self, x):
                seen.append(self.path)
                return part(name)(x) + self.param("w", linen.initializers.zeros, ())

        return Holds

    cls = Leaf
    for name in reversed(within):
        cls = holding(name, lambda name, cls=cls: cls(name=name))
    whole, path = (cls, []) if kind == "plain" else (None, ["part"])
    for name in reversed(around):
        if whole is None:
            whole = holding(
                name, lambda name, cls=cls: inside(linen, kind, cls, True, True, name=name)
            )
        else:
            whole = holding(name, lambda name, cls=whole: cls(name=name))
    module = inside(linen, kind, cls, True, True) if whole is None else whole()
    path = [*around, *path, *within]
    params = {"w": np.float32(0)}
    for name in reversed(path):
        params = {"w": np.float32(0), name: params}
    if run == "init" and kind == "plain":
        module.init(small_key(0), X)
    elif run == "bind":
        module.bind({"params": params})(X)
    else:
        module.apply({"params": params}, X)
    depths = {*range(len(path) + 1)} - ({len([*around])} if lifted else set())  # `inside` is silent
    expected = [tuple(path[:depth]) for depth in sorted(depths)]
    assert alike_in_any_order({*seen}, expected), f"they are {seen}; expected {expected}"


DEFINES = ("param param", "variable variable", "module module", "param module", "module variable")
LIFTED = ("none", "jit", "remat", "vmap", "scan")


@requirement("linen/names/second-name-is-refused", must_reach=(*DEFINES, *LIFTED))
@given(
    pair=st.sampled_from(DEFINES),
    lift=st.sampled_from(LIFTED),
    method=st.booleans(),
    name=numbered_names("weight", "W", "inner_part"),
)
def test_one_name_for_two_things_in_setup_is_refused(linen, pair, lift, method, name):
    """A name that `setup` gives to two things raises an error, in a module that is lifted as in one
    that is not, whether its class is lifted or a method of it.
    """

    def set_up(self):
        for n, kind in enumerate(pair.split()):
            if kind == "param":
                made = self.param(name, linen.initializers.zeros, ())
            elif kind == "variable":
                made = self.variable("cache", name, jnp.zeros, ())
            else:
                made = linen.Dense(2, name=name)
            setattr(self, f"part_{n}", made)

    def call(self, x, *_):
        return (x, None) if lift == "scan" else x

    stacks = {"variable_axes": {"params": 0, "cache": 0}, "split_rngs": {"params": True}}

    def lifted(target):
        if lift in ("scan", "vmap"):
            return stacked(linen, lift, target, 2, **stacks)[0]
        return target if lift == "none" else getattr(linen, lift)(target)

    body = {"__module__": __name__, "setup": set_up, "__call__": call}
    if method:
        body["__call__"] = lifted(call)
    cls = type("Twofold", (linen.Module,), body)

    class Whole(linen.Module):
        @linen.compact
        def __call__(self, x):
            part = (cls if method else lifted(cls))()
            return part(x, *([None] if lift == "scan" else []))

    refused(lambda: Whole().init(small_key(0), X))


@requirement("linen/bound/bound-module-is-not-static", must_reach=("bound", "not bound"))
@costly
@given(
    numbers=st.lists(st.integers(-9, 9), min_size=2, max_size=3, unique=True),
    bound=st.booleans(),
    changed=st.booleans(),
    where=st.sampled_from(["whole", "field", "tuple"]),
)
def test_a_bound_module_is_no_static_value(linen, numbers, bound, changed, where):
    """`jax.jit` never reuses a trace for a bound static module with other variables.

    A bound module, or a tuple or module that holds one, is refused as a static argument, or each
    call returns the same as without `jit`, also for a second module, and after a change of the
    variables. An unbound module is accepted.
    """

    class Part(linen.Module):
        @linen.compact
        def __call__(self, x):
            return x + self.param("w", linen.initializers.zeros, ())

    class Around(linen.Module):
        part: linen.Module

    def called(held, x, variables):
        part = held.part if where == "field" else held[0] if where == "tuple" else held
        return part(x) if bound else part.apply(variables, x)

    jitted = jax.jit(called, static_argnums=0)
    holding = {"whole": lambda part: part, "field": Around, "tuple": lambda part: (part,)}[where]
    alive = []  # Parts may refer to a bound module weakly.
    for number in numbers:
        variables = {"params": {"w": np.float32(number)}}
        if bound and changed and alive:
            alive[-1].put_variable("params", "w", variables["params"]["w"])
        else:
            alive.append(Part().bind(variables, mutable=True) if bound else Part())
        run = functools.partial(jitted, holding(alive[-1]), X, variables)
        if not (bound and raised(run)):
            assert np.array_equal(run(), X + number)


WRONG = ("no mapping", "no collection", "a number for a collection", "a number in a collection")


@requirement(
    "linen/collections/misfit-variables-are-refused",
    must_reach=(*WRONG, "reads", "not reads", "not bind", "bind"),
)
@given(
    wrong=st.sampled_from(WRONG),
    instead=st.sampled_from([Array(()), Array((3,)), [1.0], ("w",), None]),
    collection=st.sampled_from(["params", "cache", "counts"]),
    name=numbered_names("kept", "w"),
    bind=st.booleans(),
    reads=st.booleans(),
    mutable=st.sampled_from([True, False, ["counts"]]),
)
def test_variables_that_are_no_collections_are_refused(
    linen, wrong, instead, collection, name, bind, reads, mutable
):
    """`apply` and `bind` refuse variables that are not a mapping of names to mappings of names.

    They refuse them whether or not the module reads the wrong entry, and also if the module would
    create the variable in its place.
    """

    class Holds(linen.Module):
        @linen.compact
        def __call__(self, x):
            return x + self.variable(collection, name, jnp.zeros, ()).value if reads else x

    def run(variables):
        if bind:
            return Holds().bind(variables, mutable=mutable)(X)
        return Holds().apply(variables, X, mutable=mutable)

    held = {name: np.float32(1)}
    run({collection: held, "others": {}})
    variables = {
        "no mapping": instead,
        "no collection": {collection: held, "others": instead},
        "a number for a collection": {collection: held, 0: {}},
        "a number in a collection": {collection: {**held, 0: instead}},
    }[wrong]
    refused(lambda: run(variables))


@requirement("linen/methods/setup-runs-first", must_reach=("calls_base", "not calls_base"))
@given(
    calls_base=st.booleans(),
    name=numbered_names("kept", "w"),
    width=st.integers(1, 3),
)
def test_setup_runs_where_the_class_has_a_post_init(linen, calls_base, name, width):
    """`setup` runs before the first method, too, of a module whose class has a `__post_init__`,
    however the module is run; one that does not call that of its base may be refused instead.
    """

    class SetsUp(linen.Module):
        def __post_init__(self):
            if calls_base:
                super().__post_init__()

        def setup(self):
            self.param(name, linen.initializers.zeros, (width,))

        def __call__(self, x):
            return x

    module, shapes = SetsUp(), {"params": {name: (width,)}}
    for run in (
        lambda: module.init(small_key(0), X),
        lambda: module.init_with_output(small_key(0), X)[1],
    ):
        if calls_base or raised(run) is None:
            assert alike(jax.tree.map(jnp.shape, run()), shapes)
    held, lacking = ({"params": {key: np.zeros(width, "float32")}} for key in (name, "other"))
    for call in (lambda given: module.apply(given, X), lambda given: module.bind(given)(X)):
        if calls_base or raised(functools.partial(call, held)) is None:
            assert alike(np.asarray(call(held)), X)
            refused(functools.partial(call, lacking))


RUNS = ("apply", "bind", "parts")
"""How a module is run; `parts` are those of the bound module, which are called themselves."""


@requirement("linen/parts/passed-module-is-part", must_reach=("named", "unnamed", "shared", *RUNS))
@given(
    chosen=st.lists(st.integers(0, 2), min_size=1, max_size=3),
    named=st.tuples(*[st.booleans()] * 3),
    compact=st.booleans(),
    run=st.sampled_from(RUNS),
)
def test_a_part_that_is_passed_in_may_have_a_name(linen, chosen, named, compact, run):
    """A module in a field that has a name of its own is a part of the module with the field, and so
    are others beside it: its variables are made by `init` under its name, or under its place. The
    parts of a bound module are bound as soon as it is.
    """
    for k in chosen:
        reached("named" if named[k] else "unnamed")
    if len({*chosen}) < len([*chosen]):
        reached("shared")
    places = [f"part_{n}" for n in range(len([*chosen]))]

    class Part(linen.Module):
        @linen.compact
        def __call__(self, x):
            return x * self.param("w", linen.initializers.ones, ())

    def call(self, x):
        return sum(100**n * getattr(self, place)(x) for n, place in enumerate(places))

    body = {"__module__": __name__, "__call__": linen.compact(call) if compact else call}
    fields = dict.fromkeys(places, linen.Module)
    parts = [Part(name=f"own_{k}") if named[k] else Part() for k in range(3)]
    Whole = type("Whole", (linen.Module,), {**body, "__annotations__": fields})
    whole = Whole(**{place: parts[k] for place, k in zip(places, chosen, strict=True)})
    made = jax.eval_shape(whole.init, small_key(0), X)["params"]
    keys = {k: places[chosen.index(k)] for k in chosen}
    keys |= {k: f"own_{k}" for k in chosen if holds(made, f"own_{k}")}
    assert alike_in_any_order(made, keys.values())
    variables = {"params": {key: {"w": np.float32(k)} for k, key in keys.items()}}
    if run == "apply":
        found = whole.apply(variables, X)
    else:
        bound = whole.bind(variables)
        found = bound(X) if run == "bind" else call(bound, X)
    assert alike(np.asarray(found), sum(100**n * k * X for n, k in enumerate(chosen)))


@requirement(
    "linen/names/unnamed-parts-are-numbered",
    must_reach=("again", "interrupted", "init", "apply", "bind", "deep"),
)
@given(
    classes=st.lists(st.sampled_from("AB"), min_size=1, max_size=4),
    deep=st.booleans(),
    ends=st.lists(st.integers(0, 4), min_size=1, max_size=3),
    run=st.sampled_from(["init", "apply", "bind"]),
)
def test_each_run_of_a_compact_method_counts_its_parts_anew(linen, classes, deep, ends, run):
    """The parts that a compact method makes have the same names, and so the same variables, each
    time that it runs, also after a run in which an exception ended it.
    """

    def part_of(cls):
        def call(self, x):
            return 10 * x + self.param("w", linen.initializers.ones, ())

        return type(cls, (linen.Module,), {"__module__": __name__, "__call__": linen.compact(call)})

    parts = {cls: part_of(cls) for cls in "AB"}
    found = []

    class Whole(linen.Module):
        @linen.compact
        def __call__(self, x, end):
            for n, cls in enumerate(classes):
                if alike(n, end):
                    raise Interruption
                x = parts[cls]()(x)
            return x

    def repeated(self, x):
        for end in (len([*classes]), *ends, len([*classes])):
            try:
                found.append((self.inner if deep else self)(x, end))
                reached("again")
            except Interruption:
                reached("interrupted")
        return x

    body: dict[str, Any] = {"__module__": __name__, "repeated": repeated}
    if deep:
        body["setup"] = lambda self: setattr(self, "inner", Whole())
    whole = type("Repeats", (linen.Module if deep else Whole,), body)()
    names = [f"{cls}_{classes[:n].count(cls)}" for n, cls in enumerate(classes)]
    params = {name: {"w": np.float32(1 if run == "init" else n)} for n, name in enumerate(names)}
    variables = {"params": {"inner": params} if deep else params}
    if run == "init":
        made = whole.init(small_key(0), X, method="repeated")
        assert alike(jax.tree.map(np.float32, made), variables)
    elif run == "bind":
        whole.bind(variables).repeated(X)
    else:
        whole.apply(variables, X, method="repeated")
    expected = X
    for name in names:
        expected = 10 * expected + params[name]["w"]
    assert all(alike(np.asarray(each), expected) for each in found)
