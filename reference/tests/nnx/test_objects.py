"""Objects, variables, filters, states and seeds (OBJ-1 to OBJ-6)."""

from __future__ import annotations

import copy
import gc
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worlds
from hypothesis import given, settings, strategies as st
from scutch_reference import errors, nnx
from scutch_reference.nnx.flatten import flatten

seeds = st.integers(0, 10_000)
filters = st.recursive(
    st.sampled_from([nnx.Param, nnx.BatchStat, "x", True, False, ..., None, nnx.PathContains("a")]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda fs: nnx.Any(*fs)),
        st.lists(inner, max_size=3).map(lambda fs: nnx.All(*fs)),
        inner.map(nnx.Not),
    ),
    max_leaves=6,
)


@settings(max_examples=80, deadline=None)
@given(seed=seeds)
def test_merge_after_split_is_an_equal_world(seed):
    """Structure, sharing and values; also copied, pickled and cloned (OBJ-1)."""
    world = worlds.world(seed)
    definition, state = nnx.split(world)
    before = worlds.snapshot(world, None, [])
    for other in (
        nnx.merge(definition, state),
        nnx.clone(world),
        copy.deepcopy(world),
        pickle.loads(pickle.dumps(world)),
    ):
        assert worlds.snapshot(other, None, []) == before
        mine = {id(node) for node in flatten([world])[1][1:]}
        assert not mine & {id(node) for node in flatten([other])[1][1:]}
    assert nnx.graphdef(nnx.clone(world)) is definition


@settings(max_examples=60, deadline=None)
@given(seed=seeds, chosen=st.lists(filters, min_size=1, max_size=3))
def test_split_puts_each_leaf_in_the_first_part_that_takes_it(seed, chosen):
    """Every leaf once; the parts merge to the whole (OBJ-1, OBJ-3)."""
    world = worlds.world(seed)
    chosen = [each for each in chosen if each is not ... and each is not True]
    definition, *parts = nnx.split(world, *chosen, ...)
    flat = nnx.to_flat_state(nnx.state(world))
    predicates = [nnx.to_predicate(each) for each in (*chosen, ...)]
    for path, leaf in flat:
        first = next(i for i, takes in enumerate(predicates) if takes(path, leaf))
        assert [path in nnx.to_flat_state(part).paths for part in parts] == [
            i == first for i in range(len(parts))
        ]
    merged = nnx.merge(definition, *parts)
    assert worlds.snapshot(merged, None, []) == worlds.snapshot(world, None, [])


@given(first=filters, second=filters, path=st.lists(st.sampled_from("abc")).map(tuple))
@settings(max_examples=60, deadline=None)
def test_filters_are_an_algebra(first, second, path):
    """De Morgan, and the constants (OBJ-3)."""
    for leaf in (nnx.Param(1, tag="x"), nnx.BatchStat(1), jnp.ones(1)):
        a, b = (nnx.to_predicate(each)(path, leaf) for each in (first, second))
        assert nnx.Any(first, second)(path, leaf) == (a or b)
        assert nnx.All(first, second)(path, leaf) == (a and b)
        assert nnx.Not(nnx.Any(first, second))(path, leaf) == nnx.All(
            nnx.Not(first), nnx.Not(second)
        )(path, leaf)
    assert nnx.Any(first, second) == nnx.Any(first, second)
    assert hash(nnx.All(first)) == hash(nnx.All(first))


@settings(max_examples=60, deadline=None)
@given(seed=seeds)
def test_states_survive_every_form(seed):
    """Flat, nested, pure and back (OBJ-4)."""
    state = nnx.state(worlds.world(seed))
    again = nnx.from_flat_state(nnx.to_flat_state(state))
    assert nnx.to_flat_state(again).paths == nnx.to_flat_state(state).paths
    pure = nnx.to_pure_dict(state)
    zeros = jax.tree.map(jnp.zeros_like, state)
    as_text = jax.tree.map(lambda x: x, {str(k): v for k, v in pure.items()})
    nnx.replace_by_pure_dict(zeros, as_text)
    left, right = jax.tree.leaves(zeros), jax.tree.leaves(state)
    assert all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def test_update_keeps_identities_and_refuses_unknown_paths():
    """Nothing is changed if one path is unknown (OBJ-2)."""
    m = nnx.Dict(w=nnx.Param(jnp.ones(2)), t=(jnp.ones(1), "x"))
    w = m.w
    nnx.update(m, nnx.State({"w": nnx.Param(jnp.zeros(2)), "t": {0: jnp.zeros(1)}}))
    assert m.w is w
    np.testing.assert_array_equal(w[...], 0)
    np.testing.assert_array_equal(m.t[0], 0)
    with pytest.raises(errors.UnknownPathError, match=r"\('no',\)"):
        nnx.update(m, {"w": jnp.ones(2), "no": 1})
    np.testing.assert_array_equal(w[...], 0)
    definition, state = nnx.split(m)
    with pytest.raises(errors.UnknownPathError, match="no leaf for the paths"):
        nnx.merge(definition, nnx.State({}))
    with pytest.raises(errors.UnknownPathError, match="no place for the paths"):
        nnx.merge(definition, state, {"more": 1})
    with pytest.raises(errors.NoFilterMatchError, match=r"\('t', 0\)"):
        nnx.split(m, nnx.Param)
    with pytest.raises(errors.FilterError, match="hides later filters"):
        nnx.split(m, ..., nnx.Param)


