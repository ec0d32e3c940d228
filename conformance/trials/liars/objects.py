"""Lies of graphs of objects, taken apart, put together and updated: OBJ-1 and OBJ-2."""

import copy
import itertools

import jax
import jax.numpy as jnp
from scutch.inputs.graphs import children, nodes, walk
from scutch_reference import nnx
from scutch_reference.errors import NoFilterMatchError
from trials.liars.definitions import Keyed, merged
from trials.liars.tale import of_objects


def variables_in(root):
    """The variables of a graph."""
    return [node for node in nodes(nnx, root) if isinstance(node, nnx.Variable)]


def _places(root):
    """Every attribute of every module: (module, name, value)."""
    modules = [node for node in nodes(nnx, root) if isinstance(node, nnx.Module)]
    return [(m, n, v) for m in modules if not isinstance(m, nnx.List) for n, v in children(nnx, m)]


# ---------------------------------------------------------------- graphs


@of_objects
class ForgetsNone:
    """Breaks OBJ-1a: an attribute that is `None` does not come back."""

    def merge(*args, **options):
        merged = nnx.merge(*args, **options)
        for module, name, value in _places(merged):
            if value is None:
                delattr(module, name)
        return merged


@of_objects
class Unshares:
    """Breaks OBJ-1b: a variable in two places comes back as two."""

    def merge(*args, **options):
        merged, met = nnx.merge(*args, **options), set()
        for module, name, value in _places(merged):
            if id(value) in met:
                setattr(module, name, copy.copy(value))
            if isinstance(value, nnx.Variable):
                met.add(id(value))
        return merged


@of_objects
class TellsNoNames:
    """Breaks OBJ-1o: `__new__` of a class does not get the keyword arguments of the call."""

    class Module(nnx.Module):
        def __init_subclass__(cls, **options):
            super().__init_subclass__(**options)
            if given := vars(cls).get("__new__"):
                made = given.__func__ if isinstance(given, staticmethod) else given
                cls.__new__ = staticmethod(lambda cls, *args, **named: made(cls, *args))


@of_objects
class KeepsKeywordsOfClasses:
    """Breaks OBJ-1o: keywords of a class statement do not reach the bases after the module."""

    class Module(nnx.Module):
        def __init_subclass__(cls, *, pytree=False, **options):
            super().__init_subclass__(pytree=pytree)


@of_objects
class OpensCycles:
    """Breaks OBJ-1c: an attribute that held the root holds a copy of it after `merge`."""

    def merge(*args, **options):
        merged = nnx.merge(*args, **options)
        for module, name, value in _places(merged):
            if value is merged:
                setattr(module, name, copy.copy(merged))
        return merged


@of_objects
class ShallowClone:
    """Breaks OBJ-1d: a clone has the variables of the original."""

    def clone(node):
        return copy.copy(node)


@of_objects
class ClonesNoArrays:
    """Breaks OBJ-1y: a clone has the arrays of the original in any case."""

    def clone(node, variables=True, *, arrays=False):
        if arrays and not variables:
            raise ValueError("arrays of a clone are in its variables")
        return nnx.clone(node, variables=variables)


@of_objects
class EveryFilterThatTakesIt:
    """Breaks OBJ-1e: a leaf is in the states of all filters that take it."""

    def split(node, *filters):
        definition, *states = nnx.split(node, *filters)
        return definition, *([nnx.state(node, f) for f in filters] if filters else states)


@of_objects
class LeavesTheRest:
    """Breaks OBJ-1f: `split` leaves out, without an error, the leaves that no filter takes."""

    def split(node, *filters):
        try:
            return nnx.split(node, *filters)
        except NoFilterMatchError:
            return nnx.graphdef(node), *(nnx.state(node, f) for f in filters)


@of_objects
class RefusesWithoutAPath:
    """Breaks OBJ-1s: the error for a leaf that no filter takes does not say which leaf."""

    def split(node, *filters):
        try:
            return nnx.split(node, *filters)
        except NoFilterMatchError as error:
            raise ValueError("no filter takes it") from error


