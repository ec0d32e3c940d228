"""Lies of lifted jit: JIT."""

import copy
import functools

import jax
from scutch.inputs import graphs
from scutch_reference import nnx
from scutch_reference.errors import AliasingError, TraceLevelError, UnhashableStaticError
from trials.liars.lifted import attributes, graph, lifted, modules, variables, without

# ---------------------------------------------------------------- objects after a call


@lifted
class ForgetsMetadata:
    """Breaks JIT-1b: a call restores the metadata that a variable had before it."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        before = [(v, v.get_metadata()) for v in variables(arguments, keywords)]
        result = jitted(*arguments, **keywords)
        for variable, metadata in before:
            variable.set_metadata(metadata)
        return result


@lifted
class ForgetsStaticData:
    """Breaks JIT-1c: a call restores the static data that a module had before it."""

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
            (m, list(m.d))
            for m in modules(arguments, keywords)
            if isinstance(getattr(m, "d", None), list)
        ]
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
    for module, name, value in attributes(arguments, keywords):
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
        places = [id(v) for _, v in graphs.walk(nnx, [arguments, result])]
        for module, name, value in attributes(arguments, keywords):
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
class CapturedUnnamed:
    """Breaks JIT-1j: the error for a captured variable does not show its type."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        try:
            return jitted(*arguments, **keywords)
        except TraceLevelError as error:
            raise ValueError("another trace level") from error


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
class MapsBySomeAxis:
    """Breaks JIT-2e: where an object has two axes, a matrix that is mapped, too, comes back."""

    def vmap(f=None, **options):
        if f is None:
            return lambda function: MapsBySomeAxis.vmap(function, **options)

        @functools.wraps(f)
        def mapped(*arguments, **keywords):
            try:
                return nnx.vmap(f, **options)(*arguments, **keywords)
            except AliasingError:
                if getattr(arguments[-1], "shape", None) != (2, 2):
                    raise
                return arguments[-1]

        return mapped


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
    """Breaks JIT-4d: the options to donate arguments are ignored."""

    jit = without("donate_argnums", "donate_argnames")


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
class DeletesWhatIsShared:
    """Breaks JIT-4e: a variable in two arguments, one of which is donated, has a deleted buffer."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        result = jitted(*arguments, **keywords)
        if "donate_argnums" in state["options"]:
            held = [id(node) for each in arguments for node in graph([each], {})]
            for variable in variables(arguments, keywords):
                if held.count(id(variable)) > 1:
                    variable.get_value().delete()
        return result


@lifted
class IgnoresInShardings:
    """Breaks JIT-5a: `in_shardings` are not passed on."""

    jit = without("in_shardings")


@lifted
class IgnoresOutShardings:
    """Breaks JIT-5b: `out_shardings` are not passed on."""

    jit = without("out_shardings")


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
        return functools.update_wrapper(functools.partial(nnx.jit(fun, **options)), fun)


@lifted
class IsNoMethodInAMode:
    """Breaks JIT-7b: read from an object, a function jitted in a mode is not bound to it."""

    def jit(fun=None, **options):
        if fun is None:
            return lambda function: IsNoMethodInAMode.jit(function, **options)
        if not {"graph", "graph_updates"} & options.keys():
            return nnx.jit(fun, **options)
        return functools.update_wrapper(functools.partial(nnx.jit(fun, **options)), fun)


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
        def map_prefix(self, path, variable, *where):
            pairs = list(zip(self.filters, self.shardings, strict=True))
            takes = [s for f, s in pairs if nnx.to_predicate(f)(path, variable)]
            return takes[-1] if takes else super().map_prefix(path, variable, *where)


@lifted
class AnyFilterDoes:
    """Breaks JIT-6b: a variable that no filter takes is unsharded."""

    class StateSharding(nnx.StateSharding):
        def map_prefix(self, path, variable, *where):
            try:
                return super().map_prefix(path, variable, *where)
            except Exception:
                return None


@lifted
class HidesMistakes:
    """Breaks JIT-6b: a filter that fails has nothing for the path."""

    class StateSharding(nnx.StateSharding):
        def map_prefix(self, path, variable, *where):
            try:
                return super().map_prefix(path, variable, *where)
            except LookupError as error:
                raise ValueError(f"{path} has no sharding") from error


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


@lifted
class ForgetsTuples:
    """Breaks JIT-1k: a call restores the tuple of arrays that a module held before it."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        before = [
            (module, name, value)
            for module in modules(arguments, keywords)
            for name in "abc"
            if isinstance(value := getattr(module, name, None), tuple)
            and value
            and all(isinstance(each, jax.Array) for each in value)
        ]
        result = jitted(*arguments, **keywords)
        for module, name, value in before:
            setattr(module, name, nnx.data(value))
        return result
