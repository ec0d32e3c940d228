"""Names that users of Flax 0.12 know: each works as in Flax, where Flax is installed."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from scutch_reference import bridge, errors, nnx as ours


@pytest.fixture(params=["reference", "flax"])
def nnx(request):
    """The reference, then Flax: a test with this fixture holds for both."""
    if request.param == "reference":
        return ours
    flax = pytest.importorskip("flax", reason="Flax, which is compared, is not installed")
    if flax.__version__ != "0.12.8":
        pytest.skip(f"the names are those of Flax 0.12.8, not {flax.__version__}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import flax.nnx
    return flax.nnx


def model(nnx, seed=0):
    """Layers that share a variable, one of which behaves differently in training."""
    rngs = nnx.Rngs(seed)
    layers = nnx.Dict(first=nnx.Linear(2, 2, rngs=rngs), second=nnx.Linear(2, 2, rngs=rngs))
    layers.second.kernel = layers.first.kernel
    layers.dropout = nnx.Dropout(0.5)
    return layers


def mesh():
    """Four by two devices."""
    return Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("a", "b"))


# ---------------------------------------------------------------- copies and functional form


def test_clone_shares_variables_or_copies_arrays_as_asked(nnx):
    """By default, variables are new and arrays the same."""
    m = model(nnx)
    array = m.first.kernel.get_raw_value()
    assert nnx.clone(m, variables=False).first.kernel is m.first.kernel
    assert nnx.clone(m).first.kernel is not m.first.kernel
    assert nnx.clone(m).first.kernel.get_raw_value() is array
    copy = nnx.clone(m, arrays=True)
    assert copy.first.kernel.get_raw_value() is not array
    assert copy.first.kernel is copy.second.kernel
    with pytest.raises(ValueError, match="variables"):
        nnx.clone(m, variables=False, arrays=True)


def test_a_clone_with_its_own_arrays_can_be_donated(nnx):
    """Donating it deletes no array of the original."""
    m = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
    nnx.jit(lambda m: None, donate_argnums=0)(nnx.clone(m, arrays=True))
    assert m(jnp.ones((1, 2))).shape == (1, 2)


def test_map_makes_a_copy_with_other_leaves(nnx):
    """The function gets paths and variables, each shared one once."""
    m, paths = model(nnx), []

    def zero(path, variable):
        paths.append(path)
        return variable.replace(jnp.zeros_like(variable.get_raw_value()))

    made = nnx.map(zero, m)
    assert [path for path in paths if "kernel" in path] == [("first", "kernel")]
    assert made.first.kernel is made.second.kernel
    assert not made.first.kernel.get_raw_value().any()
    assert m.first.kernel.get_raw_value().any()


def test_call_runs_a_method_in_functional_form(nnx):
    """The returned state has the method's changes; in the reference, the object itself has not."""

    class Counter(nnx.Module):
        def __init__(self):
            self.count = nnx.Variable(jnp.array(0))

        def add(self, n, *, twice=False):
            self.count[...] += n * (1 + twice)
            return "added"

    nodes = {"a": Counter(), "b": Counter()}
    out, (definition, state) = nnx.call(nnx.split(nodes))["b"].add(3, twice=True)
    assert out == "added"
    made = nnx.merge(definition, state)
    assert [int(made[name].count[...]) for name in "ab"] == [0, 6]
    if nnx is ours:  # In Flax a state holds the variables themselves.
        assert int(nodes["b"].count[...]) == 0
    _, (_, state) = definition.apply(state)["a"].add(1)
    assert [int(nnx.merge(definition, state)[name].count[...]) for name in "ab"] == [1, 6]


def test_a_definition_is_a_type_of_the_model(nnx):
    """`GraphDef[Model]` can stand in annotations, and is a `GraphDef` at run time."""
    assert nnx.GraphDef[nnx.Linear].__origin__ is nnx.GraphDef
    assert isinstance(nnx.graphdef(nnx.Linear(1, 1, rngs=nnx.Rngs(0))), nnx.GraphDef)


def test_pure_has_two_names():
    """The newer is `as_pure`; Flax warns for the older."""
    assert ours.as_pure({"w": ours.Param(1.0)}) == ours.pure({"w": ours.Param(1.0)}) == {"w": 1.0}


# ---------------------------------------------------------------- contexts of updates