@of_objects
class DropsWhatHasNoPlace:
    """Breaks OBJ-1w: a leaf that the definition does not have is passed over."""

    def merge(definition, *states, **options):
        known = {path[1:] for path, _ in definition.leaves}
        flat = [(p, leaf) for p, leaf in nnx.to_flat_state(*states) if p in known]
        return nnx.merge(definition, nnx.from_flat_state(flat), **options)


@of_objects
class DefinitionWithoutMetadata:
    """Breaks OBJ-1h: objects that differ in metadata alone have equal definitions."""

    def graphdef(node):
        bare = nnx.clone(node)
        for variable in variables_in(bare):
            variable.set_metadata({})
        return nnx.graphdef(bare)


@of_objects
class RemembersTheOrder:
    """Breaks OBJ-1i: the definition has the attributes in the order in which they were set."""

    def split(node, *filters):
        definition, *states = nnx.split(node, *filters)
        return Keyed(definition, tuple(vars(node))), *states

    merge = merged


@of_objects
class OneStateOfSeveral:
    """Breaks OBJ-1k: of several states all but the first are empty."""

    def state(node, *filters):
        found = nnx.state(node, *filters)
        return (found[0], *(nnx.State() for _ in found[1:])) if len(filters) > 1 else found


@of_objects
class PopsNothing:
    """Breaks OBJ-1m: `pop` leaves the variables in the object."""

    def pop(node, *filters):
        return nnx.state(node, *filters)


@of_objects
class TuplesToLists:
    """Breaks OBJ-1n: tuples of objects come back as lists."""

    def merge(*args, **options):
        merged = nnx.merge(*args, **options)
        for module, name, value in _places(merged):
            if isinstance(value, tuple) and nnx.has_data(value):
                setattr(module, name, list(value))
        return merged


@of_objects
class InsertsAtTheEnd:
    """Breaks OBJ-1n: what is inserted at a negative index goes to the end of a list."""

    class List(nnx.List):
        def insert(self, index, value):
            super().insert(len(self) if index < 0 else index, value)


@of_objects
class FlattensDictionaries:
    """Breaks OBJ-1z: dictionaries of other types come back as dictionaries of Python."""

    def merge(*args, **options):
        merged = nnx.merge(*args, **options)
        for module, name, value in _places(merged):
            if isinstance(value, dict) and type(value) is not dict:
                setattr(module, name, nnx.data(dict(value)))
        return merged


@of_objects
class PassesVariablesOver:
    """Breaks OBJ-1p: a variable is not met."""

    def iter_graph(node):
        return (pair for pair in nnx.iter_graph(node) if not isinstance(pair[1], nnx.Variable))


@of_objects
class WholeBeforeParts:
    """Breaks OBJ-1t: `iter_graph` gives an object before its parts."""

    def iter_graph(node):
        return reversed(list(nnx.iter_graph(node)))


@of_objects
class PassesAChildOver:
    """Breaks OBJ-1g: the first object directly inside an object is not met."""

    def iter_module_children(node, graph=None):
        return itertools.islice(nnx.iter_module_children(node, graph=graph), 1, None)


@of_objects
class MapsNoRoot:
    """Breaks OBJ-1j: the object that is mapped is not replaced itself."""

    def recursive_map(f, node, graph=None):
        def inside(path, value):
            replaced = f(path, value)
            return replaced if path else value

        return nnx.recursive_map(inside, node, graph=graph)


@of_objects
class MapsInPlace:
    """Breaks OBJ-11l: a variable that is replaced in the copy gets the new value, too."""

    def recursive_map(f, node, graph=None):
        mapped = nnx.recursive_map(f, node, graph=graph)
        before = dict(nnx.iter_graph(node))
        for path, new in nnx.iter_graph(mapped):
            old = before.get(path)
            both = isinstance(old, nnx.Variable) and isinstance(new, nnx.Variable)
            if both and old.shape != new.shape:
                old.set_value(new.get_value())
        return mapped


@of_objects
class FillsAbstract:
    """Breaks OBJ-1q: abstract values become zeros."""

    def merge(definition, *states, **options):
        def fill(leaf):
            abstract = isinstance(leaf, jax.ShapeDtypeStruct)
            return jnp.zeros(leaf.shape, leaf.dtype) if abstract else leaf

        return nnx.merge(definition, *jax.tree_util.tree_map(fill, states), **options)


