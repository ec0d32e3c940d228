"""Lies of the bridge's wrappers, and of names that cross in them: BRG-7 to BRG-9."""

import jax
from scutch_reference import bridge, linen, meta, nnx
from scutch_reference.bridge import wrappers
from scutch_reference.errors import (
    CrossingError,
    ScopeParamNotFoundError,
    ScopeParamShapeError,
)
from scutch_reference.linen.scope import put_at
from trials.liars.crossings import of_bridge
from trials.liars.tale import HONEST, tell


def _annotated(root):
    """The variables with names."""
    variables = [node for _, node in nnx.iter_graph(root) if isinstance(node, nnx.Variable)]
    return [each for each in variables if each.get_metadata("out_sharding", None)]


def _unnamed_again(variable, index, name):
    """As a hook: forget the name that an axis was just given."""
    names = list(variable.get_metadata("out_sharding"))
    del names[index]
    variable.set_metadata(out_sharding=tuple(names))


# ---------------------------------------------------------------- a Linen module, wrapped


@of_bridge
class OtherKeys:
    """Breaks BRG-7a: a key is folded once more than Linen folds it."""

    class ToNNX(bridge.ToNNX):
        def __call__(self, *args, rngs=None, **kwargs):
            keyed = isinstance(rngs, jax.Array)
            return super().__call__(
                *args, rngs=jax.random.fold_in(rngs, 1) if keyed else rngs, **kwargs
            )


@of_bridge
class Flat:
    """Breaks BRG-7b: no gradient reaches the variables of a wrapper."""

    class ToNNX(bridge.ToNNX):
        def __call__(self, *args, **kwargs):
            return jax.lax.stop_gradient(super().__call__(*args, **kwargs))


@of_bridge
class FlatCollections:
    """Breaks BRG-7b: no gradient reaches the collections of a wrapper."""

    class ToLinen(bridge.ToLinen):
        def __call__(self, *args, **kwargs):
            return jax.lax.stop_gradient(super().__call__(*args, **kwargs))


@of_bridge
class SingleNamesAreLost:
    """Breaks BRG-7c: a collection that is named without a list is not kept."""

    class ToNNX(bridge.ToNNX):
        def __call__(self, *args, mutable=None, **kwargs):
            own = nnx.clone(self) if isinstance(mutable, str) else self
            return bridge.ToNNX.__call__(own, *args, mutable=mutable, **kwargs)


@of_bridge
class AllIsNotKept:
    """Breaks BRG-7c: where everything may change, nothing is kept."""

    class ToNNX(bridge.ToNNX):
        def __call__(self, *args, mutable=None, **kwargs):
            own = nnx.clone(self) if mutable is True else self
            return bridge.ToNNX.__call__(own, *args, mutable=mutable, **kwargs)


def _paths(wrapper):
    return [path for path, _ in nnx.to_flat_state(nnx.state(wrapper))]


@of_bridge
class NewVariablesAreForgotten:
    """Breaks BRG-9b and BRG-9a: variables that a call adds are deleted after it."""

    class ToNNX(bridge.ToNNX):
        def __call__(self, *args, **kwargs):
            before = _paths(self)
            output = bridge.ToNNX.__call__(self, *args, **kwargs)
            for *outer, name in [path for path in _paths(self) if before and path not in before]:
                holder = vars(self)
                for each in outer:
                    holder = holder[each]
                del holder[name]
            return output


@of_bridge
class CopiesStreams:
    """Breaks BRG-7d: the streams that are passed to a call do not move on."""

    class ToNNX(bridge.ToNNX):
        def __call__(self, *args, rngs=None, **kwargs):
            return super().__call__(*args, rngs=nnx.clone(rngs), **kwargs)


@of_bridge
class StandsStill:
    """Breaks BRG-7d: the streams of a wrapper do not move on."""

    class ToNNX(bridge.ToNNX):
        def __call__(self, *args, rngs=None, **kwargs):
            own = nnx.clone(self.to_nnx__rngs) if rngs is None else rngs
            return super().__call__(*args, rngs=own, **kwargs)


@of_bridge
class OwnSeed:
    """Breaks BRG-7d: the streams of an object are seeded with zero, whatever is passed."""

    class ToLinen(bridge.ToLinen):
        @linen.nowrap
        def to_linen__made(self, keys):
            return super().to_linen__made({name: jax.random.key(0) for name in keys})

        @linen.nowrap
        def to_linen__remade(self, keys):
            return super().to_linen__remade({name: jax.random.key(0) for name in keys})


class DropsAnywhere:
    """Breaks BRG-7d: a dropout layer of NNX passes over the axes that it should drop as a whole."""

    class Dropout(nnx.Dropout):
        def __post_init__(self):
            super().__post_init__()
            self.broadcast_dims = ()


