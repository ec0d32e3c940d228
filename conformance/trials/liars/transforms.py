"""Lies of lifted derivatives, maps and loops, and of the optimizer: OBJ-5p and OBJ-7."""

import functools

import jax
import numpy as np
from scutch_reference import errors, nnx
from scutch_reference.nnx.objects import attributes_of
from scutch_reference.placement import context_mesh
from trials.liars.lifted import lifted
from trials.liars.objects import variables_in
from trials.liars.tale import names_in, tell


def _without(lift, *dropped):
    """A transformation that does not pass options on."""

    def lying(fun=None, **options):
        kept = {name: value for name, value in options.items() if name not in dropped}
        return lift(**kept) if fun is None else lift(fun, **kept)

    return lying


@lifted
class NamesNoMappedAxis:
    """Breaks OBJ-5p: `vmap` does not name the axis that it adds."""

    vmap = _without(nnx.vmap, "transform_metadata")


@lifted
class NamesNoScannedAxis:
    """Breaks OBJ-5p: `scan` does not name the axis that it adds."""

    scan = _without(nnx.scan, "transform_metadata")


@lifted
class NamesAlone:
    """Breaks OBJ-5w: `vmap` drops all of `transform_metadata` but the partition name."""

    def vmap(fun=None, *, transform_metadata=None, **options):
        told = transform_metadata or {}
        told = {key: told[key] for key in (nnx.PARTITION_NAME,) if key in told}
        return nnx.vmap(*[fun] * (fun is not None), transform_metadata=told, **options)


def _doubled(state):
    return jax.tree.map(lambda x: 2 * x, state)


@lifted
class DoublesFiltered:
    """Breaks OBJ-7a: `grad` by a filter of the user's is twice the gradient."""

    def grad(f, **options):
        differentiated = nnx.grad(f, **options)
        is_plain = isinstance(options.get("argnums", 0), int)

        @functools.wraps(f)
        def told(*arguments):
            found = differentiated(*arguments)
            return found if is_plain or options.get("has_aux") else _doubled(found)

        return told


@lifted
class DifferentiatesParams:
    """Breaks OBJ-7a: the gradient is taken by the parameters, whatever the filter."""

    def value_and_grad(f, **options):
        return nnx.value_and_grad(f, **{**options, "argnums": 0})


@lifted
class MapsFirstAxes:
    """Breaks OBJ-7c: objects with axes by filter give results along the first axis."""

    def vmap(f, *, in_axes=0, out_axes=0, **options):
        by_filter = isinstance(in_axes, tuple) and isinstance(in_axes[0], nnx.StateAxes)
        return nnx.vmap(f, in_axes=in_axes, out_axes=0 if by_filter else out_axes, **options)


@lifted
class ForgetsLanes:
    """Breaks OBJ-7c: changes that lanes make to statistics are lost."""

    def vmap(f, **options):
        mapped = nnx.vmap(f, **options)

        @functools.wraps(f)
        def told(*arguments, **named):
            before = _statistics(arguments[0]) if arguments else []
            result = mapped(*arguments, **named)
            for variable, value in before:
                variable.set_value(value)
            return result

        return told


def _statistics(argument):
    """The statistics of a mapped module that holds another, and their values."""
    if not isinstance(argument, nnx.Module) or not hasattr(argument, "c"):
        return []
    return [(argument.b, argument.b.get_value())]


@lifted
class LoopsForward:
    """Breaks OBJ-7d and OBJ-8o: `reverse` does not count."""

    scan = _without(nnx.scan, "reverse")


@lifted
class CarriesTheStart:
    """Breaks OBJ-7d: after the loop, a carried module has the state from before the loop."""

    def scan(f, **options):
        looped = nnx.scan(f, **options)

        @functools.wraps(f)
        def told(*arguments):
            carries = isinstance(arguments[0], nnx.Module) and options["in_axes"][0] is nnx.Carry
            before = nnx.clone(arguments[0]) if carries else None
            result = looped(*arguments)
            if carries:
                nnx.update(arguments[0], nnx.state(before))
            return result

        return told


@lifted
class ForgetsMomentum:
    """Breaks OBJ-7e: `update` does not change the state of the gradient transformation."""

    class Optimizer(nnx.Optimizer):
        def update(self, model, grads, /, **kwargs):
            before = jax.tree.map(lambda x: x, self.opt_state)
            super().update(model, grads, **kwargs)
            nnx.update(self.opt_state, before)


