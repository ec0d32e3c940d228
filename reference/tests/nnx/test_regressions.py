"""Faults of the reference that users met: each test failed before the repair that it is for."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from scutch_reference import functional, linen as nn, nnx

KEY = jax.random.key(0)


def mesh_of(kind):
    """A mesh of 2 by 4 devices, whose axes have one type."""
    return jax.make_mesh((2, 4), ("x", "y"), axis_types=(kind, kind))


# ------------------------------------------------------------------ filters


@pytest.mark.parametrize("method", ["split", "broadcast", "fork"])
def test_methods_of_rngs_ask_a_filter_about_the_stream(method):
    """`RngStream` takes every stream, `RngKey` none, and a string the stream of that name."""

    def keys(filter):
        options = {"split": {filter: 3}} if method == "fork" else {"k": {filter: 3}}
        made = getattr(nnx.Rngs(params=0, dropout=1), method)(**options)
        return {name: stream.key.shape for name, stream in made.items()}

    assert keys(nnx.RngStream) == {"params": (3,), "dropout": (3,)}
    assert keys(nnx.RngKey) == {"params": (), "dropout": ()}
    assert keys("dropout") == {"params": (), "dropout": (3,)}
    asked = []
    keys(lambda path, value: asked.append((path, type(value))))
    assert asked == [(("params",), nnx.RngStream), (("dropout",), nnx.RngStream)]


def test_streams_are_split_in_place_where_a_filter_takes_key_and_count():
    """`RngKey` alone takes no stream, as in Flax."""
    for only, shape in ((nnx.RngState, (3,)), (nnx.RngKey, ()), (nnx.RngStream, ())):
        rngs = nnx.Rngs(params=0)
        nnx.split_rngs(rngs, splits=3, only=only)
        assert rngs.params.key.shape == shape


FAILING = {
    "KeyError": lambda path, value: {}["no such key"],
    "TypeError": lambda path, value: None + 1,
    "ValueError": lambda path, value: int("no number"),
    "AttributeError": lambda path, value: path.no_such_attribute,
}
CALLS = {
    "jit": lambda m, f: nnx.jit(
        lambda m: None,
        in_shardings=nnx.StateSharding({f: NamedSharding(mesh_of(AxisType.Auto), P())}),
    )(m),
    "vmap": lambda m, f: nnx.vmap(lambda m: None, in_axes=nnx.StateAxes({f: 0}))(m),
    "vmap, in a tuple": lambda m, f: nnx.vmap(
        lambda m: None, in_axes=((nnx.StateAxes({f: 0}), 0),)
    )((m, jnp.ones(2))),
    "scan": lambda m, f: nnx.scan(
        lambda c, m: (c, None), in_axes=(nnx.Carry, nnx.StateAxes({f: 0}))
    )(0, m),
    "grad": lambda m, f: nnx.grad(lambda m: jnp.sum(m["w"][...]), argnums=nnx.DiffState(0, f))(m),
    "split": lambda m, f: nnx.split(m, f, ...),
    "state": lambda m, f: nnx.state(m, f),
    "pop": lambda m, f: nnx.pop(m, f),
    "prefix": lambda m, f: nnx.prefix(m, {f: 0}),
    "find_duplicates": lambda m, f: nnx.find_duplicates(m, only=f),
    "set_metadata": lambda m, f: nnx.set_metadata(m, only=f, tag="a"),
    "with_rngs": lambda m, f: nnx.with_rngs(nnx.Rngs(0), split={f: 2}),
    "fork_rngs": lambda m, f: nnx.fork_rngs(nnx.Rngs(0), split={f: 2}),
    "split_rngs": lambda m, f: nnx.split_rngs(nnx.Rngs(0), splits=2, only=f),
    "Rngs.split": lambda m, f: nnx.Rngs(0).split({f: 2}),
    "Optimizer": lambda m, f: nnx.Optimizer(m, optax.sgd(1.0), wrt=f),
    "view": lambda m, f: nnx.view(nnx.Dropout(0.5), only=f, deterministic=True),
}


@pytest.mark.parametrize("error", FAILING)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_error_of_a_filter_predicate_reaches_its_user(call, error):
    """It is neither swallowed nor told as if the filter had nothing for a path (OBJ-3)."""
    classes = {each.__name__: each for each in (KeyError, TypeError, ValueError, AttributeError)}
    with pytest.raises(classes[error]) as raised:
        call(nnx.Dict(w=nnx.Param(jnp.ones(2))), FAILING[error])
    assert type(raised.value) is classes[error]


# ------------------------------------------------------------------ names of axes


def named(key):
    """A parameter with a name for each of its two axes."""
    return nnx.Param(jnp.ones((8, 8)), out_sharding=("a", "b"), eager_sharding=False)


def looped(key):
    """One step of a loop that makes a parameter."""
    return 0.0, named(key)


@pytest.mark.parametrize(("axis", "names"), [(0, (None, "a", "b")), (1, ("a", None, "b"))])
def test_a_lift_without_a_partition_name_leaves_a_new_axis_unnamed(axis, names):
    """There are as many names as axes, so placement cuts the axes that were named (OBJ-5p)."""
    keys = jax.random.split(KEY, 4)
    stacked = nnx.vmap(named, in_axes=0, out_axes=axis)(keys)
    loop = nnx.scan(lambda c, k: looped(k), in_axes=(nnx.Carry, 0), out_axes=(nnx.Carry, axis))
    _, scanned = loop(0.0, keys)
    for found in (stacked, scanned):
        assert found.get_metadata("out_sharding") == names
        assert found.ndim == 3


@pytest.mark.parametrize("lift", ["vmap", "scan"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_lift_without_a_partition_name_takes_an_entry_off_inside(lift, axis):
    """Inside there is one name for each axis; outside the names do not change."""
    w = nnx.Param(jnp.ones((2, 3, 4)), out_sharding=("a", "b", "c"), eager_sharding=False)
    model, seen = nnx.Dict(w=w), []

    def body(model):
        seen.append(model["w"].get_metadata("out_sharding"))
        model["w"][...] = model["w"][...] + 1

    if lift == "vmap":
        nnx.vmap(body, in_axes=axis)(model)
    else:
        nnx.scan(lambda m: body(m), in_axes=axis, out_axes=0)(model)
    rest = ["a", "b", "c"]
    del rest[axis]
    assert seen[-1] == tuple(rest)
    assert w.get_metadata("out_sharding") == ("a", "b", "c")
    assert jnp.array_equal(w[...], jnp.full((2, 3, 4), 2.0))


@pytest.mark.parametrize("partition", ["layers", None])
def test_vmap_leaves_the_names_to_transform_metadata(partition):
    """One of both changes the names: the mapped axis is named once, inside and outside (JIT-12)."""
    w = nnx.Param(jnp.ones((3, 2)), out_sharding=(partition, "data"), eager_sharding=False)
    seen = []

    def body(w):
        seen.append(w.get_metadata("out_sharding"))
        return nnx.Param(w[...], out_sharding=("data",), eager_sharding=False)

    made = nnx.vmap(nnx.transform_metadata(body, partition=partition))(w)
    assert seen == [("data",)]
    assert w.get_metadata("out_sharding") == (partition, "data")
    assert made.get_metadata("out_sharding") == (partition, "data")


# ------------------------------------------------------------------ optimizers


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("names", [None, ("x", None)])
@pytest.mark.parametrize("moments", [P(None, "y"), P("y", None), P()])
def test_a_step_leaves_parameters_where_they_are(jitted, names, moments):
    """Wherever the moments of the optimizer lie on the devices (OBJ-7e)."""
    mesh = mesh_of(AxisType.Auto)
    layout = NamedSharding(mesh, P("x", None))
    metadata = {} if names is None else {"out_sharding": names}
    with jax.set_mesh(mesh):
        model = nnx.Dict(w=nnx.Param(jax.device_put(jnp.ones((8, 8)), layout), **metadata))
        optimizer = nnx.Optimizer(model, optax.adam(0.1), wrt=nnx.Param)
        for kept in jax.tree.leaves(
            nnx.variables(optimizer), is_leaf=lambda v: isinstance(v, nnx.Variable)
        ):
            if kept.shape == (8, 8):
                kept.set_raw_value(
                    jax.device_put(kept.get_raw_value(), NamedSharding(mesh, moments))
                )

        def step(model, optimizer):
            optimizer.update(model, nnx.grad(lambda m: jnp.sum(m["w"][...] ** 2))(model))

        (nnx.jit(step) if jitted else step)(model, optimizer)
    assert model["w"].get_raw_value().sharding.is_equivalent_to(layout, 2)
    np.testing.assert_allclose(model["w"][...], 0.9, rtol=1e-5)


def test_an_optimizer_of_some_variables_takes_gradients_of_more():
    """Gradients of the others are left out, as in Flax (OBJ-7e)."""
    model = nnx.Dict(a=nnx.Param(jnp.ones(2)), b=nnx.Param(jnp.ones(2)))
    only_a = nnx.All(nnx.Param, nnx.PathContains("a"))
    optimizer = nnx.Optimizer(model, optax.sgd(0.5), wrt=only_a)
    gradients = nnx.grad(lambda m: jnp.sum(m["a"][...] + m["b"][...]))(model)
    optimizer.update(model, gradients)
    assert model["a"][...].tolist() == [0.5, 0.5]
    assert model["b"][...].tolist() == [1.0, 1.0]


# ------------------------------------------------------------------ Explicit axes

SPECS = [P("x", "y"), P("x", None), P(None, "y"), P(("x", "y"), None)]


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("how", ["eager", "jitted", "without a mesh in context"])
@pytest.mark.parametrize("broadcast_dims", [(), (0,), (1,), (0, 1)])
def test_dropout_keeps_the_layout_on_explicit_axes(spec, how, broadcast_dims):
    """And drops the very entries that it drops on one device (LIN-8d)."""
    mesh, plain = mesh_of(AxisType.Explicit), jnp.arange(64.0).reshape(8, 8) + 1
    x = jax.device_put(plain, NamedSharding(mesh, spec))

    def linen(x):
        layer = nn.Dropout(0.5, broadcast_dims, deterministic=False)
        return layer.apply({}, x, rngs={"dropout": KEY})

    def objects(x):
        return nnx.Dropout(0.5, broadcast_dims=broadcast_dims)(x, rngs=KEY)

    for layer in (linen, objects):
        if how == "without a mesh in context":
            found = layer(x)
        else:
            with jax.set_mesh(mesh):
                found = (jax.jit(layer) if how == "jitted" else layer)(x)
        assert found.sharding.spec == spec
        assert np.array_equal(found, layer(plain))


@pytest.mark.parametrize("jitted", [True, False])
def test_dropout_keeps_the_layout_of_an_axis_of_size_one(jitted):
    """It may be cut along an Explicit mesh axis of size one (LIN-8d)."""
    mesh = jax.make_mesh((2, 1), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    plain = jnp.ones((8, 1))
    layer = nnx.Dropout(0.5)

    def drop(x):
        return layer(x, rngs=KEY)

    with jax.set_mesh(mesh):
        x = jax.device_put(plain, NamedSharding(mesh, P("x", "y")))
        found = (jax.jit(drop) if jitted else drop)(x)
    assert found.sharding.spec == P("x", "y")
    assert np.array_equal(found, drop(plain))


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("table", [P(), P(None, "y"), P("x", "y")], ids=str)
def test_rows_keep_the_layout_of_their_indices_on_explicit_axes(spec, table):
    """Features stay on the mesh axes of the table that the indices leave free (LIN-4g)."""
    mesh, plain = mesh_of(AxisType.Explicit), jnp.arange(64).reshape(8, 8) % 4
    values = jnp.arange(32.0).reshape(4, 8)
    with jax.set_mesh(mesh):
        indices, rows = jax.device_put(plain, spec), jax.device_put(values, table)
        found = functional.rows(rows, indices, None)
    assert tuple(found.sharding.spec)[:2] == tuple(spec)
    assert np.array_equal(found, values[plain])


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_every_other_layer_takes_inputs_on_explicit_axes(spec):
    """Linear maps, normalizations and products compute the same as on one device."""
    mesh, plain = mesh_of(AxisType.Explicit), jnp.arange(64.0).reshape(8, 8) % 7
    layers = {
        "Linear": lambda x: nnx.Linear(8, 8, rngs=nnx.Rngs(0))(x),
        "LayerNorm": lambda x: nnx.LayerNorm(8, rngs=nnx.Rngs(0))(x, mask=x > 1),
        "BatchNorm": lambda x: nnx.BatchNorm(8, rngs=nnx.Rngs(0))(x, mask=x > 1),
        "attend": lambda x: nnx.Embed(8, 8, rngs=nnx.Rngs(0)).attend(x),
        "Dense": lambda x: nn.Dense(8).init_with_output(KEY, x)[0],
        "linen.LayerNorm": lambda x: nn.LayerNorm().init_with_output(KEY, x)[0],
        "linen.BatchNorm": lambda x: nn.BatchNorm(False).init_with_output(KEY, x)[0],
    }
    for name, layer in layers.items():
        with jax.set_mesh(mesh):
            found = jax.jit(layer)(jax.device_put(plain, spec))
        np.testing.assert_allclose(found, layer(plain), rtol=2e-5, atol=2e-5, err_msg=name)
