"""Lies of repeated and nested calls of lifted jit: JIT-1h, JIT-2b, JIT-3, JIT-7 and JIT-8b."""

import weakref

import jax
from jax.core import Tracer
from scutch.inputs.programs import fingerprint
from scutch_reference import nnx
from trials.liars.lifted import graph, lifted, variables


def _call_without(jitted, arguments, keywords, chosen):
    """Call, and put the values of the chosen variables back."""
    before = [(v, v.get_raw_value()) for v in chosen]
    result = jitted(*arguments, **keywords)
    for variable, value in before:
        variable.set_raw_value(value)
    return result


def _known(state, node):
    return state.get(id(node), lambda: None)() is node


def _remember(state, nodes):
    state.update((id(node), weakref.ref(node)) for node in nodes)


@lifted
class OverlooksNewcomers:
    """Breaks JIT-1h: a variable put in between two calls is not updated."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        nodes = graph(arguments, keywords)
        returning = any(_known(state, node) for node in nodes)
        new = [v for v in variables(arguments, keywords) if returning and not _known(state, v)]
        result = _call_without(jitted, arguments, keywords, new)
        _remember(state, graph(arguments, keywords))
        return result


@lifted
class TiesEqualArrays:
    """Breaks JIT-2b: variables that hold the same array are one."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        held = {}
        for variable in variables(arguments, keywords):
            held.setdefault(id(variable.get_raw_value()), []).append(variable)
        result = jitted(*arguments, **keywords)
        for first, *others in held.values():
            for other in others:
                other.set_raw_value(first.get_raw_value())
        return result


def _jitted(state, key):
    """The jitted function for a key."""
    kept = state.setdefault("kept", {})
    if key not in kept:
        kept[key] = nnx.jit(state["function"], **state["options"])
    return kept[key]


@lifted
class TracesEachObject:
    """Breaks JIT-3b: each object has a trace of its own."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        return _jitted(state, tuple(map(id, arguments)))(*arguments, **keywords)


@lifted
class KeepsOneStructure:
    """Breaks JIT-3c: the last structure alone is kept."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        structure = fingerprint(nnx, [a for a in arguments if graph([a], {})])
        if state.setdefault("last", structure) != structure:
            state.pop("kept", None)
        state["last"] = structure
        return _jitted(state, None)(*arguments, **keywords)


@lifted
class TracesEveryThirdCall:
    """Breaks JIT-3c: after three calls, all that was traced is forgotten."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        state["calls"] = state.get("calls", -1) + 1
        return _jitted(state, state["calls"] // 3)(*arguments, **keywords)


@lifted
class NestsOnce:
    """Breaks JIT-7d: a second call on the same objects, inside a trace, updates nothing."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        traced = [v for v in variables(arguments, keywords) if isinstance(v.get_value(), Tracer)]
        again = [v for v in traced if _known(state, v)]
        result = _call_without(jitted, arguments, keywords, again)
        _remember(state, traced)
        return result


def _forgetful(transform):
    """A transformation that does not update variables whose values are being traced."""

    def transformed(f, **options):
        lifted_one = getattr(nnx, transform)(f, **options)

        def call(*arguments):
            inside = any(isinstance(v.get_value(), Tracer) for v in variables(arguments, {}))
            return lifted_one(*(nnx.clone(arguments) if inside else arguments))

        return call

    return transformed


@lifted
class GradForgetsUpdates:
    """Breaks JIT-7e: under `jit` a gradient updates nothing."""

    grad, value_and_grad = _forgetful("grad"), _forgetful("value_and_grad")


@lifted
class VmapForgetsUpdates:
    """Breaks JIT-7f: under `jit` a map updates nothing."""

    vmap = _forgetful("vmap")


@lifted
class ScanForgetsUpdates:
    """Breaks JIT-7g: under `jit` a loop updates nothing."""

    scan = _forgetful("scan")


@lifted
class StopsGradients:
    """Breaks JIT-7h: arrays beside objects have no gradient."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        if arguments and not graph(arguments[-1:], {}):
            *objects, last = arguments
            if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(last)):
                arguments = [*objects, jax.lax.stop_gradient(last)]
        return jitted(*arguments, **keywords)


@lifted
class BearsAGrudge:
    """Breaks JIT-8b: a function that failed changes nothing any more."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        if state.get("failed"):
            return jitted(*nnx.clone(arguments), **nnx.clone(keywords))
        try:
            return jitted(*arguments, **keywords)
        except Exception:
            state["failed"] = True
            raise


@lifted
class RenamesExceptions:
    """Breaks JIT-8b: another exception arrives than was raised."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        try:
            return jitted(*arguments, **keywords)
        except Exception as error:
            raise RuntimeError(str(error)) from error


@lifted
class JitsTheField:
    """Breaks JIT-7i: a callable's field `fun` is jitted in the callable's place."""

    def jit(fun=None, **options):
        if fun is None:
            return lambda function: JitsTheField.jit(function, **options)
        return nnx.jit(getattr(fun, "fun", fun), **options)


@lifted
class RemembersTheFirstCall:
    """Breaks JIT-12c: a cached partial begins each call with the values that it was made with."""

    def cached_partial(f, *bound):
        kept = [(v, v.get_raw_value()) for v in variables(bound, {})]

        def call(*arguments):
            for variable, value in kept:
                variable.set_raw_value(value)
            return f(*bound, *arguments)

        return call


@lifted
class KeepsFurtherObjects:
    """Breaks JIT-12d: a cached partial works on copies of the objects that are passed to it."""

    def cached_partial(f, *bound):
        return lambda *given, **named: f(*bound, *nnx.clone([*given]), **named)


@lifted
class KeepsTheStructure:
    """Breaks JIT-12e: a cached partial takes back values alone."""

    def cached_partial(f, *bound):
        def call(*arguments, **named):
            given = [*bound, *arguments]
            copies = nnx.clone(given)
            result = f(*copies, **named)
            pairs = [variables((each,), {}) for each in (given, copies)]
            for variable, other in zip(*pairs, strict=False):
                variable.set_raw_value(other.get_raw_value())
            return result

        return call
