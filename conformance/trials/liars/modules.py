"""Liars about Linen, and lies about modules, collections and streams: LIN-1, LIN-8."""

import inspect
import sys

import jax
import jax.numpy as jnp
from scutch_reference import linen, meta
from scutch_reference.errors import (
    InvalidRngError,
    ModifyScopeVariableError,
    NameInUseError,
    ScopeParamNotFoundError,
    ScopeParamShapeError,
)
from scutch_reference.linen.binding import fields_of, mapped
from scutch_reference.linen.scope import NamesInUse, key_at
from scutch_reference.linen.variable import Variable
from trials.liars.tale import names_in, tell


def of_linen(lie):
    """Tell a lie: the functions and classes in it, in the place of the standard's."""
    names = names_in(lie, "linen")
    for name, each in names.items():
        if isinstance(each, type):
            each.__name__ = name
    tell(lie, claims=("meta", "logical", "linen"), linen=names)
    return lie


def of_modules(lie):
    """Tell a lie about every user module: its methods, `names_in_use`, `__init_subclass__`."""
    parts = {name: each for name, each in vars(lie).items() if inspect.isfunction(each)}
    for method in parts.values():
        method.nowrap = True
    for seam in ("names_in_use", "__init_subclass__"):
        if seam in vars(lie):
            parts[seam] = vars(lie)[seam]
    lie.Module = type("Module", (linen.Module,), {"__module__": __name__, **parts})
    return of_linen(lie)


honest = linen.Module


def _traced(tree):
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree))


@of_modules
class IgnoresTheKey:
    """Breaks LIN-1a: every key gives the variables of one key."""

    def init_with_output(self, rngs, *args, **kwargs):
        rngs = jax.tree.map(lambda _: jax.random.key(0), rngs)
        return honest.init_with_output(self, rngs, *args, **kwargs)


@of_modules
class WritesBack:
    """Breaks LIN-1b: `apply` writes its changes into the variables that were passed."""

    def apply(self, variables, *args, mutable=False, **kwargs):
        result = honest.apply(self, variables, *args, mutable=mutable, **kwargs)
        if mutable is not False:
            variables.update(result[1])
        return result


@of_modules
class UnboxesWhenTraced:
    """Breaks LIN-1c and LIN-1f: traced, `init` gives variables without boxes."""

    def init(self, rngs, *args, **kwargs):
        variables = honest.init(self, rngs, *args, **kwargs)
        return meta.unbox(variables) if _traced(variables) else variables


@of_modules
class ScalesWhenTraced:
    """Breaks LIN-1d and LIN-1f: traced, `init` gives other values."""

    def init(self, rngs, *args, **kwargs):
        variables = honest.init(self, rngs, *args, **kwargs)
        return jax.tree.map(lambda v: v * 1.5, variables) if _traced(variables) else variables


@of_modules
class Miscounts:
    """Breaks LIN-1e: the second sub-module of a class is called the third."""

    class names_in_use(NamesInUse):
        def free_name(self, cls):
            name = super().free_name(cls)
            return "Shift_2" if name == "Shift_1" else name


@of_modules
class CountsOn:
    """Breaks LIN-1e: in its second run, a compact method goes on with the count of the first."""

    class names_in_use(NamesInUse):
        def __init__(self, names=()):
            super().__init__(names)
            self.runs, self.run = 0, getattr(names, "runs", 0)
            if isinstance(names, NamesInUse):
                names.runs += 1

        def free_name(self, cls):
            name = super().free_name(cls)
            return f"{name}_{self.run}" if self.run > 1 else name


@of_modules
class SaysItsClass:
    """Breaks LIN-1e: asked from outside, a part in a list or a compact method has no number."""

    def __getattribute__(self, name):
        value = object.__getattribute__(self, name)
        outside = name == "name" and "scutch_reference" not in sys._getframe(1).f_code.co_filename
        return value.partition("_")[0] if outside and value else value


