"""Lies of lifted shard_map: SHM."""

import functools
import re

import jax
from jax.sharding import PartitionSpec as P
from scutch_reference import nnx
from scutch_reference.errors import (
    IndivisibleSizeError,
    MeshAxisError,
    NoFilterMatchError,
    ReplicationError,
)
from trials.liars.lifted import lifted, variables


def _around(call):
    """A `shard_map` whose functions are called by `call(mapped, arguments)`."""

    def shard_map(f=None, **options):
        if f is None:
            return lambda function: shard_map(function, **options)
        mapped = nnx.shard_map(f, **options)
        return functools.wraps(f)(lambda *arguments: call(mapped, arguments))

    return shard_map


def _specs(change):
    """A `shard_map` that maps with `change(in_specs, options)`."""

    def shard_map(f=None, *, in_specs, **options):
        given = {"in_specs": change(in_specs, options), **options}
        return nnx.shard_map(**given) if f is None else nnx.shard_map(f, **given)

    return shard_map


def _filtered(change):
    """A change of specs by filters."""

    def changed(spec):
        if not isinstance(spec, nnx.StateSharding):
            return spec
        pairs = zip(spec.filters, spec.shardings, strict=True)
        return nnx.StateSharding([(f, change(f, s)) for f, s in pairs])

    return _specs(lambda specs, options: tuple(map(changed, specs)))


def _accepting(error):
    """A `shard_map` whose functions return nothing where they ought to raise."""

    def call(mapped, arguments):
        try:
            return mapped(*arguments)
        except error:
            return None

    return _around(call)


def _is_traced(arguments):
    return any(isinstance(v.get_value(), jax.core.Tracer) for v in variables(arguments, {}))


@lifted
class AddsShards:
    """Breaks SHM-1a: on more than four devices the result is twice as large."""

    def shard_map(f=None, **options):
        if f is None:
            return lambda function: AddsShards.shard_map(function, **options)
        mapped = nnx.shard_map(f, **options)
        wide = options["mesh"].size > 4
        return functools.wraps(f)(
            lambda *a: jax.tree.map(lambda x: x * 2 if wide else x, mapped(*a))
        )


@lifted
class GathersResults:
    """Breaks SHM-1b: results are on one device."""

    shard_map = _around(
        lambda mapped, arguments: jax.tree.map(
            lambda x: (
                x
                if isinstance(x, jax.core.Tracer | nnx.Pytree)
                else jax.device_get(x) + jax.numpy.zeros(())
            ),
            mapped(*arguments),
            is_leaf=lambda x: isinstance(x, nnx.Pytree),
        )
    )


@lifted
class HasNoDocstring:
    """Breaks SHM-1c: the docstring is lost."""

    def shard_map(f=None, **options):
        if f is None:
            return lambda function: HasNoDocstring.shard_map(function, **options)
        mapped = nnx.shard_map(f, **options)
        return lambda *arguments: mapped(*arguments)


def _gathered(mapped, arguments):
    result = mapped(*arguments)
    for variable in variables(arguments, {}):
        if not isinstance(variable.get_value(), jax.core.Tracer):
            variable.set_value(jax.numpy.asarray(jax.device_get(variable.get_value())))
    return result


@lifted
class GathersVariables:
    """Breaks SHM-2c and SHM-3b: variables are on one device afterwards."""

    shard_map = _around(_gathered)


def _forgotten(mapped, arguments):
    before = [(v, v.get_value()) for v in variables(arguments, {})]
    result = mapped(*arguments)
    for variable, value in before:
        if value.shape == ():
            variable.set_value(value)
    return result


@lifted
class ForgetsStatistics:
    """Breaks SHM-3a: a number that is updated inside is as before."""

    shard_map = _around(_forgotten)


@lifted
class ReturnsClones:
    """Breaks SHM-3c: an object that is returned is a copy."""

    shard_map = _around(
        lambda mapped, arguments: jax.tree.map(
            lambda each: nnx.clone(each) if isinstance(each, nnx.Pytree) else each,
            mapped(*arguments),
            is_leaf=lambda each: isinstance(each, nnx.Pytree),
        )
    )


