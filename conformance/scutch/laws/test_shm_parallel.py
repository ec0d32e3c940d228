"""Data and tensor parallelism by lifted `shard_map`, and what it leaves outside: SHM-1 to SHM-3.

The oracle is the function itself, called on whole arrays on one device. A *mapped* function is what
`shard_map` makes of a function; inside of it each device has its *shard* of an array.
"""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from scutch.inputs import graphs
from scutch.inputs.descriptions import Mesh
from scutch.lawkit.equality import assert_close
from scutch.lawkit.interruptions import Interruption
from scutch.lawkit.marks import few, raised, reached, requirement
from scutch.lawkit.placement import has_sharding
from scutch.lawkit.tolerances import CALLS, MODELS, near
from scutch.strategies import meshes

WIDTH = 16
X = np.linspace(-1, 2, 8 * 2, dtype="float32").reshape(8, 2)
"""A batch that every mesh divides."""

lines = meshes(axes=(("data",),))
grids = meshes(axes=(("data",), ("data", "model")))


def _block(nnx):
    """A block of two kernels, one in each of two modules, and a statistic."""
    kinds = graphs.classes(nnx)
    block = kinds["Node"]()
    block.a, block.b = kinds["Branch"](), kinds["Branch"]()
    block.a.a = nnx.Param(np.linspace(-1, 1, 2 * WIDTH, dtype="float32").reshape(2, WIDTH))
    block.b.a = nnx.Param(np.linspace(-2, 1, 3 * WIDTH, dtype="float32").reshape(WIDTH, 3))
    block.c = nnx.BatchStat(np.zeros((), "float32"))
    return block


def _forward(block, x):
    """The block's output for a batch, which treats its rows independently."""
    return jax.nn.relu(x @ block.a.a.get_value()) @ block.b.a.get_value()


def _batch_specs(mesh):
    """Two specs for a batch: split over the first axis of the mesh, and over all axes."""
    return [P(mesh.axis_names[0]), P(tuple(mesh.axis_names))]


@requirement("SHM-1a", must_reach=("one axis", "all axes"))
@given(mesh=grids, over=st.sampled_from(["one axis", "all axes"]))
def test_a_data_parallel_call_equals_the_unsharded_one(transforms, nnx, mesh, over):
    """With the object replicated and the batch sharded over one or all mesh axes, the mapped
    function returns what the function returns for the whole batch.
    """
    reached(over)
    spec = _batch_specs(mesh)[over == "all axes"]
    block = _block(nnx)
    mapped = transforms.shard_map(_forward, mesh=mesh, in_specs=(P(), spec), out_specs=spec)
    assert near(mapped(block, X), _forward(block, X), **MODELS)


@requirement("SHM-1b")
@given(mesh=grids, over=st.sampled_from([0, 1]))
def test_results_lie_as_their_specs_say(transforms, nnx, mesh, over):
    """Each array of the result has the sharding of its own spec."""
    spec = _batch_specs(mesh)[over]

    def work(block, x):
        return {"rows": x * 2, "all": block.a.a.get_value() * 2}

    out_specs = {"rows": spec, "all": P()}
    mapped = transforms.shard_map(work, mesh=mesh, in_specs=(P(), spec), out_specs=out_specs)
    result = mapped(_block(nnx), X)
    assert sorted(result) == sorted(out_specs)
    assert has_sharding(result["rows"], NamedSharding(mesh, spec))
    assert has_sharding(result["all"], NamedSharding(mesh, P()))
    assert near(result["rows"], X * 2, **CALLS)