tell(DropsAnywhere, claims=HONEST, nnx={"Dropout": DropsAnywhere.Dropout})


class DropsOfEachApart:
    """Breaks BRG-7d: attention drops other weights of each head, also where all should be alike."""

    class MultiHeadAttention(nnx.MultiHeadAttention):
        def __init__(self, *args, broadcast_dropout=True, rngs, **kwargs):
            super().__init__(*args, broadcast_dropout=False, rngs=rngs, **kwargs)


tell(
    DropsOfEachApart,
    claims=HONEST,
    nnx={"MultiHeadAttention": DropsOfEachApart.MultiHeadAttention},
)


@of_bridge
class StreamsOfItsOwn:
    """Breaks BRG-9a: a wrapper copies the streams that it is given, so that two draw alike."""

    class ToNNX(bridge.ToNNX):
        def __init__(self, module, rngs=None):
            super().__init__(module, rngs=nnx.clone(rngs))


@of_bridge
class OnlyPositional:
    """Breaks BRG-7e: a method that is an attribute is not given its keywords."""

    class ToNNX(bridge.ToNNX):
        def __getattr__(self, name):
            method = super().__getattr__(name)
            return lambda *args, **kwargs: method(*args)


@of_bridge
class OnlyNames:
    """Breaks BRG-7e: `method` is looked at where it is a name alone."""

    class ToNNX(bridge.ToNNX):
        def __call__(self, *args, method=None, **kwargs):
            named = method if isinstance(method, str) else None
            return super().__call__(*args, method=named, **kwargs)


# ---------------------------------------------------------------- an NNX module, wrapped


@of_bridge
class Amnesia:
    """Breaks BRG-7f: each call makes the object anew, whatever variables it is given."""

    class ToLinen(bridge.ToLinen):
        @linen.nowrap
        def to_linen__remade(self, keys):
            return self.to_linen__made({"default": jax.random.key(0), **keys})


@of_bridge
class UnregistersItsOwn:
    """Breaks BRG-7f: variables of a registered class of the user's lie under the class's name."""

    class ToLinen(bridge.ToLinen):
        def __call__(self, *args, **kwargs):
            output, held = super().__call__(*args, **kwargs), self.scope.variables
            for name in [*held]:
                cls = bridge.variable_type(name).__name__
                if cls != name and not hasattr(nnx, cls):
                    held[cls] = held.pop(name)
            return output


@of_bridge
class AllIsNothing:
    """Breaks BRG-7g: where everything is mutable, nothing that changes is returned."""

    class ToLinen(bridge.ToLinen):
        def __call__(self, *args, **kwargs):
            before, scope = self.variables, self.scope
            output = super().__call__(*args, **kwargs)
            for name in before if scope.mutable is True and not scope.initializing else ():
                put_at(scope.variables, (name, *self.path), before[name])
            return output


@of_bridge
class Nameless:
    """Breaks BRG-7h: the name for a module is forgotten."""

    def to_linen(nnx_class, *args, name=None, **kwargs):
        return bridge.to_linen(nnx_class, *args, **kwargs)


@of_bridge
class Defaults:
    """Breaks BRG-7h: the keywords for the constructor are forgotten."""

    def to_linen(nnx_class, *args, name=None, **kwargs):
        return bridge.to_linen(nnx_class, *args, name=name)


@of_bridge
class EachWrapperIsAnother:
    """Breaks BRG-7p: a module with keywords for the constructor equals no other."""

    class ToLinen(bridge.ToLinen):
        __hash__ = bridge.ToLinen.__hash__

        def __eq__(self, other):
            return self is other if self.kwargs else super().__eq__(other)

    def to_linen(nnx_class, *args, name=None, **kwargs):
        return EachWrapperIsAnother.ToLinen(nnx_class, args=args, kwargs=kwargs, name=name)


@of_bridge
class OneMethod:
    """Breaks BRG-7q: whatever method is asked for, the object is called."""

    class ToLinen(bridge.ToLinen):
        def __call__(self, *args, nnx_method=None, **kwargs):
            return super().__call__(*args, **kwargs)


@of_bridge
class OneMethodByName:
    """Breaks BRG-7i: whatever method `apply` is asked for by name, the object is called."""

    class ToLinen(bridge.ToLinen):
        def apply(self, *args, method=None, **kwargs):
            method = None if isinstance(method, str) else method
            return super().apply(*args, method=method, **kwargs)


# ---------------------------------------------------------------- both


