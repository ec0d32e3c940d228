"""Partition specs and export meshes: EXP-6.

Meshes have all the devices, because DTensor lays its own mesh on all of TensorFlow's.
"""

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from scutch.inputs import exported
from scutch.inputs.backends import JAX, TENSORFLOW, on_any, on_only
from scutch.inputs.descriptions import Mesh
from scutch.lawkit.equality import alike, holds
from scutch.lawkit.marks import costly, dear, few, reached, refused, requirement
from scutch.lawkit.placement import entries
from scutch.strategies.exported import backends, programs

KEY = "jax_module_default_method"
meshes = st.sampled_from(
    [
        Mesh((4, 2), ("x", "y")),
        Mesh((2, 4), ("x", "y")),
        Mesh((8,), ("x",)),
        Mesh((8, 1), ("x", "y")),
    ]
)
SHAPES = ((8, 16), (8,), (16, 8, 8), ())


@st.composite
def sharded_parameters(draw):
    """For each of some parameters a shape, and for each axis whether it is cut, and how."""
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3))
    return [(shape, draw(st.permutations(["x", "y", None]))[: len(shape)]) for shape in shapes]


def _spec(names, mesh):
    """A spec of those of the names that are axes of the mesh."""
    return PartitionSpec(*(name if holds(mesh.axis_names, name) else None for name in names))


def _parameters(described, mesh):
    """Parameters on the mesh, and their specs."""
    specs = [_spec(names, mesh) for _, names in described]
    made = []
    for (shape, _), spec in zip(described, specs, strict=True):
        value = np.arange(np.prod(shape, dtype=int), dtype="float32").reshape(shape) / 100
        made.append(jax.device_put(value, NamedSharding(mesh, spec)))
    return {"layers": made}, {"layers": specs}


def _module(backend, params, steps=("add",), **options):
    (function,) = exported.functions({KEY: steps}, params).values()
    return backend.module(params, function, jit_compile=False, **options), function


def _layouts(module):
    """The spec of each variable, with no trailing unsharded axes."""
    if alike(module.backend.name, TENSORFLOW):
        found = [variable.layout.sharding_specs for variable in module.variables]
        found = [[None if alike(e, "unsharded") else e for e in spec] for spec in found]
        return [entries(PartitionSpec(*spec)) for spec in found]
    return [entries(variable.value.sharding.spec) for variable in module.variables]


def _useful(spec, mesh):
    """The entries of a spec that cut something: axes of one device need not be named."""
    return entries(PartitionSpec(*(n if n and mesh.shape[n] > 1 else None for n in spec)))


@requirement("export/meshes/specs-place-the-variables", must_reach=("cut",))
@costly
@given(
    backend=backends(),
    mesh=meshes,
    described=sharded_parameters(),
    again=st.booleans(),
    whole=st.booleans(),
)
def test_variables_are_laid_out_as_their_specs_say(export, backend, mesh, described, again, whole):
    """The variables of a module are sharded as `pspecs` says, after an update as well, and hold the
    values of the parameters; without TensorFlow also where each device has the whole parameter.
    """
    backend = on_any(export, backend)
    params, specs = _parameters(described, mesh)
    if whole and alike(backend.name, JAX):
        params = jax.device_put(params, NamedSharding(mesh, PartitionSpec()))
    with backend.on(mesh):
        module, _ = _module(backend, params, pspecs=specs)
        if again:
            params = jax.tree.map(lambda leaf: leaf + 1, params)
            module.owner.update_variables(params)
    expected = [_useful(spec, mesh) for spec in specs["layers"]]
    if any(expected):
        reached("cut")
    found = [_useful(spec, mesh) for spec in _layouts(module)]
    assert found == expected
    assert exported.is_close(module.values, [np.asarray(leaf) for leaf in params["layers"]])


@requirement("export/meshes/specs-need-export-mesh")
@costly
@given(backend=backends(), mesh=meshes, described=sharded_parameters())
def test_specs_without_an_export_mesh_are_refused(export, backend, mesh, described):
    """`pspecs` outside an export mesh, or after it was left, is an error that tells how to enter
    one.
    """
    backend = on_any(export, backend)
    params, specs = _parameters(described, mesh)
    with backend.on(mesh):
        pass
    how = ("pspecs", "maybe_enable_dtensor_export_on")
    refused(lambda: _module(backend, params, pspecs=specs), naming=how)