@requirement("SHM-1c")
@few("every mesh of one axis, under the documents' own model; SHM-7 draws programs")
@given(mesh=lines, form=st.sampled_from(["call", "decorator"]))
def test_shard_map_decorates(transforms, nnx, mesh, form):
    """`shard_map(f, ...)` and `shard_map(...)(f)` both map `f`, and keep its name and docstring."""
    options = {"mesh": mesh, "in_specs": (P(), P("data")), "out_specs": P("data")}

    def work(block, x):
        """What it says."""
        return _forward(block, x)

    shard_map = transforms.shard_map
    mapped = shard_map(work, **options) if form == "call" else shard_map(**options)(work)
    assert (mapped.__name__, mapped.__doc__) == ("work", "What it says.")
    block = _block(nnx)
    assert near(mapped(block, X), _forward(block, X), **MODELS)


FIRST, SECOND = P(None, "model"), P("model", None)
model_meshes = st.sampled_from([Mesh((n,), ("model",)) for n in (2, 1, 4, 8)])


def _ends_with(*suffix):
    """A filter for paths that end in the given keys."""
    return lambda path, value: tuple(path[-len(suffix) :]) == suffix


def _filtered(transforms, nnx):
    """The document's second example: a `StateSharding` of filters by paths."""
    return transforms.StateSharding(
        {_ends_with("a", "a"): FIRST, _ends_with("b", "a"): SECOND, ...: P()}
    )


def _by_state(transforms, nnx):
    """The document's third example: a `StateSharding` of a state of specs."""
    return transforms.StateSharding(nnx.State({"a": {"a": FIRST}, "b": {"a": SECOND}, "c": P()}))


def _tensor_parallel(transforms, nnx, mesh, sharding, shapes=None):
    """The mapped block: the first kernel is split by columns, the second by rows, and the outputs
    are summed over the mesh axis.

    Args:
      transforms: The namespace with the `shard_map` under judgment.
      nnx: The namespace of objects.
      mesh: A mesh with the axis `model`.
      sharding: `_filtered` or `_by_state`.
      shapes: A list that notes the shapes of both kernels inside, or `None`.
    """

    def work(block, x):
        if shapes is not None:
            shapes.append((block.a.a.get_value().shape, block.b.a.get_value().shape))
        return jax.lax.psum(_forward(block, x), "model")

    spec = sharding(transforms, nnx)
    return transforms.shard_map(work, mesh=mesh, in_specs=(spec, P()), out_specs=P())


@requirement("SHM-2a")
@few("every mesh of one axis, under the documents' own model; SHM-7 draws programs")
@given(mesh=model_meshes)
def test_tensor_parallelism_by_filters(transforms, nnx, mesh):
    """A block whose kernels are split by columns and rows, by filters, and whose outputs are summed
    over the mesh axis, returns what the unsharded block returns.
    """
    block = _block(nnx)
    result = _tensor_parallel(transforms, nnx, mesh, _filtered)(block, X)
    assert near(result, _forward(_block(nnx), X), **MODELS)


@requirement("SHM-2b")
@few("every mesh of one axis, under the documents' own model; SHM-7 draws programs")
@given(mesh=model_meshes)
def test_tensor_parallelism_by_a_state(transforms, nnx, mesh):
    """A block whose kernels are split by the specs that a state gives for its variables, and whose
    outputs are summed over the mesh axis, returns what the unsharded block returns.
    """
    block = _block(nnx)
    result = _tensor_parallel(transforms, nnx, mesh, _by_state)(block, X)
    assert near(result, _forward(_block(nnx), X), **MODELS)


@requirement("SHM-2c")
@few("every mesh of one axis, under the documents' own model; SHM-7 draws programs")
@given(mesh=model_meshes, by=st.sampled_from(["filters", "state"]))
def test_variables_lie_as_their_specs_say(transforms, nnx, mesh, by):
    """After the call the very variables that were passed have the shardings of their specs; inside,
    each had the shape of its shard.
    """
    sharding = _filtered if by == "filters" else _by_state
    block, shapes = _block(nnx), []
    one, other = block.a.a, block.b.a
    _tensor_parallel(transforms, nnx, mesh, sharding, shapes)(block, X)
    part = WIDTH // mesh.size
    assert set(shapes) == {((2, part), (part, 3))}
    assert block.a.a is one
    assert block.b.a is other
    assert has_sharding(one.get_value(), NamedSharding(mesh, FIRST))
    assert has_sharding(other.get_value(), NamedSharding(mesh, SECOND))