def test_hooks_run_once_per_event_in_order():
    """Creation, getting and setting; not for raw values, nor in transit (OBJ-5)."""
    log = []

    def hook(name, add):
        return lambda variable, value: (log.append(name), value + add)[1]

    v = nnx.Param(
        jnp.zeros(()),
        on_create_value=hook("create", 1),
        on_get_value=(hook("get", 0), hook("again", 10)),
        on_set_value=hook("set", 100),
    )
    assert (log, float(v.get_raw_value())) == (["create"], 1)
    del log[:]
    assert float(v.value) == 11
    assert log == ["get", "again"]
    del log[:]
    v[...] = jnp.array(2.0)
    assert (log, float(v.get_raw_value())) == (["set"], 102)
    del log[:]
    holder = nnx.clone(nnx.Dict(v=v))
    nnx.jit(lambda m: None)(holder)
    assert log == []
    nnx.jit(lambda m: m["v"].set_value(0.0))(holder)
    assert log == ["set"]


def test_metadata_is_nobody_elses():
    """Getters give copies, setters take them; order is no difference (OBJ-5)."""
    mine = {"tags": ["a"]}
    v = nnx.Param(jnp.ones(1), a=1, **mine)
    mine["tags"].append("b")
    v.get_metadata()["tags"].append("c")
    v.tags.append("d")
    assert v.get_metadata("tags") == ["a"]
    v.set_metadata("tags", mine["tags"])
    mine["tags"].clear()
    assert v.tags == ["a", "b"]
    w = nnx.Param(jnp.ones(1), tags=["a", "b"], a=1)
    assert nnx.graphdef(v) is nnx.graphdef(w)
    with pytest.raises(AttributeError, match=r"set_metadata\(color=...\)"):
        v.color = "red"


def test_static_and_data_are_told_apart():
    """By the value, by a marker, by a field; data in static data is refused."""

    @nnx.dataclass
    class Layer(nnx.Pytree):
        size: int
        scale: float = nnx.data(default=1.0)

    layer = Layer(3)
    assert jax.tree.leaves(layer) == [1.0]
    assert nnx.to_flat_state(nnx.state(layer)).paths == (("scale",),)
    module = nnx.Module()
    module.static = [1, 2]
    module.data = nnx.data([1, nnx.Param(2)])
    with pytest.raises(errors.DataError, match=r"Module\.bad"):
        module.bad = nnx.static(jnp.ones(2))


def test_pop_takes_variables_out_everywhere():
    """Also where they are shared."""
    shared = nnx.Intermediate(jnp.ones(1))
    m = nnx.Dict(a=nnx.List([shared, nnx.Param(jnp.ones(1))]), b=shared)
    popped = nnx.pop(m, nnx.Intermediate)
    assert popped["a"][0] is shared
    assert "b" not in m
    assert nnx.state(m, nnx.Intermediate) == nnx.State({})


def test_streams_are_reproducible_and_independent():
    """The same seed and draws give the same keys; forks do not disturb (OBJ-6)."""
    one, two = nnx.Rngs(0, dropout=1), nnx.Rngs({"default": 0, "dropout": 1})
    one.dropout(), one.fork()
    assert one.default.count.value == 1
    two()
    assert one.params() == two.params()
    keys = [one() for _ in range(5)] + [one.fork()() for _ in range(2)]
    assert len({tuple(np.asarray(jax.random.key_data(key))) for key in keys}) == 7
    drawn = []
    for _ in range(2):  # The second split draws other keys.
        with nnx.split_rngs(one, splits=3):
            drawn.extend(nnx.vmap(lambda rngs: rngs.uniform())(one))
        assert one.default.key.shape == ()
    assert len(set(map(float, drawn))) == 6
    nnx.reseed(one, dropout=5)
    assert one.dropout() == nnx.Rngs(dropout=5).fork().dropout()
    with pytest.raises(errors.StreamError, match="'noise'"):
        nnx.Rngs(params=0).noise()


