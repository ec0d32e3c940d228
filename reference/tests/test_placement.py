"""Constraints hold for every kind of mesh, of value and of context that JAX offers."""

import contextlib
import warnings

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from scutch_reference import Partitioned, unbox

AxisType = getattr(jax.sharding, "AxisType", None)
KINDS = {"auto": ("Auto", "Auto")}
if AxisType is not None:
    KINDS |= {"explicit": ("Explicit", "Explicit"), "mixed": ("Explicit", "Auto")}
UNCONSTRAINED = PartitionSpec.UNCONSTRAINED
VALUE = np.arange(64, dtype=np.float32).reshape(8, 8)
VALUES = {
    "numpy": lambda: VALUE,
    "jax": lambda: jax.numpy.asarray(VALUE),
    "key": lambda: jax.random.split(jax.random.key(0), (8, 8)),
}
NAMES = [("data", "model"), (None, ("data", "model")), (None, None), (UNCONSTRAINED, "model")]


def mesh_of(kind, shape=(2, 4)):
    """A mesh of eight devices; a JAX without axis types has Auto axes."""
    devices = np.array(jax.devices()[:8]).reshape(shape)
    if AxisType is None:
        return Mesh(devices, ("data", "model"))
    types = tuple(getattr(AxisType, axis) for axis in KINDS[kind])
    return Mesh(devices, ("data", "model"), axis_types=types)


def set_mesh(mesh):
    """The mesh in context, by the means that the JAX at hand has for it."""
    return jax.set_mesh(mesh) if hasattr(jax, "set_mesh") else mesh


@contextlib.contextmanager
def with_mesh(mesh):
    """The mesh in context as in the document, which newer JAX deprecates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with mesh:
            yield


def check(result, mesh, names):
    """The result is where the names say."""
    wanted = PartitionSpec(*(None if name is UNCONSTRAINED else name for name in names))
    assert result.sharding.is_equivalent_to(NamedSharding(mesh, wanted), 2)


@pytest.mark.parametrize("names", NAMES, ids=str)
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_mesh_of_the_box_constrains_without_one_in_context(kind, value, names):
    """Eager and jitted."""
    mesh = mesh_of(kind)
    box = Partitioned(VALUES[value](), names, mesh)
    check(box.unbox(), mesh, names)
    if AxisType is not None or value != "key":  # JAX 0.4 cannot constrain keys in jit.
        check(jax.jit(lambda box: box.unbox())(box), mesh, names)


@pytest.mark.parametrize("names", NAMES, ids=str)
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_mesh_in_context_constrains(kind, value, names):
    """Eager and jitted."""
    mesh = mesh_of(kind)
    box = Partitioned(VALUES[value](), names)
    with set_mesh(mesh):
        check(box.unbox(), mesh, names)
        if AxisType is not None or value != "key":
            check(jax.jit(lambda box: box.unbox())(box), mesh, names)


@pytest.mark.parametrize("names", NAMES, ids=str)
def test_with_mesh_constrains_as_the_document_has_it(names):
    """Eager and jitted, and not after the block."""
    mesh, box = mesh_of("auto"), Partitioned(VALUE, names)
    with with_mesh(mesh):
        check(box.unbox(), mesh, names)
        check(jax.jit(lambda box: box.unbox())(box), mesh, names)
    assert box.unbox() is VALUE


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("around", KINDS)
def test_the_mesh_of_the_box_wins_over_the_one_in_context(around, kind):
    """Also over the same devices in another shape, and over other devices."""
    names = ("data", "model")
    with set_mesh(mesh_of(around)):
        for mesh in (mesh_of(kind, (4, 2)), Mesh(np.array(jax.devices()[:2]).reshape(1, 2), names)):
            check(Partitioned(VALUE, names, mesh).unbox(), mesh, names)


def test_what_is_no_array_is_left_alone():
    """Abstract values and scalars have no sharding; an inner box has its own."""
    mesh = mesh_of("auto")
    inner = Partitioned(VALUE, (None, "model"), mesh)
    for value in (jax.ShapeDtypeStruct((8, 8), np.float32), 3.0, None, inner):
        assert Partitioned(value, ("data", None, "model"), mesh).unbox() is value


@pytest.mark.skipif(not hasattr(jax, "shard_map"), reason="needs jax.shard_map")
@pytest.mark.parametrize("manual", [{"data", "model"}, {"data"}], ids=["all", "data"])
def test_manual_axes_are_dealt_with_already(manual):
    """Inside `shard_map` the value is one device's part, and only other axes constrain it."""
    spec = PartitionSpec(*(axis if axis in manual else None for axis in ("data", "model")))
    with set_mesh(mesh_of("auto")):
        box = Partitioned(jax.numpy.asarray(VALUE), ("data", "model"))
        doubled = jax.shard_map(
            lambda box: 2 * box.unbox(), in_specs=spec, out_specs=spec, axis_names=manual
        )
        np.testing.assert_array_equal(jax.jit(doubled)(box), 2 * VALUE)


def test_a_tree_is_unboxed_without_a_constraint_when_told_so():
    """The function for trees takes `apply_constraint`, as the method does."""
    values = [np.ones(4, "float32"), np.ones(2, "float32")]
    inner = Partitioned(values[1], names=("data",))
    tree = {"one": Partitioned(values[0], names=("data",)), "two": Partitioned([inner], names=())}
    with set_mesh(mesh_of("auto")):
        found = unbox(tree, apply_constraint=False)
    assert found["one"] is values[0]
    assert found["two"][0] is values[1]
