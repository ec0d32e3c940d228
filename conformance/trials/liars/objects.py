"""Lies of objects, variables, filters, states and streams: OBJ, and LOG-7c."""

import copy
from types import EllipsisType

import jax
import jax.numpy as jnp
from scutch.objects import children, nodes
from scutch_reference import nnx
from scutch_reference.errors import NoFilterMatchError
from trials.liars.tale import of_objects


def _variables(root):
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
class OpensCycles:
    """Breaks OBJ-1c: what leads back to the root leads to a copy of it."""

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
class EveryFilterThatTakesIt:
    """Breaks OBJ-1e: a leaf is in the states of all filters that take it."""

    def split(node, *filters):
        definition, *states = nnx.split(node, *filters)
        return definition, *([nnx.state(node, f) for f in filters] if filters else states)


@of_objects
class LeavesTheRest:
    """Breaks OBJ-1f: what no filter takes is left out without a word."""

    def split(node, *filters):
        try:
            return nnx.split(node, *filters)
        except NoFilterMatchError:
            return nnx.graphdef(node), *(nnx.state(node, f) for f in filters)


@of_objects
class DefinitionWithoutMetadata:
    """Breaks OBJ-1h: objects that differ in metadata alone have equal definitions."""

    def graphdef(node):
        bare = nnx.clone(node)
        for variable in _variables(bare):
            variable.set_metadata({})
        return nnx.graphdef(bare)


@of_objects
class RemembersTheOrder:
    """Breaks OBJ-1i: the definition has the attributes in the order in which they were set."""

    def split(node, *filters):
        definition, *states = nnx.split(node, *filters)
        return (tuple(vars(node)), definition), *states

    def merge(definition, *states, **options):
        return nnx.merge(definition[1], *states, **options)


@of_objects
class OneStateOfSeveral:
    """Breaks OBJ-1k: of several states all but the first are empty."""

    def state(node, *filters):
        found = nnx.state(node, *filters)
        return (found[0], *(nnx.State() for _ in found[1:])) if len(filters) > 1 else found


@of_objects
class LiveState:
    """Breaks OBJ-1l: a state has the variables of the object."""

    def state(node, *filters):
        found = nnx.state(node, *filters)
        return (
            found if len(filters) > 1 else nnx.merge_state(found, nnx.variables(node, *filters))
        )


@of_objects
class PopsNothing:
    """Breaks OBJ-1m: what is popped stays in the object."""

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
class WholeBeforeParts:
    """Breaks OBJ-1p: the object comes before what is in it."""

    def iter_graph(node):
        return reversed(list(nnx.iter_graph(node)))


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


# ---------------------------------------------------------------- updates


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
        known = dict(nnx.to_flat_state(nnx.state(node)))
        flat = nnx.to_flat_state(nnx.merge_state(*states))
        nnx.update(node, nnx.from_flat_state((p, leaf) for p, leaf in flat if p in known))


# ---------------------------------------------------------------- filters


@of_objects
class ExactTypes:
    """Breaks OBJ-3a: in a state, a type does not take variables of its subclasses."""

    def filter_state(state, *filters):
        def exact(kind):
            return (lambda path, value: type(value) is kind) if isinstance(kind, type) else kind

        return nnx.filter_state(state, *map(exact, filters))


@of_objects
class TagsArePaths:
    """Breaks OBJ-3b: in a state, a string is looked for in the path."""

    def filter_state(state, *filters):
        return nnx.filter_state(
            state, *(nnx.PathContains(f) if isinstance(f, str) else f for f in filters)
        )


@of_objects
class AllIsAny:
    """Breaks OBJ-3d: `All` takes what one of its parts takes."""

    class All(nnx.Any):
        pass


@of_objects
class FiltersByIdentity:
    """Breaks OBJ-3h: two filters of the same path are not equal."""

    class PathContains(nnx.PathContains):
        __eq__, __hash__ = object.__eq__, object.__hash__


@of_objects
class NumbersTakeNothing:
    """Breaks OBJ-3i: a number is taken for a filter that takes nothing."""

    def state(node, *filters):
        legal = (bool, type, EllipsisType)
        return nnx.state(
            node, *(None if hasattr(f, "real") and not isinstance(f, legal) else f for f in filters)
        )


@of_objects
class UnreachableIsEmpty:
    """Breaks OBJ-3j: filters that cannot be reached have empty states."""

    def split(node, *filters):
        if len(filters) > 1 and filters[0] in (..., True):
            return *nnx.split(node), *(nnx.State() for _ in filters[1:])
        return nnx.split(node, *filters)


# ---------------------------------------------------------------- states


@of_objects
class EarlierWins:
    """Breaks OBJ-4a: where states overlap, the leaf of the first one stays."""

    def merge_state(*states):
        return nnx.merge_state(*reversed(states))


@of_objects
class CopiesLeaves:
    """Breaks OBJ-4c: a state from pairs has copies of the leaves."""

    def from_flat_state(flat):
        return nnx.from_flat_state((path, copy.copy(leaf)) for path, leaf in flat)


@of_objects
class BareLeaves:
    """Breaks OBJ-4d: the values of a pure dictionary take the place of variables."""

    def replace_by_pure_dict(state, pure):
        nnx.replace_by_pure_dict(state, pure, lambda leaf, value: value)


@of_objects
class KnownPathsOnly:
    """Breaks OBJ-4e: values without a place are passed over."""

    def replace_by_pure_dict(state, pure):
        known = dict(nnx.to_flat_state(state))
        flat = ((p, value) for p, value in nnx.to_flat_state(pure) if p in known)
        nnx.replace_by_pure_dict(state, nnx.to_pure_dict(nnx.from_flat_state(flat)))


