"""Lies of Linen's lifted transformations: LIN-2 to LIN-4, and LIN-8 where it is about them."""

import functools
import importlib.util
import sys

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
from scutch_reference import linen, meta
from scutch_reference.errors import ModuleError
from scutch_reference.linen import loops
from scutch_reference.linen.binding import fields_of
from scutch_reference.linen.scope import put_at
from trials.liars.modules import of_linen, of_modules

NAME = meta.PARTITION_NAME


def of_names(lie):
    """Tell a lie of how the boxes are renamed: `rename(change, tree, axis, params)`."""
    module = _copy(lie.__name__)
    honest = module.cross_axis

    def crossed(change, *others):
        return honest(functools.partial(lie.rename, change), *others)

    module.cross_axis = crossed
    for name in ("scan", "vmap", "broadcast"):
        setattr(lie, name, getattr(module, name))
    return of_linen(lie)


def _copy(suffix):
    """A copy of the reference's module of loops."""
    name = f"{loops.__name__}_{suffix}"
    spec = importlib.util.spec_from_file_location(name, loops.__file__)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _boxes(group):
    leaves = jax.tree.leaves(group, is_leaf=meta.is_axis_metadata)
    return [leaf for leaf in leaves if meta.is_axis_metadata(leaf)]


@of_names
class NamesAnotherAxis:
    """Breaks LIN-2a: the name stands second where it should be first, and else first."""

    def rename(change, group, axis, params):
        return change(group, axis if axis < 0 else int(axis == 0), params)


@of_linen
class NamesBesideBackwards:
    """Breaks LIN-2a: `get_axis_names` gives the names beside a variable in reverse."""

    def get_axis_names(axes_metadata):
        is_spec = lambda leaf: isinstance(leaf, PartitionSpec)  # noqa: E731
        specs = linen.get_axis_names(axes_metadata)
        return jax.tree.map(lambda spec: PartitionSpec(*spec[::-1]), specs, is_leaf=is_spec)


@of_names
class NamesTheFirstAxis:
    """Breaks LIN-2b: the name of a negative axis stands first."""

    def rename(change, group, axis, params):
        return change(group, max(axis, 0), params)


@of_names
class KeepsTheNameInside:
    """Breaks LIN-2c: the name is there inside the body."""

    def rename(change, group, axis, params):
        return group if change is meta.remove_axis else change(group, axis, params)


@of_names
class NamesOnce:
    """Breaks LIN-2d: a box that has the name of a lift gets `None` for the next."""

    def rename(change, group, axis, params):
        named = any({"layers", "stage"} & {*getattr(box, "names", ())} for box in _boxes(group))
        if named and change is meta.add_axis:
            params = {**params, NAME: None}
        return change(group, axis, params)


@of_linen
class NamesWhatIsShared:
    """Breaks LIN-2e: collections that lanes share gain an axis name."""

    def vmap(target, variable_axes=(), **options):
        lifted = linen.vmap(target, variable_axes=variable_axes, **options)
        shared = [name for name, axis in dict(variable_axes).items() if axis is None]

        def call(self, *args, **kwargs):
            output = lifted.__call__(self, *args, **kwargs)
            for name in shared:
                named = meta.add_axis(self.variables[name], 0, options["metadata_params"])
                put_at(self.scope.variables, (name, *self.path), named)
            return output

        return calling(lifted, call)


@of_names
class KnowsItsOwnBoxes:
    """Breaks LIN-2f: boxes of a foreign class keep their names."""

    def rename(change, group, axis, params):
        own = all(isinstance(box, linen.Partitioned) for box in _boxes(group))
        return change(group, axis, params) if own else group


@of_names
class NamesOneMeshAxis:
    """Breaks LIN-2f: a partition name of several mesh axes is taken for none."""

    def rename(change, group, axis, params):
        several = isinstance(params.get(NAME), tuple)
        return change(group, axis, {**params, NAME: None} if several else params)


@of_names
class NeedsNoName:
    """Breaks LIN-3: without a partition name, the axis is unsharded."""

    def rename(change, group, axis, params):
        return change(group, axis, {NAME: None, **params})


@of_names
class ForgetsStatistics:
    """Breaks LIN-8f: lifted batch statistics come back as zeros."""

    def rename(change, group, axis, params):
        def forgotten(path, value):
            return jnp.zeros_like(value) if {"mean", "var"} & {*map(_key, path)} else value

        if change is meta.add_axis:
            group = jax.tree_util.tree_map_with_path(forgotten, group)
        return change(group, axis, params)


def _key(entry):
    return getattr(entry, "key", None)


@of_modules
class HasNoGradientOfBoxes:
    """Breaks LIN-2g: boxed variables cannot be differentiated."""

    def apply(self, variables, *args, **kwargs):
        kinds = {type(leaf).__name__ for leaf in jax.tree.leaves(variables)}
        if kinds & {"JVPTracer", "LinearizeTracer"} and _boxes(variables):
            raise TypeError("boxes hold no differentiable values")
        return linen.Module.apply(self, variables, *args, **kwargs)


