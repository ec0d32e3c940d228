"""Meshes that span processes: DST-1.

These laws are tried in a job: several processes that `jax.distributed` has joined, each with some
of the eight devices. Hypothesis draws in the first process, and every process tries the law on that
same input at the same time. No process can read a whole array on such a mesh. The oracle is the
same function of host arrays, run without a mesh on each process; every process compares the parts
that its own devices hold.
"""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from scutch.inputs import graphs
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import across_processes, reached, requirement
from scutch.lawkit.placement import in_context
from scutch.lawkit.spanning import assert_parts, on_every_process, spread
from scutch.strategies.spanning import matrix_specs, spanning_meshes

SIZE = 8
"""The batch and the width of every matrix: each mesh axis divides it."""

ROWWISE = {
    "project": lambda x, kernel: x @ kernel,
    "rectify": lambda x, kernel: jax.nn.relu(x),
    "squash": lambda x, kernel: jnp.tanh(x),
    "shift": lambda x, kernel: x + kernel[0],
    "center": lambda x, kernel: x - x.mean(1, keepdims=True),
}
"""Functions of a batch and a square kernel that compute each row of the batch from that row
alone."""

functions = st.lists(st.sampled_from(list(ROWWISE)), min_size=1, max_size=3).map(tuple)
seeds = st.integers(0, 7)


def matrix(seed, rows=SIZE, columns=SIZE):
    """A float32 host array of this shape, the same for the same seed on every process."""
    return np.random.default_rng(seed).uniform(-1, 1, (rows, columns)).astype("float32")


def composed(names, x, kernel):
    """The named functions of `ROWWISE`, applied to a batch one after the other."""
    for name in names:
        x = ROWWISE[name](x, kernel)
    return x


def block(nnx, seed, place=lambda value: value):
    """A module with two square kernels, one of them in a sub-module, and a scalar statistic.

    Args:
      nnx: The namespace of objects.
      seed: Chooses the contents.
      place: Makes the value of a variable from a host array; the identity where left out.
    """
    kinds = graphs.classes(nnx)
    root, child = kinds["Node"](), kinds["Branch"]()
    root.a, root.b = nnx.Param(place(matrix(seed))), child
    child.a = nnx.Param(place(matrix(seed + 1)))
    root.c = nnx.BatchStat(place(np.zeros((), "float32")))
    return root


def ends_with(*suffix):
    """A filter that takes the variables whose path ends with these keys."""
    return lambda path, value: alike(tuple(path[-len(suffix) :]), suffix)


@st.composite
def meshes_with_specs(draw, *axes, count=1):
    """A mesh of all devices, and as many specs of matrices on it as asked: `(mesh, *specs)`."""
    mesh = draw(spanning_meshes(*axes))
    return mesh, *(draw(matrix_specs(mesh)) for _ in range(count))


@requirement("processes/shardings/data-parallel-equals-whole", must_reach=("one axis", "all axes"))
@across_processes
@given(
    mesh=spanning_meshes(),
    over=st.sampled_from(["one axis", "all axes"]),
    names=functions,
    seed=seeds,
)
def test_a_data_parallel_call_across_processes(transforms, nnx, mesh, over, names, seed):
    """`shard_map` over the devices of all processes returns the same as the unmapped function.

    The batch is split among the devices; the unmapped function gets the whole batch.
    """
    spec = P(mesh.axis_names[0]) if over == "one axis" else P(tuple(mesh.axis_names))

    def work(root, x):
        return composed(names, x, root.a.get_value())

    mapped = transforms.shard_map(work, mesh=mesh, in_specs=(P(), spec), out_specs=spec)
    model = block(nnx, seed, lambda value: spread(value, mesh, P()))
    result = mapped(model, spread(matrix(9), mesh, spec))
    assert_parts(result, mesh, spec, work(block(nnx, seed), matrix(9)))