@pytest.mark.parametrize("compiled", [True, False])
def test_changes_of_structure_come_out_of_a_context(nnx, compiled):
    """Into the very objects, with cycles, new and deleted attributes; twice, from one trace."""
    m, traces = model(nnx), []

    def inside(definition, state):
        traces.append(definition)
        with nnx.merge_context("grow", inner=True) as context:
            m = context.merge(definition, state)
        m.first.kernel[...] += 1
        m.second.parent = m
        m.second.extra = nnx.Param(jnp.ones(3))
        if hasattr(m, "dropout"):
            del m.dropout
        with nnx.split_context("grow") as context:
            return context.split(m)

    run = jax.jit(inside) if compiled else inside

    @nnx.update_context("grow")
    def outside(m):
        with nnx.split_context("grow") as context:
            parts = context.split(m)
        parts = run(*parts)
        with nnx.merge_context("grow", inner=False) as context:
            return context.merge(*parts)

    first, kernel, before = m.first, m.first.kernel, m.first.kernel.get_raw_value()
    assert outside(m) is m
    assert m.first is first
    assert m.second.kernel is m.first.kernel is kernel
    assert m.second.parent is m
    assert not hasattr(m, "dropout")
    assert m.second.extra.shape == (3,)
    np.testing.assert_array_equal(kernel.get_raw_value(), before + 1)
    outside(m), outside(m)
    np.testing.assert_array_equal(kernel.get_raw_value(), before + 3)
    assert len(traces) == (2 if compiled else 3)
    with pytest.raises(ValueError, match="grow"):
        nnx.current_update_context("grow")


def test_a_context_sees_what_its_splits_share(nnx):
    """Also without a name, and then nothing outside changes."""
    m = model(nnx)
    with nnx.split_context() as context:
        one, two = context.split(m.first), context.split(m)
    with nnx.merge_context() as context:
        first, whole = context.merge(*one), context.merge(*two)
    assert whole.first is first
    assert first is not m.first
    with nnx.update_context("name") as update:
        assert nnx.current_update_context("name") is update
        with pytest.raises(ValueError, match="inner"), nnx.merge_context("name", None):
            """Inside or outside?"""


def test_compat_has_the_functions_of_nnx():
    """`nnx.compat` needs no variants, since `nnx` has the compatible options by default."""
    assert ours.compat.split is ours.split
    assert ours.compat.jit is ours.jit


def test_to_tree_and_from_tree_keep_what_is_shared(nnx):
    """Objects become trees of JAX; arrays stay."""
    m = model(nnx)
    tree = nnx.to_tree((m.first, {"whole": m}, 3))
    assert isinstance(tree[0], nnx.NodeStates)
    assert tree[2] == 3
    first, rest, _ = nnx.from_tree(jax.tree.map(lambda x: x, tree))
    assert rest["whole"].first is first
    assert tree[0].state.kernel.shape == (2, 2)


def test_a_tree_with_a_context_changes_the_objects(nnx):
    """As `split` and `merge` do, for all objects in it."""
    m = model(nnx)
    with nnx.update_context("tree"):
        tree = nnx.to_tree([m], ctxtag="tree")
        (inner,) = nnx.from_tree(tree, ctxtag="tree", is_inner=True)
        inner.first.new = nnx.Param(jnp.ones(1))
        tree = nnx.to_tree([inner], ctxtag="tree")
        (out,) = nnx.from_tree(tree, ctxtag="tree", is_inner=False)
    assert out is m
    assert m.first.new.shape == (1,)


# ---------------------------------------------------------------- prefixes and metadata


@pytest.mark.parametrize("by", ["filters", "function"])
def test_a_prefix_says_the_axis_of_each_leaf(nnx, by):
    """Of objects and of arrays in a tree."""
    options = {} if nnx is ours else {"graph": False}
    tree = {"a": nnx.Param(jnp.array(2)), "b": nnx.BatchStat(jnp.arange(5)), "c": jnp.arange(5)}
    axes = {nnx.Param: None, ...: 0}
    if by == "function":
        axes = lambda path, leaf: None if "a" in path else 0  # noqa: E731
    prefix = nnx.prefix(tree, axes, **options)
    mapped = nnx.vmap(lambda tree: tree["a"] * tree["b"] + tree["c"], in_axes=(prefix,), **options)
    assert mapped(tree).tolist() == [0, 3, 6, 9, 12]


