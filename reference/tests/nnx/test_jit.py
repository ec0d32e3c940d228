"""Compiled functions of objects: their memory, refusals and costs (JIT-2 to JIT-9)."""

from __future__ import annotations

import functools
import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from scutch_reference import bridge, errors, linen as nn, nnx

from benchmarks.calls import python_calls


class Box(nnx.Module):
    """One parameter and some static data."""

    def __init__(self, n=3):
        """Args: the size of the parameter."""
        self.w = nnx.Param(jnp.ones(n))
        self.names = ["a", {"deep": [1, 2]}]
        self.tags = {"b", 1}
        self.mode = "train"


class Pair(nnx.Module):
    """Two boxes in a list, and the first one again."""

    def __init__(self):
        """Three boxes, of which one is there twice."""
        self.boxes = [Box(), Box()]
        self.tracked = nnx.List([Box()])
        self.again = self.boxes[0]


def counting(**options):
    """A function that says how often it was traced."""
    traces = []

    @functools.partial(nnx.jit, **options)
    def total(m, x=1.0):
        traces.append(1)
        return sum((jnp.sum(v) for v in jax.tree.leaves(nnx.state(m))), jnp.zeros(())) * x

    return total, traces


CHANGES = {
    "an attribute is set": lambda m: setattr(m, "new", 1),
    "static data is set": lambda m: setattr(m.again, "mode", "eval"),
    "an attribute is deleted": lambda m: delattr(m, "again"),
    "a list is extended in place": lambda m: m.boxes.append(Box()),
    "a list is reversed in place": lambda m: m.boxes.reverse(),
    "a list in static data is edited": lambda m: m.again.names.append("b"),
    "a dict in a list is edited": lambda m: m.again.names[1].update(z=1),
    "a list in a dict in a list is edited": lambda m: m.again.names[1]["deep"].append(3),
    "a tracked list is extended": lambda m: m.tracked.append(Box()),
    "metadata is set": lambda m: m.again.w.set_metadata(tag="x"),
    "a variable gets another type": lambda m: setattr(m.again, "w", nnx.BatchStat(jnp.ones(3))),
    "a variable's class is changed": lambda m: setattr(m.again.w, "__class__", nnx.Cache),
    "a shared node is unshared": lambda m: setattr(m, "again", nnx.clone(m.again)),
    "nodes become shared": lambda m: m.boxes.__setitem__(1, m.boxes[0]),
    "the dictionary is written to": lambda m: vars(m.again).update(mode="other"),
    "a set is edited": lambda m: m.again.tags.add("c"),
    "a member of a set becomes a bool": lambda m: (m.again.tags.remove(1), m.again.tags.add(True)),
    "keys change their order": lambda m: m.again.names[1].update(
        deep=m.again.names[1].pop("deep"), first=0
    ),
    "an int becomes a bool": lambda m: m.again.names[1]["deep"].__setitem__(0, True),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_each_change_of_structure_costs_one_trace(change):
    """It is seen, once, and the structure that was known before is still known (JIT-3)."""
    total, traces = counting()
    m, untouched = Pair(), Pair()
    total(m), total(m), total(untouched)
    assert len(traces) == 1
    vars(m.again)  # From here on, its dictionary is watched.
    total(m)
    assert len(traces) == 1
    change(m)
    total(m), total(m)
    assert len(traces) == 2
    total(untouched)
    assert len(traces) == 2


class Marks(set):
    """A set of a class of the user's own."""


class Notes(dict):
    """A dictionary of a class of the user's own."""


@pytest.mark.parametrize(
    ("held", "change"),
    [
        (Marks({1}), lambda held: held.add(2)),
        (Notes(a=1), lambda held: held.update(a=2)),
        (Notes(a=[1]), lambda held: held["a"].append(2)),
    ],
    ids=["a set", "a dictionary", "a list in a dictionary"],
)
def test_a_change_of_a_container_of_a_users_own_class_is_seen(held, change):
    """It is static data, which costs one trace when it has changed (JIT-3)."""
    total, traces = counting()
    m = nnx.Dict(w=nnx.Param(jnp.ones(2)), held=held)
    total(m), total(m)
    assert len(traces) == 1
    change(m.held)
    total(m), total(m)
    assert len(traces) == 2


def test_values_and_equal_structures_cost_nothing():
    """Values, clones and changes that are undone are not traced again (JIT-3)."""
    total, traces = counting()
    m = Pair()
    total(m)
    m.again.w[...] = jnp.zeros(3)
    m.again.w.set_metadata(a=1, b=2)
    m.again.w.set_metadata({})
    m.boxes.append(m.boxes.pop())
    total(m), total(nnx.clone(m))
    assert len(traces) == 1
    m.again.w.set_metadata(a=1, b=2)
    total(m)
    m.again.w.set_metadata({"b": 2, "a": 1})
    total(m)
    assert len(traces) == 2
    m.again.w.value = jnp.ones(5)
    total(m)
    assert len(traces) == 3


STATIC_DATA = {
    "a tuple": lambda: (1, 2),
    "a list": lambda: [1, 2],
    "a dictionary": lambda: {"a": 1},
    "a set": lambda: {1, 2},
    "nested containers": lambda: {"a": [1, {"b": 2}]},
    "a tuple with a list": lambda: (1, [2]),
}


@pytest.mark.parametrize("held", STATIC_DATA.values(), ids=STATIC_DATA)
@pytest.mark.parametrize("children", [nnx.List, list], ids=["nnx.List", "list"])
def test_calls_do_not_grow_with_the_object(held, children):
    """A dispatch is 6 Python calls, whatever number of containers is in it (JIT-3)."""

    class Layer(nnx.Module):
        def __init__(self):
            self.w, self.held = nnx.Param(jnp.ones(1)), held()

    class Layers(nnx.Module):
        def __init__(self, n):
            self.layers = children([Layer() for _ in range(n)])

    run = nnx.jit(lambda m: None)

    def calls(n):
        m = Layers(n)
        run(m)
        return python_calls(lambda: run(m))

    assert calls(1) == calls(10) == calls(300) == 6


def test_calls_do_not_grow_with_a_module_of_linen():
    """A dispatch of a wrapped module costs the same for 1 and for 64 layers."""

    class Layers(nn.Module):
        n: int

        @nn.compact
        def __call__(self, x):
            for _ in range(self.n):
                x = nn.Dense(2)(x)
            return x

    run, x = nnx.jit(lambda m, x: m(x)), jnp.ones((1, 2))

    def calls(n):
        m = bridge.ToNNX(Layers(n), rngs=nnx.Rngs(0)).lazy_init(x)
        run(m, x)
        return python_calls(lambda: run(m, x))

    assert calls(1) == calls(64) <= 20


def test_lifted_functions_keep_nothing_alive():
    """Objects die with their last reference, as arguments of any place; caches stay small."""
    long_lived = Box()
    both = nnx.jit(lambda m, other: m.w[...] + other.w[...])

    def dead(make, n=1000):
        found = []
        for _ in range(n):
            short = make()
            found.append(weakref.ref(short))
            both(long_lived, short), both(short, long_lived)
        del short
        gc.collect()
        return all(reference() is None for reference in found)

    def cyclic():
        box = Box()
        box.parent = [box]
        return box

    assert dead(Box)
    assert dead(cyclic)
    assert len(long_lived._plans or {}) <= 1
    assert len(both._transformed) == 3, "one for each structure that it was called with"


def test_an_object_dies_without_the_garbage_collector():
    """A call leaves no cycle behind, nor does a function that the object is bound to."""
    gc.disable()
    try:
        box, bound = Box(), Box()
        nnx.jit(lambda m: m.w[...] * 2)(box)
        nnx.jit(functools.partial(lambda m, x: m.w[...] * x, bound))(2.0)
        references = weakref.ref(box), weakref.ref(bound)
        del box, bound
        assert [reference() for reference in references] == [None, None]
    finally:
        gc.enable()


ONE_DEVICE = {"mesh": Mesh(jax.devices()[:1], ("data",)), "in_specs": P(), "out_specs": P()}


@pytest.mark.parametrize(
    "lift",
    [
        nnx.grad,
        nnx.remat,
        functools.partial(nnx.vmap, in_axes=0),
        functools.partial(nnx.scan, in_axes=0, out_axes=0),
        functools.partial(nnx.shard_map, **ONE_DEVICE),
    ],
)
def test_a_bound_object_dies_with_the_transformed_function(lift):
    """The other transformations leave no cycle behind either."""
    gc.disable()
    try:
        box = Box()
        reference = weakref.ref(box)
        lift(functools.partial(lambda m, x: (m.w[...] * x).sum(), box))(jnp.ones(3))
        del box
        assert reference() is None
    finally:
        gc.enable()


def test_aliases_are_one_object_inside_and_after():
    """Within and across arguments (JIT-2)."""

    @nnx.jit
    def f(a, b, c):
        assert a is b
        assert c["x"][0] is a
        a.w[...] += 1
        b.mode = "eval"
        return c["x"][0]

    box = Box()
    assert f(box, box, {"x": [box]}) is box
    assert box.mode == "eval"
    np.testing.assert_array_equal(box.w[...], 2)


def test_aliases_with_different_shardings_are_refused():
    """The error names both places (JIT-2)."""
    mesh = Mesh(jax.devices()[:1], ("data",))
    shardings = (NamedSharding(mesh, P()), NamedSharding(mesh, P("data")))
    box = Box()
    f = nnx.jit(lambda a, b: None, in_shardings=shardings)
    with pytest.raises(errors.AliasingError, match=r"'a'\), path \('w',\).*'b'\), path \('w',\)"):
        f(box, box)


@pytest.mark.parametrize(
    ("options", "call"),
    [
        ({"donate_argnums": 0}, lambda f, m: f(m, 2.0)),
        ({"donate_argnums": -2}, lambda f, m: f(m, 2.0)),
        ({"donate_argnames": "m"}, lambda f, m: f(m, 2.0)),
        ({"donate_argnames": ("m",)}, lambda f, m: f(x=2.0, m=m)),
    ],
)
def test_donated_objects_hold_live_buffers(options, call):
    """However they were donated, changed or not (JIT-4)."""
    m = Pair()
    old = m.again.w.value
    call(nnx.jit(lambda m, x: m.boxes[1].w[...] * x, **options), m)
    assert old.is_deleted()
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(nnx.state(m)))