class Unsorted:
    """Registers a state as a node with children in the order of its making."""

    def __init_subclass__(cls):
        jax.tree_util.register_pytree_node(
            cls,
            lambda state: (list(state.raw_mapping.values()), tuple(state.raw_mapping)),
            lambda keys, values: cls(zip(keys, values, strict=True)),
        )


@of_objects
class OrderOfMaking:
    """Breaks OBJ-4f: the leaves of a state lie in the order in which it was made."""

    class State(Unsorted, nnx.State):
        pass

    def from_flat_state(flat):
        return nnx.from_flat_state(flat, cls=OrderOfMaking.State)


# ---------------------------------------------------------------- variables


@of_objects
class ReadsTwice:
    """Breaks OBJ-5a: the get hooks run twice."""

    class Param(nnx.Param):
        def get_value(self, **options):
            super().get_value()
            return super().get_value(**options)


@of_objects
class ItemsAreRaw:
    """Breaks OBJ-5b: assigning to an item runs no hook."""

    class Param(nnx.Param):
        def __setitem__(self, index, value):
            self.set_raw_value(value)


@of_objects
class AlwaysCreating:
    """Breaks OBJ-5c: the creation hook runs on every assignment."""

    class Param(nnx.Param):
        def set_value(self, value, **options):
            super().set_value(self._hooked("on_create_value", value), **options)


@of_objects
class LastHookFirst:
    """Breaks OBJ-5d: several hooks run in reverse."""

    class Param(nnx.Param):
        def _hooked(self, name, value):
            hooks = self._metadata.get(name, ())
            for hook in reversed(hooks if isinstance(hooks, tuple) else (hooks,)):
                value = hook(self, value)
            return value


@of_objects
class CloneByAssignment:
    """Breaks OBJ-5f: a clone reads and sets its variables."""

    def clone(node):
        made = nnx.clone(node)
        for variable in _variables(made):
            variable.set_value(variable.get_value())
        return made


@of_objects
class BareCopy:
    """Breaks OBJ-5g: a copy of a variable has no metadata."""

    class Param(nnx.Param):
        def __copy__(self):
            return type(self)(self.get_raw_value())


@of_objects
class OrderedMetadata:
    """Breaks OBJ-5i: the definition has the names of metadata in the order of their setting."""

    def graphdef(node):
        return nnx.graphdef(node), tuple(tuple(v.get_metadata()) for v in _variables(node))


@of_objects
class HandsOutItsOwn:
    """Breaks OBJ-5j: `get_metadata` hands out the containers themselves."""

    class Param(nnx.Param):
        def get_metadata(self, *args):
            return super().get_metadata(*args) if args else dict(self._metadata)


@of_objects
class NoneIfMissing:
    """Breaks OBJ-5l: metadata that is not there is `None`."""

    class Param(nnx.Param):
        def get_metadata(self, *args):
            return super().get_metadata(*args, *([None] if len(args) == 1 else []))


@of_objects
class SubtractsBackwards:
    """Breaks OBJ-5m: the reflected operator is the operator."""

    class Param(nnx.Param):
        def __rsub__(self, other):
            return self.get_value() - other


@of_objects
class NamesBackwards:
    """Breaks OBJ-5n: the names are given in reverse."""

    def with_partitioning(initializer, names, **options):
        return nnx.with_partitioning(initializer, tuple(reversed(names)), **options)


@of_objects
class RulesOfContextOnly:
    """Breaks LOG-7c: the rules of a variable are passed over."""

    def get_partition_spec(tree):
        bare = jax.tree_util.tree_map(
            lambda leaf: leaf.copy(sharding_rules=None),
            tree,
            is_leaf=lambda leaf: isinstance(leaf, nnx.Variable),
        )
        return nnx.get_partition_spec(bare)


# ---------------------------------------------------------------- streams


@of_objects
class FoldsKeys:
    """Breaks OBJ-6a: a stream from a key is another than that from its seed."""

    class Rngs(nnx.Rngs):
        def __init__(self, default=None, **rngs):
            seeds = {**default, **rngs} if isinstance(default, dict) else {"default": default}
            seeds = {n: s for n, s in (seeds | rngs).items() if s is not None}
            folded = {
                n: jax.random.fold_in(s, 1) if isinstance(s, jax.Array) else s
                for n, s in seeds.items()
            }
            super().__init__(**folded)


@of_objects
class CountsStreams:
    """Breaks OBJ-6b: the first keys are skipped where there is more than one stream."""

    class Rngs(nnx.Rngs):
        def __init__(self, *args, **rngs):
            super().__init__(*args, **rngs)
            for _, stream in self.items():
                stream() if len(self) > 1 else None


@of_objects
class ForksTheDefault:
    """Breaks OBJ-6d: a name without a stream has a fork of the default one."""

    class Rngs(nnx.Rngs):
        def _stream(self, name):
            found = super()._stream(name)
            return found if name in self else found.fork()


@of_objects
class StartsAnew:
    """Breaks OBJ-6e: the streams of a clone start anew."""

    def clone(node):
        made = nnx.clone(node)
        for variable in _variables(made):
            if isinstance(variable, nnx.RngCount):
                variable.set_value(jnp.zeros_like(variable.get_value()))
        return made


@of_objects
class SameKeyForAll:
    """Breaks OBJ-6f: every lane has the same key."""

    def split_rngs(node, *, splits):
        for _, stream in node.items():
            stream.key.set_value(jnp.broadcast_to(stream(), (splits,)))
            stream.count.set_value(jnp.zeros(splits, "uint32"))


@of_objects
class KeepsTheKey:
    """Breaks OBJ-6h: a random method does not use the key up."""

    class Rngs(nnx.Rngs):
        def normal(self, *args, **options):
            return jax.random.normal(nnx.clone(self)(), *args, **options)
