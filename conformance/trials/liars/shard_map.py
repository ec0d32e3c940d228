"""Lies of lifted shard_map: SHM."""

import functools

import jax
from scutch_reference import nnx
from trials.liars.lifted import lifted, variables


def _around(call):
    """A `shard_map` whose functions are called by `call(mapped, arguments)`."""

    def shard_map(f=None, **options):
        if f is None:
            return lambda function: shard_map(function, **options)
        mapped = nnx.shard_map(f, **options)
        return functools.wraps(f)(lambda *arguments: call(mapped, arguments))

    return shard_map


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
                x if isinstance(x, jax.core.Tracer) else jax.device_get(x) + jax.numpy.zeros(())
            ),
            mapped(*arguments),
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
class TracesEachCall:
    """Breaks SHM-5e: each call maps anew."""

    def shard_map(f=None, **options):
        if f is None:
            return lambda function: TracesEachCall.shard_map(function, **options)
        return functools.wraps(f)(
            lambda *arguments: nnx.shard_map(lambda *a: f(*a), **options)(*arguments)
        )
