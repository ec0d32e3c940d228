"""Names of axes across the bridge, in both directions and under lifts: BRG-8.

The oracle is the layer of the other kind that was annotated natively with the same names. A *note*
is a kind of annotation, `partitioned` or `logical`, with its names; logical names are mapped by
`RULES`.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import PartitionSpec

from scutch.inputs.descriptions import Mesh
from scutch.inputs.paired_layers import INPUTS, X, flat, in_linen, in_nnx, start
from scutch.lawkit.equality import alike, assert_close
from scutch.lawkit.marks import few, options, reached, requirement
from scutch.lawkit.placement import entries, in_context
from scutch.lawkit.states import raw_values
from scutch.lawkit.tolerances import CALLS

LAYERS = "layers"
RULES = (("embed", "data"), ("mlp", "model"))
MESH_NAMES = ((None, "model"), ("data", None), ("model", "data"), (("data", "model"), None))
LOGICAL_NAMES = ((None, "mlp"), ("embed", None), ("mlp", "embed"))
KEY_SEED = 0
COUNT = 2
XS = np.stack([X] * COUNT)

meshes = st.just(Mesh((1, 1, 1), ("data", "model", LAYERS)))
notes = st.one_of(
    st.tuples(st.just("partitioned"), st.sampled_from(MESH_NAMES)),
    st.tuples(st.just("logical"), st.sampled_from(LOGICAL_NAMES)),
)
names = st.sampled_from(MESH_NAMES)
lifts = st.sampled_from(["vmap", "scan"])
axes = st.sampled_from([0, 1])  # Vectors have no more places for another axis.


def _boxing(meta, logical, kind, names, mesh=None):
    """An initializer of a Linen parameter whose results are boxes with names."""
    if kind == "logical":
        return logical.with_logical_partitioning(start, names, mesh=mesh, rules=RULES)
    return meta.with_partitioning(start, names, mesh=mesh)


def _annotating(nnx, kind, names, mesh=None):
    """An initializer of an NNX variable with the same names."""
    rules = {"sharding_rules": RULES} if kind == "logical" else {}
    return nnx.with_partitioning(start, names, mesh, **rules)


def _key():
    """The key by which every module is initialized."""
    return jax.random.key(KEY_SEED)


def _specs(nnx, root):
    """The entries of each parameter's spec, by path."""
    specs = raw_values(nnx, nnx.get_partition_spec(nnx.state(root, nnx.Param)))
    return {path: entries(spec) for path, spec in specs.items()}


def _shardings(nnx, root, mesh):
    """The sharding of each parameter on a mesh, by path."""
    return raw_values(nnx, nnx.get_named_sharding(nnx.state(root, nnx.Param), mesh))


def _box_specs(meta, params):
    """The entries of the spec of each parameter in a Linen collection, by path."""
    specs = flat(meta.get_partition_spec({"params": params}))
    return {path: entries(spec) for _, path, spec in specs}


@requirement("bridge/sharding/names-cross-to-nnx", must_reach=("partitioned", "logical", "own"))
@options("nnx.Variable.out_sharding")
@few("each input is a wrapped module that is compiled; BRG-8d and LIN-2 draw names and axes")
@given(note=notes, mesh=meshes, own=st.booleans())
def test_boxed_parameters_of_a_wrapped_linen_module_are_annotated(
    linen, nnx, bridge, meta, logical, note, mesh, own
):
    """A boxed parameter of a Linen module wrapped by `ToNNX` is a variable with the box's names,
    mesh and rules, and has the spec and sharding of a variable annotated with them; other
    parameters have no names.
    """
    kind, given_names = note
    reached(kind)
    mine = mesh if own else None
    with in_context(mesh):
        module = in_linen(linen)(kernel_init=_boxing(meta, logical, kind, given_names, mine))
        wrapper = bridge.ToNNX(module).lazy_init(X, rngs=_key())
        native = in_nnx(nnx)(INPUTS, _annotating(nnx, kind, given_names, mine), rngs=nnx.Rngs(0))
        notes = wrapper.kernel.get_metadata()
        assert alike(tuple(notes.get("out_sharding", ())), given_names)
        assert alike(notes.get("mesh"), mine)
        assert alike(notes.get("sharding_rules"), RULES if kind == "logical" else None)
        assert alike(_specs(nnx, wrapper), _specs(nnx, native))
        unnamed = wrapper.inner["shift"].get_metadata().get("out_sharding")
        assert unnamed is None or alike(tuple(unnamed), ())
        assert alike(_shardings(nnx, wrapper, mesh), _shardings(nnx, native, mesh))