def test_static_arguments_are_compiled_in():
    """By number and by name, negative numbers too; unhashable ones are refused (JIT-4)."""
    for options in ({"static_argnums": 1}, {"static_argnums": -1}, {"static_argnames": "n"}):
        f = nnx.jit(lambda m, n: m.w[...] * len(n), **options)
        np.testing.assert_array_equal(f(Box(), "abc"), 3)
        with pytest.raises(errors.UnhashableStaticError, match=r"argument 1 \('n'\)"):
            f(Box(), bytearray())


def test_what_a_partial_binds_by_name_may_be_static_in_every_stage():
    """A compiled form is not passed it, bound or not (JIT-9, JIT-10)."""
    f = nnx.jit(functools.partial(lambda m, n: m.w[...] * n, n=3), static_argnames="n")
    for named in ({}, {"n": 4}):
        box = Box()
        compiled = f.lower(box, **named).compile()
        np.testing.assert_array_equal(compiled(box), box.w[...] * named.get("n", 3))


def test_in_shardings_hold_for_variables_before_and_after():
    """Also for those that the function does not change (JIT-5)."""
    mesh = Mesh(np.array(jax.devices()[:2]), ("data",))
    box = nnx.List([Box(4), Box(4)])
    sharding = NamedSharding(mesh, P("data"))
    spec = nnx.StateSharding({nnx.PathContains(0): sharding, ...: NamedSharding(mesh, P())})

    @functools.partial(nnx.jit, in_shardings=(spec, None), out_shardings=sharding)
    def f(m, x):
        m[0].w[...] = m[0].w[...] * x
        return m[1].w[...]

    for _ in range(3):
        out = f(box, 2.0)
        assert out.sharding.is_equivalent_to(sharding, 1)
        assert box[0].w.value.sharding.is_equivalent_to(sharding, 1)
        assert box[1].w.value.sharding.is_equivalent_to(NamedSharding(mesh, P()), 1)
    np.testing.assert_array_equal(box[0].w[...], 8)


