"""Lies of lifted jit: JIT."""

import copy
import functools

import jax
from scutch import objects
from scutch_reference import nnx
from scutch_reference.errors import AliasingError, TraceLevelError, UnhashableStaticError
from trials.liars.lifted import graph, lifted, modules, stale, variables

# ---------------------------------------------------------------- what a call leaves


@lifted
class ForgetsMetadata:
    """Breaks JIT-1b: metadata is afterwards what it was before."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        before = [(v, v.get_metadata()) for v in variables(arguments, keywords)]
        result = jitted(*arguments, **keywords)
        for variable, metadata in before:
            variable.set_metadata(metadata)
        return result


@lifted
class ForgetsStaticData:
    """Breaks JIT-1c: static data is afterwards what it was before."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        before = [(m, m.e) for m in modules(arguments, keywords) if hasattr(m, "e")]
        result = jitted(*arguments, **keywords)
        for module, value in before:
            if hasattr(module, "e"):
                module.e = value
        return result


@lifted
class KeepsTheEnd:
    """Breaks JIT-1e: a plain list that the function made shorter is as long as it was."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        before = [
            (m, list(m.d)) for m in modules(arguments, keywords)
            if isinstance(getattr(m, "d", None), list)
        ]  # fmt: skip
        result = jitted(*arguments, **keywords)
        for module, items in before:
            if isinstance(getattr(module, "d", None), list) and len(module.d) < len(items):
                module.d.extend(items[len(module.d) :])
        return result


@lifted
class ReturnsCopies:
    """Breaks JIT-1g: an object that is returned is a copy."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        given = set(map(id, graph(arguments, keywords)))
        result = jitted(*arguments, **keywords)
        if isinstance(result, tuple):
            return tuple(nnx.clone(r) if id(r) in given else r for r in result)
        return result


@lifted
class ForgetsScalars:
    """Breaks JIT-1a: a number that the function assigns is not there afterwards."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        before = [(v, v.get_value()) for v in variables(arguments, keywords)]
        result = jitted(*arguments, **keywords)
        for variable, value in before:
            if value.dtype == "int32" and value.shape == () == variable.get_value().shape:
                variable.set_value(value)
        return result


@lifted
class CopiesTheShared:
    """Breaks JIT-1d: a variable that comes to be in two places is two variables."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        before = {id(v) for _, _, v in _twice(arguments, keywords)}
        result = jitted(*arguments, **keywords)
        for module, name, value in _twice(arguments, keywords):
            if id(value) not in before:
                setattr(module, name, copy.copy(value))
        return result


def _twice(arguments, keywords):
    """Attributes whose variable sits in another attribute too."""
    met, found = set(), []
    for module, name, value in _attributes(arguments, keywords):
        if id(value) in met:
            found.append((module, name, value))
        met.add(id(value))
    return found


@lifted
class ReplacesSurvivors:
    """Breaks JIT-1f: the variable of a module's last attribute is a new one."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        given = {id(n) for n in graph(arguments, keywords)}
        result = jitted(*arguments, **keywords)
        places = [id(v) for _, v in objects.walk(nnx, [arguments, result])]
        for module, name, value in _attributes(arguments, keywords):
            if name == "c" and id(value) in given and places.count(id(value)) == 1:
                module.c = copy.copy(value)
        return result


@lifted
class SwallowsCaptured:
    """Breaks JIT-1i: a function that changes a captured variable returns nothing."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        try:
            return jitted(*arguments, **keywords)
        except TraceLevelError:
            return None


@lifted
class ClonesKeywords:
    """Breaks JIT-2a: an object that is passed by position and by name is two."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        def separate(value):
            return nnx.clone(value) if any(value is each for each in arguments) else value

        return jitted(*arguments, **{k: separate(v) for k, v in keywords.items()})


@lifted
class AcceptsTwoShardings:
    """Breaks JIT-2c: of two shardings for one object neither counts."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        try:
            return jitted(*arguments, **keywords)
        except AliasingError:
            return nnx.jit(state["function"])(*arguments, **keywords)


@lifted
class SaysNoPlaces:
    """Breaks JIT-2d: the error does not say where."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        try:
            return jitted(*arguments, **keywords)
        except AliasingError as error:
            raise ValueError("inconsistent") from error


# ---------------------------------------------------------------- options


def _without(*dropped):
    """A `jit` that does not pass options on."""

    def jit(fun=None, **options):
        kept = {name: value for name, value in options.items() if name not in dropped}
        return nnx.jit(**kept) if fun is None else nnx.jit(fun, **kept)

    return jit


@lifted
class AcceptsUnhashable:
    """Breaks JIT-4c: with an unhashable static argument nothing is called."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        try:
            return jitted(*arguments, **keywords)
        except UnhashableStaticError:
            return None


@lifted
class NeverDonates:
    """Breaks JIT-4d: what is donated is kept."""

    jit = _without("donate_argnums", "donate_argnames")


