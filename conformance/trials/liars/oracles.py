"""Lies that only the functional oracle sees: JIT-11, SHM-7, OBJ-8, OBJ-10 and LIN-9."""

import functools

import jax
import numpy as np
from scutch.inputs.graphs import nodes
from scutch_reference import linen, nnx
from scutch_reference.errors import CarryError, LiftingError
from scutch_reference.linen.scope import as_dicts
from trials.liars.definitions import Opaque, merged
from trials.liars.jit import MapsBySomeAxis
from trials.liars.lifted import lifted, variables, without
from trials.liars.lifts import calling
from trials.liars.modules import of_linen
from trials.liars.objects import variables_in
from trials.liars.tale import of_objects
from trials.liars.transforms import of_objects_lifted


def _lifting(name, call):
    """A lifted transformation whose functions are called by `call(lifted, arguments)`."""

    def transformation(f=None, **options):
        if f is None:
            return functools.partial(transformation, **options)
        made = getattr(nnx, name)(f, **options)

        def lied(*arguments, **keywords):
            return call(functools.partial(made, **keywords), arguments)

        return functools.wraps(f)(lied) if hasattr(f, "__name__") else lied

    return transformation


def _has_objects(arguments):
    return bool(nodes(nnx, arguments))


def _is_traced(arguments):
    return any(isinstance(v.get_raw_value(), jax.core.Tracer) for v in variables(arguments, {}))


def _on_copies(made, arguments):
    return made(*(nnx.clone(arguments) if _has_objects(arguments) else arguments))


def _on_copies_of_traced(made, arguments):
    return made(*(nnx.clone(arguments) if _is_traced(arguments) else arguments))


@lifted
class MapsCopies:
    """Breaks OBJ-8h: changes that lanes make to objects are lost."""

    vmap = _lifting("vmap", _on_copies)


@lifted
class LoopsOverCopies:
    """Breaks OBJ-8i: changes that steps make to objects are lost."""

    scan = _lifting("scan", _on_copies)


def _with_any_object(looped, arguments):
    try:
        return looped(*arguments)
    except CarryError:
        if not isinstance(arguments[0], list | tuple | dict):
            raise
        return arguments[0], None


@lifted
class LoopsWithAnyObject:
    """Breaks OBJ-8i: a step that returns another object in a container has no effect."""

    scan = _lifting("scan", _with_any_object)


@lifted
class DifferentiatesCopies:
    """Breaks OBJ-8j: changes that the function makes to objects are lost."""

    value_and_grad = _lifting("value_and_grad", _on_copies)


@lifted
class MapsCopiesOfTraced:
    """Breaks OBJ-8k: inside another transformation, changes that lanes make to objects are lost."""

    vmap = _lifting("vmap", _on_copies_of_traced)


@lifted
class LoopsOverCopiesOfTraced:
    """Breaks OBJ-8l: inside another transformation, changes that steps make to objects are lost."""

    scan = _lifting("scan", _on_copies_of_traced)


@lifted
class NamesNoAxisOfLoops:
    """Breaks OBJ-8m: the axis of a loop gets no name."""

    def scan(f=None, **options):
        options.pop("transform_metadata", None)
        return nnx.scan(f, **options)


def _has_negative(prefix):
    prefix = prefix.axes if isinstance(prefix, nnx.StateAxes) else prefix
    if isinstance(prefix, tuple):
        return any(map(_has_negative, prefix))
    return isinstance(prefix, int) and prefix < 0


@lifted
class NamesNoNegativeAxis:
    """Breaks OBJ-8n: a negative axis of a map gets no name."""

    def vmap(f=None, **options):
        if _has_negative(options.get("in_axes")) or _has_negative(options.get("out_axes")):
            options.pop("transform_metadata", None)
        return nnx.vmap(f, **options)


def _is_pair(arguments):
    """Whether the last argument is the pair of arrays of an `ObjectCall`."""
    last = arguments[-1] if arguments else None
    if not isinstance(last, tuple) or len(last) != 2 or not isinstance(last[0], np.ndarray):
        return False
    return last[0].ravel()[:2].tolist() == [3, 5]


