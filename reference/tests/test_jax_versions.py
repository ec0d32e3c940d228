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
    """Neither by an import or attribute, nor by `getattr(jax, ...)` or the version of JAX."""
    files = {str(path.relative_to(ROOT)): path for path in ROOT.rglob("*.py")}
    touching = {name for name, path in files.items() if NOT_PUBLIC.search(code_of(path))}
    assert "jax_versions.py" in touching
    assert touching == {"jax_versions.py"}


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
    """A name that is None here has moved in JAX: look for its successor."""
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


# ---------------------------------------------------------------- names for `nnx`


def test_a_trace_level_is_equal_to_itself_alone():
    """Outside of transformations, inside one, and inside another."""
    levels = [jax_versions.trace_level(), jax_versions.trace_level()]
    jax.jit(lambda x: levels.append(jax_versions.trace_level()))(1.0)
    jax.jit(lambda x: levels.append(jax_versions.trace_level()))(2.0)
    assert levels[0] == levels[1]
    assert levels[0] != levels[2] != levels[3]


def test_the_stored_sharding_of_an_array_is_its_sharding():
    """So far; if JAX moves it, every call would look at each array anew."""
    array = jax.numpy.zeros(2)
    assert jax_versions.stored_sharding(array) is array.sharding
    with pytest.raises(AttributeError):
        jax_versions.stored_sharding(np.zeros(2))


@since_axis_types
def test_values_inside_shard_map_say_along_which_axes_they_differ():
    """A part does, a sum does not; and the options of `shard_map` have the names that JAX has."""
    seen, mesh = [], Mesh(np.array(jax.devices()[:1]), ("data",))

    def sums(x):
        total = jax.lax.psum(x, "data")
        seen.extend(set(jax_versions.varying_axes(each)) for each in (x, total))
        return total

    spec = jax.sharding.PartitionSpec
    for auto in (frozenset(), frozenset({"other"})):
        mapped = jax_versions.shard_mapped(
            sums, mesh, (spec("data"),), spec(), check=True, auto=auto
        )
        assert float(jax.jit(mapped)(jax.numpy.ones(1))[0]) == 1.0
    assert seen[:2] == [{"data"}, set()]


def test_the_layouts_of_a_compiled_function_are_found_under_both_names():
    """The names of today and the names of JAX 0.4; other names stay."""
    compiled = jax.jit(lambda x: x).lower(1.0).compile()
    for name in ("input_formats", "output_formats", "input_layouts", "output_layouts"):
        assert hasattr(compiled, jax_versions.format_attribute(compiled, name))
    assert jax_versions.format_attribute(compiled, "as_text") == "as_text"


def test_all_distributions_of_jax_are_there():
    """`multinomial` is the youngest."""
    assert jax_versions.multinomial is not None or VERSION < (0, 6)
