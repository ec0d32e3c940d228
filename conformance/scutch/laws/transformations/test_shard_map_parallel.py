"""Data and tensor parallelism by lifted `shard_map`, and its updates of objects: SHM-1 to SHM-3.

The oracle is the function itself, called on whole arrays on one device, or `jax.shard_map` of the
pure function of the objects' leaves (see `scutch.engine.carriers.objects`). A *mapped* function is
the result of `shard_map`; inside of it each device has its *shard* of an array.
"""

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from scutch.engine.relations import agreement
from scutch.inputs import graphs
from scutch.inputs.programs import VALUES
from scutch.inputs.tensor_parallel import FILTERS
from scutch.lawkit.equality import alike
from scutch.lawkit.interruptions import Interruption
from scutch.lawkit.marks import at_least, costly, dear, few, raised, reached, requirement
from scutch.lawkit.placement import has_sharding
from scutch.lawkit.tolerances import CALLS, MODELS, near
from scutch.strategies import copies, meshes, programs
from scutch.strategies.object_calls import object_calls
from scutch.strategies.tensor_parallel import blocks

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


@requirement(
    "transformations/equals-jax/shard-map-of-objects[data]", must_reach=("one axis", "all axes")
)
@given(mesh=grids, over=st.sampled_from(["one axis", "all axes"]))
def test_a_data_parallel_call_equals_the_unsharded_one(transforms, nnx, mesh, over):
    """A data parallel `shard_map` returns the same as the function on the whole batch.

    The object is replicated, and the batch is sharded over one or all mesh axes.
    """
    spec = _batch_specs(mesh)[over == "all axes"]
    mapped = transforms.shard_map(_forward, mesh=mesh, in_specs=(P(), spec), out_specs=spec)
    assert near(mapped(_block(nnx), X), _forward(_block(nnx), X), **MODELS)


@requirement("transformations/places-arrays/shard-map-of-objects[outputs]")
@given(mesh=grids, over=st.sampled_from([0, 1]))
def test_results_lie_as_their_specs_say(transforms, nnx, mesh, over):
    """Each array of the result has the sharding of its own spec."""
    spec = _batch_specs(mesh)[over]

    def work(block, x):
        return {"rows": x * 2, "all": block.a.a.get_value() * 2}

    out_specs = {"rows": spec, "all": P()}
    mapped = transforms.shard_map(work, mesh=mesh, in_specs=(P(), spec), out_specs=out_specs)
    result = mapped(_block(nnx), X)
    assert alike(sorted(result), sorted(out_specs))
    assert has_sharding(result["rows"], NamedSharding(mesh, spec))
    assert has_sharding(result["all"], NamedSharding(mesh, P()))
    assert near(result["rows"], X * 2, **CALLS)


@requirement("transformations/options/shard-map-of-objects[decorator]")
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
    assert alike((mapped.__name__, mapped.__doc__), ("work", "What it says."))
    assert near(mapped(_block(nnx), X), _forward(_block(nnx), X), **MODELS)


def _assert_unsharded(transforms, blocks):
    """Fail unless the mapped model returns the same as the model on the whole batch."""
    result = blocks.mapped(transforms)(blocks.model(), blocks.x)
    assert near(result, blocks.forward(blocks.model(), blocks.x), **MODELS)


@requirement("transformations/equals-jax/shard-map-of-objects[tensor]")
@costly
@given(blocks=blocks(by=FILTERS))
def test_tensor_parallelism_by_filters(transforms, blocks):
    """A tensor parallel model with specs by filter returns the same as the unsharded model.

    Its kernels are split by columns and rows, by filters of paths, types or both. Its outputs are
    summed over the mesh axis.
    """
    _assert_unsharded(transforms, blocks)


@requirement("transformations/equals-jax/shard-map-of-objects[tensor]")
@costly
@given(blocks=blocks(by=("state",)))
def test_tensor_parallelism_by_a_state(transforms, blocks):
    """A tensor parallel model with specs in a `State` returns the same as the unsharded model.

    The state has a spec for each variable. The outputs are summed over the mesh axis.
    """
    _assert_unsharded(transforms, blocks)


@requirement("transformations/places-arrays/shard-map-of-objects[inputs]")
@costly
@given(blocks=blocks())
def test_variables_lie_as_their_specs_say(transforms, nnx, blocks):
    """After the call the very variables that were passed have the shardings of their specs; inside,
    each had the shape of its shard.
    """
    model, shapes = blocks.model(), []

    def seen(inside):
        leaves = graphs.leaves(nnx, inside)
        shapes.append({path: leaf.get_value().shape for path, leaf in leaves.items()})

    before = graphs.leaves(nnx, model)
    whole = {path: leaf.get_value().shape for path, leaf in before.items()}
    blocks.mapped(transforms, seen)(model, blocks.x)
    after = graphs.leaves(nnx, model)
    parts = {path: blocks.placed(path).shard_shape(shape) for path, shape in whole.items()}
    assert all(alike(each, parts) for each in shapes), (
        f"inside, shapes are {shapes}; expected {parts}"
    )
    for path, leaf in before.items():
        assert after[path] is leaf, path
        assert alike(leaf.get_value().shape, whole[path]), path
        assert has_sharding(leaf.get_value(), blocks.placed(path)), path