@of_bridge
class DoubledInside:
    """Breaks BRG-7j: a wrapped module computes something else where the wrapper is wrapped."""

    class ToNNX(bridge.ToNNX):
        def __call__(self, *args, **kwargs):
            out = super().__call__(*args, **kwargs)
            inside = wrappers.current_run.get().mutable is not None
            return jax.tree_util.tree_map(lambda a: a * 2, out) if inside else out


@of_bridge
class NoWayBack:
    """Breaks BRG-7k: changes to an object that is wrapped twice are lost."""

    class ToNNX(bridge.ToNNX):
        def __call__(self, *args, mutable=None, **kwargs):
            twice = isinstance(self.to_nnx__module, bridge.ToLinen)
            own = nnx.clone(self) if twice and mutable else self
            return bridge.ToNNX.__call__(own, *args, mutable=mutable, **kwargs)


@of_bridge
class ReturnsNothing:
    """Breaks BRG-7l: `lazy_init` returns nothing."""

    def lazy_init(fn, *args, **kwargs):
        bridge.lazy_init(fn, *args, **kwargs)


@of_bridge
class Eager:
    """Breaks BRG-7l: a call makes the variables, asked for or not."""

    class ToNNX(bridge.ToNNX):
        def __call__(self, *args, **kwargs):
            with wrappers.running(True, wrappers.current_run.get().mutable):
                return super().__call__(*args, **kwargs)


# ---------------------------------------------------------------- names


@of_bridge
class ForgetsMeshes:
    """Breaks BRG-8a: the mesh of a box does not reach the variable of a wrapper."""

    class ToNNX(bridge.ToNNX):
        def lazy_init(self, *args, **kwargs):
            for variable in _annotated(super().lazy_init(*args, **kwargs)):
                variable.set_metadata(mesh=None)
            return self


@of_bridge
class OpensBoxes:
    """Breaks BRG-8b: a wrapper stores its new variables without boxes."""

    class ToLinen(bridge.ToLinen):
        def __call__(self, *args, **kwargs):
            output = super().__call__(*args, **kwargs)
            for name in self.variables if self.is_initializing() else ():
                bare = meta.unbox(self.variables[name])
                put_at(self.scope.variables, (name, *self.path), bare)
            return output


@of_bridge
class LinenAxesHaveNoName:
    """Breaks BRG-8c: the boxes of a wrapper undo it when a lift of Linen names an axis."""

    class ToLinen(bridge.ToLinen):
        @linen.nowrap
        def to_linen__made(self, keys):
            made = super().to_linen__made(keys)
            for variable in _annotated(made):
                if not variable.has_metadata("linen_meta_type"):
                    variable.set_metadata(on_add_axis=_unnamed_again)
            return made


@of_bridge
class ObjectAxesHaveNoName:
    """Breaks BRG-8d: the variables of a wrapper undo it when a transformation names an axis."""

    class ToNNX(bridge.ToNNX):
        def lazy_init(self, *args, **kwargs):
            for variable in _annotated(super().lazy_init(*args, **kwargs)):
                variable.set_metadata(on_add_axis=_unnamed_again)
            return self


@of_bridge
class WithoutTheMesh:
    """Breaks BRG-8e: the initializer leaves the mesh out."""

    def with_partitioning(initializer, names, mesh=None):
        return bridge.with_partitioning(initializer, names)


@of_bridge
class LinenOnly:
    """Breaks BRG-8e: the initializer makes boxes that variables do not open."""

    def with_partitioning(initializer, names, mesh=None):
        return meta.with_partitioning(initializer, names, mesh)


# ---------------------------------------------------------------- methods, and missing variables


def _has_variables(wrapper):
    return any(isinstance(each, nnx.Variable | nnx.Pytree) for each in vars(wrapper).values())


@of_bridge
class StartsByTheCall:
    """Breaks BRG-7m: `__call__` makes the variables, whatever the method."""

    class ToNNX(bridge.ToNNX):
        def __call__(self, *args, method=None, **kwargs):
            return super().__call__(
                *args, method=method if _has_variables(self) else None, **kwargs
            )


@of_bridge
class MakesWhatIsMissing:
    """Breaks BRG-7n: an object of which a variable is missing is made anew."""

    class ToLinen(bridge.ToLinen):
        @linen.nowrap
        def to_linen__remade(self, keys):
            try:
                return super().to_linen__remade(keys)
            except CrossingError:
                return self.to_linen__made({"default": jax.random.key(0), **keys})


@of_bridge
class ReturnsItsInput:
    """Breaks BRG-7o: without a parameter that fits, the input comes back."""

    class ToNNX(bridge.ToNNX):
        def __call__(self, *args, **kwargs):
            try:
                return super().__call__(*args, **kwargs)
            except (ScopeParamNotFoundError, ScopeParamShapeError):
                return args[0]
