"""Names of the axes that lifted transformations add to variables and take off: JIT-12, OBJ-5p."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from jax.sharding import PartitionSpec

from scutch.inputs.graphs import classes
from scutch.lawkit.domain import assume, not_available
from scutch.lawkit.equality import alike, holds
from scutch.lawkit.marks import options, raised, reached, requirement
from scutch.lawkit.placement import entries
from scutch.lawkit.states import raw_values
from scutch.strategies.moded_calls import FLAGS

SIZE = 3
X = np.arange(1, 1 + SIZE, dtype="float32")


NAMES = ((None,), ("data",), ("data", None), (None, "data"), ("model", "data"))
LAYERS = "layers"


def _named(nnx, names, shape):
    """A module with a variable that has names for its axes, and one that has none."""
    module = classes(nnx)["Node"]()
    module.a = nnx.Param(jnp.zeros(shape), out_sharding=names, eager_sharding=False)
    module.b = nnx.BatchStat(jnp.zeros(shape))
    return module


def _specs(nnx, module):
    """The partition specs of both variables."""
    return [*raw_values(nnx, nnx.get_partition_spec(nnx.state(module))).values()]


@requirement(
    "objects/metadata/lifts-name-their-axis",
    must_reach=("vmap given", "vmap made", "scan given", "scan made", "by type"),
)
@options("nnx.Variable.out_sharding")
@given(
    how=st.sampled_from(["vmap", "scan"]),
    made=st.booleans(),
    by_type=st.booleans(),
    names=st.sampled_from(NAMES),
    axis=st.integers(0, 2),
)
@example(how="vmap", made=True, by_type=True, names=("data", None), axis=1)
@example(how="scan", made=True, by_type=True, names=("data", None), axis=1)
def test_lifted_maps_and_loops_name_the_axis_that_they_add(
    transforms, nnx, how, made, by_type, names, axis
):
    """Under lifted `vmap` or `scan` with a partition name, an annotated variable has that name at
    the new axis outside and not inside, whether it is made inside or given, and whether the axis is
    that of the object or of types of variables; a variable without names gets none.
    """
    reached(f"{how} {'made' if made else 'given'}")
    axis = min(axis, len(names))
    prefix = axis
    if by_type:
        reached("by type")
        prefix = transforms.StateAxes({nnx.Param: axis, ...: axis})
    shape = tuple(range(2, 2 + len(names)))
    longer = (*names[:axis], LAYERS, *names[axis:])
    inside = []

    def make(x):
        module = _named(nnx, names, shape)
        inside.append(_specs(nnx, module))
        return module

    def use(module, x):
        inside.append(_specs(nnx, module))
        module.a.set_value(module.a.get_value() + x)
        return x

    def call():
        lift = functools.partial(
            getattr(transforms, how),
            in_axes=(0,) if made else (prefix, 0),
            out_axes=prefix if made else 0,
            transform_metadata={nnx.PARTITION_NAME: LAYERS},
        )
        if made:
            return _specs(nnx, lift(make)(X))
        module = _named(nnx, longer, (*shape[:axis], SIZE, *shape[axis:]))
        lift(use)(module, X)
        return _specs(nnx, module)

    found = []
    jax.eval_shape(lambda: found.extend(call()))
    assert inside, "the function was not called"
    shorter = [PartitionSpec(*names), PartitionSpec()]
    assert all(alike(specs, shorter) for specs in inside), f"{inside}, expected {shorter}"
    assert alike(found, [PartitionSpec(*longer), PartitionSpec()])


@requirement("transformations/fits-rank/lifts-of-objects", must_reach=("vmap", "scan", "first"))
@options("nnx.Variable.out_sharding")
@given(
    how=st.sampled_from(["vmap", "scan"]),
    names=st.sampled_from(NAMES),
    axis=st.sampled_from([0, 1, 2, None]),
)
def test_a_lift_that_names_no_axis_leaves_the_names_at_their_axes(
    transforms, nnx, how, names, axis
):
    """A variable with names that is made under lifted `vmap` or `scan` without a partition name is
    unsharded along the axis that is added, and has its names at the axes that they were given for;
    or the call is refused. Names at the end that are `None` may be left out. Where no axis is
    added, there is no name more.
    """
    assume(how == "vmap" or axis is not None)
    axis = None if axis is None else min(axis, len(names))
    if axis == 0:
        reached("first")
    shape = tuple(range(2, 2 + len(names)))

    def make(x):
        return nnx.Param(jnp.zeros(shape), out_sharding=names, eager_sharding=False)

    def call():
        made = getattr(transforms, how)(make, in_axes=(0,), out_axes=axis)(X)
        found.append(_shape_and_names(made))

    found = []
    if raised(lambda: jax.eval_shape(call)) is None:
        ((outside, kept),) = found
        assert alike(outside, _longer(shape, axis, SIZE))
        assert alike(entries(kept), entries(_longer(names, axis, None)))


LANES = 2
PARTITIONS = ("layers", None)
lane_axes = st.sampled_from([0, 1, 2, None])
axis_names = st.lists(st.sampled_from(["data", None, "model"]), min_size=1, max_size=2, unique=True)


def _longer(parts, axis, entry):
    """Names or sizes with one more at an axis; as they are without an axis."""
    return (*parts,) if axis is None else (*parts[:axis], entry, *parts[axis:])


def _shape_and_names(variable):
    return variable.get_raw_value().shape, tuple(variable.get_metadata("out_sharding"))


@requirement(
    "transformations/fits-rank/lifts-of-objects[transform_metadata]",
    must_reach=("alone", "vmap", "jax.vmap", "named", "nameless", "shared", "nothing", "changed"),
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@given(
    how=st.sampled_from(["alone", "vmap", "jax.vmap"]),
    mode=st.sampled_from(FLAGS),
    partition=st.sampled_from(PARTITIONS),
    names=axis_names,
    axes=st.lists(lane_axes, min_size=1, max_size=3),
    out=st.sampled_from([0, 1, 2]),
    gap=st.booleans(),
    tree=st.booleans(),
    changing=st.booleans(),
)
def test_the_name_of_an_axis_is_taken_off_in_a_mode(
    transforms, nnx, how, mode, partition, names, axes, out, gap, tree, changing
):
    """Inside of `transform_metadata` a variable lacks the name at its axis, which it has again
    afterwards, as new ones of the output have; one without an axis keeps its names. It is so by
    itself, and under `vmap` of a mode and `jax.vmap` with the same axes, where sizes are as names.
    """
    if not hasattr(transforms, "transform_metadata"):
        not_available("there is no transform_metadata")
    assume(all(axis is None or axis <= len(names) for axis in (*axes, out)))
    said = {
        how: True,
        "named" if partition else "nameless": True,
        "shared": holds(axes, None),
        "nothing": gap,
        "changed": changing,
    }
    reached(*[name for name, is_so in said.items() if is_so])
    sizes, seen = tuple(range(3, 3 + len(names))), []

    def variable(axis, lanes):
        value = jnp.zeros(_longer(sizes, axis, lanes))
        given_names = _longer(names, axis, partition)
        return nnx.Param(value, out_sharding=given_names, eager_sharding=False)

    def work(held, nothing, x):
        seen.append([_shape_and_names(each) for each in held])
        for each, axis in zip(held, axes, strict=True):
            if changing and axis is not None:
                each.set_value(each.get_value() + 1)
        return nnx.Param(
            jnp.zeros(sizes) + x.sum(), out_sharding=tuple(names), eager_sharding=False
        )

    held = [variable(axis, LANES) for axis in axes]
    argument = {str(n): each for n, each in enumerate(held)} if tree else held
    prefix = {str(n): axis for n, axis in enumerate(axes)} if tree else axes
    in_axes = (prefix, None if gap else 0, 0)
    graph = {"graph": mode["graph"]} if "graph" in mode else {}
    function = transforms.transform_metadata(
        lambda held, nothing, x: work(held.values() if tree else held, nothing, x),
        in_axes=in_axes,
        out_axes=out,
        partition=partition,
        **graph,
    )
    arguments = (argument, None, jnp.zeros(LANES))
    match how:
        case "vmap":
            function = transforms.vmap(function, in_axes=in_axes, out_axes=out, **mode)
        case "jax.vmap":
            function = jax.vmap(function, in_axes, out)
    made = function(*arguments)
    (inside,) = seen
    is_mapped = how != "alone"
    expected = [
        (sizes if is_mapped else _longer(sizes, axis, LANES), tuple(names)) for axis in axes
    ]
    assert alike(inside, expected), f"inside: {inside}"
    outside = [(_longer(sizes, a, LANES), _longer(names, a, partition)) for a in axes]
    assert alike([_shape_and_names(each) for each in held], outside)
    added = [float(changing and axis is not None) for axis in axes]
    if how != "jax.vmap":  # which changes copies
        assert alike([each.get_raw_value().max().item() for each in held], added)
    new = (_longer(sizes, out if is_mapped else None, LANES), _longer(names, out, partition))
    assert alike(_shape_and_names(made), new), f"made: {made}"
