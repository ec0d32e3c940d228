"""Lies of variables, their metadata, and streams of keys: OBJ-5, OBJ-6 and LOG-7c."""

import contextlib

import jax
import jax.numpy as jnp
from scutch_reference import nnx
from trials.liars.definitions import Keyed, merged
from trials.liars.objects import variables_in
from trials.liars.tale import of_objects

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
    """Breaks OBJ-5b: assigning to all items at once runs no hook."""

    class Param(nnx.Param):
        def __setitem__(self, index, value):
            if index is ...:
                self.set_raw_value(value)
            else:
                super().__setitem__(index, value)


@of_objects
class AlwaysCreating:
    """Breaks OBJ-5c: the creation hook runs on every assignment."""

    class Param(nnx.Param):
        def set_value(self, value, **options):
            super().set_value(self.run_hooks("on_create_value", value), **options)


@of_objects
class LastHookFirst:
    """Breaks OBJ-5d: several hooks run in reverse."""

    class Param(nnx.Param):
        def run_hooks(self, event, value):
            hooks = self.raw_metadata.get(event, ())
            for hook in reversed(hooks if isinstance(hooks, tuple) else (hooks,)):
                value = hook(self, value)
            return value


@of_objects
class CloneByAssignment:
    """Breaks OBJ-5f: a clone reads and sets its variables."""

    def clone(node):
        made = nnx.clone(node)
        for variable in variables_in(made):
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
        order = tuple(tuple(variable.get_metadata()) for variable in variables_in(node))
        return Keyed(nnx.graphdef(node), order)

    merge = merged


@of_objects
class HandsOutItsOwn:
    """Breaks OBJ-5j: `get_metadata` hands out the containers themselves."""

    class Param(nnx.Param):
        def get_metadata(self, *args):
            return super().get_metadata(*args) if args else dict(self.raw_metadata)


@of_objects
class HandsOutItsValue:
    """Breaks OBJ-5v: a value that is a container is handed out itself."""

    class Param(nnx.Param):
        def get_value(self, **options):
            held = self.get_raw_value()
            return held if isinstance(held, dict) else super().get_value(**options)


@of_objects
class NoneIfMissing:
    """Breaks OBJ-5l: metadata that is not there is `None`."""

    class Param(nnx.Param):
        def get_metadata(self, *args):
            return super().get_metadata(*args, *([None] if len(args) == 1 else []))