@lifted
class LeavesDeletedBuffers:
    """Breaks JIT-4e: an object donated by name holds deleted buffers."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        result = jitted(*arguments, **keywords)
        if "donate_argnames" in state["options"]:
            for variable in variables(arguments, keywords):
                variable.get_value().delete()
        return result


@lifted
class IgnoresInShardings:
    """Breaks JIT-5a: `in_shardings` are not passed on."""

    jit = _without("in_shardings")


@lifted
class IgnoresOutShardings:
    """Breaks JIT-5b: `out_shardings` are not passed on."""

    jit = _without("out_shardings")


@lifted
class RefusesPartials:
    """Breaks JIT-7a: a partial is not taken for a function."""

    def jit(fun=None, **options):
        if isinstance(fun, functools.partial):
            raise TypeError("expected a function, got a partial")
        return nnx.jit(**options) if fun is None else nnx.jit(fun, **options)


@lifted
class IsNoMethod:
    """Breaks JIT-7b: read from an object, a jitted function is not bound to it."""

    def jit(fun=None, **options):
        if fun is None:
            return lambda function: nnx.jit(function, **options)
        return functools.partial(nnx.jit(fun, **options))


# ---------------------------------------------------------------- what a call sees


def _lists(arguments, keywords):
    """Plain lists by the module that holds them, and tracked ones."""
    found = [(m, "d", list(m.d)) for m in modules(arguments, keywords)
             if isinstance(getattr(m, "d", None), list)]  # fmt: skip
    tracked = [n for n in graph(arguments, keywords) if isinstance(n, nnx.List)]
    return found + [(n, None, list(n)) for n in tracked]


def _put_list(holder, key, items):
    container = holder if key is None else holder.d
    if isinstance(container, list | nnx.List):
        container[:] = items


def _dicts(arguments, keywords):
    """Plain dicts by the module that holds them, and tracked ones."""
    found = [(m, "d", dict(m.d)) for m in modules(arguments, keywords)
             if isinstance(getattr(m, "d", None), dict)]  # fmt: skip
    tracked = [n for n in graph(arguments, keywords) if isinstance(n, nnx.Dict)]
    return found + [(n, None, dict(n)) for n in tracked]


def _put_dict(holder, key, items):
    container = holder if key is None else holder.d
    if isinstance(container, dict | nnx.Dict):
        container.clear()
        container.update(items)


@lifted
class OverlooksListEdits:
    """Breaks JIT-3e: a list is what it was in the call before."""

    call = stale(_lists, _put_list)


@lifted
class OverlooksDictEdits:
    """Breaks JIT-3f: a dict is what it was in the call before."""

    call = stale(_dicts, _put_dict)


@lifted
class OverlooksMetadata:
    """Breaks JIT-3g: metadata is what it was in the call before."""

    call = stale(
        lambda a, k: [(v, "metadata", v.get_metadata()) for v in variables(a, k)],
        lambda variable, _, metadata: variable.set_metadata(metadata),
    )


@lifted
class OverlooksStaticData:
    """Breaks JIT-3d: static data is what it was in the call before."""

    call = stale(
        lambda a, k: [(m, "e", m.e) for m in modules(a, k) if hasattr(m, "e")],
        lambda module, name, value: setattr(module, name, value),
    )


def _attributes(arguments, keywords):
    """Variables by their places."""
    return [
        (m, name, getattr(m, name))
        for m in modules(arguments, keywords)
        for name in "abc"
        if isinstance(getattr(m, name, None), nnx.Variable)
    ]


def _alike(one, other):
    return jax.numpy.array_equal(one.get_value(), other.get_value())


def _if(condition):
    """Puts a variable back if what is there now looks like it."""

    def put(module, name, variable):
        if _alike(variable, getattr(module, name)) and condition(variable, getattr(module, name)):
            setattr(module, name, variable)

    return put


@lifted
class OverlooksTypes:
    """Breaks JIT-3h: a variable with the value of the one before is taken for it."""

    call = stale(_attributes, _if(lambda one, other: type(one) is not type(other)))


@lifted
class OverlooksUnsharing:
    """Breaks JIT-3i: a variable like the one before is taken for it, shared or not."""

    call = stale(_attributes, _if(lambda one, other: type(one) is type(other)))


@lifted
class TracesAlways:
    """Breaks JIT-3a: each call makes a jitted function of its own."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        return nnx.jit(state["function"], **state["options"])(*arguments, **keywords)


@lifted
class KeepsArguments:
    """Breaks JIT-3j: every argument is kept."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        state.setdefault("kept", []).append(arguments)
        return jitted(*arguments, **keywords)


# ---------------------------------------------------------------- failure, names, filters


@lifted
class LeavesTraces:
    """Breaks JIT-8a: a call that fails has counted itself in the metadata."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        try:
            return jitted(*arguments, **keywords)
        except Exception:
            for variable in variables(arguments, keywords):
                variable.set_metadata(failed=True)
            raise


@lifted
class HasNoName:
    """Breaks JIT-7c: a jitted function has the name of the wrapper."""

    def jit(fun=None, **options):
        if fun is None:
            return lambda function: nnx.jit(functools.partial(function), **options)
        return nnx.jit(fun, **options)


@lifted
class LastFilterWins:
    """Breaks JIT-6a: of the filters that take a variable the last one decides."""

    class StateSharding(nnx.StateSharding):
        def map_prefix(self, path, variable):
            pairs = list(zip(self.filters, self.shardings, strict=True))
            takes = [s for f, s in pairs if nnx.to_predicate(f)(path, variable)]
            return takes[-1] if takes else super().map_prefix(path, variable)


@lifted
class AnyFilterDoes:
    """Breaks JIT-6b: what no filter takes is unsharded."""

    class StateSharding(nnx.StateSharding):
        def map_prefix(self, path, variable):
            try:
                return super().map_prefix(path, variable)
            except Exception:
                return None


@lifted
class EqualByFilters:
    """Breaks JIT-6c: shardings do not count."""

    class StateSharding(nnx.StateSharding):
        def __eq__(self, other):
            return isinstance(other, nnx.StateSharding) and self.filters == other.filters

        def __hash__(self):
            return hash(self.filters)


@lifted
class HidesFilters:
    """Breaks JIT-6d: the representation does not show the filters."""

    class StateSharding(nnx.StateSharding):
        def __repr__(self):
            return "StateSharding(...)"
