"""Lies of export, EXP-1 to EXP-6: the reference's `JaxModule`, or `load`, but for one thing."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
from scutch.inputs.exported import is_float
from scutch_reference import export
from scutch_reference.export import DEFAULT_METHOD_KEY, ExportModelType
from scutch_reference.export.errors import (
    ExportError,
    MethodKeysError,
    ParameterStructureError,
    ParameterUpdateError,
)
from trials.liars.tale import names_in, tell


def of_export(lie):
    """Tell a lie of export: the functions and classes in it, in the place of the standard's."""
    tell(lie, claims=("meta", "logical", "export"), export=names_in(lie, "export"))
    return lie


def twice(function):
    """A function whose results are twice as large, where they are floating numbers."""
    return lambda x: jax.tree.map(lambda y: y + y if is_float(y) else y, function(x))


def all_twice(functions):
    """The same of each function of a mapping."""
    return {key: twice(function) for key, function in functions.items()}


def doubled(loaded):
    """The loaded module; without TensorFlow, its functions return twice their results."""
    if hasattr(loaded, "functions"):
        honest = loaded.functions
        loaded.functions = {
            key: lambda values, x, f=f: twice(lambda x: f(values, x))(x)
            for key, f in honest.items()
        }
    return loaded


def same_keys(given, functions):
    """Whether an argument has the keys of functions, or is not for several."""
    return callable(functions) or given is None or set(given) == set(functions)


# ---------------------------------------------------------------- methods


@of_export
class Doubles:
    """Breaks EXP-1a: methods return twice the results of their functions."""

    class JaxModule(export.JaxModule):
        @property
        def methods(self):
            return all_twice(super().methods)


@of_export
class DoublesWhenLoaded:
    """Breaks EXP-1b: a loaded module returns twice the results of the saved one."""

    def load(folder):
        return doubled(export.load(folder))


@of_export
class SmallBatches:
    """Breaks EXP-1c: a polymorphic shape is for two rows at most."""

    class JaxModule(export.JaxModule):
        @property
        def methods(self):
            return {key: self.small(key, method) for key, method in super().methods.items()}

        def small(self, key, method):
            def call(x):
                rows = jax.tree.leaves(x)[0].shape[0]
                if rows > 2 and self._methods[key].polymorphic_shape is not None:
                    raise ValueError("too many rows")
                return method(x)

            return call


@of_export
class TakesEveryShape:
    """Breaks EXP-1d: an input that the shape does not admit goes to the JAX function."""

    class JaxModule(export.JaxModule):
        @property
        def methods(self):
            return {key: self.patient(key, method) for key, method in super().methods.items()}

        def patient(self, key, method):
            def call(x):
                try:
                    return method(x)
                except (ValueError, TypeError):
                    return jnp.zeros(1)

            return call


@of_export
class JaxMethodsDouble:
    """Breaks EXP-1e: JAX methods return twice the results of their functions."""

    class JaxModule(export.JaxModule):
        @property
        def jax_methods(self):
            return all_twice(super().jax_methods)


@of_export
class CompiledInexactly:
    """Breaks EXP-1f: methods that TensorFlow compiles return twice their functions' results."""

    class JaxModule(export.JaxModule):
        @property
        def methods(self):
            honest = super().methods
            compiled = any(method.jit_compile for method in self._methods.values())
            of_tensorflow = self.export_version is ExportModelType.TF_SAVEDMODEL
            return all_twice(honest) if compiled and of_tensorflow else honest


@of_export
class KeepsFlags:
    """Breaks EXP-1g: the caller's mapping of flags gets one more."""

    class JaxModule(export.JaxModule):
        def __init__(self, *args, jit_compile=True, **options):
            super().__init__(*args, jit_compile=jit_compile, **options)
            if isinstance(jit_compile, dict):
                jit_compile["more"] = True


@of_export
class AnySize:
    """Breaks EXP-1h: sizes that are listed for symbols are overlooked."""

    class JaxModule(export.JaxModule):
        def __init__(self, *args, input_polymorphic_shape_symbol_values=None, **options):
            super().__init__(*args, **options)