@lifted
class NeverChecks:
    """Breaks SHM-4c: replication is not checked."""

    def shard_map(f=None, **options):
        options = {**options, "check_vma": False}
        return nnx.shard_map(**options) if f is None else nnx.shard_map(f, **options)


@lifted
class AlwaysChecks:
    """Breaks SHM-5c: replication is checked, whatever is said."""

    def shard_map(f=None, check_rep=True, check_vma=True, **options):
        return nnx.shard_map(**options) if f is None else nnx.shard_map(f, **options)


@lifted
class IgnoresTrailingNone:
    """Breaks SHM-2a and SHM-3b: by filters, `P("model", None)` is read as `P(None, "model")`."""

    shard_map = _filtered(
        lambda f, spec: P(None, spec[0]) if len(spec) == 2 and spec[1] is None else spec
    )


@lifted
class ReplicatesStates:
    """Breaks SHM-2b: the specs of a `State` count for nothing."""

    shard_map = _filtered(lambda f, spec: P() if isinstance(f, nnx.PathIn) else spec)


def _leaving_traces(mapped, arguments):
    try:
        return mapped(*arguments)
    except Exception:
        for variable in variables(arguments, {}):
            variable.set_metadata(failed=True)
        raise


@lifted
class FailsWithTraces:
    """Breaks SHM-3d: a call that fails has counted itself in the metadata."""

    shard_map = _around(_leaving_traces)


@lifted
class AcceptsUnknownAxes:
    """Breaks SHM-4a: an axis that the mesh has not is accepted."""

    shard_map = _accepting(MeshAxisError)


@lifted
class AcceptsRemainders:
    """Breaks SHM-4b: a size that cannot be divided is accepted."""

    shard_map = _accepting(IndivisibleSizeError)


@lifted
class AcceptsUnfiltered:
    """Breaks SHM-4d: a variable that no filter takes is accepted."""

    shard_map = _accepting(NoFilterMatchError)


def _misnamed(mapped, arguments):
    try:
        return mapped(*arguments)
    except KeyError as error:
        raise ValueError("there is no spec") from error


@lifted
class MisnamesMistakes:
    """Breaks SHM-4d: the error of a filter is told as a missing spec."""

    shard_map = _around(_misnamed)


def _nowhere(mapped, arguments):
    try:
        return mapped(*arguments)
    except (MeshAxisError, IndivisibleSizeError) as error:
        raise ValueError(" ".join(re.findall(r"nope|(?<!\[)\b\d+\b", str(error)))) from None


@lifted
class SaysNoArgument:
    """Breaks SHM-4e: the error has the axis and the sizes, and nothing else."""

    shard_map = _around(_nowhere)


def _unnamed(mapped, arguments):
    try:
        return mapped(*arguments)
    except ReplicationError:
        raise ValueError("a value differs between devices") from None


@lifted
class SaysNoVariable:
    """Breaks SHM-4f: the error does not name the value that differs between devices."""

    shard_map = _around(_unnamed)


@lifted
class ForgetsUnderJit:
    """Breaks SHM-5a: a mapped function updates nothing that is being traced."""

    shard_map = _around(
        lambda mapped, arguments: mapped(
            *(nnx.clone(arguments) if _is_traced(arguments) else arguments)
        )
    )


@lifted
class StopsMappedGradients:
    """Breaks SHM-5b: nothing that is mapped has a gradient."""

    shard_map = _around(
        lambda mapped, arguments: jax.tree.map(
            lambda x: jax.lax.stop_gradient(x) if isinstance(x, jax.core.Tracer) else x,
            mapped(*arguments),
            is_leaf=lambda x: isinstance(x, nnx.Pytree),
        )
    )


@lifted
class CutsAutomaticAxes:
    """Breaks SHM-5d: the batch is cut over the automatic axes, too."""

    def shard_map(f=None, *, mesh, in_specs, out_specs, auto=frozenset(), **options):
        if auto:
            all_axes = P(mesh.axis_names)
            in_specs, out_specs = (in_specs[0], all_axes), all_axes
        given = {"mesh": mesh, "in_specs": in_specs, "out_specs": out_specs, **options}
        return nnx.shard_map(**given) if f is None else nnx.shard_map(f, **given)