def _training(x_axis):
    """A function that doubles a kernel and sets the statistic to the mean of the batch.

    Args:
      x_axis: The mesh axis over which the mean is taken, `None` outside of `shard_map`.
    """

    def work(block, x):
        mean = jnp.mean(x)
        block.c.set_value(jax.lax.pmean(mean, x_axis) if x_axis else mean)
        block.a.a.set_value(block.a.a.get_value() * 2)
        block.e = "seen"
        return x + 1

    return work


def _trained(transforms, nnx, mesh):
    """A block that the function was called on, and another that the mapped function was
    called on.
    """
    sharding = transforms.StateSharding({_ends_with("a", "a"): P(None, "data"), ...: P()})
    mapped = transforms.shard_map(
        _training("data"), mesh=mesh, in_specs=(sharding, P("data")), out_specs=P("data")
    )
    eager, block = _block(nnx), _block(nnx)
    _training(None)(eager, X)
    mapped(block, X)
    return eager, block


@requirement("SHM-3a")
@few("every mesh of one axis, under the documents' own model; SHM-7 draws programs")
@given(mesh=lines)
def test_updates_reach_the_objects_outside(transforms, nnx, mesh):
    """Values that the mapped function assigns are in the variables after the call, as the function
    itself leaves them.
    """
    eager, block = _trained(transforms, nnx, mesh)
    assert_close(graphs.values(nnx, block), graphs.values(nnx, eager), **CALLS)


@requirement("SHM-3b")
@few("every mesh of one axis, under the documents' own model; SHM-7 draws programs")
@given(mesh=lines)
def test_updated_variables_lie_as_their_specs_say(transforms, nnx, mesh):
    """After the call an updated variable has its whole shape and the sharding of its spec."""
    _, block = _trained(transforms, nnx, mesh)
    assert block.a.a.get_value().shape == (2, WIDTH)
    assert has_sharding(block.a.a.get_value(), NamedSharding(mesh, P(None, "data")))
    assert has_sharding(block.c.get_value(), NamedSharding(mesh, P()))


@requirement("SHM-3c")
@few("every mesh of one axis, under the documents' own model; SHM-7 draws programs")
@given(mesh=lines)
def test_identities_are_kept(transforms, nnx, mesh):
    """After the call the objects and variables are the same Python objects, and an argument that is
    returned comes back as itself.
    """

    def work(block, x):
        block.c.set_value(block.c.get_value() + 1)
        return block, x

    block = _block(nnx)
    before = graphs.nodes(nnx, block)
    specs = (P(), P("data"))
    mapped = transforms.shard_map(work, mesh=mesh, in_specs=specs, out_specs=specs)
    returned, _ = mapped(block, X)
    assert returned is block
    after = graphs.nodes(nnx, block)
    assert [*map(id, after)] == [*map(id, before)], f"{before} before and {after} after"


@requirement("SHM-3d")
@few("every mesh of one axis, under the documents' own model; SHM-7 draws programs")
@given(mesh=lines)
def test_a_mapped_function_that_raises_changes_nothing(transforms, nnx, mesh):
    """When the mapped function raises, its own exception reaches the caller, and the arguments are
    as they were.
    """

    def work(block, x):
        _training("data")(block, x)
        raise Interruption("on purpose")

    untouched, block = _block(nnx), _block(nnx)
    pairs = list(zip(graphs.nodes(nnx, untouched), graphs.nodes(nnx, block), strict=True))
    mapped = transforms.shard_map(work, mesh=mesh, in_specs=(P(), P("data")), out_specs=P("data"))
    assert isinstance(raised(lambda: mapped(block, X)), Interruption)
    difference = graphs.differences(nnx, untouched, block, pairs)
    assert not difference, f"before and after: {difference}"
