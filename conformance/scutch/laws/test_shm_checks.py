"""What lifted `shard_map` refuses, and what it composes with: SHM-4 and SHM-5.

The oracle is the function itself, called on whole arrays on one device. A *mapped* function is what
`shard_map` makes of a function.
"""

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
from scutch.lawkit.equality import assert_close
from scutch.lawkit.marks import few, refused, requirement
from scutch.lawkit.tolerances import CALLS, near
from scutch.strategies import meshes

X = np.linspace(-1, 1, 8 * 4, dtype="float32").reshape(8, 4)
lines = meshes(axes=(("data",),))
several = st.sampled_from([Mesh((n,), ("data",)) for n in (2, 4, 8)])


def _module(nnx, rows=4):
    """A module with a matrix of some rows, and a counter."""
    module = graphs.classes(nnx)["Node"]()
    module.a = nnx.Param(np.linspace(-1, 1, rows * 4, dtype="float32").reshape(rows, 4))
    module.b = nnx.BatchStat(np.zeros((), "float32"))
    return module


def _forward(module, x):
    """A function of a batch that treats its rows independently, and counts its calls."""
    module.b.set_value(module.b.get_value() + 1)
    return jnp.tanh(x @ module.a.get_value())


def _takes(transforms, name):
    """Whether the `shard_map` under judgment has a parameter of this name."""
    return name in inspect.signature(transforms.shard_map).parameters


BAD = {
    "axis": (P("nope"), X, 4, "nope"),
    "size": (P("data"), X[:3], 3, "3"),
}
places = st.sampled_from([0, 1])


def _bad_call(transforms, nnx, mesh, kind, place):
    """A call that is wrong in one argument, ready to be made.

    Args:
      transforms: The namespace with the `shard_map` under judgment.
      nnx: The namespace of objects.
      mesh: The mesh.
      kind: A key of `BAD`: an unknown mesh axis, or a size that the mesh does not divide.
      place: The number of the wrong argument: 0 is the object, 1 the batch.
    """
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
@few("every mesh of one axis, under the documents' own model; SHM-7 draws programs")
@given(mesh=lines, place=places)
def test_an_unknown_mesh_axis_is_refused(transforms, nnx, mesh, place):
    """A spec that names an axis which the mesh does not have is refused with an error that shows
    the axis.
    """
    refused(_bad_call(transforms, nnx, mesh, "axis", place), naming=("nope",))


@requirement("SHM-4b")
@few("every mesh of one axis, under the documents' own model; SHM-7 draws programs")
@given(mesh=several, place=places)
def test_an_indivisible_size_is_refused_by_shard_map(transforms, nnx, mesh, place):
    """A size that its mesh axis does not divide is refused with an error that shows the size."""
    refused(_bad_call(transforms, nnx, mesh, "size", place), naming=(3,))


@requirement("SHM-4e")
@few("every mesh of one axis, under the documents' own model; SHM-7 draws programs")
@given(mesh=several, place=places, kind=st.sampled_from(list(BAD)))
def test_the_refusal_says_which_argument(transforms, nnx, mesh, place, kind):
    """Both errors show which argument is wrong: its number, the name of its parameter, or a path in
    it.
    """
    message = str(refused(_bad_call(transforms, nnx, mesh, kind, place)))
    name = ("module", "x")[place]
    expected = rf"\[{place}\]|argument {place}\b|'{name}'|'a'"
    assert re.search(expected, message), f"{message!r} does not show argument {place}, {name!r}"


@requirement("SHM-4c")
@few("every mesh of one axis, under the documents' own model; SHM-7 draws programs")
@given(mesh=several)
def test_an_output_that_differs_is_not_replicated(transforms, nnx, mesh):
    """With the check on, an output that differs between devices and whose spec promises that it
    does not is refused.
    """
    mapped = transforms.shard_map(
        lambda module, x: x.sum(), mesh=mesh, in_specs=(P(), P("data")), out_specs=P()
    )
    refused(lambda: mapped(_module(nnx), X))