@requirement("bridge/sharding/names-cross-to-linen", must_reach=("partitioned", "logical"))
@few("each input is a wrapped module that is compiled; BRG-8d and LIN-2 draw names and axes")
@given(note=notes, mesh=meshes)
def test_annotated_variables_of_a_wrapped_nnx_module_are_boxed(
    linen, nnx, bridge, meta, logical, note, mesh
):
    """An annotated variable of an NNX module wrapped by `ToLinen` is a box with the spec and
    sharding of a natively annotated parameter; other parameters are bare. It is applied to these.
    """
    kind, given_names = note
    reached(kind)
    with in_context(mesh):
        wrapped = bridge.ToLinen(in_nnx(nnx), args=(INPUTS, _annotating(nnx, kind, given_names)))
        variables = wrapped.init(_key(), X)
        params = variables.get("params", {})
        module = in_linen(linen)(kernel_init=_boxing(meta, logical, kind, given_names))
        natives = module.init(_key(), X)
        assert_close(wrapped.apply(variables, X), module.apply(natives, X), **CALLS)
        expected = _box_specs(meta, natives["params"])
        if kind == "logical":
            mapped = logical.logical_to_mesh_axes(given_names, RULES)
            expected[("kernel",)] = entries(mapped)
        assert alike(_box_specs(meta, params), expected)
        assert meta.is_axis_metadata(params["kernel"])
        assert not meta.is_axis_metadata(params["inner"]["shift"])
        shardings = meta.get_sharding(params, mesh)
        assert alike(entries(shardings["kernel"].spec), expected[("kernel",)])
        assert alike(shardings["kernel"].mesh, mesh)


@functools.lru_cache(maxsize=64)
def _watched(nnx):
    """The NNX layer, which hands its specs to a function whenever it is called."""

    class Watched(in_nnx(nnx)):
        """The layer, with the function as static data."""

        def __init__(self, inputs, kernel_init, seen, *, rngs):
            super().__init__(inputs, kernel_init, rngs=rngs)
            self.seen = nnx.static(seen)

        def __call__(self, x):
            """Hand over the specs, and compute."""
            self.seen(_specs(nnx, self))
            return super().__call__(x)

    return Watched


@functools.lru_cache(maxsize=64)
def _stack(linen, meta, how, axis):
    """A Linen module class that lifts the module which its field `make` makes, and names the axis
    that the lift adds.

    Args:
      linen: The namespace of Linen modules.
      meta: The namespace of boxes.
      how: `vmap` or `scan`.
      axis: The axis along which parameters are stacked.
    """

    class Stack(linen.Module):
        """The lifted module."""

        make: Any

        @linen.compact
        def __call__(self, xs):
            """Map over the first axis of the batch, or scan along it."""
            options = {
                "variable_axes": {"params": axis, "batch_stats": 0},
                "split_rngs": {"params": True},
                "metadata_params": {meta.PARTITION_NAME: LAYERS},
            }
            layer = self.make(name="layer")
            if how == "vmap":
                return linen.vmap(lambda layer, x: layer(x), in_axes=0, out_axes=0, **options)(
                    layer, xs
                )
            step = linen.scan(lambda layer, carry, x: (carry, layer(x)), length=COUNT, **options)
            return step(layer, 0, xs)[1]

    return Stack