def _doubled(made, arguments):
    results = made(*arguments)
    if not _is_pair(arguments):
        return results
    is_object = lambda each: isinstance(each, nnx.Pytree | nnx.Variable)  # noqa: E731
    return jax.tree.map(lambda x: x if is_object(x) else 2 * x, results, is_leaf=is_object)


@lifted
class DoublesResults:
    """Breaks JIT-11a: arrays beside objects come back twice as large."""

    call = staticmethod(
        lambda state, jitted, arguments, keywords: _doubled(
            functools.partial(jitted, **keywords), arguments
        )
    )


@lifted
class LaysResultsAnywhere:
    """Breaks JIT-11b: the shardings of results are dropped."""

    jit = without("out_shardings")


@lifted
class CutsWhatLiesSomewhere:
    """Breaks JIT-11b: a variable that lies on devices is moved, and cut otherwise, where JAX
    refuses it.
    """

    @staticmethod
    def call(state, jitted, arguments, keywords):
        asked = state["options"].get("in_shardings")
        if isinstance(asked, tuple) and isinstance(arguments[0], nnx.Variable):
            arguments[0].set_value(jax.device_put(arguments[0].get_value(), asked[0]))
        return jitted(*arguments, **keywords)


def _without_name(state, jitted, arguments, keywords):
    if "pair" in keywords:
        raise TypeError("arguments are passed by position")
    return jitted(*arguments, **keywords)


@lifted
class TakesNoNames:
    """Breaks JIT-11c: the arrays beside objects are not passed by name."""

    call = staticmethod(_without_name)


@lifted
class KnowsNoContainers:
    """Breaks JIT-11d: axes by filter are for objects alone."""

    def vmap(f=None, in_axes=0, **options):
        if f is None:
            return functools.partial(nnx.vmap, in_axes=in_axes, **options)
        made = nnx.vmap(f, in_axes=in_axes, **options)

        def mapped(*arguments):
            axes = in_axes if isinstance(in_axes, tuple) else ()
            for axis, argument in zip(axes, arguments, strict=False):
                if isinstance(axis, nnx.StateAxes) and isinstance(argument, list | dict):
                    raise ValueError("no axes of one object")
            return made(*arguments)

        return functools.wraps(f)(mapped)


@lifted
class KnowsNoModes:
    """Breaks JIT-12a: without sharing there is no `jit`."""

    def jit(f=None, graph=None, **options):
        if graph is False:
            raise NotImplementedError("graph=False")
        return nnx.jit(f, **options) if f is not None else nnx.jit(**options)


@lifted
class DonatesNothingWithoutUpdates:
    """Breaks JIT-12b: with `graph_updates=False`, no argument is donated."""

    def jit(f=None, graph=None, graph_updates=None, **options):
        if graph_updates is False:
            options = {n: each for n, each in options.items() if not n.startswith("donate")}
        given = {**options, "graph": graph, "graph_updates": graph_updates}
        return nnx.jit(f, **given) if f is not None else nnx.jit(**given)


@lifted
class LaysPartialResultsAnywhere:
    """Breaks JIT-12f: with arguments bound, the shardings of results are dropped."""

    def jit_partial(fun, *args, out_shardings=None, **options):
        return nnx.jit_partial(fun, *args, **options)


@lifted
class KeepsNothingUnusedWithoutUpdates:
    """Breaks JIT-12g: with `graph_updates=False`, no argument that is not used is kept."""

    def jit(f=None, graph_updates=None, **options):
        if graph_updates is False:
            options.pop("keep_unused", None)
        given = {**options, "graph_updates": graph_updates}
        return nnx.jit(f, **given) if f is not None else nnx.jit(**given)


@lifted
class LastFilterMaps:
    """Breaks JIT-12h: in a prefix, the last filter that takes a variable chooses its axis."""

    def prefix(node, axes, **options):
        return nnx.prefix(node, axes if callable(axes) else dict(reversed(axes.items())), **options)


