"""Lies about the steps of the scaling guide: LIN-5 to LIN-7."""

import sys

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from scutch_reference import linen, meta
from scutch_reference.linen import TrainState
from trials.liars.modules import honest, of_linen, of_modules
from trials.liars.nodes import Node
from trials.liars.tale import box_class, initializer


def _forgetful(tree):
    """A tree whose boxes have no names."""
    return meta.map_axis_meta(lambda box: type(box)(box.value, (None,) * len(box.names)), tree)


def _several():
    """Whether a mesh of several devices is in context."""
    return jax.sharding.get_abstract_mesh().size > 1


def _replicated(shardings):
    """Shardings of a train state whose moments lie everywhere."""
    moments = jax.tree.map(lambda s: NamedSharding(s.mesh, P()), shardings.opt_state)
    return shardings.replace(opt_state=moments)


@of_linen
class NeedsRules:
    """Breaks LIN-5a: without rules in context, a logical constraint is refused."""

    def with_logical_constraint(x, names, **options):
        if not linen.get_logical_axis_rules():
            raise ValueError("there are no rules")
        return linen.with_logical_constraint(x, names, **options)


@of_linen
class ReplicatesMoments:
    """Breaks LIN-5b: the moments lie on every device."""

    def get_sharding(tree, mesh):
        return _replicated(linen.get_sharding(tree, mesh))


@of_linen
class ReplicatesLogicalMoments:
    """Breaks LIN-5d: mapped by rules, the moments lie on every device."""

    def logical_to_mesh_sharding(tree, mesh, rules=None):
        return _replicated(linen.logical_to_mesh_sharding(tree, mesh, rules))


_seen = []


@of_modules
class ForgetsNames:
    """Breaks LIN-5c: all but the first `init` of a module give boxes without names."""

    def init(self, rngs, *args, **kwargs):
        variables = honest.init(self, rngs, *args, **kwargs)
        if any(each is self for each in _seen):
            return _forgetful(variables)
        _seen.append(self)
        return variables


@of_linen
class CountsNothing:
    """Breaks LIN-5e: `apply_gradients` does not count the step."""

    class TrainState(TrainState):
        def apply_gradients(self, *, grads, **changes):
            return TrainState.apply_gradients(self, grads=grads, **changes).replace(step=self.step)


@of_modules
class ScalesOnMeshes:
    """Breaks LIN-6a: on several devices, outputs are half as large again."""

    def apply(self, *args, **kwargs):
        result = honest.apply(self, *args, **kwargs)
        return jax.tree.map(lambda y: y * 1.5, result) if _several() else result


@of_linen
class WandersOnMeshes:
    """Breaks LIN-6b: on several devices, parameters grow from the second step on."""

    class TrainState(TrainState):
        def apply_gradients(self, *, grads, **changes):
            state = TrainState.apply_gradients(self, grads=grads, **changes)
            growth = jnp.where(self.step > 0, 1.5, 1.0) if _several() else 1.0
            return state.replace(params=jax.tree.map(lambda p: p * growth, state.params))


@of_linen
class ReplicatesVectors:
    """Breaks LIN-6e: the moments of a vector lie on every device; the guide has matrices alone."""

    def get_sharding(tree, mesh):
        shardings = linen.get_sharding(tree, mesh)
        if not isinstance(tree, TrainState):
            return shardings

        def sharding(leaf, given):
            return NamedSharding(mesh, P()) if leaf.ndim == 1 else given

        bare = meta.unbox(tree.opt_state)
        return shardings.replace(opt_state=jax.tree.map(sharding, bare, shardings.opt_state))


@of_linen
class ReplicatesLogicalStages:
    """Breaks LIN-6e: mapped by rules, moments along the mesh axis `stage` lie on every device; the
    guide has no such axis.
    """

    def logical_to_mesh_sharding(tree, mesh, rules=None):
        shardings = linen.logical_to_mesh_sharding(tree, mesh, rules)
        moments = jax.tree.map(
            lambda each: NamedSharding(mesh, P()) if "stage" in each.spec else each,
            shardings.opt_state,
        )
        return shardings.replace(opt_state=moments)


@of_linen
class TracesAnew:
    """Breaks LIN-6c: the step's type changes in the first step."""

    class TrainState(TrainState):
        def apply_gradients(self, *, grads, **changes):
            state = TrainState.apply_gradients(self, grads=grads, **changes)
            return state.replace(step=jnp.asarray(state.step, "float32"))


@of_linen
class HalvesLogicalParameters:
    """Breaks LIN-6d: a logically annotated parameter begins half as large."""

    def with_logical_partitioning(fn, names, **options):
        return linen.with_logical_partitioning(lambda *a, **k: fn(*a, **k) / 2, names, **options)


@of_linen
class OptimizesBare:
    """Breaks LIN-7a: the optimizer's state is made of bare arrays."""

    class TrainState(TrainState):
        @classmethod
        def create(cls, *, params, tx, **fields):
            state = super().create(params=params, tx=tx, **fields)
            return state.replace(opt_state=tx.init(meta.unbox(params)))

        def apply_gradients(self, *, grads, **changes):
            bare = self.replace(params=meta.unbox(self.params))
            bare = TrainState.apply_gradients(bare, grads=meta.unbox(grads), **changes)
            return bare.replace(params=meta.replace_boxed(self.params, bare.params))


def _mapping():
    """Whether `jax.tree.map` is among the callers."""
    frame, names = sys._getframe(2), set()
    while frame is not None:
        names.add((frame.f_globals.get("__name__"), frame.f_code.co_name))
        frame = frame.f_back
    return any(n == "tree_map" or (m == "jax._src.tree" and n == "map") for m, n in names)


class Spreading(Node):
    """Breaks LIN-7b: `jax.tree.map` lays the arrays of its result on every device."""

    @classmethod
    def unflatten(cls, static, children):
        def spread(array):
            if not isinstance(array, jax.Array) or isinstance(array, jax.core.Tracer):
                return array
            sharding = array.sharding
            if not isinstance(sharding, NamedSharding):
                return array
            return jax.device_put(array, NamedSharding(sharding.mesh, P()))

        children = [jax.tree.map(spread, c) for c in children] if _mapping() else children
        return super().unflatten(static, children)


_box = box_class(Spreading, meta.Partitioned)
Spreading.Partitioned, Spreading.with_partitioning = _box, staticmethod(initializer(_box))
of_linen(Spreading)


@of_linen
class ForgetsNamesInTraining:
    """Breaks LIN-7c: applying gradients gives boxes without names."""

    class TrainState(TrainState):
        def apply_gradients(self, *, grads, **changes):
            state = TrainState.apply_gradients(self, grads=grads, **changes)
            return state.replace(
                params=_forgetful(state.params), opt_state=_forgetful(state.opt_state)
            )


@of_linen
class TakesNoKeywords:
    """Breaks LIN-7d: keywords in the statement of a subclass are passed over."""

    class TrainState(TrainState):
        def __init_subclass__(cls, **options):
            super().__init_subclass__()


@of_linen
class KeepsWhatItHeld:
    """Breaks LIN-7d: `apply_gradients` ignores changes to the fields of a subclass."""

    class TrainState(TrainState):
        def apply_gradients(self, *, grads, **changes):
            return TrainState.apply_gradients(self, grads=grads)
