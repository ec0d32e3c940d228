"""Lies told of functions of plain arrays: JIT-10, SHM-6, and the plain case of OBJ-8."""

import functools
import inspect

import jax
from scutch_reference import nnx
from trials.liars.lifted import lifted


def _lifting(name, change):
    """A lifted transformation whose function or options are changed: `change(f, options)`.

    The lie is told of functions of plain arrays alone: those with the parameter `scale`, or with
    `*arrays`, as the described ones are written.
    """

    def transformation(f=None, **options):
        if f is None:
            return functools.partial(transformation, **options)
        if _is_described(f):
            f, options = change(f, options)
        return getattr(nnx, name)(f, **options)

    return transformation


def _is_described(f):
    try:
        return {"scale", "arrays"} & set(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        return False


def _dropping(name, *dropped):
    """A lifted transformation that does not pass some options on."""
    return _lifting(
        name, lambda f, options: (f, {n: o for n, o in options.items() if n not in dropped})
    )


def _calling(name, call):
    """A transformation whose functions are called by `call(lifted, args, kwargs, options)`."""

    def transformation(f=None, **options):
        if f is None:
            return functools.partial(transformation, **options)
        made = getattr(nnx, name)(f, **options)
        if not _is_described(f):
            return made
        return functools.wraps(f)(lambda *args, **kwargs: call(made, args, kwargs, options))

    return transformation


@lifted
class DropsDonation:
    """Breaks JIT-10a: nothing that is plain is donated."""

    jit = _dropping("jit", "donate_argnums", "donate_argnames")


class _Lying:
    """A jitted function that lies when it is called, or in one of its stages."""

    def __init__(self, jitted, call=None, **stages):
        self.jitted, self.call, self.stages = jitted, call or jitted, stages

    def __call__(self, *args, **kwargs):
        return self.call(*args, **kwargs)

    def __getattr__(self, name):
        return self.stages.get(name) or getattr(self.jitted, name)


@lifted
class ReturnsWhatJaxRefuses:
    """Breaks JIT-10b: a call that is refused returns nothing."""

    def jit(f=None, **options):
        if f is None:
            return functools.partial(ReturnsWhatJaxRefuses.jit, **options)
        jitted = nnx.jit(f, **options)

        def accepted(*args, **kwargs):
            try:
                return jitted(*args, **kwargs)
            except (TypeError, ValueError):
                return None

        return _Lying(jitted, accepted) if _is_described(f) else jitted


@lifted
class ForeseesDouble:
    """Breaks JIT-10c: `eval_shape`, without shardings in a sequence, foresees a list."""

    def jit(f=None, **options):
        if f is None:
            return functools.partial(ForeseesDouble.jit, **options)
        jitted = nnx.jit(f, **options)
        if not _is_described(f) or _sequence(options):
            return jitted
        return _Lying(jitted, eval_shape=lambda *a, **k: [jitted.eval_shape(*a, **k)])


@lifted
class CompilesNoShardingsBesideStatics:
    """Breaks JIT-10d: with static arguments and shardings for the others nothing is lowered."""

    def jit(f=None, **options):
        if f is None:
            return functools.partial(CompilesNoShardingsBesideStatics.jit, **options)
        jitted = nnx.jit(f, **options)
        if not _statics_beside_shardings(options):
            return jitted

        def trace(*args, **kwargs):
            raise ValueError("there is a sharding too few")

        return _Lying(jitted, trace=trace)


def _statics_beside_shardings(options):
    """Whether some arguments are static, and the others have a sharding each."""
    return (options.get("static_argnums") or options.get("static_argnames")) and _sequence(options)


def _sequence(options):
    return isinstance(options.get("in_shardings"), tuple | list)


def _refusing_lists(name, option):
    def change(f, options):
        if isinstance(options.get(option), list):
            raise TypeError(f"{option} is a list")
        return f, options

    return _lifting(name, change)


@lifted
class KnowsNoListsOfShardings:
    """Breaks JIT-10e: shardings in a list are refused."""

    jit = _refusing_lists("jit", "in_shardings")


@lifted
class CountsStaticsFromTheStart:
    """Breaks JIT-10f: beside shardings, a negative number is no place of an argument."""

    def jit(f=None, **options):
        if f is None:
            return functools.partial(CountsStaticsFromTheStart.jit, **options)
        if _sequence(options) and options.get("static_argnums") in (-1, (-1,), [-1]):
            raise ValueError("there is no such argument")
        return nnx.jit(f, **options)


@lifted
class NeedsEveryStatic:
    """Breaks JIT-10h: beside shardings, a static argument must be passed."""

    def jit(f=None, **options):
        if f is None:
            return functools.partial(NeedsEveryStatic.jit, **options)
        jitted = nnx.jit(f, **options)
        if not _statics_beside_shardings(options):
            return jitted

        def call(*args, **kwargs):
            if len(args) + len(kwargs) == len(options["in_shardings"]):
                raise ValueError("there is an argument too few")
            return jitted(*args, **kwargs)

        return _Lying(jitted, call)


@lifted
class GathersPlainResults:
    """Breaks SHM-6a: the results of a function of plain arrays are doubled."""

    def shard_map(f=None, **options):
        if f is None:
            return functools.partial(GathersPlainResults.shard_map, **options)
        mapped = nnx.shard_map(f, **options)
        if not _is_described(f):
            return mapped
        return lambda *args: jax.tree.map(lambda x: x + x, mapped(*args))


@lifted
class DropsNames:
    """Breaks SHM-6b: arguments by name are dropped."""

    shard_map = _calling("shard_map", lambda made, args, kwargs, options: made(*args))


@lifted
class KnowsNoNone:
    """Breaks SHM-6c: `None` is no spec."""

    def shard_map(f=None, *, in_specs, **options):
        if f is None:
            return functools.partial(KnowsNoNone.shard_map, in_specs=in_specs, **options)
        if _is_described(f) and None in in_specs:
            raise ValueError("None is no spec")
        return nnx.shard_map(f, in_specs=in_specs, **options)


@lifted
class MapsToTheFirstAxis:
    """Breaks OBJ-8a: results are stacked along the first axis, whatever is asked."""

    vmap = _lifting(
        "vmap",
        lambda f, options: (f, {**options, **({"out_axes": 0} if "out_axes" in options else {})}),
    )


@lifted
class DifferentiatesTheFirst:
    """Breaks OBJ-8b: a negative number of an argument is the first one, unless there are others."""

    grad = _lifting(
        "grad",
        lambda f, options: (
            f,
            {**options, "argnums": (0,) if options.get("argnums") == (-2,) else options["argnums"]}
            if options.get("argnums") == (-2,) and "allow_int" not in options
            else options,
        ),
    )
    value_and_grad = _lifting(
        "value_and_grad",
        lambda f, options: (f, {n: o for n, o in options.items() if n != "allow_int"}),
    )


@lifted
class RematerializesAnything:
    """Breaks OBJ-8c: options that JAX does not know are dropped."""

    remat = _dropping("remat", "nope")


@lifted
class LoopsTwiceAsFar:
    """Breaks OBJ-8d: the results of a loop over plain arrays are doubled."""

    scan = _calling(
        "scan",
        lambda made, args, kwargs, options: jax.tree.map(lambda x: 2 * x, made(*args, **kwargs)),
    )


@lifted
class DoublesWhatIsCarriedAlone:
    """Breaks OBJ-8d: a loop over nothing but an array that is carried returns it twice as large."""

    def scan(f=None, in_axes=(nnx.Carry, 0), **options):
        looped = nnx.scan(f, in_axes=in_axes, **options)
        if f is None or in_axes is not nnx.Carry:
            return looped

        def call(carry):
            found = looped(carry)
            return 2 * found if isinstance(found, jax.Array) else found

        return call


@lifted
class MapsNoNames:
    """Breaks OBJ-8e: keyword arguments are not mapped."""

    def vmap(f=None, **options):
        if f is None:
            return functools.partial(MapsNoNames.vmap, **options)
        if not _is_described(f):
            return nnx.vmap(f, **options)

        def call(*args, **kwargs):
            return nnx.vmap(lambda *each: f(*each, **kwargs), **options)(*args)

        return call


@lifted
class KnowsNoLists:
    """Breaks OBJ-8f: axes and numbers of arguments in lists are refused."""

    vmap = _refusing_lists("vmap", "in_axes")
    grad = _refusing_lists("grad", "argnums")


@lifted
class RematerializesWithoutNumbers:
    """Breaks OBJ-8g: where numbered arguments are not there, the result is another."""

    def remat(f=None, **options):
        made = nnx.remat(f, **options)
        if not _is_described(f) or options.get("static_argnums") not in (1, 2, (1, 2), (0, 1)):
            return made

        def call(*args, **kwargs):
            if len(args) > 2:
                return made(*args, **kwargs)
            return jax.tree.map(lambda x: x + 1, f(*args, **kwargs))

        return call


@lifted
class MapsTheField:
    """Breaks OBJ-8q: a callable's field `f` is mapped in the callable's place."""

    def vmap(f=None, **options):
        if f is None:
            return functools.partial(MapsTheField.vmap, **options)
        return nnx.vmap(getattr(f, "f", f), **options)