@lifted
class LoopsOverCopiesWithoutGraph:
    """Breaks JIT-12h: with `graph=False`, changes that steps make to objects are lost."""

    def scan(f=None, graph=None, **options):
        if f is None:
            return functools.partial(LoopsOverCopiesWithoutGraph.scan, graph=graph, **options)
        lie = _lifting("scan", _on_copies)
        return lie(f, **options) if graph is False else nnx.scan(f, **options)


def _copied_without_graph(state, jitted, arguments, keywords):
    results = jitted(*arguments, **keywords)
    if state["options"].get("graph") is not False:
        return results
    is_object = lambda each: isinstance(each, nnx.Pytree | nnx.Variable)  # noqa: E731
    copied = lambda each: nnx.clone(each) if is_object(each) else each  # noqa: E731
    return jax.tree.map(copied, results, is_leaf=is_object)


@lifted
class ReturnsCopiesWithoutGraph:
    """Breaks JIT-12i: with `graph=False`, an argument that is returned comes back as a copy."""

    call = staticmethod(_copied_without_graph)


def _exchanged_in_modes(state, jitted, arguments, keywords):
    results = jitted(*arguments, **keywords)
    held = arguments[0] if arguments else None
    moded = {"graph", "graph_updates"} & {*state["options"]}
    if moded and isinstance(held, nnx.List) and len(held) > 1:
        held[0], held[1] = held[1], held[0]
    return results


@lifted
class ExchangesElementsInModes:
    """Breaks JIT-12j: in a mode, two elements of a tracked list change places."""

    call = staticmethod(_exchanged_in_modes)


def _by_name_alone(state, jitted, arguments, keywords):
    moded = {"graph", "graph_updates"} & {*state["options"]}
    return jitted(*arguments, **(nnx.clone(keywords) if moded else keywords))


@lifted
class ForgetsWhatIsNamedInModes:
    """Breaks JIT-12p: in a mode, changes to an object that is passed by name are lost."""

    call = staticmethod(_by_name_alone)


@lifted
class MapsBySomeAxisWithoutUpdates:
    """Breaks JIT-12k: with `graph_updates=False`, an object with two axes is mapped by one."""

    def vmap(f=None, graph_updates=None, **options):
        options["graph_updates"] = graph_updates
        return (MapsBySomeAxis if graph_updates is False else nnx).vmap(f, **options)


def _renamed_without_updates(state, jitted, arguments, keywords):
    if state["options"].get("graph_updates") is not False:
        return jitted(*arguments, **keywords)
    kept = [(each, each.get_metadata()) for each in nodes(nnx, arguments) if _is_variable(each)]
    results = jitted(*arguments, **keywords)
    for each, metadata in kept:
        each.set_metadata(metadata)
    return results


def _is_variable(node):
    return isinstance(node, nnx.Variable)


@lifted
class KeepsMetadataWithoutUpdates:
    """Breaks JIT-12n: with `graph_updates=False`, variables keep the metadata that they had."""

    call = staticmethod(_renamed_without_updates)


def _without_notes(mapped, arguments):
    result = mapped(*arguments)
    for variable in variables(arguments, {}):
        if "note" in variable.get_metadata():
            variable.set_metadata(note=None)
    return result


@lifted
class ForgetsNotesOfLanes:
    """Breaks JIT-12n: variables that a map without a partition name was given lose their `note`."""

    def vmap(f=None, **options):
        named = "transform_metadata" in options
        return nnx.vmap(f, **options) if named else _lifting("vmap", _without_notes)(f, **options)


@lifted
class PassesNamelessAxesOver:
    """Breaks JIT-12o: `None` is no name of an axis."""

    def transform_metadata(f, partition, **options):
        return nnx.transform_metadata(f, partition=partition, **options) if partition else f


@lifted
class LaysNothingBound:
    """Breaks JIT-12q: with arguments bound, the shardings of arguments are dropped."""

    def jit_partial(fun, *args, in_shardings=None, **options):
        return nnx.jit_partial(fun, *args, **options)