@requirement("processes/shardings/tensor-parallel-equals-whole", must_reach=("filters", "state"))
@across_processes
@given(mesh=spanning_meshes("model"), by=st.sampled_from(["filters", "state"]), seed=seeds)
def test_tensor_parallelism_across_processes(transforms, nnx, mesh, by, seed):
    """Tensor parallelism across processes gives the result of the unsharded function.

    Two kernels are split by columns and by rows over a mesh axis, and a `psum` runs over that axis.
    The variables keep the requested specs.
    """
    columns, rows = P(None, "model"), P("model", None)

    def forward(root, x):
        return jax.nn.relu(x @ root.a.get_value()) @ root.b.a.get_value()

    if by == "filters":
        chosen = {ends_with("b", "a"): rows, ends_with("a"): columns, ...: P()}
    else:
        chosen = nnx.State({"a": columns, "b": {"a": rows}, "c": P()})
    mapped = transforms.shard_map(
        lambda root, x: jax.lax.psum(forward(root, x), "model"),
        mesh=mesh,
        in_specs=(transforms.StateSharding(chosen), P()),
        out_specs=P(),
    )
    model, plain = block(nnx, seed, lambda value: spread(value, mesh, P())), block(nnx, seed)
    result = mapped(model, spread(matrix(9), mesh, P()))
    assert_parts(result, mesh, P(), forward(plain, matrix(9)))
    assert_parts(model.a.get_value(), mesh, columns, matrix(seed))
    assert_parts(model.b.a.get_value(), mesh, rows, matrix(seed + 1))


@requirement("processes/shardings/inner-updates-reach-processes", must_reach=("sharded",))
@across_processes
@given(chosen=meshes_with_specs(), factor=st.sampled_from([2.0, -1.0, 0.5]), seed=seeds)
def test_updates_inside_reach_the_objects_of_every_process(transforms, nnx, chosen, factor, seed):
    """A kernel that `shard_map` scales part by part, and a statistic that it averages over the
    mesh, are on the objects of each process afterwards, sharded by their specs."""
    mesh, spec = chosen
    if any(spec):
        reached("sharded")
    every = tuple(mesh.axis_names)

    def work(root, x):
        root.a.set_value(root.a.get_value() * factor)
        root.c.set_value(jax.lax.pmean(x.mean(), every))
        root.e = "seen"
        return x + 1

    sharding = transforms.StateSharding({nnx.BatchStat: P(), ends_with("a"): spec, ...: P()})
    mapped = transforms.shard_map(
        work, mesh=mesh, in_specs=(sharding, P(every)), out_specs=P(every)
    )
    model = block(nnx, seed, lambda value: spread(value, mesh, P()))
    variable = model.a
    result = mapped(model, spread(matrix(9), mesh, P(every)))
    assert model.a is variable, "the variable was replaced by another"
    assert alike(model.e, "seen"), "the static attribute that the function set is not on the object"
    assert_parts(model.a.get_value(), mesh, spec, matrix(seed) * factor)
    assert_parts(model.c.get_value(), mesh, P(), matrix(9).mean())
    assert_parts(result, mesh, P(every), matrix(9) + 1)


@requirement("processes/shardings/jit-shards-as-asked", must_reach=("one sharding", "by filters"))
@across_processes
@given(
    chosen=meshes_with_specs(count=3),
    by=st.sampled_from(["one sharding", "by filters"]),
    names=functions,
    seed=seeds,
)
def test_lifted_jit_shards_across_processes(transforms, nnx, chosen, by, names, seed):
    """The variables of an argument and the result of lifted `jit` have the shardings given, and the
    values that the function computes without a mesh."""
    mesh, one, other, out = chosen
    first, second, third = (NamedSharding(mesh, spec) for spec in (one, other, out))
    kernels = transforms.StateSharding(
        {ends_with("b", "a"): second, ends_with("a"): first, ...: None}
    )
    whole = P()
    if by == "one sharding":
        kernels, one, other = NamedSharding(mesh, whole), whole, whole

    def work(root, x):
        root.a.set_value(root.a.get_value() * 2)
        return composed(names, x, root.b.a.get_value())

    jitted = transforms.jit(work, in_shardings=(kernels, None), out_shardings=third)
    model, plain = block(nnx, seed, lambda value: spread(value, mesh, whole)), block(nnx, seed)
    model.a.set_value(spread(matrix(seed), mesh, one))
    model.b.a.set_value(spread(matrix(seed + 1), mesh, other))
    result = jitted(model, spread(matrix(9), mesh, whole))
    assert_parts(result, mesh, out, work(plain, matrix(9)))
    assert_parts(model.a.get_value(), mesh, one, matrix(seed) * 2)
    assert_parts(model.b.a.get_value(), mesh, other, matrix(seed + 1))