def test_a_prefix_of_an_object_goes_by_paths_from_the_root():
    """Also at a further occurrence of a shared object; a variable without a filter is an error."""
    m = model(ours)
    stacked = ours.map(lambda path, v: v.replace(jnp.stack([v.get_raw_value()] * 3)), m)
    axes = ours.prefix({"m": stacked}, {ours.PathContains("m"): 0})
    out = ours.vmap(lambda tree, x: tree["m"].second(x), in_axes=(axes, None))(
        {"m": stacked}, jnp.ones(2)
    )
    assert out.shape == (3, 2)
    assert axes["m"].axes == (0,)
    with pytest.raises(errors.NoFilterMatchError):
        ours.prefix(m, {ours.BatchStat: 0})


def test_transform_metadata_takes_a_name_off_and_puts_it_on(nnx):
    """Of variables that are passed, and of those that come out; inside, it is not there."""
    seen = []

    @nnx.transform_metadata(partition="layers")
    def grow(variable):
        seen.append(variable.out_sharding)
        return nnx.Param(jnp.ones(2), out_sharding=("in",), eager_sharding=False)

    given = nnx.Param(jnp.ones(2), out_sharding=("layers", "in"), eager_sharding=False)
    made = grow(given)
    assert seen == [("in",)]
    assert given.out_sharding == ("layers", "in")
    assert made.out_sharding == ("layers", "in")


# ---------------------------------------------------------------- modules


def test_view_copies_a_model_for_another_mode(nnx):
    """By `set_view`; arrays are shared, and an option that no module takes is refused."""
    m = nnx.Dict(
        dropout=nnx.Dropout(0.5, deterministic=False), norm=nnx.BatchNorm(2, rngs=nnx.Rngs(0))
    )
    seen = nnx.view(m, deterministic=True, use_running_average=True)
    assert (seen.dropout.deterministic, seen.norm.use_running_average) == (True, True)
    assert (m.dropout.deterministic, m.norm.use_running_average) == (False, False)
    assert seen.norm.mean.get_raw_value() is m.norm.mean.get_raw_value()
    one = nnx.view(m, only=nnx.Dropout, deterministic=True)
    assert (one.dropout.deterministic, one.norm.use_running_average) == (True, False)
    with pytest.raises(ValueError, match="nothing"):
        nnx.view(m, nothing=True)
    assert nnx.view(m, nothing=True, raise_if_not_found=False) is not m


def test_with_attributes_copies_a_model(nnx):
    """The model itself, or a tree of modules, stays as it is."""
    m = model(nnx)
    other = nnx.with_attributes(m, deterministic=True)
    assert other.dropout.deterministic is True
    assert m.dropout.deterministic is False
    assert nnx.with_attributes({"m": m}, deterministic=True)["m"].dropout.deterministic is True
    with pytest.raises(ValueError, match="nothing"):
        nnx.with_attributes(m, nothing=1)
    kept = nnx.with_attributes(m, only=nnx.Linear, deterministic=True, raise_if_not_found=False)
    assert kept.dropout.deterministic is False


def test_children_that_are_modules(nnx):
    """Variables and static attributes are none."""
    names = {name for name, _ in nnx.iter_module_children(model(nnx))}
    assert names == {"first", "second", "dropout"}


# ---------------------------------------------------------------- seeds


def keys(rngs):
    """The keys of each stream, by name."""
    values = {name: stream.key.get_raw_value() for name, stream in rngs.items()}
    return {name: jax.random.key_data(value).tolist() for name, value in values.items()}


@pytest.mark.parametrize(
    "options",
    [
        {"split": 3},
        {"split": {"params": (2, 2)}, "fork": "dropout"},
        {"broadcast": 2},
        {"broadcast": {"params": 2}, "fork": ["dropout"]},
        {"split": 3, "only": "params"},
        {"split": 3, "fork": "params"},
        {"split": {"dropout": 2}, "broadcast": ...},
    ],
    ids=str,
)
def test_with_rngs_gives_the_keys_that_flax_gives(options):
    """Split, forked and broadcast streams, all or some."""
    flax = pytest.importorskip("flax", reason="Flax, whose keys are compared, is not installed")
    if flax.__version__ != "0.12.8":
        pytest.skip(f"the names are those of Flax 0.12.8, not {flax.__version__}")
    import flax.nnx as theirs

    if options.get("broadcast") is ...:
        options = options | {"broadcast": {...: 2}}
    found = []
    for nnx, mode in ((ours, {}), (theirs, {"graph": False})):
        rngs = nnx.Rngs(params=0, dropout=1)
        found.append(keys(nnx.with_rngs(rngs, **options, **mode)))
    assert found[0] == found[1]