@lifted
class NamesNothingWithoutGraph:
    """Breaks JIT-12l: with `graph=False`, the lifted function has another docstring."""

    def jit(f=None, graph=None, **options):
        given = {**options, "graph": graph}
        if f is None:
            return functools.partial(NamesNothingWithoutGraph.jit, **given)
        made = nnx.jit(f, **given)
        if graph is False:
            made.__doc__ = "A lifted function."
        return made


@lifted
class BindsCopiesInAMode:
    """Breaks JIT-12s: a cached partial that is told its mode binds copies."""

    def cached_partial(f, *bound, graph=None, graph_updates=None):
        return nnx.cached_partial(f, *(bound if graph is None else nnx.clone(bound)))


@of_objects_lifted
class ClonesNoVariablesInAMode:
    """Breaks JIT-12s: a clone that is told its mode has the variables of the object."""

    def clone(node, variables=True, *, graph=None, **options):
        return nnx.clone(node, variables and graph is None, **options)


@lifted
class BindsCopiesOfTheSame:
    """Breaks JIT-12m: an object that is bound a second time is bound as a copy."""

    def cached_partial(f, *bound):
        met, given = set(), []
        for each in bound:
            held = {id(node) for node in nodes(nnx, each)} if _has_objects(each) else {id(each)}
            seen = id(each) in met and isinstance(each, nnx.Pytree | nnx.Variable)
            given.append(nnx.clone(each) if seen else each)
            met |= held
        return nnx.cached_partial(f, *given)


def _first_doubled(results):
    """A list of results, as an `ObjectCall` returns it, with twice the first."""
    if type(results) is not list or not results:
        return results
    return [jax.tree.map(lambda x: 2 * x, results[0]), *results[1:]]


@lifted
class DoublesMappedResults:
    """Breaks SHM-7a: the first result that is returned beside objects is doubled."""

    shard_map = _lifting("shard_map", lambda made, arguments: _first_doubled(made(*arguments)))


def _without_slopes(made, arguments):
    result = made(*arguments)
    for variable in variables(arguments, {}):
        variable.set_value(jax.lax.stop_gradient(variable.get_raw_value()))
    return result


@lifted
class StopsGradientsOfUpdates:
    """Breaks SHM-7b: variables that a mapped function updates have no gradient."""

    shard_map = _lifting("shard_map", _without_slopes)


@of_objects
class SplitsOpaquely:
    """Breaks OBJ-10a: JAX does not know the definition that `split` gives."""

    def split(*args, **options):
        definition, *states = nnx.split(*args, **options)
        return Opaque(definition), *states

    merge = merged


@of_objects
class DefinesOpaquely:
    """Breaks OBJ-10b: JAX does not know the definition that `graphdef` gives."""

    def graphdef(*args, **options):
        return Opaque(nnx.graphdef(*args, **options))


class _Numbered:
    """A graph definition that equals another of the same graph; their tree structures differ."""

    def __init__(self, definition, number):
        self.definition, self.number = definition, number

    def __eq__(self, other):
        return isinstance(other, _Numbered) and self.definition == other.definition

    def __hash__(self):
        return hash(self.definition)


jax.tree_util.register_pytree_node(
    _Numbered,
    lambda one: ((), (one.definition, one.number)),
    lambda known, _: _Numbered(*known),
)
_made = []


@of_objects
class DefinesApart:
    """Breaks OBJ-10c: `jax.jit` tells definitions apart whose objects were built separately."""

    def graphdef(root, **options):
        if not any(each is root for each in _made):
            _made.append(root)
        number = next(n for n, each in enumerate(_made) if each is root)
        return _Numbered(nnx.graphdef(root, **options), number)

    merge = merged