@pytest.mark.parametrize("cut", [True, False])
def test_a_committed_array_goes_where_jax_sends_one(cut):
    """To other devices if it is cut alike there; JAX refuses to cut it otherwise (JIT-11b)."""
    one, two = (Mesh(np.array(jax.devices()[:n]), ("data",)) for n in (1, 2))
    asked = NamedSharding(two, P("data") if cut else P())
    box = Box(4)
    box.w.set_value(jax.device_put(box.w[...], NamedSharding(one, P())))
    f = nnx.jit(lambda m: None, in_shardings=(asked,))
    if cut:
        with pytest.raises(ValueError, match="does not match the sharding on the respective arg"):
            f(box)
    else:
        f(box)
        assert box.w.value.sharding.is_equivalent_to(asked, 1)


@pytest.mark.parametrize(
    ("options", "entries", "call"),
    [
        ({"static_argnums": 1}, 2, lambda f, m, x: f(m, 2.0, x)),
        ({"static_argnums": -2}, 2, lambda f, m, x: f(m, 2.0, x)),
        ({"static_argnames": "n"}, 2, lambda f, m, x: f(m, 2.0, x)),
    ],
)
def test_in_shardings_have_no_entry_for_static_arguments(options, entries, call):
    """As in `jax.jit`: by number, also a negative one, and by name (JIT-4, JIT-5)."""
    mesh = Mesh(np.array(jax.devices()[:2]), ("data",))
    cut, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
    box = Box(4)
    shardings = (cut, whole)[:entries]
    f = nnx.jit(lambda m, n, x: m.w[...] * n + x, in_shardings=shardings, **options)
    out = call(f, box, jnp.ones(4))
    np.testing.assert_array_equal(out, 3)
    assert box.w.value.sharding.is_equivalent_to(cut, 1)
    with pytest.raises(errors.LiftingError, match=r"3 arguments.*2 positional arguments that are"):
        nnx.jit(lambda m, n, x: x, in_shardings=(cut, None, cut), static_argnums=1)(box, 1, 2.0)
    message = r"Got \['n', 'x'\] as arguments by name; .* by position, as in JAX"
    with pytest.raises(errors.LiftingError, match=message):
        f(box, n=2.0, x=jnp.ones(4))