def test_with_rngs_draws_from_the_streams_that_it_is_given():
    """As a function and as a decorator; two specific rules for one stream are refused."""
    rngs = ours.Rngs(params=0)
    assert ours.with_rngs({"r": rngs}, split=3)["r"].params.key.shape == (3,)
    assert int(rngs.params.count[...]) == 1

    @ours.with_rngs(split=2, only="params")
    def shape(rngs, *, more):
        return rngs.params.key.shape, more.dropout.key.shape

    assert shape(rngs, more=ours.Rngs(dropout=0)) == ((2,), ())
    with pytest.raises(errors.StreamError, match="params"):
        ours.with_rngs(rngs, split={"params": 2}, fork="params")


def test_none_leaves_a_stream_with_one_key(nnx):
    """For `split` and for `broadcast`, of all streams or of some."""
    rngs = nnx.Rngs(params=0, dropout=1)
    assert rngs.broadcast({"params": 3, ...: None}).dropout.key.shape == ()
    assert rngs.broadcast(None).params.key.shape == ()
    assert rngs.split({"params": 3, "dropout": None}).dropout.key.shape == ()


# ---------------------------------------------------------------- placement


def test_abstract_variables_get_the_shardings_that_they_ask_for(nnx):
    """From `eval_shape`, on the mesh in context or their own; others stay as they are."""

    def create():
        metadata = {"out_sharding": ("a", "b")}
        return nnx.Linear(4, 8, rngs=nnx.Rngs(0), kernel_metadata=metadata)

    with jax.set_mesh(mesh()):
        abstract = nnx.as_abstract(nnx.eval_shape(create, graph=True, graph_updates=True))
    assert abstract.kernel.get_raw_value().sharding.spec == PartitionSpec("a", "b")
    assert abstract.kernel.shape == (4, 8)
    definition, state = nnx.get_abstract_model(create, mesh())
    assert isinstance(definition, nnx.GraphDef)
    assert state["kernel"].get_raw_value().sharding == NamedSharding(
        mesh(), PartitionSpec("a", "b")
    )
    assert state["bias"].get_raw_value().sharding.spec == PartitionSpec()


def test_what_is_concrete_or_has_no_mesh_is_not_made_abstract():
    """A bare shape stays as it is, too; a variable's own mesh counts as well."""
    bare, asks = ours.Param(jnp.ones(4)), {"out_sharding": ("a",), "eager_sharding": False}
    struct = jax.ShapeDtypeStruct((4,), jnp.float32)
    tree = {"bare": bare, "open": ours.Param(struct, **asks), "own": None, "x": struct}
    tree["own"] = ours.Param(struct, mesh=mesh(), **asks)
    made = ours.as_abstract(tree)
    assert made["bare"].get_raw_value() is bare.get_raw_value()
    assert made["open"].get_raw_value() is struct
    assert made["own"].get_raw_value().sharding == NamedSharding(mesh(), PartitionSpec("a"))
    assert made["x"] is struct


def test_eager_sharding_has_a_default(nnx):
    """For a block, for the calls of a function, and from now on."""

    def placed():
        variable = nnx.Param(jnp.ones(8), out_sharding=("a",), mesh=mesh())
        return len(variable.get_raw_value().sharding.device_set) > 1

    assert nnx.using_eager_sharding()
    assert placed()
    with nnx.use_eager_sharding(False):
        assert not nnx.using_eager_sharding()
        assert not placed()
        with nnx.use_eager_sharding(True):
            assert placed()
        assert not placed()
    assert not nnx.use_eager_sharding(False)(placed)()
    assert nnx.using_eager_sharding()
    before = nnx.use_eager_sharding(False)
    assert not placed()
    before.__exit__(None, None, None)