@of_objects
class MergesWithoutMetadata:
    """Breaks OBJ-10d: variables that are merged from traced arrays lose their `note`."""

    def merge(definition, *states, **options):
        merged = nnx.merge(definition, *states, **options)
        for variable in variables_in(merged):
            traced = isinstance(variable.get_raw_value(), jax.core.Tracer)
            if traced and "note" in variable.get_metadata():
                variable.del_metadata("note")
        return merged


@of_objects
class CallsLeaveNoTrace:
    """Breaks OBJ-10d: a functional call returns the parts that it was given."""

    def call(parts):
        honest = nnx.call(parts)
        return lambda *args, **kwargs: (honest(*args, **kwargs)[0], parts)


@of_linen
class KnowsNoDenyList:
    """Breaks LIN-9a: axes by a deny list are refused."""

    def vmap(target, variable_axes=(), **options):
        if any(isinstance(each, linen.DenyList) for each in variable_axes):
            raise TypeError("a deny list is no name")
        return linen.vmap(target, variable_axes=variable_axes, **options)


@of_linen
class NeverReversesModules:
    """Breaks LIN-9b: a loop runs forward."""

    def scan(target, reverse=False, **options):
        return linen.scan(target, **options)


@of_linen
class KnowsNoLists:
    """Breaks LIN-9c: a list of collections is refused."""

    def jit(target, variables=True, **options):
        if isinstance(variables, list):
            raise TypeError("a list is no filter")
        return linen.jit(target, variables=variables, **options)

    def remat(target, variables=True, **options):
        if isinstance(variables, list):
            raise TypeError("a list is no filter")
        return linen.remat(target, variables=variables, **options)


@of_linen
class LiftsOnce:
    """Breaks LIN-9d: a lifted module cannot be mapped."""

    def vmap(target, **options):
        if target.__name__.startswith(("Vmap", "Checkpoint", "Jit")):
            raise TypeError("this is lifted already")
        return linen.vmap(target, **options)


def _needs_mutable(target, collections):
    """The class of a module that cannot be called where one of the collections cannot change."""

    class Demanding(target):
        def __call__(self, *args, **kwargs):
            for name in collections:
                if self.variables.get(name) and not self.is_mutable_collection(name):
                    raise TypeError(f"{name} cannot be carried")
            return super().__call__(*args, **kwargs)

    return Demanding


@of_linen
class CarriesOnlyWhatChanges:
    """Breaks LIN-9e: a carried collection must be mutable."""

    def scan(target, variable_carry=(), **options):
        is_class = isinstance(target, type)
        demanding = _needs_mutable(target, variable_carry) if is_class else target
        return linen.scan(demanding, variable_carry=variable_carry, **options)


@lifted
class NeverUnrolls:
    """Breaks OBJ-8o: a loop over objects is unrolled by one step, whatever was asked for."""

    def scan(f=None, unroll=1, **options):
        return nnx.scan(f, **options)


@lifted
class LoopsWithoutMark:
    """Breaks OBJ-8u: an argument that is carried and not returned is shared by all steps."""

    def scan(f=None, in_axes=(nnx.Carry, 0), out_axes=(nnx.Carry, 0), **options):
        if out_axes == 0 and isinstance(in_axes, tuple):
            in_axes = tuple(None if axis is nnx.Carry else axis for axis in in_axes)
        return nnx.scan(f, in_axes=in_axes, out_axes=out_axes, **options)


@lifted
class MapsByAVariable:
    """Breaks OBJ-8u: a variable in the place of an axis is the axis, and changes are lost."""

    def vmap(f=None, in_axes=0, **options):
        by_variable = isinstance(in_axes, tuple) and isinstance(in_axes[-1], nnx.Variable)
        if f is None or not by_variable:
            return nnx.vmap(f, in_axes=in_axes, **options)
        axes = tuple(a.get_raw_value() if isinstance(a, nnx.Variable) else a for a in in_axes)
        return lambda *arguments: nnx.vmap(f, in_axes=axes, **options)(*nnx.clone(arguments))