@of_linen
class ScansBackwards:
    """Breaks LIN-4a and LIN-9f: the last layer comes first."""

    def scan(target, **options):
        return linen.scan(target, **{"reverse": True, **options})


def _afterwards(lifted, act):
    """A lifted class whose results are changed."""

    return calling(
        lifted, lambda self, *args, **kwargs: act(lambda: lifted.__call__(self, *args, **kwargs))
    )


def calling(lifted, call):
    """A lifted class or function that is called so."""
    if not isinstance(lifted, type):
        return call
    call.nowrap = True
    return type(lifted.__name__, (lifted,), {"__call__": call, "__module__": __name__})


def _stopped(call):
    return jax.tree.map(jax.lax.stop_gradient, call())


@of_linen
class MapsWithoutGradients:
    """Breaks LIN-4b: the outputs of `vmap` have no gradient."""

    def vmap(target, **options):
        return _afterwards(linen.vmap(target, **options), _stopped)


_depth = []


def _stopped_inside(call):
    """Stop gradients of a lift within a lift."""
    _depth.append(1)
    try:
        return _stopped(call) if len(_depth) > 1 else call()
    finally:
        _depth.pop()


@of_linen
class NestsWithoutGradients:
    """Breaks LIN-4c: the outputs of a lift within a lift have no gradient."""

    def vmap(target, **options):
        return _afterwards(linen.vmap(target, **options), _stopped_inside)

    def scan(target, **options):
        return _afterwards(linen.scan(target, **options), _stopped_inside)


@of_linen
class StacksOutputsFirst:
    """Breaks LIN-4d: outputs of lanes are stacked along the first axis."""

    def vmap(target, **options):
        return linen.vmap(target, **{**options, "out_axes": 0})


def _sharing(stream):
    """Lifts whose steps share a stream."""

    def lying(name):
        def lifted(target, split_rngs, **options):
            split = {its: asked and its != stream for its, asked in split_rngs.items()}
            return getattr(linen, name)(target, split_rngs=split, **options)

        return lifted

    return lying("scan"), lying("vmap")


@of_linen
class InitializesAlike:
    """Breaks LIN-4e: all layers are initialized with one key."""

    scan, vmap = _sharing("params")


@of_linen
class DropsAlike:
    """Breaks LIN-8h: all layers drop the same."""

    @staticmethod
    def scan(target, split_rngs=(), **options):
        return _sharing("dropout")[0](target, split_rngs=dict(split_rngs), **options)

    @staticmethod
    def vmap(target, split_rngs=(), **options):
        return _sharing("dropout")[1](target, split_rngs=dict(split_rngs), **options)


@of_linen
class RematerializesWithoutGradients:
    """Breaks LIN-4f: the outputs of `remat` have no gradient."""

    def remat(target, **options):
        return _afterwards(linen.remat(target, **options), _stopped)


@of_linen
class EmbedsTwice:
    """Breaks LIN-4g: `Embed` returns twice the embedding."""

    class Embed(linen.Embed):
        def __call__(self, inputs):
            return 2 * linen.Embed.__call__(self, inputs)


@of_linen
class NormalizesInFull:
    """Breaks LIN-4g: `LayerNorm` gives single precision, whatever its inputs are."""

    class LayerNorm(linen.LayerNorm):
        def __call__(self, x, *, mask=None):
            return linen.LayerNorm.__call__(self, x, mask=mask).astype("float32")


@of_linen
class MultipliesAsUsual:
    """Breaks LIN-4g: `Dense` passes the precision over that it is told."""

    def Dense(features, *, precision=None, **options):
        return linen.Dense(features, **options)


@of_linen
class CountsWhatIsMasked:
    """Breaks LIN-4g: `BatchNorm` passes its mask over."""

    class BatchNorm(linen.BatchNorm):
        def __call__(self, x, use_running_average=None, *, mask=None):
            return linen.BatchNorm.__call__(self, x, use_running_average)


@of_linen
class CountsAxesForward:
    """Breaks LIN-4g: `DenseGeneral` takes the axis -2 for the axis 2."""

    def DenseGeneral(features, axis=-1, **options):
        axes = axis if isinstance(axis, int) else tuple(map(abs, axis))
        return linen.DenseGeneral(features, axis=axes, **options)


@of_linen
class ConvolvesUnmasked:
    """Breaks LIN-4g: `Conv` does not mask its kernel."""

    def Conv(features, kernel_size, *, mask=None, **options):
        return linen.Conv(features, kernel_size, **options)


@of_linen
class CountsThePadding:
    """Breaks LIN-4g: zeros around the input always count in the means of `avg_pool`."""

    def avg_pool(inputs, window_shape, *, count_include_pad=True, **options):
        return linen.avg_pool(inputs, window_shape, **options)


@of_modules
class StopsGradientsOfBoxes:
    """Breaks LIN-4h: a parameter in a box has no gradient."""

    def param(self, *args, unbox=True, **kwargs):
        value = linen.Module.param(self, *args, unbox=False, **kwargs)
        if unbox and meta.is_axis_metadata(value):
            return jax.lax.stop_gradient(meta.unbox(value))
        return value