@of_modules
class GivesNoOutput:
    """Breaks LIN-1f: `init_with_output` gives zeros with the variables."""

    def init_with_output(self, rngs, *args, **kwargs):
        output, variables = honest.init_with_output(self, rngs, *args, **kwargs)
        return jax.tree.map(jnp.zeros_like, output), variables


@of_modules
class GoesOnWithout:
    """Breaks LIN-1g and LIN-1f: where the variables do not fit, the inputs come back."""

    def apply(self, variables, *args, **kwargs):
        try:
            return honest.apply(self, variables, *args, **kwargs)
        except (ScopeParamNotFoundError, ScopeParamShapeError):
            return args[0] if args else None


@of_modules
class DropsWhatIsNoCollection:
    """Breaks LIN-1g: what is no collection, among the variables, is left out without an error."""

    def _bound_for_run(self, variables, *args, **settings):
        if isinstance(variables, dict):
            variables = {name: v for name, v in variables.items() if isinstance(v, dict)}
        return honest._bound_for_run(self, variables, *args, **settings)


@of_modules
class SaysNothing:
    """Breaks LIN-1j and LIN-1f: the error of `apply` names neither the parameter nor the module."""

    def apply(self, variables, *args, **kwargs):
        try:
            return honest.apply(self, variables, *args, **kwargs)
        except Exception:
            raise ValueError("the variables do not fit") from None


@of_modules
class SharesNames:
    """Breaks LIN-1h: a name is given twice."""

    class names_in_use(NamesInUse):
        def reserve(self, path, name, collection=None):
            self.add((name, collection))


@of_modules
class SecondNameUnnamed:
    """Breaks LIN-1k: the error for a name that is given twice does not say which."""

    class names_in_use(NamesInUse):
        def reserve(self, path, name, collection=None):
            try:
                NamesInUse.reserve(self, path, name, collection)
            except NameInUseError as error:
                raise ValueError("a name is given twice") from error


@of_modules
class RoundsSetUp:
    """Breaks LIN-1i: the output of a module with `setup` is rounded."""

    def __init_subclass__(cls, **kwargs):
        if cls.__name__ == "SetUp":
            exact = cls.__call__
            cls.__call__ = lambda self, *args, **options: jnp.round(exact(self, *args, **options))
            cls.__call__.__name__ = "__call__"
        honest.__init_subclass__.__func__(cls, **kwargs)


@of_modules
class ReturnsEverything:
    """Breaks LIN-8a: asked for one collection by its name, `apply` returns all."""

    def apply(self, variables, *args, mutable=False, **kwargs):
        result = honest.apply(self, variables, *args, mutable=mutable, **kwargs)
        return (result[0], {**variables, **result[1]}) if isinstance(mutable, str) else result


@of_linen
class NamesWithoutAPlace:
    """Breaks LIN-8a: a variable with names lies anywhere, whatever mesh and rules there are."""

    def variable_with_axes(*args, axes=None, **kwargs):
        handle = linen.variable_with_axes(*args, axes=axes, **kwargs)
        return Variable(handle.module, handle.collection, handle.name)


@of_modules
class WritesAnything:
    """Breaks LIN-8b: without mutable collections, a write is lost without an error."""

    def apply(self, variables, *args, mutable=False, **kwargs):
        result = honest.apply(self, variables, *args, mutable=mutable or True, **kwargs)
        return result if mutable is not False else result[0]


@of_modules
class WritesUnnamed:
    """Breaks LIN-8j: the error for a refused write names neither collection nor variable."""

    def apply(self, variables, *args, **kwargs):
        try:
            return honest.apply(self, variables, *args, **kwargs)
        except ModifyScopeVariableError as error:
            raise ValueError("not mutable") from error


@of_linen
class SwapsMomentum:
    """Breaks LIN-8c: the momentum is the share of the new statistics."""

    def BatchNorm(use_running_average=None, momentum=0.99, **options):
        return linen.BatchNorm(use_running_average, momentum=1 - momentum, **options)


@of_linen
class KeepsScale:
    """Breaks LIN-8d: `Dropout` does not scale the inputs that it keeps."""

    class Dropout(linen.Dropout):
        def __call__(self, inputs, *args, **kwargs):
            output = linen.Dropout.__call__(self, inputs, *args, **kwargs)
            return jnp.where(output == 0, 0 * inputs, inputs)