@lifted
class UpdatesOneArray:
    """Breaks OBJ-8v: of a tree that a mapped function sets, only the first array arrives."""

    def vmap(f=None, **options):
        def call(mapped, arguments):
            held = [v for v in variables(arguments, {}) if isinstance(v.get_raw_value(), dict)]
            before = [jax.tree.flatten(v.get_raw_value()) for v in held]
            result = mapped(*arguments)
            for variable, (old, structure) in zip(held, before, strict=True):
                new = jax.tree.leaves(variable.get_raw_value())
                variable.set_raw_value(structure.unflatten([*new[:1], *old[1:]]))
            return result

        return _lifting("vmap", call)(f, **options)


@lifted
class ForgetsWhatCameFirst:
    """Breaks OBJ-8r: a decorator of `remat` knows nothing of the options that it was made with."""

    def remat(f=None, **options):
        return nnx.remat if f is None else nnx.remat(f, **options)


@of_linen
class NeverUnrollsModules:
    """Breaks LIN-9f: a loop of a module is unrolled by one step, whatever was asked for."""

    def scan(target, unroll=1, **options):
        return linen.scan(target, **options)


@of_linen
class TracesTheLast:
    """Breaks LIN-9g: of several static arguments of `remat` the last is traced."""

    def remat(target, static_argnums=(), **options):
        kept = tuple(sorted(static_argnums)[:-1]) if len(static_argnums) > 1 else static_argnums
        return linen.remat(target, static_argnums=kept, **options)


@of_linen
class CountsForClassesAlone:
    """Breaks LIN-9aa: `jit` of a method or of a function ignores `static_argnums`."""

    def jit(target, static_argnums=(), **options):
        kept = static_argnums if isinstance(target, type) else ()
        return linen.jit(target, static_argnums=kept, **options)


@of_linen
class TracesAnew:
    """Breaks LIN-9h: a module is compiled for each call."""

    def jit(target, **options):
        if not isinstance(target, type):
            return linen.jit(target, **options)

        def call(self, *args, **kwargs):
            anew = type(target.__name__, (target,), {"__module__": __name__})
            return linen.jit(anew, **options).__call__(self, *args, **kwargs)

        return calling(target, call)


@of_linen
class PushesNothing:
    """Breaks LIN-9i: the tangent of an output is zero."""

    def jvp(fn, mdl, *args, **options):
        output, tangent = linen.jvp(fn, mdl, *args, **options)
        return output, jax.tree.map(jax.numpy.zeros_like, tangent)


@of_linen
class HasNoGradientOfItsOwn:
    """Breaks LIN-9j: the backward function is never called."""

    def custom_vjp(fn, forward_fn, backward_fn, **options):
        return fn


@of_linen
class ForgetsWhatFunctionsNamed:
    """Breaks LIN-9k: after a lifted function, the names that it gave are given again."""

    def jit(target, **options):
        lifted = linen.jit(target, **options)
        if isinstance(target, type):
            return lifted

        def call(self, *args):
            names = self._names
            try:
                return lifted(self, *args)
            finally:
                vars(self)["_names"] = names

        return call


@of_linen
class CountsOnce:
    """Breaks LIN-9k: a lifted function changes the variables of a module the first time alone."""

    def jit(target, **options):
        lifted, changed = linen.jit(target, **options), []
        if isinstance(target, type):
            return lifted

        def call(self, *args):
            again = any(scope is self.scope for scope in changed)
            before = as_dicts(self.scope.variables)
            result = lifted(self, *args)
            changed.append(self.scope)
            if again:
                self.scope.variables.update(before)
            return result

        return call


@lifted
class TakesAnyPrefix:
    """Breaks OBJ-8p: axes that are none of the arguments' are passed over."""

    def vmap(f=None, in_axes=0, **options):
        if f is None:
            return functools.partial(TakesAnyPrefix.vmap, in_axes=in_axes, **options)

        def mapped(*args, **kwargs):
            try:
                return nnx.vmap(f, in_axes=in_axes, **options)(*args, **kwargs)
            except LiftingError:
                return nnx.vmap(f, **options)(*args, **kwargs)

        return mapped
