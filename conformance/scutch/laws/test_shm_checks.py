"""What lifted shard_map refuses, and what it composes with: SHM-4 and SHM-5."""

import inspect
import re

import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from scutch.inputs import graphs
from scutch.inputs.descriptions import Mesh
from scutch.lawkit.marks import refused, requirement
from scutch.strategies import meshes

X = np.linspace(-1, 1, 8 * 4, dtype="float32").reshape(8, 4)
lines = meshes(axes=(("data",),))
several = st.sampled_from([Mesh((n,), ("data",)) for n in (2, 4, 8)])


def _module(nnx, rows=4):
    module = graphs.classes(nnx)["Node"]()
    module.a = nnx.Param(np.linspace(-1, 1, rows * 4, dtype="float32").reshape(rows, 4))
    module.b = nnx.BatchStat(np.zeros((), "float32"))
    return module


def _forward(module, x):
    module.b.set_value(module.b.get_value() + 1)
    return jnp.tanh(x @ module.a.get_value())


def _takes(transforms, name):
    """Whether `shard_map` has a parameter of this name."""
    return name in inspect.signature(transforms.shard_map).parameters


BAD = {
    "axis": (P("nope"), X, 4, "nope"),
    "size": (P("data"), X[:3], 3, "3"),
}
places = st.sampled_from([0, 1])


def _bad_call(transforms, nnx, mesh, kind, place):
    """A call that is wrong in one argument."""
    spec, x, rows, _ = BAD[kind]
    specs = [P(), P()]
    specs[place] = spec
    module = _module(nnx, rows if place == 0 else 4)

    def call():
        mapped = transforms.shard_map(
            lambda module, x: None, mesh=mesh, in_specs=tuple(specs), out_specs=P()
        )
        return mapped(module, x if place == 1 else X)

    return call


@requirement("SHM-4a")
@given(mesh=lines, place=places)
def test_an_unknown_mesh_axis_is_refused(transforms, nnx, mesh, place):
    """The error has the axis."""
    refused(_bad_call(transforms, nnx, mesh, "axis", place), naming=("nope",))


@requirement("SHM-4b")
@given(mesh=several, place=places)
def test_an_indivisible_size_is_refused_by_shard_map(transforms, nnx, mesh, place):
    """The error has the size."""
    refused(_bad_call(transforms, nnx, mesh, "size", place), naming=(3,))


@requirement("SHM-4e")
@given(mesh=several, place=places, kind=st.sampled_from(list(BAD)))
def test_the_refusal_says_which_argument(transforms, nnx, mesh, place, kind):
    """By its number, or by the name of the parameter."""
    message = str(refused(_bad_call(transforms, nnx, mesh, kind, place)))
    name = ("module", "x")[place]
    assert re.search(rf"\[{place}\]|argument {place}\b|'{name}'|'a'", message)


@requirement("SHM-4c")
@given(mesh=several)
def test_an_output_that_differs_is_not_replicated(transforms, nnx, mesh):
    """With the check on."""
    mapped = transforms.shard_map(
        lambda module, x: x.sum(), mesh=mesh, in_specs=(P(), P("data")), out_specs=P()
    )
    refused(lambda: mapped(_module(nnx), X))


@requirement("SHM-4d")
@given(mesh=lines)
def test_shard_map_refuses_a_variable_that_no_filter_takes(transforms, nnx, mesh):
    """The error has its path."""
    sharding = transforms.StateSharding({nnx.Param: P()})
    mapped = transforms.shard_map(
        lambda module, x: x, mesh=mesh, in_specs=(sharding, P("data")), out_specs=P("data")
    )
    refused(lambda: mapped(_module(nnx), X), naming=("b",))


def _mapped(transforms, mesh):
    return transforms.shard_map(_forward, mesh=mesh, in_specs=(P(), P("data")), out_specs=P("data"))


@requirement("SHM-5a")
@given(mesh=lines, times=st.sampled_from([1, 2]))
def test_a_mapped_function_runs_inside_jit(transforms, nnx, mesh, times):
    """Results, updates and shardings are those of the mapped function."""
    module = _module(nnx)
    jitted = transforms.jit(_mapped(transforms, mesh))
    for _ in range(times):
        result = jitted(module, X)
    assert np.allclose(result, jnp.tanh(X @ module.a.get_value()), atol=1e-6)
    assert float(module.b.get_value()) == times
    sharding = NamedSharding(mesh, P("data"))
    assert result.sharding.is_equivalent_to(sharding, 2)


@requirement("SHM-5b")
@given(mesh=lines)
def test_the_gradient_of_a_mapped_function_is_the_unsharded_one(transforms, nnx, mesh):
    """With respect to the object."""
    mapped = _mapped(transforms, mesh)

    def loss(function):
        return lambda module, x: jnp.mean(function(module, x) ** 2)

    one, other = _module(nnx), _module(nnx)
    expected = transforms.grad(loss(_forward))(one, X)
    found = transforms.jit(transforms.grad(loss(mapped)))(other, X)
    assert np.allclose(found["a"][...], expected["a"][...], atol=1e-6)
    assert float(other.b.get_value()) == 1


@requirement("SHM-5c")
@given(mesh=several)
def test_without_the_check_replication_is_not_checked(transforms, nnx, mesh):
    """What the check refuses is accepted."""
    name = "check_vma" if _takes(transforms, "check_vma") else "check_rep"
    mapped = transforms.shard_map(
        lambda module, x: x.sum(), mesh=mesh, in_specs=(P(), P("data")), out_specs=P(),
        **{name: False},
    )  # fmt: skip
    sums = X.reshape(mesh.size, -1).sum(axis=1)
    assert any(np.isclose(mapped(_module(nnx), X), sums, atol=1e-5))


@requirement("SHM-5d")
@given(mesh=st.sampled_from([Mesh((2, 2), ("data", "model")), Mesh((4, 2), ("data", "model"))]))
def test_automatic_axes_are_left_to_the_compiler(transforms, nnx, mesh):
    """The function sees whole arrays over them."""
    today = {"axis_names": frozenset({"data"})}
    options = today if _takes(transforms, "axis_names") else {"auto": frozenset({"model"})}
    shapes = []

    def work(module, x):
        shapes.append(x.shape)
        return _forward(module, x)

    mapped = transforms.shard_map(
        work, mesh=mesh, in_specs=(P(), P("data")), out_specs=P("data"), **options
    )
    module = _module(nnx)
    result = transforms.jit(mapped)(module, X)
    assert np.allclose(result, jnp.tanh(X @ module.a.get_value()), atol=1e-6)
    assert set(shapes) == {(8 // mesh.shape["data"], 4)}


@requirement("SHM-5e")
@given(mesh=lines)
def test_a_mapped_function_is_traced_once(transforms, nnx, mesh):
    """Not on every call."""
    traces = []

    def work(module, x):
        traces.append(x)
        return _forward(module, x)

    mapped = transforms.shard_map(work, mesh=mesh, in_specs=(P(), P("data")), out_specs=P("data"))
    module = _module(nnx)
    mapped(module, X)
    first = len(traces)
    mapped(module, X)
    mapped(module, X)
    assert len(traces) - first <= 1