@of_linen
class DrawsByJoinedNames:
    """Breaks LIN-8d: paths that are one word, cut in two ways, drop the same entries."""

    class Dropout(linen.Dropout):
        def make_rng(self, name="params"):
            linen.Dropout.make_rng(self, name)  # It counts, and refuses a stream without a key.
            path, scope = self.path, self.scope
            return key_at(scope.rngs[name], ("".join(path),), scope.counts[path, name])

        make_rng.nowrap = True


@of_modules
class WritesPastItsParts:
    """Breaks LIN-8a: what a module writes in the place of a part is lost."""

    def put_variable(self, col, name, value):
        if (name, None) not in self._names:
            honest.put_variable(self, col, name, value)


@of_modules
class LosesPartsInALoop:
    """Breaks LIN-8a: after a loop over a module, the writes of its parts are lost."""

    def while_loop(cond_fn, body_fn, mdl, init, **options):
        found = linen.while_loop(cond_fn, body_fn, mdl, init, **options)
        mdl.scope.looped = (*getattr(mdl.scope, "looped", ()), mdl.path)
        return found

    def put_variable(self, col, name, value):
        above = [self.path[:n] for n in range(len(self.path))]
        if not {*above} & {*getattr(self.scope, "looped", ())}:
            honest.put_variable(self, col, name, value)


@of_linen
class SharesPartsInCallsAlone:
    """Breaks linen/parts/passed-module-is-part: methods find no parameters of a shared part."""

    class Module(linen.Module):
        def apply(self, variables, *args, method=None, **options):
            held = jax.tree.leaves([*fields_of(self).values()]) if isinstance(method, str) else []
            parts = [id(part) for part in held if isinstance(part, linen.Module)]
            if len({*parts}) < len(parts):
                raise ScopeParamNotFoundError(path=self.path, name="w", present=[])
            return honest.apply(self, variables, *args, method=method, **options)

        apply.nowrap = True


@of_modules
class MakesUpKeys:
    """Breaks LIN-8e: a stream without a key has one of its own."""

    def make_rng(self, name="params"):
        try:
            return honest.make_rng(self, name)
        except Exception:
            return jax.random.key(0)


@of_modules
class KnowsTheStreamsOfAll:
    """Breaks LIN-8e: a module says that a stream was passed if `params` was."""

    def has_rng(self, name):
        return honest.has_rng(self, name) or honest.has_rng(self, "params")


@of_modules
class DrawsUnnamed:
    """Breaks LIN-8k: the error for a stream without a key does not say which."""

    def make_rng(self, name="params"):
        try:
            return honest.make_rng(self, name)
        except InvalidRngError as error:
            raise ValueError("no key") from error


@of_modules
class SowsInFront:
    """Breaks LIN-8i: a sown value comes before the values that were sown earlier."""

    def sow(self, col, name, value):
        return honest.sow(self, col, name, value, lambda old, new: (new, *old))


@of_modules
class AlwaysInitializes:
    """Breaks LIN-1l: in `apply` with mutable `counts`, a module says that it is initializing."""

    def is_initializing(self):
        return honest.is_initializing(self) or self.is_mutable_collection("counts")


@of_modules
class BindsMutable:
    """Breaks LIN-1m: a bound module may change its variables."""

    def bind(self, variables, *, rngs=None, mutable=True):
        return honest.bind(self, variables, rngs=rngs, mutable=mutable)


@of_modules
class WritesAfterwards:
    """Breaks LIN-1m: a variable can be written after its run has ended."""

    def _call(self, *args):
        mutable = self.scope.mutable
        result = honest._call(self, *args)
        self.scope.mutable = mutable
        return result


@of_linen
class EmbedsInFull:
    """Breaks LIN-4i: an embedding computes in single precision alone."""

    class Embed(linen.Embed):
        def __call__(self, inputs):
            return linen.Embed.__call__(self, inputs).astype("float32")