# ---------------------------------------------------------------- mappings


@of_export
class TwoKeys:
    """Breaks EXP-2a: one function goes by a second key, too."""

    class JaxModule(export.JaxModule):
        @property
        def methods(self):
            honest = super().methods
            also = {"call": honest[DEFAULT_METHOD_KEY]} if DEFAULT_METHOD_KEY in honest else {}
            return honest | also


@of_export
class OneShapeForAll:
    """Breaks EXP-2b: every function has the polymorphic shape of the first."""

    class JaxModule(export.JaxModule):
        def __init__(self, params, apply_fn, *args, input_polymorphic_shape=None, **options):
            shapes = input_polymorphic_shape
            if isinstance(shapes, dict) and not callable(apply_fn) and same_keys(shapes, apply_fn):
                shapes = dict.fromkeys(shapes, next(iter(shapes.values())))
            options["input_polymorphic_shape"] = shapes
            super().__init__(params, apply_fn, *args, **options)


def lenient(argument):
    """A `JaxModule` that takes an argument with any keys: it is left out."""

    class JaxModule(export.JaxModule):
        def __init__(self, params, apply_fn, *args, **options):
            try:
                super().__init__(params, apply_fn, *args, **options)
            except MethodKeysError as error:
                if error.argument != argument:
                    raise
                del options[argument]
                super().__init__(params, apply_fn, *args, **options)

    return JaxModule


@of_export
class AnyShapeKeys:
    """Breaks EXP-2c: polymorphic shapes with other keys are left out."""

    JaxModule = lenient("input_polymorphic_shape")


@of_export
class AnyOptionKeys:
    """Breaks EXP-2d: conversion options with other keys are left out."""

    JaxModule = lenient("jax2tf_kwargs")


@of_export
class AnyFlagKeys:
    """Breaks EXP-2e: compile flags with other keys are left out."""

    JaxModule = lenient("jit_compile")


@of_export
class ShowsNoKeys:
    """Breaks EXP-2f: the refusal of other keys shows none."""

    class JaxModule(export.JaxModule):
        def __init__(self, *args, **options):
            try:
                super().__init__(*args, **options)
            except MethodKeysError:
                raise ValueError("an argument has other keys") from None


@of_export
class DropsShapes:
    """Breaks EXP-2g: shapes among the options are dropped without a word."""

    class JaxModule(export.JaxModule):
        def __init__(self, params, apply_fn, *args, jax2tf_kwargs=None, **options):
            def without(given):
                return {k: v for k, v in given.items() if k != "polymorphic_shapes"}

            if jax2tf_kwargs and callable(apply_fn):
                jax2tf_kwargs = without(jax2tf_kwargs)
            elif jax2tf_kwargs:
                jax2tf_kwargs = {key: without(given) for key, given in jax2tf_kwargs.items()}
            super().__init__(params, apply_fn, *args, jax2tf_kwargs=jax2tf_kwargs, **options)


@of_export
class TakesAnyOption:
    """Breaks EXP-2i: options that nobody knows are left out."""

    class JaxModule(export.JaxModule):
        def __init__(self, *args, jax2tf_kwargs=None, **options):
            if isinstance(jax2tf_kwargs, dict):
                misspelt = {"polymorphic_shape", "with_gradients", "platforms"}
                jax2tf_kwargs = {
                    key: {k: v for k, v in given.items() if k not in misspelt}
                    if isinstance(given, dict)
                    else given
                    for key, given in jax2tf_kwargs.items()
                }
            super().__init__(*args, jax2tf_kwargs=jax2tf_kwargs, **options)


@of_export
class Discreet:
    """Breaks EXP-2h: the functions are not told."""

    class JaxModule(export.JaxModule):
        @property
        def apply_fn_map(self):
            return {}


# ---------------------------------------------------------------- gradients


