"""Lies of static and optional arguments, options and shardings of lifted jit: JIT-4 and JIT-5."""

import functools
import inspect

import numpy as np
from scutch_reference import nnx
from scutch_reference.errors import IndivisibleSizeError
from trials.liars.lifted import graph, lifted, without


def _static(state):
    return {"static_argnums", "static_argnames"} & {*state["options"]}


@lifted
class StaticByIdentity:
    """Breaks JIT-4a: static arguments that are equal but not the same are traced again."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        if not _static(state):
            return jitted(*arguments, **keywords)
        given = [a for a in (*arguments, *keywords.values()) if not graph([a], {})]
        key, kept = tuple(map(id, given)), state.setdefault("kept", {})
        if key not in kept:
            kept[key] = given, nnx.jit(state["function"], **state["options"])
        return kept[key][1](*arguments, **keywords)


@lifted
class StaticByNumberOnly:
    """Breaks JIT-4b: an argument that is static by number is traced when it is passed by name."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        if keywords and "static_argnums" in state["options"]:
            return nnx.jit(state["function"])(*arguments, **keywords)
        return jitted(*arguments, **keywords)


@lifted
class DefaultsAreZero:
    """Breaks JIT-4f: a parameter that is left out is zero."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        signature = inspect.signature(state["function"])
        given = signature.bind(*arguments, **keywords).arguments
        has_default = [p.name for p in signature.parameters.values() if p.default is not p.empty]
        zeros = {name: np.int32(0) for name in has_default if name not in given}
        return jitted(*arguments, **keywords, **zeros)


@lifted
class DropsUnused:
    """Breaks JIT-4g: `keep_unused` is not passed on."""

    jit = without("keep_unused")


@lifted
class NeverInline:
    """Breaks JIT-4g: `inline` is not passed on."""

    jit = without("inline")


@lifted
class FirstShardingServesAll:
    """Breaks JIT-5c: for an output, a `StateSharding` is its first sharding."""

    def jit(fun=None, out_shardings=None, **options):
        if fun is None:
            return functools.partial(
                FirstShardingServesAll.jit, out_shardings=out_shardings, **options
            )
        if isinstance(out_shardings, tuple):
            out_shardings = tuple(
                s.shardings[0] if isinstance(s, nnx.StateSharding) else s for s in out_shardings
            )
        return nnx.jit(fun, out_shardings=out_shardings, **options)


@lifted
class NoneDropsAll:
    """Breaks JIT-5d: where the last output is `None`, the others are so too."""

    def jit(fun=None, out_shardings=None, **options):
        if fun is None:
            return functools.partial(NoneDropsAll.jit, out_shardings=out_shardings, **options)
        if isinstance(out_shardings, tuple) and out_shardings[-1] is None:
            out_shardings = None
        return nnx.jit(fun, out_shardings=out_shardings, **options)


@lifted
class AcceptsIndivisible:
    """Breaks JIT-5e: where a size cannot be divided no sharding counts."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        try:
            return jitted(*arguments, **keywords)
        except IndivisibleSizeError:
            return nnx.jit(state["function"])(*arguments, **keywords)


@lifted
class CountsPastMore:
    """Breaks JIT-4h: a name behind `*more` also means an argument that is passed by position."""

    def jit(fun=None, **options):
        if fun is None:
            return lambda function: CountsPastMore.jit(function, **options)
        names = list(inspect.signature(fun).parameters)
        for kind in ("static", "donate") if "more" in names else ():
            name = options.get(f"{kind}_argnames")
            if name in names and name != "more":
                options[f"{kind}_argnums"] = names.index(name)
        return nnx.jit(fun, **options)


@lifted
class CountsWhatIsBound:
    """Breaks JIT-10g: static numbers of a partial function count bound arguments."""

    def jit(fun=None, **options):
        if fun is None:
            return lambda function: CountsWhatIsBound.jit(function, **options)
        number, bound = options.get("static_argnums"), getattr(fun, "args", ())
        if isinstance(number, int) and isinstance(fun, functools.partial) and len(bound) <= number:
            options["static_argnums"] = number - len(bound)
        return nnx.jit(fun, **options)