def test_specs_and_shardings_follow_the_names():
    """Of variables, with and without rules; arrays without names are replicated (LOG-7)."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("data",))
    init = nnx.with_partitioning(lambda shape: jnp.ones(shape), ("batch", None))
    v = nnx.Param(init((4, 2)), sharding_rules=(("batch", "data"),))
    state = nnx.state(nnx.Dict(v=v, bare=nnx.Param(jnp.ones(3))))
    specs = nnx.get_partition_spec(state)
    assert specs["v"].value == jax.sharding.PartitionSpec("data", None)
    assert specs["bare"].value == jax.sharding.PartitionSpec()
    assert nnx.get_named_sharding(state, mesh)["v"].value.spec == specs["v"].value
    sharded = nnx.Param(jnp.ones((4, 2)), out_sharding=("data", None), mesh=mesh)
    assert sharded.value.sharding.spec == jax.sharding.PartitionSpec("data", None)


def test_nodes_are_replaced_and_repeated_ones_found():
    """Everywhere where they are; the object itself stays as it is."""
    shared = nnx.Param(jnp.ones(2))
    m = nnx.Dict(a=shared, b=nnx.Dict(c=shared))
    assert nnx.find_duplicates(m) == [[("a",), ("b", "c")]]
    assert nnx.find_duplicates(m, only=nnx.BatchStat) == []
    doubled = nnx.recursive_map(
        lambda path, node: nnx.Param(node.value * 2) if node.__class__ is nnx.Param else node, m
    )
    assert doubled["a"] is doubled["b"]["c"]
    assert (doubled["a"].value == 2).all()
    assert (m["a"].value == 1).all()


def test_integer_keys_come_back_from_text():
    """As a checkpoint has them; other keys stay."""
    assert nnx.restore_int_paths({"0": {"-1": 2, "a": 3}}) == {0: {-1: 2, "a": 3}}


def test_a_part_of_the_arguments_of_jit_can_be_bound():
    """By `jit_partial`; the objects among them change."""
    m = nnx.Dict(w=nnx.Param(jnp.ones(2)))

    def add(m, x):
        m.w.value += x

    nnx.jit_partial(add, m)(3.0)
    assert (m.w.value == 4).all()


def split_model():
    """A model with a shared node, taken apart."""
    model = nnx.List([nnx.Linear(2, 2, rngs=nnx.Rngs(0))])
    model.append(model[0])
    return model, *nnx.split(model)


def apply(definition, state, x):
    """The functional style: put together, call, take apart."""
    model = nnx.merge(definition, state)
    model[0].bias[...] += 1
    return model[1](x), nnx.split(model)


def test_definitions_and_states_go_in_and_out_of_plain_jit():
    """Alone and inside other trees; the definition that comes out is the same object (OBJ-1)."""
    model, definition, state = split_model()
    assert jax.tree.leaves(definition) == []
    out, (again, new) = jax.jit(apply)(definition, state, jnp.ones(2))
    assert again is definition
    np.testing.assert_allclose(out, model[0](jnp.ones(2)) + 1, atol=1e-6)
    np.testing.assert_array_equal(nnx.merge(again, new)[1].bias[...], jnp.ones(2))
    made, values = jax.jit(lambda: nnx.split(model))()
    assert made is definition
    assert jax.tree.structure(values) == jax.tree.structure(state)
    tree = jax.jit(lambda tree: {"out": [tree]})({"graph": (definition, state)})["out"][0]
    assert tree["graph"][0] is definition
    assert jax.tree.map(lambda x: x, definition) is definition


def test_equal_definitions_are_not_traced_again():
    """Of clones, after a round trip through pickle, and where the first one is gone (JIT-3)."""
    traces = []

    @jax.jit
    def run(definition, state):
        traces.append(definition)
        return nnx.merge(definition, state)[0].kernel[...]

    for _ in range(3):
        definition, state = split_model()[1:]
        run(definition, state)
        run(pickle.loads(pickle.dumps(definition)), state)
        run(copy.deepcopy(definition), state)
        del definition
        traces[:] = [None] * len(traces)
        gc.collect()
    assert len(traces) == 1
    other = nnx.List([nnx.Linear(2, 2, rngs=nnx.Rngs(0)) for _ in range(2)])
    run(*nnx.split(other))
    assert len(traces) == 2


@pytest.mark.parametrize(
    "transform",
    {
        "jit": jax.jit,
        "grad": lambda f: jax.grad(f, argnums=1),
        "vmap": lambda f: lambda d, s: jax.vmap(f, in_axes=(None, None), axis_size=2)(d, s),
        "checkpoint": jax.checkpoint,
        "eval_shape": lambda f: lambda d, s: jax.eval_shape(f, d, s),
        "scan": lambda f: (
            lambda d, s: jax.lax.scan(lambda carry, _: (carry, f(*carry)), (d, s), None, length=2)
        ),
        "cond": lambda f: lambda d, s: jax.lax.cond(True, f, f, d, s),
    }.values(),
)
def test_definitions_and_states_pass_through_plain_transformations(transform):
    """As arguments, and in the output of some (OBJ-1, OBJ-4)."""
    _, definition, state = split_model()
    out = transform(lambda d, s: nnx.merge(d, s)[0](jnp.ones(2)).sum())(definition, state)
    assert jax.tree.leaves(out)


def test_an_object_may_hold_a_definition():
    """As static data, that is told apart by its content (JIT-3)."""
    _, definition, _ = split_model()
    traces = []

    @nnx.jit
    def run(model):
        traces.append(1)
        return model.definition, model.w[...]

    model = nnx.Dict(definition=definition, w=nnx.Param(jnp.ones(2)))
    assert run(model)[0] is definition
    run(nnx.clone(model))
    assert len(traces) == 1
    model.definition = nnx.graphdef(nnx.Dict())
    run(model)
    assert len(traces) == 2