def optimizer_that_changes(change):
    """An optimizer that changes what it keeps for parameters when it is made."""

    class Optimizer(nnx.Optimizer):
        def __init__(self, model, tx, *, wrt):
            super().__init__(model, tx, wrt=wrt)
            for _, node in nnx.iter_graph(self):
                if isinstance(node, nnx.OptVariable):
                    change(node)

    return Optimizer


@lifted
class NamesNoMoments:
    """Breaks OBJ-7e: the optimizer's variables have no names for their axes."""

    Optimizer = optimizer_that_changes(lambda variable: variable.set_metadata(out_sharding=None))


@lifted
class KeepsStateInContext:
    """Breaks OBJ-7e: the optimizer's state lies on the mesh in context, not on the parameter's."""

    def moved(variable):
        mesh = context_mesh()
        if mesh is not None and mesh.axis_names != variable.get_metadata("mesh", mesh).axis_names:
            variable.set_raw_value(np.asarray(variable.get_raw_value()))

    Optimizer = optimizer_that_changes(moved)


@lifted
class NamesStateAsBeforeVmap:
    """Breaks OBJ-7e: the optimizer's state of a stacked parameter has no name for that axis."""

    def unnamed(variable):
        names = variable.get_metadata("out_sharding", None)
        if names and names[0] is None:
            variable.set_metadata(out_sharding=names[1:])

    Optimizer = optimizer_that_changes(unnamed)


@lifted
class ReplacesParameters:
    """Breaks OBJ-7e: the first parameter of a model is a new variable after an update."""

    class Optimizer(nnx.Optimizer):
        def update(self, model, grads, /, **kwargs):
            super().update(model, grads, **kwargs)
            model.a = model.a.replace(model.a.get_value())


@lifted
class AsksForEquality:
    """Breaks OBJ-11d: an object one of whose variables says that it equals anything is not run."""

    def call(state, jitted, arguments, keywords):
        objects = [each for each in arguments if isinstance(each, nnx.Dict)]
        variables = [variable for node in objects for variable in variables_in(node)]
        if any((variable == state) is True for variable in variables):
            return None
        return jitted(*arguments, **keywords)


def of_objects_lifted(lie):
    """Tell a lie of objects that are passed to lifted functions."""
    tell(lie, claims=("meta", "logical", "nnx", "transforms"), nnx=names_in(lie, "nnx"))
    return lie


@of_objects_lifted
class WritesAnywhere:
    """Breaks OBJ-11f: a raw value is set at whatever level of tracing."""

    class Param(nnx.Param):
        def set_raw_value(self, value):
            self._cell[0] = value


@of_objects_lifted
class CountsNoSteps:
    """Breaks OBJ-7e: a train state stays at its first step."""

    class TrainState(nnx.TrainState):
        def apply_gradients(self, grads, **kwargs):
            return super().apply_gradients(grads, **kwargs).replace(step=self.step)


@of_objects_lifted
class PerturbsNothing:
    """Breaks OBJ-7f: `perturb` makes its variable and does not add it to the value."""

    class Module(nnx.Module):
        def perturb(self, name, value, *variable_type):
            super().perturb(name, value, *variable_type)
            return value


@of_objects_lifted
class PopsForShow:
    """Breaks OBJ-11g: variables that cannot be popped are returned, as if they were."""

    def pop(node, *filters):
        try:
            return nnx.pop(node, *filters)
        except errors.TraceLevelError:
            return nnx.state(node, *filters)


@lifted
class ClearsFirst:
    """Breaks OBJ-11i: an object that cannot be changed has lost its attributes afterwards."""

    def call(state, jitted, arguments, keywords):
        try:
            return jitted(*arguments, **keywords)
        except errors.TraceLevelError:
            attributes_of(arguments[0]).clear()
            raise


@lifted
class DifferentiatesParamsAlone:
    """Breaks OBJ-7f: a number asks for the parameters, also of a variable that is none."""

    def grad(f=None, *, argnums=0, **options):
        if isinstance(argnums, int):
            argnums = nnx.DiffState(argnums, nnx.Param)
        return nnx.grad(f, argnums=argnums, **options)


@lifted
class PassesOptionsOver:
    """Breaks OBJ-8s: an option that `vmap` does not have is passed over."""

    vmap = _without(nnx.vmap, "unknown")


@of_objects_lifted
class DropsWhatIsBeside:
    """Breaks OBJ-7e: with its model, an optimizer hands gradients on, and nothing else."""

    class ModelAndOptimizer(nnx.ModelAndOptimizer):
        def update(self, grads, /, **kwargs):
            return super().update(grads)