@requirement("processes/shardings/replicas-are-bitwise-equal")
@across_processes
@given(chosen=meshes_with_specs(), names=functions, seed=seeds)
def test_every_process_sees_the_same_replicated_result(transforms, nnx, chosen, names, seed):
    """A result that lifted `jit` replicates over the mesh has the same bits on every process.

    A returned module has the same structure on every process.
    """
    mesh, spec = chosen

    def work(root, x):
        root.d = nnx.Param(composed(names, x, root.a.get_value()).sum(0))
        return root.d.get_value(), root

    everywhere = NamedSharding(mesh, P())
    jitted = transforms.jit(work, out_shardings=(everywhere, None))
    model = block(nnx, seed, lambda value: spread(value, mesh, spec if np.ndim(value) else P()))
    result, returned = jitted(model, spread(matrix(9), mesh, P(mesh.axis_names[0])))
    assert returned is model, "an argument that is returned must come back as itself"
    parts = [np.asarray(part.data).view("uint32") for part in result.addressable_shards]
    bits = on_every_process(np.stack(parts)).reshape(-1, SIZE)
    assert (bits == bits[0]).all(), f"not all devices hold the same values: {bits.view('float32')}"
    paths = sorted(str(path) for path in graphs.leaves(nnx, model))
    numbers = [ord(letter) for letter in "\n".join(paths)]
    lengths = on_every_process(len(numbers))
    assert (lengths == lengths[0]).all(), "the module has another structure on another process"
    letters = on_every_process(np.asarray(numbers))
    assert (letters == letters[0]).all(), "the module has other paths on another process"


@requirement(
    "processes/shardings/unboxing-places-across-processes",
    must_reach=("the box's mesh", "the mesh in context"),
)
@across_processes
@given(
    chosen=meshes_with_specs(),
    where=st.sampled_from(["the box's mesh", "the mesh in context"]),
    seed=seeds,
)
def test_unboxing_constrains_across_processes(meta, chosen, where, seed):
    """`unbox` of a box with names of mesh axes gives its value sharded by them on a mesh that spans
    processes, the mesh of the box or the mesh in context."""
    mesh, spec = chosen
    names = (*spec, *[None] * (2 - len(spec)))
    own, context = (mesh, None) if where == "the box's mesh" else (None, mesh)
    box = meta.Partitioned(spread(matrix(seed), mesh, P()), names=names, mesh=own)
    with in_context(context):
        result = jax.jit(lambda box: box.unbox())(box)
    assert_parts(result, mesh, spec, matrix(seed))


@requirement("processes/shardings/logical-constraint-places-across-processes")
@across_processes
@given(chosen=meshes_with_specs(), seed=seeds)
def test_logical_constraints_hold_across_processes(logical, chosen, seed):
    """`with_logical_constraint` shards its value on a mesh that spans processes as the rules map
    its logical names."""
    mesh, spec = chosen
    names, rules = ("rows", "columns"), tuple(zip(("rows", "columns"), spec, strict=False))
    with in_context(mesh), logical.logical_axis_rules(rules):
        result = jax.jit(lambda x: logical.with_logical_constraint(x * 2, names))(
            spread(matrix(seed), mesh, P())
        )
    assert_parts(result, mesh, spec, matrix(seed) * 2)


@requirement("processes/shardings/tree-functions-keep-split-arrays")
@across_processes
@given(chosen=meshes_with_specs(count=2), seed=seeds)
def test_tree_functions_never_read_an_array_whole(meta, chosen, seed):
    """Boxes around arrays that no process can read whole pass through `unbox`, `replace_boxed`,
    `add_axis`, `get_partition_spec` and `get_sharding`, which give back the very same arrays."""
    mesh, one, other = chosen
    arrays = {name: spread(matrix(seed), mesh, spec) for name, spec in (("a", one), ("b", other))}
    tree = {
        name: meta.Partitioned(array, names=(*spec, *[None] * (2 - len(spec))))
        for (name, array), spec in zip(arrays.items(), (one, other), strict=True)
    }
    assert all(value is arrays[name] for name, value in meta.unbox(tree).items())
    swapped = meta.replace_boxed(tree, {"a": arrays["b"], "b": arrays["a"]})
    assert swapped["a"].value is arrays["b"], "replace_boxed changed the array that it was given"
    longer = meta.add_axis(tree, 0, {meta.PARTITION_NAME: None})
    assert all(longer[name].value is arrays[name] for name in arrays)
    shardings = meta.get_sharding(tree, mesh)
    for name, spec in (("a", one), ("b", other)):
        assert shardings[name].is_equivalent_to(NamedSharding(mesh, spec), 2)