@requirement("SHM-4d")
@few("every mesh of one axis, under the documents' own model; SHM-7 draws programs")
@given(mesh=lines)
def test_shard_map_refuses_a_variable_that_no_filter_takes(transforms, nnx, mesh):
    """A variable that no filter of a `StateSharding` takes is refused with an error that shows its
    path.
    """
    sharding = transforms.StateSharding({nnx.Param: P()})
    mapped = transforms.shard_map(
        lambda module, x: x, mesh=mesh, in_specs=(sharding, P("data")), out_specs=P("data")
    )
    refused(lambda: mapped(_module(nnx), X), naming=("b",))


def _mapped(transforms, mesh):
    """The mapped `_forward`, with the object replicated and the batch sharded."""
    return transforms.shard_map(_forward, mesh=mesh, in_specs=(P(), P("data")), out_specs=P("data"))


@requirement("SHM-5a")
@few("every mesh of one axis, under the documents' own model; SHM-7 draws programs")
@given(mesh=lines, times=st.sampled_from([1, 2]))
def test_a_mapped_function_runs_inside_jit(transforms, nnx, mesh, times):
    """A mapped function inside lifted `jit` has the results, updates and shardings of the mapped
    function.
    """
    module = _module(nnx)
    jitted = transforms.jit(_mapped(transforms, mesh))
    for _ in range(times):
        result = jitted(module, X)
    assert near(result, jnp.tanh(X @ module.a.get_value()), **CALLS)
    assert float(module.b.get_value()) == times
    sharding = NamedSharding(mesh, P("data"))
    assert result.sharding.is_equivalent_to(sharding, 2)


@requirement("SHM-5b")
@few("every mesh of one axis, under the documents' own model; SHM-7 draws programs")
@given(mesh=lines)
def test_the_gradient_of_a_mapped_function_is_the_unsharded_one(transforms, nnx, mesh):
    """The gradient with respect to an object, through a mapped function, is that through the
    function itself.
    """
    mapped = _mapped(transforms, mesh)

    def loss(function):
        return lambda module, x: jnp.mean(function(module, x) ** 2)

    one, other = _module(nnx), _module(nnx)
    expected = transforms.grad(loss(_forward))(one, X)
    found = transforms.jit(transforms.grad(loss(mapped)))(other, X)
    assert_close(nnx.to_pure_dict(found), nnx.to_pure_dict(expected), **CALLS)
    assert float(other.b.get_value()) == 1


@requirement("SHM-5c")
@few("every mesh of one axis, under the documents' own model; SHM-7 draws programs")
@given(mesh=several)
def test_without_the_check_replication_is_not_checked(transforms, nnx, mesh):
    """With the check off, an output that differs between devices is accepted, and is that of one of
    them.
    """
    name = "check_vma" if _takes(transforms, "check_vma") else "check_rep"
    mapped = transforms.shard_map(
        lambda module, x: x.sum(), mesh=mesh, in_specs=(P(), P("data")), out_specs=P(),
        **{name: False},
    )  # fmt: skip
    sums, found = X.reshape(mesh.size, -1).sum(axis=1), mapped(_module(nnx), X)
    assert any(near(found, each, **CALLS) for each in sums), f"{found} is none of the sums {sums}"


@requirement("SHM-5d")
@few("every mesh of two axes of which one is automatic, in two sizes; SHM-7 draws programs")
@given(mesh=st.sampled_from([Mesh((2, 2), ("data", "model")), Mesh((4, 2), ("data", "model"))]))
def test_automatic_axes_are_left_to_the_compiler(transforms, nnx, mesh):
    """Over mesh axes that are left automatic the function sees whole arrays, over the others its
    shard, and the result is that of the function itself.
    """
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
    assert near(result, jnp.tanh(X @ module.a.get_value()), **CALLS)
    assert set(shapes) == {(8 // mesh.shape["data"], 4)}