class Stripped(export.JaxModule):
    """The base of lies that follow an option in `jax2tf_kwargs` by not hearing it."""

    deaf_to = None

    def __init__(self, params, apply_fn, *args, jax2tf_kwargs=None, **options):
        if callable(apply_fn) and (jax2tf_kwargs or {}).get("with_gradient") is self.deaf_to:
            jax2tf_kwargs = None
        super().__init__(params, apply_fn, *args, jax2tf_kwargs=jax2tf_kwargs, **options)


@of_export
class TrainableByDefault:
    """Breaks EXP-3a: without the argument all variables are trainable."""

    class JaxModule(export.JaxModule):
        def __init__(self, *args, trainable=None, **options):
            super().__init__(*args, trainable=trainable is None or trainable, **options)


@of_export
class OneForAll:
    """Breaks EXP-3b: where one variable is trainable, all are."""

    class JaxModule(export.JaxModule):
        def __init__(self, *args, trainable=None, **options):
            found = jax.tree.leaves(trainable)
            if trainable is not None and any(found):
                trainable = True
            super().__init__(*args, trainable=trainable, **options)


def _steep(leaf):
    """A leaf with twice its gradient."""
    return leaf + leaf - jax.lax.stop_gradient(leaf) if is_float(leaf) else leaf


@of_export
class Steep:
    """Breaks EXP-3c: gradients are twice as large."""

    class JaxModule(export.JaxModule):
        def __init__(self, params, apply_fn, *args, trainable=None, **options):
            if trainable is not None and callable(apply_fn) and any(jax.tree.leaves(trainable)):
                honest = apply_fn

                def apply_fn(params, x):
                    return honest(jax.tree.map(_steep, params), x)

            super().__init__(params, apply_fn, *args, trainable=trainable, **options)


@of_export
class DeafToTrue:
    """Breaks EXP-3d: gradients that are asked for without trainable variables are left out."""

    class JaxModule(Stripped):
        deaf_to = True


@of_export
class DeafToFalse:
    """Breaks EXP-3e: gradients are there although they are not wanted."""

    class JaxModule(Stripped):
        deaf_to = False


@of_export
class Boasts:
    """Breaks EXP-3f: every module says that it has gradients."""

    class JaxModule(export.JaxModule):
        @property
        def with_gradient(self):
            return True


# ---------------------------------------------------------------- updates


@of_export
class UpdatesJaxOnly:
    """Breaks EXP-4a: new parameters do not reach the variables."""

    class JaxModule(export.JaxModule):
        def update_variables(self, params):
            if self._tree.sharded:
                super().update_variables(params)
            else:
                self._leaves = self._tree.leaves(params)


@of_export
class UpdatesVariablesOnly:
    """Breaks EXP-4b: new parameters do not reach the JAX methods."""

    class JaxModule(export.JaxModule):
        def update_variables(self, params):
            before = self._leaves
            super().update_variables(params)
            self._leaves = before


class Overlooks(export.JaxModule):
    """The base of lies that leave an update without a word, where they should refuse it."""

    overlooked: tuple = ()

    def update_variables(self, params):
        """Update, or do nothing."""
        try:
            super().update_variables(params)
        except ExportError as error:
            if getattr(error, "part", "structure") not in self.overlooked:
                raise
            if not isinstance(error, ParameterUpdateError | ParameterStructureError):
                raise


@of_export
class OverlooksStructure:
    """Breaks EXP-4c: parameters of another structure are left without a word."""

    class JaxModule(Overlooks):
        overlooked = ("structure",)


@of_export
class OverlooksShape:
    """Breaks EXP-4d: parameters of another shape are left without a word."""

    class JaxModule(Overlooks):
        overlooked = ("shape",)


@of_export
class OverlooksDtype:
    """Breaks EXP-4e: parameters of another dtype are left without a word."""

    class JaxModule(Overlooks):
        overlooked = ("dtype",)


@of_export
class HalfUpdated:
    """Breaks EXP-4f: a refused update leaves zeros with the JAX methods."""

    class JaxModule(export.JaxModule):
        def update_variables(self, params):
            try:
                super().update_variables(params)
            except ExportError:
                self._leaves = [jnp.zeros_like(leaf) for leaf in self._leaves]
                raise