def test_out_shardings_hold_for_objects_that_are_returned():
    """New ones and arguments alike; where `in_shardings` says otherwise, it is an error (JIT-5)."""
    mesh = Mesh(np.array(jax.devices()[:2]), ("data",))
    cut, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
    box = Box(4)

    def f(m):
        return m, nnx.List([nnx.Param(m.w[...] * 2)])

    same, new = nnx.jit(f, out_shardings=(cut, nnx.StateSharding({...: cut})))(box)
    assert same is box
    assert box.w.value.sharding.is_equivalent_to(cut, 1)
    assert new[0].value.sharding.is_equivalent_to(cut, 1)
    with pytest.raises(errors.AliasingError, match=r"'m'\), path \('w',\).*output, path \(0, 'w'"):
        nnx.jit(f, in_shardings=(whole,), out_shardings=(cut, None))(Box(4))


def test_state_shardings_compare_by_content():
    """They are equal and hash alike where filters and shardings do (JIT-6)."""
    one = nnx.StateSharding({nnx.Param: P("a"), "tag": P()})
    assert one == nnx.StateSharding([(nnx.Param, P("a")), ("tag", P())])
    assert hash(one) == hash(nnx.StateSharding([(nnx.Param, P("a")), ("tag", P())]))
    assert one != nnx.StateSharding({nnx.Param: P("b"), "tag": P()})
    exact = nnx.StateSharding(nnx.State({"x": {"w": P("a")}}))
    assert exact.map_prefix(("x", "w"), None) == P("a")
    with pytest.raises(errors.NoFilterMatchError, match=r"\('y',\)"):
        exact.map_prefix(("y",), nnx.Param(jnp.ones(2)))


