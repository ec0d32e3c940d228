"""Lies about meshes that span processes: DST.

The laws are the same in one process as in several, so the trials try them on eight fake devices of
one process, which is quick. `trials.test_jobs` tries some of them in real jobs.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from scutch_reference import linen, meta, nnx
from trials.liars.lifted import lifted, variables
from trials.liars.modules import of_linen
from trials.liars.tale import instead_of


def traced(values):
    """Whether a value is a tracer, so that nothing can be said of where it is placed."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def elsewhere(array, spec):
    """A concrete array, sharded by another spec on its mesh."""
    if not isinstance(array, jax.Array) or traced(array):
        return array
    return jax.device_put(array, NamedSharding(array.sharding.mesh, spec))


def afterwards(transform, change):
    """A `jit` or `shard_map` whose calls are followed by `change(result, arguments)`."""

    def lying(function=None, **options):
        if function is None:
            return lambda each: lying(each, **options)
        mapped = transform(function, **options)
        return functools.wraps(function)(lambda *arguments: change(mapped(*arguments), arguments))

    return lying


def _sharded_by_nothing(shardings):
    return jax.tree.map(lambda sharding: NamedSharding(sharding.mesh, P()), shardings)


_asked_for_shardings = []


@of_linen
class TrainsWithSigns:
    """Breaks DST-1a: a train step with shardings uses the signs of the gradients."""

    class TrainState(linen.TrainState):
        """A state whose next step is wrong, once for each time that shardings were asked for."""

        def apply_gradients(self, *, grads, **changes):
            """The next state."""
            if _asked_for_shardings:
                _asked_for_shardings.clear()
                grads = jax.tree.map(jnp.sign, grads)
            return super().apply_gradients(grads=grads, **changes)

    def get_sharding(tree, mesh):
        _asked_for_shardings.append(mesh)
        return linen.get_sharding(tree, mesh)


@of_linen
class ReplicatesEverything:
    """Breaks DST-1b: every array of the train state is on every device."""

    def get_sharding(tree, mesh):
        return _sharded_by_nothing(linen.get_sharding(tree, mesh))


@lifted
class DoublesResults:
    """Breaks DST-1c and DST-1e: the results of `shard_map` over a sharded batch are doubled."""

    shard_map = afterwards(
        nnx.shard_map,
        lambda result, arguments: result * 2 if arguments[1].sharding.spec[:1] else result,
    )


@lifted
class ReplicatesKernels:
    """Breaks DST-1d: the kernel that was split by rows is on every device afterwards."""

    def shard_map(function, **options):
        def change(result, arguments):
            kernel = arguments[0].b.a
            if kernel.get_value().sharding.spec == P("model", None):
                kernel.set_value(elsewhere(kernel.get_value(), P()))
            return result

        return afterwards(nnx.shard_map, change)(function, **options)


@lifted
class ForgetsStatistics:
    """Breaks DST-1e: statistics that were changed inside `shard_map` are as before."""

    def shard_map(function, **options):
        mapped = nnx.shard_map(function, **options)

        def call(root, x):
            before = [(v, v.get_value()) for v in variables((root,), {}) if _is_statistic(v)]
            result = mapped(root, x)
            for variable, value in before:
                variable.set_value(value)
            return result

        return call


def _is_statistic(variable):
    return isinstance(variable, nnx.BatchStat)


@lifted
class ReplicatesOutputs:
    """Breaks DST-1f: the results of lifted `jit` are on every device."""

    jit = afterwards(
        nnx.jit,
        lambda result, arguments: result if isinstance(result, tuple) else elsewhere(result, P()),
    )


def _torn(array):
    """An array that claims to be replicated, and has another value on each device."""
    parts = [
        jax.device_put(np.asarray(part.data) + number, part.device)
        for number, part in enumerate(array.addressable_shards)
    ]
    return jax.make_array_from_single_device_arrays(array.shape, array.sharding, parts)


@lifted
class TearsResults:
    """Breaks DST-1g: a replicated result has another value on each device."""

    jit = afterwards(
        nnx.jit,
        lambda result, arguments: (
            (_torn(result[0]), result[1]) if isinstance(result, tuple) else result
        ),
    )


@instead_of("Partitioned")
class UnconstrainedOnManyDevices(meta.Partitioned):
    """Breaks DST-1h: on all devices a box does not constrain its value."""

    def unbox(self, apply_constraint=True):
        """The value, constrained where fewer devices than all are in the mesh."""
        return self.value


@instead_of("with_logical_constraint")
def with_logical_constraint_nowhere(x, logical_axis_resources, *options, **further):
    """Breaks DST-1i: a logical constraint is none."""
    return x


@instead_of("replace_boxed")
def replace_boxed_by_copies(tree, updates):
    """Breaks DST-1j: the arrays that are put into boxes are copied."""
    copies = jax.tree.map(lambda leaf: leaf + 0 if isinstance(leaf, jax.Array) else leaf, updates)
    return meta.replace_boxed(tree, copies)
