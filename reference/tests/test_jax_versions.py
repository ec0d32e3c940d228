"""The parts of JAX that its documents do not promise are where `jax_versions` looks for them."""

import ast
import re
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
import scutch_reference
from jax.sharding import AbstractMesh, Mesh
from scutch_reference import jax_versions

ROOT = Path(scutch_reference.__file__).parent
NOT_PUBLIC = re.compile(r"jax\.(_src|core|extend|interpreters)\b|getattr\(jax\b|jax\.__version__")
NOT_MOVED_YET = {"nnx/tracking.py", "nnx/shard_map.py", "nnx/rngs.py"}
VERSION = tuple(int(part) for part in jax.__version__.split(".")[:2])
since_axis_types = pytest.mark.skipif(VERSION < (0, 7), reason="JAX has no axis types yet")


def mesh_of(*types):
    """One device, in as many axes as there are types."""
    names = ("data", "model")[: len(types)]
    devices = np.array(jax.devices()[:1]).reshape((1,) * len(types))
    kinds = tuple(getattr(jax.sharding.AxisType, name) for name in types)
    return Mesh(devices, names, axis_types=kinds)


def code_of(path):
    """A module as JAX's names are written in it: without comments and docstrings."""
    return ast.unparse(ast.parse(path.read_text("utf-8")))


def test_no_other_module_touches_a_private_part_of_jax():
    """Neither by an import, nor by an attribute, nor by asking JAX what it has."""
    files = {str(path.relative_to(ROOT)): path for path in ROOT.rglob("*.py")}
    touching = {name for name, path in files.items() if NOT_PUBLIC.search(code_of(path))}
    assert "jax_versions.py" in touching
    assert touching - NOT_MOVED_YET == {"jax_versions.py"}


def test_a_traced_value_is_a_tracer():
    """An array is not one."""
    seen = []
    jax.jit(lambda x: seen.append(isinstance(x, jax_versions.Tracer)))(1.0)
    assert seen == [True]
    assert not isinstance(jax.numpy.zeros(()), jax_versions.Tracer)


@since_axis_types
@pytest.mark.parametrize(
    "name", ["get_abstract_mesh", "get_concrete_mesh", "reshard", "typeof", "thread_resources"]
)
def test_what_this_jax_should_have_is_there(name):
    """A name that is None here has moved: then look for what replaced it."""
    assert getattr(jax_versions, name) is not None


def test_without_a_mesh_there_is_none_in_context():
    """The mesh without axes that JAX has then counts as none."""
    assert jax_versions.context_mesh() is None


def test_the_mesh_of_a_with_block_is_in_context():
    """And only there."""
    mesh = Mesh(np.array(jax.devices()[:1]), ("data",))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with mesh:
            assert jax_versions.context_mesh().axis_names == ("data",)
    assert jax_versions.context_mesh() is None


@since_axis_types
def test_the_mesh_that_is_set_is_in_context_with_its_devices():
    """In context it is abstract; the devices are asked for."""
    mesh = mesh_of("Auto")
    with jax.set_mesh(mesh):
        found = jax_versions.context_mesh()
        assert isinstance(found, AbstractMesh)
        assert jax_versions.concrete_mesh(found) == mesh


@since_axis_types
def test_devices_are_not_named_inside_a_transformation():
    """`None` says so."""
    seen = []
    with jax.set_mesh(mesh_of("Auto")):
        mesh = jax_versions.context_mesh()
        jax.jit(lambda x: seen.append(jax_versions.concrete_mesh(mesh)))(1.0)
    assert seen == [None]


@since_axis_types
def test_axes_are_told_by_type():
    """In the order of the mesh."""
    mesh = mesh_of("Explicit", "Auto")
    assert jax_versions.axes_of_type(mesh, "Explicit") == ["data"]
    assert jax_versions.axes_of_type(mesh, "Auto") == ["model"]
    assert jax_versions.axes_of_type(mesh, "Manual") == []
    assert jax_versions.axes_of_type(None, "Auto") == []


@since_axis_types
def test_an_array_has_a_type_with_a_sharding():
    """`reshard` changes it on Explicit axes."""
    mesh = mesh_of("Explicit")
    with jax.set_mesh(mesh):
        array = jax_versions.reshard(jax.numpy.zeros(2), jax.sharding.PartitionSpec("data"))
    assert tuple(jax_versions.typeof(array).sharding.spec) == ("data",)
