"""Programs on which some library failed its users give the right result with the reference."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from scutch_reference import linen as nn, meta, nnx

X = np.arange(64, dtype="float32").reshape(8, 8)


def mesh_of(kind=AxisType.Auto):
    """A mesh of 2 by 4 devices, whose axes have one type."""
    return jax.make_mesh((2, 4), ("x", "y"), axis_types=(kind, kind))


@pytest.mark.parametrize("own", [True, False])
def test_arrays_are_placed_while_jit_is_disabled(own):
    """A variable and a box, with a mesh of their own or the one in context."""
    mesh, expected = mesh_of(), NamedSharding(mesh_of(), P("x", "y"))
    notes = {"mesh": mesh} if own else {}
    with jax.disable_jit(), jax.set_mesh(mesh):
        variable = nnx.Param(jnp.asarray(X), out_sharding=("x", "y"), **notes)
        box = meta.Partitioned(jnp.asarray(X), names=("x", "y"), **notes)
        assert variable.get_value().sharding.is_equivalent_to(expected, 2)
        assert box.unbox().sharding.is_equivalent_to(expected, 2)


def test_a_mesh_without_axes_is_no_mesh():
    """Code that reads the mesh in context where none is set passes a mesh without axes on."""
    empty = jax.sharding.Mesh(np.empty((), dtype=object), ())
    variable = nnx.Param(jnp.asarray(X), out_sharding=(None, None), mesh=empty)
    boxes = [
        meta.Partitioned(X, names=("x", "y"), mesh=empty),
        nn.LogicallyPartitioned(X, ("x",), mesh=empty),
    ]
    assert np.array_equal(variable.get_value(), X)
    assert all(np.array_equal(box.unbox(), X) for box in boxes)
    with jax.set_mesh(mesh_of()):
        placed = nnx.Param(jnp.asarray(X), out_sharding=("x", "y"), mesh=empty).get_value()
    assert placed.sharding.is_equivalent_to(NamedSharding(mesh_of(), P("x", "y")), 2)


@pytest.mark.parametrize("own", [True, False])
def test_a_variable_is_unsharded_along_a_name_without_a_rule(own):
    """By rules of its own and in context; so is a box."""
    rules, names = (("embed", "x"),), ("embed", "heads")
    notes = {"sharding_rules": rules} if own else {}
    with nn.logical_axis_rules(() if own else rules):
        variable = nnx.Param(jnp.asarray(X), out_sharding=names, mesh=mesh_of(), **notes)
        spec = nnx.get_partition_spec(nnx.state(nnx.Dict(w=variable)))["w"].get_raw_value()
    assert spec == nn.logical_to_mesh_axes(names, rules) == P("x", None)
    assert variable.get_value().sharding.spec == P("x", None)


@pytest.mark.parametrize("manual", [{"x", "y"}, {"x"}], ids=["all", "x"])
def test_a_module_with_logical_names_is_called_inside_shard_map(manual):
    """Its constraints and boxes name axes that are manual there."""
    mesh, rules = mesh_of(), (("batch", "x"), ("embed", "y"))

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x):
            init = nn.with_logical_partitioning(nn.initializers.lecun_normal(), ("batch", "embed"))
            x = nn.Dense(8, kernel_init=init)(x)
            return nn.with_logical_constraint(x, ("batch", "embed"))

    variables = Layer().init(jax.random.key(0), X)
    expected = Layer().apply(variables, X)
    with jax.set_mesh(mesh), nn.logical_axis_rules(rules):
        mapped = jax.shard_map(
            Layer().apply, in_specs=(P(), P("x")), out_specs=P("x"), axis_names=manual
        )
        found = jax.jit(mapped)(variables, X)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_names_are_under_the_key_of_today_and_need_no_mesh():
    """An older key is the key of today."""
    variable = nnx.Param(jnp.asarray(X), sharding=("x", None))
    assert variable.get_metadata()["out_sharding"] == ("x", None)
    assert nnx.Param(jnp.asarray(X), out_sharding=("x", None)).get_value().shape == (8, 8)


def test_an_empty_list_is_filled_with_objects_without_arrays():
    """They come back from `split` and `merge`."""

    class Width(nnx.Module):
        def __init__(self, width):
            self.width = width

    class Holder(nnx.Module):
        def __init__(self):
            self.parts = []
            self.parts.extend(map(Width, (3, 5)))

    assert [part.width for part in nnx.merge(*nnx.split(Holder())).parts] == [3, 5]


@pytest.mark.parametrize("held", [["a"], {"a": 1}, {"a"}, ("a", ["b"])], ids=repr)
def test_static_data_without_a_hash_are_a_static_argument(held):
    """Of `jax.jit`, which traces once for equal ones."""

    class Holder(nnx.Module):
        def __init__(self):
            self.held = nnx.static(held)
            self.total = nnx.Param(jnp.zeros(()))

    traces = []

    def total(definition, state):
        traces.append(definition)
        return nnx.merge(definition, state).total[...] + 1

    jitted = jax.jit(total, static_argnums=0)
    assert [jitted(*nnx.split(Holder())) for _ in range(2)] == [1, 1]
    assert len(traces) == 1


def test_texts_of_digits_stay_texts_beside_numbers():
    """In a state that its pure dictionary restores, with texts for numbers as a checkpoint has."""
    state = nnx.State({"named": {"0": nnx.Param(X[0])}, "listed": {0: nnx.Param(X[1])}})
    nnx.replace_by_pure_dict(state, {"named": {"0": X[2]}, "listed": {"0": X[3]}})
    assert np.array_equal(state["named"]["0"].get_value(), X[2])
    assert np.array_equal(state["listed"][0].get_value(), X[3])


@pytest.mark.parametrize("cls", [meta.Partitioned, nn.LogicallyPartitioned])
def test_boxes_differ_by_the_types_of_mesh_axes(cls):
    """Also as tree structures, and each box keeps the types."""
    boxes = [cls(1.0, ("x",), mesh=mesh_of(kind)) for kind in (AxisType.Auto, AxisType.Explicit)]
    assert boxes[0] != boxes[1]
    assert jax.tree.structure(boxes[0]) != jax.tree.structure(boxes[1])
    kept = [jax.tree.map(lambda leaf: leaf + 1, box).mesh.axis_types[0] for box in boxes]
    assert kept == [AxisType.Auto, AxisType.Explicit]


@pytest.mark.parametrize("cls", [meta.Partitioned, nn.LogicallyPartitioned])
def test_the_leaf_of_a_box_has_the_key_path_of_its_field(cls):
    """Masks and checkpoints find parameters by it."""
    ((path, _),) = jax.tree_util.tree_flatten_with_path({"k": [cls(X, ("x", None))]})[0]
    assert jax.tree_util.keystr(path) == "['k'][0].value"