@of_objects
class MarksEveryVariable:
    """Breaks OBJ-5l: `set_metadata` passes its filter over."""

    def set_metadata(node, *, only=..., **metadata):
        nnx.set_metadata(node, **metadata)


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
        is_variable = lambda leaf: isinstance(leaf, nnx.Variable)  # noqa: E731
        bare = jax.tree_util.tree_map(
            lambda leaf: leaf.copy(sharding_rules=None) if is_variable(leaf) else leaf,
            tree,
            is_leaf=is_variable,
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
                stream() if len(self) > 1 and stream.key.shape == () else None


@of_objects
class ForksTheDefault:
    """Breaks OBJ-6d: a name without a stream has a fork of the default one."""

    class Rngs(nnx.Rngs):
        def __getitem__(self, name):
            found = super().__getitem__(name)
            return found if name in self else found.fork()


@of_objects
class HasEveryAttribute:
    """Breaks OBJ-6d: a name that protocols look up is the default stream."""

    class Rngs(nnx.Rngs):
        def __getattr__(self, name):
            if name in ("__array__", "__jax_array__", "__abz__") and "default" in self:
                return self["default"]
            return super().__getattr__(name)


@of_objects
class StartsAnew:
    """Breaks OBJ-6e: the streams of a clone start anew."""

    def clone(node):
        made = nnx.clone(node)
        for variable in variables_in(made):
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
class BroadcastsDifferentKeys:
    """Breaks OBJ-6f: `with_rngs` splits the streams that it should broadcast."""

    def with_rngs(*node, broadcast=None, split=None, **options):
        return nnx.with_rngs(*node, split=broadcast or split, **options)


@of_objects
class HoldsEveryName:
    """Breaks OBJ-6d: a name that has no stream is said to be in streams with a default one."""

    class Rngs(nnx.Rngs):
        def __contains__(self, name):
            return super().__contains__(name) or super().__contains__("default")


@of_objects
class SplitsCopiesAlike:
    """Breaks OBJ-6f: without updates of graphs, `split_rngs` gives each lane the same key."""

    def split_rngs(*node, splits, only=..., graph_updates=None, **options):
        if graph_updates is not False:
            return nnx.split_rngs(*node, splits=splits, only=only)
        return nnx.with_rngs(*node, broadcast={only: splits})


@of_objects
class ForksNoCopies:
    """Breaks OBJ-6f: without updates of graphs, `fork_rngs` gives the streams as they are."""

    def fork_rngs(*node, split=None, graph_updates=None, **modes):
        if graph_updates is not False:
            return nnx.fork_rngs(*node, split=split, graph_updates=graph_updates, **modes)
        return node[0] if node else lambda function: function


@of_objects
class LastFilterSplits:
    """Breaks OBJ-6f: of several filters that take a stream the last says how it is split."""

    class Rngs(nnx.Rngs):
        def split(self, k):
            return super().split(dict(reversed(k.items())) if isinstance(k, dict) else k)


@of_objects
class ForksWithoutDrawing:
    """Breaks OBJ-6i: a fork without `split` starts where the streams stand."""

    class Rngs(nnx.Rngs):
        def fork(self, *, split=None):
            return nnx.clone(self) if split is None else super().fork(split=split)


@of_objects
class RewindsStreamsLeftOut:
    """Breaks OBJ-6i: streams that `split` leaves out start anew."""

    class Rngs(nnx.Rngs):
        def split(self, k):
            made = super().split(k)
            for name, stream in self.items():
                if made[name].key.shape == stream.key.shape:
                    setattr(made, name, nnx.RngStream(stream.key.get_value(), tag=name))
            return made


@of_objects
class AsksAboutTheKey:
    """Breaks OBJ-6i: a fork asks a filter about the key of a stream."""

    class Rngs(nnx.Rngs):
        def fork(self, *, split=None):
            if not isinstance(split, dict):
                return super().fork(split=split)
            [(filter_, shape)] = split.items()
            takes = nnx.to_predicate(filter_)
            forks = {
                n: s.fork(split=shape if takes((n,), s.key) else None) for n, s in self.items()
            }
            return type(self)(**forks)


@of_objects
class KeepsTheKey:
    """Breaks OBJ-6h: a random method does not use the key up."""

    class Rngs(nnx.Rngs):
        def normal(self, *args, **options):
            return jax.random.normal(nnx.clone(self)(), *args, **options)


@of_objects
class InitializesWithAKeyOfLater:
    """Breaks OBJ-6m: an initializer does not use the key up."""

    class Rngs(nnx.Rngs):
        def lecun_normal(self, *args, **options):
            initializer = jax.nn.initializers.lecun_normal(*args, **options)
            return lambda *shape: initializer(nnx.clone(self)(), *shape)


@of_objects
class SplitsAllStreams:
    """Breaks OBJ-6j: in a block, `split_rngs` passes its filter over."""

    def split_rngs(*node, splits, only=..., graph_updates=None, **options):
        if graph_updates is False:
            options |= {"only": only, "graph_updates": False}
        return nnx.split_rngs(*node, splits=splits, **options)


@of_objects
class ForksNothing:
    """Breaks OBJ-6k: in a block the streams give the keys that they give outside of it."""

    def fork_rngs(*node, graph_updates=None, **options):
        if graph_updates is False:
            return nnx.fork_rngs(*node, graph_updates=False, **options)
        return contextlib.nullcontext()


@of_objects
class GoesOnCounting:
    """Breaks OBJ-6l: a reseeded stream keeps its count."""

    def reseed(node, **seeds):
        for _, stream in nnx.iter_graph(node):
            if isinstance(stream, nnx.RngStream) and stream.tag in seeds:
                stream.key.set_value(nnx.RngStream(seeds[stream.tag], tag="")())


@of_objects
class ReseedsWhatHasAKey:
    """Breaks OBJ-6l: a stream with the shape of a key is passed over."""

    def reseed(node, **seeds):
        for _, stream in nnx.iter_graph(node):
            if isinstance(stream, nnx.RngStream) and hasattr(stream.key.get_value(), "at"):
                nnx.reseed(stream, **seeds)


@of_objects
class OneKeyForAllLanes:
    """Breaks OBJ-6n: the lanes of a reseeded stream have one key."""

    def reseed(node, *, policy="scalars_only", **seeds):
        if policy == "match_shape":
            policy = lambda path, key, shape: jax.numpy.broadcast_to(key, shape)  # noqa: E731
        nnx.reseed(node, policy=policy, **seeds)


@of_objects
class TakesOverValues:
    """Breaks OBJ-5q: of another variable, the value alone is taken over."""

    class Param(nnx.Param):
        def copy_from(self, other):
            self.set_raw_value(other.get_raw_value())


@of_objects
class CountsForward:
    """Breaks OBJ-5r: a write to a negative index counts from the start."""

    class Param(nnx.Param):
        def __setitem__(self, index, value):
            super().__setitem__(abs(index) if isinstance(index, int) else index, value)


@of_objects
class WritesOneRow:
    """Breaks OBJ-5s: of several rows that are named, the first is written."""

    class Param(nnx.Param):
        def __setitem__(self, index, value):
            rows = hasattr(index, "dtype") and index.dtype != bool
            super().__setitem__(index[:1] if rows else index, value)


@of_objects
class EqualsItselfAlone:
    """Breaks OBJ-5t: `==` is identity."""

    class Param(nnx.Param):
        __eq__ = object.__eq__
        __hash__ = object.__hash__


@of_objects
class DeniesItsEquality:
    """Breaks OBJ-5u: `!=` is Python's negation of `==`."""

    class Param(nnx.Param):
        __ne__ = object.__ne__