@of_linen
class CarriesNothing:
    """Breaks LIN-8g: a collection to be carried is broadcast to every step."""

    def scan(target, variable_carry=False, **options):
        return linen.scan(target, **{"variable_broadcast": variable_carry, **options})


@of_linen
class ForgetsWeakTypes:
    """Breaks LIN-4k: in a lifted class all types are strong."""

    def scan(target, **options):
        lifted = linen.scan(target, **options)
        if not isinstance(target, type):
            return lifted

        def call(self, *args, **kwargs):
            return lifted.__call__(self, *jax.tree.map(strong, args), **kwargs)

        return calling(lifted, call)


def strong(leaf):
    """An array without its weak type; anything else as it is."""
    return jnp.asarray(leaf, leaf.dtype) if getattr(leaf, "weak_type", False) else leaf


@of_linen
class RemembersTheFirst:
    """Breaks LIN-9l: every module of a lifted class has the configuration of the first one."""

    def jit(target, **options):
        lifted, first = linen.jit(target, **options), []
        if not isinstance(target, type):
            return lifted

        def call(self, *args, **kwargs):
            if hasattr(self, "config"):
                first.append(self.config)
                vars(self)["config"] = first[0]
            return lifted.__call__(self, *args, **kwargs)

        return calling(lifted, call)


@of_linen
class SharesAsTheFirst:
    """Breaks LIN-9l: in each call as many different parts lie in the fields of a lifted class as in
    an earlier one, in the order of that one.
    """

    def jit(target, **options):
        lifted, order = linen.jit(target, **options), {}
        if not isinstance(target, type):
            return lifted

        def call(self, *args, **kwargs):
            fields = {n: v for n, v in fields_of(self).items() if isinstance(v, linen.Module)}
            parts = list({id(part): part for part in fields.values()}.values())
            places = [[each is part for part in parts].index(True) for each in fields.values()]
            first = order.setdefault((len(fields), len(parts)), places)
            vars(self).update(zip(fields, (parts[place] for place in first), strict=True))
            return lifted.__call__(self, *args, **kwargs)

        return calling(lifted, call)


@of_linen
class LetsStreamsIn:
    """Breaks LIN-9m: every stream is there inside of `remat`."""

    def remat(target, rngs=True, **options):
        return linen.remat(target, **options)


@of_linen
class MapsNothing:
    """Breaks LIN-9n: where sizes differ, the first input comes back."""

    def vmap(target, **options):
        lifted = linen.vmap(target, **options)

        def call(self, *args, **kwargs):
            try:
                return lifted.__call__(self, *args, **kwargs)
            except ModuleError:
                return args[0]

        return calling(lifted, call)


@of_linen
class DrawsOnce:
    """Breaks LIN-9o: keys that a part under `remat` draws are not counted, and are drawn again."""

    def remat(target, **options):
        lifted = linen.remat(target, **options)
        if not isinstance(target, type):
            return lifted

        def call(self, *args, **kwargs):
            counts = dict(self.scope.counts)
            try:
                return lifted.__call__(self, *args, **kwargs)
            finally:
                self.scope.counts.clear()
                self.scope.counts.update(counts)

        return calling(lifted, call)


@of_linen
class StacksInFrontUnchecked:
    """Breaks LIN-4d: without a check, `scan` stacks its outputs along the first axis."""

    def scan(target, *, check_constancy_invariants=True, **options):
        if not check_constancy_invariants:
            options["out_axes"] = 0
        return linen.scan(target, **options)


@of_linen
class FoldsOnce:
    """Breaks LIN-9o: each call of a part under `fold_rngs` gets the keys of the first one."""

    def fold_rngs(target, **options):
        return DrawsOnce.remat(target) if isinstance(target, type) else linen.fold_rngs(target)


@of_linen
class NamesAndDoubles:
    """Breaks LIN-4f: a method under `named_call` returns twice its output."""

    def named_call(method):
        return lambda self, *args: jax.tree.map(lambda x: 2 * x, method(self, *args))


@of_linen
class MapsGatheredArrays:
    """Breaks LIN-9p: the output of `vmap` is replicated, however its input was sharded."""

    def vmap(target, **options):
        lifted = linen.vmap(target, **options)
        if not isinstance(target, type):
            return lifted

        def call(self, *args, **kwargs):
            found = lifted.__call__(self, *args, **kwargs)
            return jax.sharding.reshard(found, jax.P()) if _is_sharded(found) else found

        return calling(lifted, call)


def _is_sharded(tree):
    return any(any(jax.typeof(leaf).sharding.spec) for leaf in jax.tree.leaves(tree))


def _renaming_first():
    module = _copy("RenamesBeforeItStacks")
    crossed = module.cross_axis
    module.cross_axis = lambda *parts: crossed(*parts[:5])
    return module


@of_linen
class RenamesBeforeItStacks:
    """Breaks LIN-2h: a box gains its axis while the arrays of the lanes still stand first."""

    scan, vmap = _renaming_first().scan, _renaming_first().vmap