def test_methods_partials_and_callables_change_their_objects():
    """A decorator with or without arguments keeps name and signature (JIT-7)."""

    class Counter(nnx.Module):
        def __init__(self):
            self.n = nnx.Variable(jnp.array(0))

        @nnx.jit
        def up(self, by=1):
            """Count."""
            self.n[...] += by
            return self

        @nnx.jit(static_argnames="by")
        def by(self, by):
            self.n[...] += by

        def __call__(self, x):
            self.n[...] += x

    counter = Counter()
    assert counter.up() is counter
    counter.up(by=2)
    counter.by(3)
    nnx.jit(counter)(4)
    nnx.jit(counter.__call__)(5)
    nnx.jit(functools.partial(Counter.__call__, counter))(6)
    assert int(counter.n[...]) == 21
    assert Counter.up.__name__ == "up"
    assert Counter.up.__doc__ == "Count."


def test_stages_do_what_the_call_does():
    """Every attribute answers; the compiled form changes its objects (JIT-9)."""

    @nnx.jit
    def f(m, x):
        m.w[...] += x
        return m.w[...] * 2

    box = Box()
    traced = f.trace(box, 1.0)
    lowered = traced.lower()
    compiled = lowered.compile()
    np.testing.assert_array_equal(box.w[...], 1)
    np.testing.assert_array_equal(compiled(box, 1.0), 4)
    np.testing.assert_array_equal(box.w[...], 2)
    for stage in (traced, lowered, compiled):
        assert stage.in_tree is not None
        assert stage.args_info is not None
        assert stage.donate_argnums == ()
        assert stage.in_avals is not None
    assert traced.out_info is not None
    assert lowered.as_text()
    assert lowered.compiler_ir() is not None
    assert lowered.cost_analysis() is not None
    assert lowered.out_tree is not None
    assert compiled.as_text()
    for name in ("cost_analysis", "memory_analysis", "runtime_executable"):
        assert getattr(compiled, name)() is not None
    for name in ("input_shardings", "output_shardings", "input_layouts", "output_layouts"):
        assert getattr(compiled, name) is not None
    with pytest.raises(errors.LiftingError, match="another structure"):
        compiled(Pair().again.boxes if hasattr(Box(), "boxes") else nnx.List([Box()]), 1.0)
    assert isinstance(f.eval_shape(box, 1.0), jax.ShapeDtypeStruct)
    np.testing.assert_array_equal(box.w[...], 2)


def test_objects_of_another_trace_level_are_not_changed():
    """Neither values, nor metadata, nor attributes, nor through an inner lifted call."""
    box = Box()
    up = nnx.jit(lambda m: m.w.set_value(m.w[...] + 1))
    for change in (
        lambda: box.w.set_value(jnp.zeros(3)),
        lambda: box.w.set_metadata(a=1),
        lambda: setattr(box, "mode", "x"),
        lambda: up(box),
    ):
        with pytest.raises(errors.TraceLevelError, match="different trace level"):
            nnx.jit(lambda x, change=change: change())(1.0)
    np.testing.assert_array_equal(box.w[...], 1)


def test_a_leaked_tracer_is_named():
    """The error says which argument and which path."""
    kept = []
    nnx.jit(lambda x: kept.append(nnx.Param(x)))(jnp.ones(2))
    box = Box()
    vars(box)["w"] = kept[0]
    with pytest.raises(errors.LeakedTracerError, match=r"argument 0 \('m'\), path \('w',\)"):
        nnx.jit(lambda m: m.w[...] + 1)(box)


def keys(scale):
    """A random key for each number."""
    return jax.vmap(jax.random.key)(jnp.asarray(scale, dtype=int))


@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray, keys])
def test_arrays_in_metadata_go_by_their_content(kind):
    """A call with an equal array traces nothing, one with another array does."""
    traces = []

    @nnx.jit
    def scaled(variable):
        traces.append(variable.scale)
        return variable.get_value()

    for scale in ([1.0, 2.0], [1.0, 2.0], [3.0, 2.0]):
        scaled(nnx.Param(jnp.ones(2), scale=kind(scale)))
    assert len(traces) == 2