MAPPED = (("shard_map", "jit"), ("shard_map", "jit"), ("shard_map",))
"""Lifts of the mapped function: compiled as a whole, or run step by step, which takes long."""


@requirement("transformations/nothing-lost/shard-map-of-objects", must_reach=("returned",))
@dear
@at_least(40)
@given(call=st.sampled_from(MAPPED).flatmap(lambda kinds: object_calls(*kinds)))
def test_updates_reach_the_objects_outside(transforms, call):
    """Values that a mapped program assigns are in the variables after the call, as JAX's own
    `shard_map` of the pure function of the leaves gives them.
    """
    reached(agreement(call, transforms))


@requirement(
    "transformations/places-arrays/shard-map-of-objects[updates]",
    must_reach=("not returned", "returned"),
)
@costly
@given(blocks=blocks(), returned=st.booleans())
def test_updated_variables_lie_as_their_specs_say(transforms, nnx, blocks, returned):
    """After the call an updated variable, and one of a new object that is returned, has its whole
    shape and the sharding of its spec, however specs are given, and the parts of its value are
    those that each device made.
    """
    untouched, model = blocks.model(), blocks.model()

    def update(inside):
        changed = nnx.clone(inside) if returned else inside
        for leaf in graphs.leaves(nnx, changed).values():
            leaf.set_value(leaf.get_value() * -2)
        return changed

    found = blocks.mapped(transforms, update, returned=returned)(model, blocks.x)
    before = graphs.leaves(nnx, untouched)
    after = graphs.leaves(nnx, found[1] if returned else model)
    for path, leaf in before.items():
        value = after[path].get_value()
        assert alike(value.shape, leaf.get_value().shape), path
        assert has_sharding(value, blocks.placed(path)), path
        assert near(value, leaf.get_value() * -2, **CALLS), path


VECTOR = np.arange(8, dtype="int32")
mapped_programs = copies(programs(VALUES, results=("node", "value"), max_steps=2))


def _mapped_program(transforms, mesh, program, *, jitted=False, fails=False):
    """A program on objects that all devices have, mapped; it has a batch beside them."""
    function = transforms.jit(program.function) if jitted else program.function

    def work(*arguments):
        *objects, x, pair = arguments
        found = function(*objects, pair)
        if fails:
            raise Interruption("on purpose")
        return found, x

    batch = P(mesh.axis_names[0])
    in_specs = (*(P() for _ in program.arguments), batch, P())
    return transforms.shard_map(work, mesh=mesh, in_specs=in_specs, out_specs=(P(), batch))


PAIR = np.asarray([10, 20], "int32"), np.asarray([3], "int32")
"""The arrays that programs make new values of: none is a scalar, which no spec of one axis fits."""


@requirement("transformations/keeps-identity/shard-map-of-objects")
@dear
@given(mesh=grids, program_copies=mapped_programs, jitted=st.sampled_from((True, True, False)))
def test_identities_are_kept(transforms, nnx, mesh, program_copies, jitted):
    """After the call the objects and variables are the same Python objects, as the function itself
    leaves them, and one that is returned comes back as itself.
    """
    eager, mapped = program_copies
    before = mapped.nodes()
    expected = eager.function(*eager.arguments, PAIR)
    call = _mapped_program(transforms, mesh, mapped, jitted=jitted)
    result, _ = call(*mapped.arguments, VECTOR, PAIR)
    difference = graphs.differences(nnx, (eager.arguments, expected), (mapped.arguments, result))
    assert not difference, f"eager and mapped: {difference}"
    after = mapped.nodes()
    assert [*map(id, after)] == [*map(id, before)], f"{before} before and {after} after"


@requirement("transformations/leaves-unchanged/shard-map-of-objects")
@dear
@given(mesh=grids, program_copies=mapped_programs)
def test_a_mapped_function_that_raises_changes_nothing(transforms, nnx, mesh, program_copies):
    """When the mapped function raises, its own exception reaches the caller, and the arguments are
    as they were.
    """
    untouched, mapped = program_copies
    pairs = list(zip(untouched.nodes(), mapped.nodes(), strict=True))
    call = _mapped_program(transforms, mesh, mapped, fails=True)
    assert isinstance(raised(lambda: call(*mapped.arguments, VECTOR, PAIR)), Interruption)
    difference = graphs.differences(nnx, untouched.arguments, mapped.arguments, pairs)
    assert not difference, f"before and after: {difference}"