@requirement("bridge/sharding/linen-lifts-name-axes", must_reach=("vmap", "scan"))
@few("each input is a wrapped module that is compiled; BRG-8d and LIN-2 draw names and axes")
@given(how=lifts, axis=axes, names=names, mesh=meshes)
def test_names_of_a_wrapped_nnx_module_pass_through_linen_lifts(
    linen, nnx, bridge, meta, how, axis, names, mesh
):
    """A wrapped NNX module under Linen's `vmap` or `scan` has the partition name at the new axis
    outside, and not inside, when it is initialized and when it is applied.
    """
    inside = []
    with in_context(mesh):
        args = (INPUTS, _annotating(nnx, "partitioned", names), inside.append)
        make = functools.partial(bridge.ToLinen, _watched(nnx), args=args)
        module = _stack(linen, meta, how, axis)(make)
        variables = module.init(_key(), XS)
        module.apply(variables, XS)
        found = {path: spec for _, path, spec in flat(meta.get_partition_spec(variables))}
    assert alike(
        found.get(("layer", "kernel")), PartitionSpec(*names[:axis], LAYERS, *names[axis:])
    )
    assert len(inside) >= 2
    assert not [specs for specs in inside if specs.get(("kernel",)) != entries(names)]


@requirement(
    "bridge/sharding/nnx-lifts-name-axes", must_reach=("vmap", "scan", "partitioned", "logical")
)
@options("nnx.Variable.out_sharding")
@given(how=lifts, axis=st.integers(0, 1), note=notes, mesh=meshes)
def test_names_of_a_wrapped_linen_module_pass_through_nnx_lifts(
    linen, nnx, transforms, bridge, meta, logical, how, axis, note, mesh
):
    """A wrapped Linen module under lifted `vmap` or `scan` has the partition name at the new axis
    outside, and not inside, when it is made and when it is used.
    """
    kind, given_names = note
    reached(kind)
    module = in_linen(linen)(kernel_init=_boxing(meta, logical, kind, given_names))
    lift = functools.partial(
        getattr(transforms, how), transform_metadata={nnx.PARTITION_NAME: LAYERS}
    )
    inside, outside = [], []

    def seen(wrapper):
        return tuple(wrapper.kernel.get_metadata("out_sharding"))

    def make(x):
        wrapper = bridge.ToNNX(module).lazy_init(X, rngs=_key())
        inside.append(seen(wrapper))
        return wrapper

    def use(wrapper, x):
        inside.append(seen(wrapper))
        return wrapper(X)

    def run():
        wrapper = lift(make, in_axes=(0,), out_axes=axis)(jnp.zeros(COUNT))
        outside.append(seen(wrapper))
        lift(use, in_axes=(axis, 0), out_axes=0)(wrapper, jnp.zeros(COUNT))
        outside.append(seen(wrapper))

    with in_context(mesh):
        jax.eval_shape(run)
    longer = (*given_names[:axis], LAYERS, *given_names[axis:])
    assert all(alike(names, longer) for names in outside), outside
    assert inside
    assert all(alike(names, given_names) for names in inside), inside


@requirement("bridge/sharding/initializer-serves-both", must_reach=("own",))
@options("nnx.Variable.out_sharding")
@few("each input is a wrapped module that is compiled; BRG-8d and LIN-2 draw names and axes")
@given(names=names, mesh=meshes, own=st.booleans())
def test_the_initializer_of_the_bridge_serves_both_kinds(
    linen, nnx, bridge, meta, names, mesh, own
):
    """An initializer of the bridge's `with_partitioning` gives the parameter of a module of either
    kind its names and mesh, and they cross with it through a wrapper.
    """
    mine = mesh if own else None
    with in_context(mesh):
        initializer = bridge.with_partitioning(start, names, mine)
        module, kind = in_linen(linen)(kernel_init=initializer), in_nnx(nnx)
        layer = kind(INPUTS, initializer, rngs=nnx.Rngs(0))
        wrapper = bridge.ToNNX(module).lazy_init(X, rngs=_key())
        modules = (module, bridge.ToLinen(kind, args=(INPUTS, initializer)))
        made = [flat(each.init(_key(), X)) for each in modules]
        boxes = [
            value for variables in made for _, path, value in variables if alike(path, ("kernel",))
        ]
    assert len(boxes) == 2, f"the variables {made} have not one kernel each"
    for variable in (layer.kernel, wrapper.kernel):
        assert alike(tuple(variable.get_metadata("out_sharding")), names)
        assert alike(variable.get_metadata("mesh", None), mine)
        assert alike(variable.shape, (INPUTS, 2))
    for box in boxes:
        assert alike((tuple(box.names), box.mesh), (names, mine))
        assert alike(box.unbox(apply_constraint=False).shape, (INPUTS, 2))