@requirement("export/meshes/export-mesh-needs-specs")
@costly
@given(backend=backends(), mesh=meshes, described=sharded_parameters())
def test_an_export_mesh_without_specs_is_refused(export, backend, mesh, described):
    """A module that is made on an export mesh without `pspecs` is refused with an error that names
    the argument.
    """
    backend = on_any(export, backend)
    params, _ = _parameters(described, mesh)
    with backend.on(mesh):
        refused(lambda: _module(backend, params), naming=("pspecs",))


@requirement("export/meshes/several-axes-must-be-allowed")
@few("every way to lay one axis over two mesh axes; each is saved by TensorFlow")
@dear
@given(
    mesh=st.sampled_from([Mesh((4, 2), ("x", "y")), Mesh((2, 4), ("x", "y"))]),
    order=st.permutations(["x", "y"]),
    axis=st.integers(0, 1),
)
def test_one_axis_over_several_mesh_axes_must_be_allowed(export, mesh, order, axis):
    """A spec with several mesh axes for one axis is refused unless that is allowed; then the axis
    keeps the larger one, and variables have every value, after an update as well.
    """
    backend = on_only(export, TENSORFLOW)
    spec = PartitionSpec(*[None] * axis, tuple(order))
    value = np.arange(256, dtype="float32").reshape(16, 16)
    params = {"w": jax.device_put(value, NamedSharding(mesh, spec))}
    allowed = {"pspecs": {"w": spec}, "allow_multi_axis_sharding_conslidation": True}
    with backend.on(mesh):
        refused(lambda: _module(backend, params, pspecs={"w": spec}))
        module, _ = _module(backend, params, **allowed)
        larger = max(order, key=lambda name: mesh.shape[name])
        for expected in (value, value + 1):
            assert _layouts(module) == [entries(PartitionSpec(*[None] * axis, larger))]
            assert np.array_equal(module.values[0], expected)
            module.owner.update_variables({"w": params["w"] + 1})


@requirement("export/meshes/parameters-must-be-jax-arrays")
@costly
@given(backend=backends(), mesh=meshes, described=sharded_parameters(), at=st.integers(0, 2))
def test_parameters_on_an_export_mesh_must_be_arrays_of_jax(export, backend, mesh, described, at):
    """On an export mesh a module, or an update of one, is refused if any one of the parameters is
    no array of JAX.
    """
    backend = on_any(export, backend)
    params, specs = _parameters(described, mesh)
    at %= len(described)
    bad = {"layers": list(params["layers"])}
    bad["layers"][at] = np.asarray(params["layers"][at])
    with backend.on(mesh):
        refused(lambda: _module(backend, bad, pspecs=specs))
        module, _ = _module(backend, params, pspecs=specs)
        refused(lambda: module.owner.update_variables(bad))


@requirement("export/meshes/sharded-variables-compute-same", must_reach=("cut",))
@dear
@given(
    backend=backends(),
    mesh=meshes,
    described=sharded_parameters(),
    steps=programs(),
    rows=st.integers(1, 4),
)
def test_sharded_variables_compute_the_same_when_loaded(
    export, backend, mesh, described, steps, rows
):
    """A saved module with sharded variables gives, when it is loaded, the outputs of the functions
    for every size of the batch; without TensorFlow its variables are sharded as before.
    """
    backend = on_any(export, backend)
    params, specs = _parameters(described, mesh)
    if any(_useful(spec, mesh) for spec in specs["layers"]):
        reached("cut")
    shape = {"input_polymorphic_shape": "b, 2"}
    with backend.on(mesh):
        module, function = _module(backend, params, steps, pspecs=specs, **shape)
        x = exported.batch(rows, 2)
        whole = jax.tree.map(np.asarray, params)
        expected = exported.plain(function(whole, x))
        with module.loaded(exported.batch(3, 2)) as loaded:
            assert exported.is_close(loaded.call(KEY, x), expected)
            if alike(backend.name, JAX):
                assert _layouts(loaded) == _layouts(module)