def test_a_named_sharding_or_a_format_says_where_a_variable_lies(nnx):
    """A format also orders it in memory."""
    layout = pytest.importorskip("jax.experimental.layout", reason="JAX has no layouts")
    if not hasattr(layout, "Format"):
        pytest.skip("JAX calls it Layout still")
    sharding = NamedSharding(mesh(), PartitionSpec("a"))
    format = layout.Format(layout.Layout((1, 0)), sharding)
    plain = nnx.Param(jnp.ones((8, 2)), out_sharding=sharding)
    ordered = nnx.Param(jnp.ones((8, 2)), out_sharding=format)
    assert plain.get_raw_value().sharding == sharding
    assert ordered.get_raw_value().sharding.is_equivalent_to(sharding, 2)
    assert ordered.get_raw_value().format.layout.major_to_minor == (1, 0)


def test_the_spec_of_a_format_is_that_of_its_sharding():
    """It names no axes that could be added or removed, and is left alone inside a trace."""
    layout = pytest.importorskip("jax.experimental.layout", reason="JAX has no layouts")
    if not hasattr(layout, "Format"):
        pytest.skip("JAX calls it Layout still")
    format = layout.Format(layout.Layout((1, 0)), NamedSharding(mesh(), PartitionSpec("a")))

    @jax.jit
    def create():
        return ours.Param(jnp.ones((8, 2)), out_sharding=format)

    made = create()
    assert made.get_raw_value().sharding.is_equivalent_to(format.sharding, 2)
    assert ours.get_partition_spec(made).get_raw_value() == PartitionSpec("a")
    abstract = ours.eval_shape(lambda: ours.Param(jnp.ones((8, 2)), out_sharding=format))
    assert ours.as_abstract(abstract).get_raw_value().sharding == format.sharding


# ---------------------------------------------------------------- types and transformations


def test_the_bridge_and_nnx_have_one_registry():
    """A type that one of them registers has its name in the other."""

    @ours.register_variable_name("codes_of_this_test")
    class Code(ours.Variable):
        pass

    assert bridge.variable_type("codes_of_this_test") is Code
    assert ours.variable_name_from_type(Code) == "codes_of_this_test"
    assert ours.variable_type_from_name("params") is ours.Param
    with pytest.raises(errors.RegistryError):
        ours.variable_type_from_name("no_name_of_this_test")


def test_cached_partial_binds_objects(nnx):
    """They change as if they were passed."""
    m = nnx.Dict(n=nnx.Variable(jnp.array(0)))

    @nnx.jit
    def add(m, n):
        m.n[...] += n

    bound = nnx.cached_partial(add, m)
    bound(2), bound(3)
    assert int(m.n[...]) == 5


@pytest.mark.parametrize(
    "options",
    [
        {"static_argnums": 5},
        {"static_argnames": "nobody"},
        {"donate_argnums": 5},
        {"donate_argnames": "nobody"},
        {"static_argnums": "x"},
        {"no_option": 1},
    ],
    ids=str,
)
def test_both_forms_of_jit_refuse_alike(options):
    """`jit(function, **options)` and `jit(**options)` refuse the options that `jax.jit` refuses."""

    def function(x):
        return x

    with pytest.raises((TypeError, ValueError)) as plain:
        jax.jit(function, **options)
    for apply in (lambda: ours.jit(function, **options), lambda: ours.jit(**options)(function)):
        with pytest.raises(plain.type):
            apply()


@pytest.mark.parametrize(
    ("name", "options", "refused"),
    [
        ("vmap", {"no_option": 1}, TypeError),
        ("scan", {"no_option": 1}, TypeError),
        ("grad", {"no_option": 1}, TypeError),
        ("value_and_grad", {"no_option": 1}, TypeError),
        ("remat", {"no_option": 1}, TypeError),
        ("shard_map", {"in_specs": None, "out_specs": None, "axis_names": {"no"}}, ValueError),
    ],
)
def test_both_forms_of_a_transformation_refuse_alike(name, options, refused):
    """Both forms refuse wrong options, and refuse an argument that is no function at once."""
    transformation = getattr(ours, name)
    given = {"in_specs": None, "out_specs": None} if name == "shard_map" else {}
    for apply in (
        lambda: transformation(len, **options),
        lambda: transformation(**options)(len),
    ):
        with pytest.raises(refused):
            apply()
    for apply in (lambda: transformation(3, **given), lambda: transformation(**given)(3)):
        with pytest.raises(TypeError, match="3"):
            apply()