@of_export
class NewVariables:
    """Breaks EXP-4g: an update makes variables anew."""

    class JaxModule(export.JaxModule):
        def __init__(self, params, *args, **options):
            self.made_with = args, options
            super().__init__(params, *args, **options)

        def update_variables(self, params):
            super().update_variables(params)
            if not self._tree.sharded:
                args, options = self.made_with
                self.kept = self._backend  # so that no new variable has the identity of an old one
                self.__init__(params, *args, **options)


# ---------------------------------------------------------------- names


class Renames(export.JaxModule):
    """The base of lies about the names of variables, on the path without TensorFlow."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        if self.export_version is ExportModelType.ORBAX_MODEL:
            for parameter, variable in zip(self._tree.parameters, self.variables, strict=True):
                variable.name = self.renamed(variable.name, parameter.path)


@of_export
class Slashes:
    """Breaks EXP-5a: slashes join the keys of a path."""

    class JaxModule(Renames):
        def renamed(self, name, path):
            return name.replace(".", "/")


@of_export
class Tildes:
    """Breaks EXP-5b: a tilde stays."""

    class JaxModule(Renames):
        def renamed(self, name, path):
            numbered = name.startswith("jax_param")
            return name.replace("_", "~") if "~" in path and not numbered else name


@of_export
class Unnumbered:
    """Breaks EXP-5c: variables that cannot be named have no numbers."""

    class JaxModule(Renames):
        def renamed(self, name, path):
            return "jax_param" if name.startswith("jax_param") else name


@of_export
class Nameless:
    """Breaks EXP-5d: the name of a module is its class's."""

    class JaxModule(export.JaxModule):
        @property
        def name(self):
            return type(self).__name__


# ---------------------------------------------------------------- meshes


class WithSpecs(export.JaxModule):
    """The base of lies about specs: `changed` gives those that the honest module gets."""

    def __init__(self, params, *args, pspecs=None, **options):
        params, pspecs = self.changed(params, pspecs)
        super().__init__(params, *args, pspecs=pspecs, **options)


def whole(tree):
    """Specs that cut nothing, for parameters or for specs."""
    is_spec = lambda leaf: isinstance(leaf, PartitionSpec)  # noqa: E731
    return jax.tree.map(lambda leaf: PartitionSpec(), tree, is_leaf=is_spec)


@of_export
class CutsNothing:
    """Breaks EXP-6a: every variable is whole on each device."""

    class JaxModule(WithSpecs):
        def changed(self, params, pspecs):
            outside = pspecs is None or export.get_current_mesh() is None
            return params, pspecs if outside else whole(pspecs)


@of_export
class SpecsAnywhere:
    """Breaks EXP-6b: specs outside an export mesh are left out."""

    class JaxModule(WithSpecs):
        def changed(self, params, pspecs):
            return params, None if export.get_current_mesh() is None else pspecs


@of_export
class SpecsUnasked:
    """Breaks EXP-6c: without specs, variables are whole."""

    class JaxModule(WithSpecs):
        def changed(self, params, pspecs):
            missing = pspecs is None and export.get_current_mesh() is not None
            return params, whole(params) if missing else pspecs


@of_export
class Consolidates:
    """Breaks EXP-6d: several mesh axes become one without leave."""

    class JaxModule(export.JaxModule):
        def __init__(self, *args, allow_multi_axis_sharding_conslidation=None, **options):
            super().__init__(*args, allow_multi_axis_sharding_conslidation=True, **options)


@of_export
class Converts:
    """Breaks EXP-6e: on an export mesh, arrays of NumPy become JAX's."""

    class JaxModule(WithSpecs):
        def changed(self, params, pspecs):
            return (params if pspecs is None else jax.tree.map(jnp.asarray, params)), pspecs


@of_export
class ShardedDoubles:
    """Breaks EXP-6f: sharded variables compute twice as much, when they are loaded."""

    def load(folder):
        loaded = export.load(folder)
        sharded = any(getattr(each, "spec", None) is not None for each in loaded.variables)
        return doubled(loaded) if sharded else loaded