@of_objects
class NumbersAreStatic:
    """Breaks OBJ-1r: a number that is marked as data stays static."""

    def data(value):
        return value if isinstance(value, int | float) else nnx.data(value)


@of_objects
class StaticOnDemand:
    """Breaks OBJ-1x: `static` returns a value that holds data unmarked, without an error."""

    def static(value):
        return value if nnx.has_data(value) else nnx.static(value)


@of_objects
class ClonesNoVariablesOfTrees:
    """Breaks JIT-12r: with `graph=False`, a clone has the variables of the object."""

    def clone(node, variables=True, *, graph=None, **options):
        return nnx.clone(node, variables and graph is not False, **options)


@of_objects
class GoesAroundWithoutGraph:
    """Breaks JIT-12t: with `graph=False`, a walk goes around a cycle until Python's stack ends."""

    def iter_modules(node, graph=None):
        def visit(value):
            for _, child in children(nnx, value) or ():
                visit(child)

        if graph is False:
            visit(node)
        return nnx.iter_modules(node, graph=graph)


# ---------------------------------------------------------------- updates


@of_objects
class SetsNothingSilently:
    """Breaks OBJ-2f: an attribute that no module has is accepted."""

    def with_attributes(node, graph=None, raise_if_not_found=True, **options):
        return nnx.with_attributes(node, graph=graph, raise_if_not_found=False, **options)


@of_objects
class ViewsAll:
    """Breaks OBJ-2g: modules that the filter does not take are given the options, too."""

    def view(node, graph=None, only=..., **options):
        return nnx.view(node, graph=graph, **options)


@of_objects
class FirstStateOnly:
    """Breaks OBJ-2a: of several states the first is used."""

    def update(node, state, *states):
        nnx.update(node, state)


@of_objects
class NewVariables:
    """Breaks OBJ-2b: variables are replaced by updated ones."""

    def update(node, *states):
        nnx.update(node, *states)
        for module, name, value in _places(node):
            if isinstance(value, nnx.Variable):
                setattr(module, name, copy.copy(value))


@of_objects
class IgnoresUnknown:
    """Breaks OBJ-2c: a path that the object does not have is passed over."""

    def update(node, *states):
        known = {p for p, v in walk(nnx, node) if isinstance(v, nnx.Variable)}
        known |= {*dict(nnx.to_flat_state(nnx.state(node)))}
        flat = nnx.to_flat_state(nnx.merge_state(*states))
        nnx.update(node, nnx.from_flat_state((p, leaf) for p, leaf in flat if p in known))


@of_objects
class KeepsTheFirst:
    """Breaks OBJ-1u: a list that is made of several elements has the first alone."""

    class List(nnx.List):
        def __init__(self, elements=(), /):
            super().__init__([*elements][:1])


@of_objects
class UpdatesByFirstPaths:
    """Breaks OBJ-2d: of the paths of a shared variable, all but the first are passed over."""

    def update(node, *states):
        first = dict(nnx.to_flat_state(nnx.state(node)))
        others = {p for p, v in walk(nnx, node) if isinstance(v, nnx.Variable)} - {*first}
        flat = nnx.to_flat_state(nnx.merge_state(*states))
        nnx.update(node, nnx.from_flat_state((p, leaf) for p, leaf in flat if p not in others))


@of_objects
class UpdatesVariablesAlone:
    """Breaks OBJ-2e: arrays that are no variables stay as they are."""

    def update(node, *states):
        flat = nnx.to_flat_state(nnx.merge_state(*states))
        bare = {
            p
            for p, leaf in nnx.to_flat_state(nnx.state(node))
            if not isinstance(leaf, nnx.Variable)
        }
        nnx.update(node, nnx.from_flat_state((p, leaf) for p, leaf in flat if p not in bare))


@of_objects
class FindsNoVariables:
    """Breaks OBJ-1v: `find_duplicates` does not find shared variables."""

    def find_duplicates(node, /):
        return nnx.find_duplicates(node, only=nnx.Not(nnx.Variable))