@of_linen
class EmbedsNoNumber:
    """Breaks LIN-4j: a table of one row takes no number."""

    class Embed(linen.Embed):
        def __call__(self, inputs):
            if self.num_embeddings == 1 and jnp.ndim(inputs) == 0:
                raise ValueError("an array has axes")
            return linen.Embed.__call__(self, inputs)


def _shapes(tree):
    return [leaf.shape for leaf in jax.tree.leaves(tree)]


@of_modules
class ChecksWhatIsStored:
    """Breaks LIN-1n: a box that stores a value in another shape is refused."""

    def param(self, name, init_fn, *args, **kwargs):
        given = self.variables.get("params", {}).get(name)
        if meta.is_axis_metadata(given) and _shapes(given) != _shapes(meta.unbox(given)):
            made = jax.eval_shape(lambda: init_fn(jax.random.key(0), *args))
            if not meta.is_axis_metadata(made):
                raise ValueError(f"{name!r} has the shapes {_shapes(given)}")
        return honest.param(self, name, init_fn, *args, **kwargs)


@of_modules
class ExpectsWhatIsStored:
    """Breaks LIN-1o: an unboxed parameter should have the shape that the box of the initializer
    stores.
    """

    def param(self, name, init_fn, *args, **kwargs):
        given = self.variables.get("params", {}).get(name)
        if given is not None:
            made = jax.eval_shape(lambda: init_fn(jax.random.key(0), *args))
            if meta.is_axis_metadata(made) and _shapes(made) != _shapes(meta.unbox(given)):
                raise ValueError(f"{name!r} has the shapes {_shapes(given)}")
        return honest.param(self, name, init_fn, *args, **kwargs)


@of_linen
class NamesLiftsAlike:
    """Breaks LIN-1p: every module under `jit` is of a class `Jit`."""

    def jit(target, **options):
        lifted = linen.jit(target, **options)
        lifted.__name__ = "Jit"
        return lifted


@of_modules
class LeavesOutNamedArguments:
    """Breaks LIN-1q: `variable` does not pass its keyword arguments to the initializer."""

    def variable(self, col, name, init_fn=None, *args, unbox=True, **kwargs):
        return honest.variable(self, col, name, init_fn, *args, unbox=unbox)


@of_modules
class CopiesEachPlace:
    """Breaks LIN-1r: a copy has another part in each place that had the same one."""

    def copy(self, **changes):
        apart = mapped(lambda part, _: part.clone(), {**fields_of(self), **changes})
        return type(self)(**apart, parent=None)


@of_modules
class CopiesEachDepth:
    """Breaks LIN-1r: a part that is also in a field of another part is another one there."""

    def _bound_for_run(self, *args, **settings):
        copies = {}

        def with_parts_apart(part, _):
            apart = mapped(lambda inner, _: inner.clone(), fields_of(part))
            return copies.setdefault(id(part), part.clone(**apart))

        apart = honest.clone(self, **mapped(with_parts_apart, fields_of(self)))
        return honest._bound_for_run(apart, *args, **settings)


@of_modules
class LooksByPlace:
    """Breaks LIN-1r: once its variables are made, a part in a field has no name of its own."""

    def _bound_for_run(self, *args, **settings):
        unnamed = {}

        def without_name(part, _):
            return unnamed.setdefault(id(part), part.clone(name=None))

        if not settings.get("initializing"):
            self = self.clone(**mapped(without_name, fields_of(self)))
        return honest._bound_for_run(self, *args, **settings)


@of_modules
class SetsUpAnew:
    """Breaks LIN-1s: a parameter that `setup` asks for, and `apply` is not given, is made anew."""

    def param(self, name, init_fn, *args, **kwargs):
        expected = self._stage == "setup" and not self.is_initializing()
        if expected and not self.has_variable("params", name):
            return init_fn(jax.random.key(0), *args)
        return honest.param(self, name, init_fn, *args, **kwargs)


@of_modules
class SetsUpWhenCalled:
    """Breaks LIN-1s: an attribute that `setup` makes is missing until a method is called."""

    def __getattr__(self, name):
        if self._stage == "new":
            raise AttributeError(f"there is no {name!r} yet")
        return honest.__getattr__(self, name)


@of_linen
class SetsUpInside:
    """Breaks LIN-1s: a part that a lifted module holds counts as set up when its run is over."""

    def jit(target, **options):
        lifted = linen.jit(target, **options)
        if not isinstance(target, type):
            return lifted

        def call(self, *args, **kwargs):
            result = lifted.__call__(self, *args, **kwargs)
            for part in fields_of(self).values():
                if isinstance(part, linen.Module) and part._stage == "new":
                    vars(part).update(_stage="ready", _names_of_setup=part._names)
            return result

        call.nowrap = True
        return type(lifted.__name__, (lifted,), {"__call__": call, "__module__": __name__})


@of_modules
class NamesCopiesAnew:
    """Breaks LIN-1t: a copy gets a new name, also where one is passed."""

    def copy(self, *, name=None, **changes):
        return honest.copy(self, **changes)


@of_modules
class KeepsTheNames:
    """Breaks LIN-1u: the module that `unbind` returns keeps the names of the bound one."""

    def unbind(self):
        return self.clone(), honest.unbind(self)[1]


@of_modules
class ConfusesShapes:
    """Breaks LIN-1v: the error takes the shape that is passed for the one that is expected."""

    def param(self, *args, **kwargs):
        try:
            return honest.param(self, *args, **kwargs)
        except ScopeParamShapeError as error:
            given = {**vars(error), "expected": error.found, "found": error.expected}
            raise ScopeParamShapeError(
                **{part: given[part] for part in ("path", "name", "expected", "found")}
            ) from None


@of_modules
class CapturesEverything:
    """Breaks LIN-8l: the outputs of all calls are captured, whichever are asked for."""

    def apply(self, *args, capture_intermediates=False, **kwargs):
        wanted = bool(capture_intermediates)
        return honest.apply(self, *args, capture_intermediates=wanted, **kwargs)


@of_modules
class BeginsAnew:
    """Breaks LIN-8m: a variable that is missing without an initializer begins as zero."""

    def variable(self, col, name, init_fn=None, *args, **kwargs):
        if init_fn is None and self.is_mutable_collection(col):
            return honest.variable(self, col, name, jnp.zeros, ())
        return honest.variable(self, col, name, init_fn, *args, **kwargs)


class BareVariable(Variable):
    """A variable whose box is gone when a value is assigned."""

    @property
    def value(self):
        return Variable.value.fget(self)

    @value.setter
    def value(self, value):
        self.module.put_variable(self.collection, self.name, value)


@of_modules
class LosesTheBox:
    """Breaks LIN-8n: a value that is assigned to a variable in a box is in none afterwards."""

    def variable(self, *args, **kwargs):
        held = honest.variable(self, *args, **kwargs)
        return BareVariable(held.module, held.collection, held.name, held.unbox)


@of_modules
class SaysItsNameAlone:
    """Breaks LIN-1x: asked from outside, a module says the last name of its path."""

    def __getattribute__(self, name):
        value = object.__getattribute__(self, name)
        outside = name == "path" and "scutch_reference" not in sys._getframe(1).f_code.co_filename
        return value[-1:] if outside else value


@of_modules
class HashesBoundModules:
    """Breaks LIN-1y: bound modules are hashed and compared by their fields."""

    @classmethod
    def __init_subclass__(cls, **kwargs):
        honest.__init_subclass__.__func__(cls, **kwargs)
        cls.__hash__ = lambda self: hash(type(self))


@of_modules
class TakesFieldsInOrder:
    """Breaks LIN-1w: every field may be passed by position."""

    @classmethod
    def __init_subclass__(cls, kw_only=False, **kwargs):
        honest.__init_subclass__.__func__(cls, **kwargs)


@of_modules
class DropsTheErrorOfAGetter:
    """Breaks LIN-1z: a property whose getter fails counts as missing."""

    def __getattr__(self, name):
        if hasattr(type(self), name):
            raise AttributeError(f"there is no {name!r}")
        return honest.__getattr__(self, name)
